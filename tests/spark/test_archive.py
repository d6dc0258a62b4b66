"""The archive pipeline: Parquet by date, each record once, with progress on the terminal."""

import dataclasses
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rookery.client.cli.pipeline import checkpoint_in
from rookery.client.cli.pipeline_words import pairs
from rookery.client.errors import UsageError
from rookery.client.spark import archive
from rookery.client.spark.checkpoints import OtherCheckpointError
from tests.cluster.local import LocalCluster
from tests.spark.topics import Outgoing, high_watermark, write

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
    ends = [high_watermark(cluster, "lake", partition) for partition in range(2)]
    log = [(partition, offset) for partition in range(2) for offset in range(ends[partition])]
    assert sorted((row.partition, row.offset) for row in found.collect()) == log, said
    counts = {str(row.date): row["count"] for row in found.groupBy("date").count().collect()}
    assert counts == {"2026-01-01": 40, "2026-01-02": 40}, said
    assert sorted(int(bytes(row.value)) for row in found.collect()) == list(range(80))
    assert said[0].startswith("batch 0: ")
    assert said[-1].endswith(" 0 behind"), said


def test_files_of_another_checkpoint_are_not_added_to(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    """Spark's sink knows batches by their number: those of a job that counts anew would be left out silently."""
    cluster.create_topic("pond", 1, 3)
    write(cluster, "pond", [Outgoing(b"1")])
    job = archive.ArchiveJob(cluster.bootstrap, "pond", str(tmp_path / "pond"), str(tmp_path / "first"))
    archive.watch(archive.start(spark, job), print)
    shutil.copytree(tmp_path / "first", tmp_path / "old")
    for value in (b"2", b"3"):
        write(cluster, "pond", [Outgoing(value)])
        archive.watch(archive.start(spark, job), print)
    for checkpoint, said in (("second", "has none yet"), ("old", "knows them up to 0")):
        with pytest.raises(OtherCheckpointError, match=f"batches up to 2, the checkpoint .*{said}"):
            archive.start(spark, dataclasses.replace(job, checkpoint=str(tmp_path / checkpoint)))
    assert sorted(bytes(row.value) for row in spark.read.parquet(job.output).collect()) == [b"1", b"2", b"3"]


def test_settings_are_pairs() -> None:
    assert pairs(["a=b=c"], "--conf") == {"a": "b=c"}
    with pytest.raises(UsageError, match="--conf nothing"):
        pairs(["nothing"], "--conf")


def test_the_place_is_kept_beside_the_files() -> None:
    assert checkpoint_in("./lake/") == "./lake/_checkpoint"
    assert checkpoint_in("s3a://bucket/lake") == "s3a://bucket/lake/_checkpoint"
