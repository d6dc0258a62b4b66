"""The archive and an exactly-once pipeline on a Spark cluster of separate processes, whose parts are killed."""

import dataclasses
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rookery.client.spark import archive
from rookery.client.spark.pipelines.runner import CRASHED, PipelineRun
from rookery.client.spark.pipelines.spec_file import read_pipeline
from tests import needs
from tests.cluster.local import LocalCluster, wait_for
from tests.spark import copying
from tests.spark.driver import ArchiveProcess, PipelineProcess
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


def lose_executor(standalone: Standalone) -> None:
    victim = standalone.executors()[0]
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: victim not in standalone.executors(), "the executor to be gone")


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

    def lose_broker() -> None:
        cluster.kill(cluster.leader(topic))

    with Numbers(cluster, topic, PARTITIONS) as written:
        losses: list[Callable[[], object]] = [lambda: lose_executor(standalone), lose_broker, lambda: None]
        for lose in losses:
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


@pytest.mark.row(173)
def test_every_record_is_written_once_whatever_is_killed(
    spark: SparkSession, cluster: LocalCluster, standalone: Standalone, tmp_path: Path
) -> None:
    """An executor, a leader of the sink, the coordinator of its transactions and the driver die by kill -9, each in the
    midst of batches. A reader with read_committed sees each number once, in order, and so does Spark's own source."""
    source, sink = "counted", "counted-once"
    for topic in (source, sink):
        cluster.create_topic(topic, PARTITIONS, 3, {"min.insync.replicas": "2"})
        cluster.wait_in_sync(topic, PARTITIONS)
    file, checkpoint = copying.write_file(tmp_path, source, sink), tmp_path / "state"
    with Numbers(cluster, source, PARTITIONS) as written:
        driver = PipelineProcess(
            cluster,
            file,
            checkpoint,
            master=standalone.master,
            settings=standalone.settings,
            environment=standalone.environment,
        )
        try:
            driver.wait_for_batches(2)
            lose_executor(standalone)
            driver.wait_for_batches(2)
            for role in ("leader", "coordinator"):
                leads = role == "leader"
                cluster.kill(cluster.leader(sink) if leads else copying.coordinator(cluster, checkpoint))
                driver.wait_for_batches(2)
                cluster.up()
                cluster.wait_in_sync(sink, PARTITIONS)
        finally:
            driver.kill()
    rest = dataclasses.replace(read_pipeline(file), every=None)
    run = PipelineRun(spark, rest, {"kafka.bootstrap.servers": cluster.bootstrap})
    assert run.start().kind == CRASHED
    run.watch(lambda _: None)
    copying.check(cluster, sink, PARTITIONS, written.sent)
    assert copying.numbers_by_kafka(spark, cluster, sink) == list(range(written.sent))
