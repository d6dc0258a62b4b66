"""Streams: every committed record once in the output, across restarts, new partitions and leader changes."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cluster.local import LocalCluster, wait_for
from tests.spark.topics import grow, high_watermark, load, numbered, numbers, write

pytestmark = pytest.mark.timeout(600)
"""The first test of a run also starts Java and the cluster."""


def archive(spark: SparkSession, cluster: LocalCluster, topic: str, folder: Path, **options: str) -> list[str]:
    """Copy what is there now into Parquet files; returns the ends of the micro-batches."""
    stream = (
        spark.readStream.format("rookery")
        .option("kafka.bootstrap.servers", cluster.awake)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .options(**options)
        .load()
    )
    query = (
        stream.writeStream.format("parquet")
        .option("path", str(folder / "files"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    failure = query.exception()
    assert failure is None, failure
    return [progress["sources"][0]["endOffset"] for progress in query.recentProgress]


@pytest.mark.row(173)
def test_every_record_once_across_restarts(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    """Two runs over one checkpoint, in limited batches; between them records and a partition are added."""
    cluster.create_topic("once", 2, 3)
    write(cluster, "once", numbered(0, 100, 2))
    ends = archive(spark, cluster, "once", tmp_path, maxOffsetsPerTrigger="60")
    assert len(ends) >= 2
    grow(cluster, "once", 3)
    cluster.wait_in_sync("once", 3)
    write(cluster, "once", numbered(100, 90, 3))
    archive(spark, cluster, "once", tmp_path)
    assert numbers(spark.read.parquet(str(tmp_path / "files"))) == list(range(190))


@pytest.mark.row(173)
def test_a_leader_killed_between_runs(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    cluster.create_topic("moved", 1, 3)
    cluster.wait_in_sync("moved")
    write(cluster, "moved", numbered(0, 40, 1))
    archive(spark, cluster, "moved", tmp_path)
    leader = cluster.leader("moved")
    cluster.kill(leader)
    try:
        wait_for(lambda: cluster.partition("moved").leader not in (leader, -1), "another leader")
        write(cluster, "moved", numbered(40, 40, 1))
        archive(spark, cluster, "moved", tmp_path)
    finally:
        cluster.up()
    assert numbers(spark.read.parquet(str(tmp_path / "files"))) == list(range(80))


@pytest.mark.row(173)
def test_batch_and_streaming_writes(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    """Written by Spark, copied by a stream, read again: the same keys, values, headers and partitions."""
    for topic in ("written", "copied"):
        cluster.create_topic(topic, 2, 3)
    rows = spark.range(200).selectExpr(
        "cast(id as string) as value",
        "cast(cast(id as string) as binary) as key",
        "cast(id % 2 as int) as partition",
        "array(named_struct('key', 'h', 'value', cast('x' as binary))) as headers",
    )
    server = {"kafka.bootstrap.servers": cluster.bootstrap, "kafka.compression.type": "lz4"}
    rows.write.format("rookery").options(**server).option("topic", "written").mode("append").save()
    assert sum(high_watermark(cluster, "written", index) for index in range(2)) == 200
    query = (
        spark.readStream.format("rookery")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .option("subscribe", "written")
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
        .selectExpr("'copied' as topic", "key", "value", "partition", "headers")
        .writeStream.format("rookery")
        .options(**server)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    copied = load(spark, cluster, "copied", includeHeaders="true").collect()
    assert sorted(int(bytes(row.value)) for row in copied) == list(range(200))
    for row in copied:
        number = int(bytes(row.value))
        assert row.key == row.value
        assert row.partition == number % 2
        assert row.headers == [("h", b"x")]
