"""The archive on a Spark cluster of separate processes, which lose executors, drivers and a broker on the way."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rookery.client.spark import archive
from tests import needs
from tests.cluster.local import LocalCluster, wait_for
from tests.spark.archive_job import ArchiveProcess
from tests.spark.numbers import Numbers
from tests.spark.standalone import Standalone, standalone_cluster
from tests.spark.topics import numbers

pytestmark = pytest.mark.timeout(900)

PARTITIONS = 3
FOLLOWING = ("--follow", "--every", "0 seconds", "--batch", "100")


@pytest.fixture(scope="module")
def standalone() -> Iterator[Standalone]:
    needs.command("java", "Spark runs on Java 17")
    with standalone_cluster() as running:
        yield running


@pytest.mark.row(173)
def test_every_record_is_archived_once_whatever_is_killed(
    spark: SparkSession, cluster: LocalCluster, standalone: Standalone, tmp_path: Path
) -> None:
    """Three drivers die by kill -9 in the midst of batches, one also loses an executor, one a broker; another one,
    here, reads the rest."""
    topic, lake = "archived", tmp_path / "lake"
    cluster.create_topic(topic, PARTITIONS, 3)
    cluster.wait_in_sync(topic, PARTITIONS)

    def start() -> ArchiveProcess:
        return ArchiveProcess(
            cluster,
            topic,
            lake,
            *FOLLOWING,
            master=standalone.master,
            settings=standalone.settings,
            environment=standalone.environment,
        )

    def lose_executor() -> None:
        victim = standalone.executors()[0]
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda: victim not in standalone.executors(), "the executor to be gone")

    def lose_broker() -> None:
        cluster.kill(cluster.leader(topic))

    with Numbers(cluster, topic, PARTITIONS) as written:
        for lose in (lose_executor, lose_broker, lambda: None):
            driver = start()
            try:
                driver.wait_for_batches(1)
                lose()
                driver.wait_for_batches(1)
            finally:
                driver.kill()
            cluster.up()
    rest = archive.ArchiveJob(cluster.bootstrap, topic, str(lake), str(lake / "_checkpoint"))
    archive.watch(archive.start(spark, rest), print)
    assert numbers(spark.read.parquet(str(lake))) == list(range(written.sent))
