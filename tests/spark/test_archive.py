"""The archive pipeline: Parquet by date, each record once, with progress on the terminal."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rookery.client.cli.errors import UsageError
from rookery.client.cli.pipeline import pairs
from rookery.client.sender import Outgoing
from rookery.client.spark import archive
from tests.cluster.local import LocalCluster
from tests.spark.topics import write

pytestmark = pytest.mark.timeout(600)
"""The first test of a run also starts Java and the cluster."""

DAY_MS = 24 * 3600 * 1000


@pytest.mark.row(173)
def test_topic_to_parquet_by_date(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    cluster.create_topic("lake", 2, 3)
    job = archive.ArchiveJob(
        cluster.bootstrap, "lake", str(tmp_path / "lake"), str(tmp_path / "lake" / "_checkpoint"), offsets_max=30
    )
    said: list[str] = []
    for run in range(2):
        records = [
            Outgoing(b"%d" % (run * 40 + n), partition=n % 2, timestamp=1_767_225_600_000 + (n % 2) * DAY_MS)
            for n in range(40)
        ]
        write(cluster, "lake", records)
        archive.watch(archive.start(spark, job), said.append)
    found = spark.read.parquet(job.output)
    counts = {str(row.date): row["count"] for row in found.groupBy("date").count().collect()}
    assert counts == {"2026-01-01": 40, "2026-01-02": 40}, said
    assert sorted(int(bytes(row.value)) for row in found.collect()) == list(range(80))
    assert said[0].startswith("batch 0: ")
    assert said[-1].endswith(" 0 behind"), said


def test_settings_are_pairs() -> None:
    assert pairs(["a=b=c"], "--conf") == {"a": "b=c"}
    with pytest.raises(UsageError, match="--conf nothing"):
        pairs(["nothing"], "--conf")
