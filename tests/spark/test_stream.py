"""Streams: every committed record once in the output, across restarts, new partitions and leader changes."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from rookery.client.spark.offsets import from_json
from rookery.client.spark.planner import POLL_PAUSE_S
from tests.cluster.deleting import delete_records
from tests.cluster.local import LocalCluster, wait_for
from tests.spark.numbers import Numbers
from tests.spark.topics import grow, high_watermark, into_files, load, make_again, numbered, numbers, write

REQUESTS = "kafka_network_requestmetrics_requests"
pytestmark = pytest.mark.timeout(600)
"""The first test of a run also starts Java and the cluster."""


def stream(spark: SparkSession, cluster: LocalCluster, topic: str, **options: str) -> DataFrame:
    """A topic, or what the options choose."""
    chosen = options if "subscribePattern" in options else {"subscribe": topic, **options}
    reader = spark.readStream.format("rookery").option("kafka.bootstrap.servers", cluster.bootstrap)
    return reader.options(**{"startingOffsets": "earliest", **chosen}).load()


def copy(
    spark: SparkSession, cluster: LocalCluster, topic: str, folder: Path, **options: str
) -> DataStreamWriter:
    """A query that copies a topic into Parquet files."""
    return into_files(stream(spark, cluster, topic, **options), folder)


def archive(
    spark: SparkSession, cluster: LocalCluster, topic: str, folder: Path, **options: str
) -> list[dict[str, Any]]:
    """Copy what is there now; returns what the source said of each micro-batch that had something."""
    query = copy(spark, cluster, topic, folder, **options).trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    return [progress["sources"][0] for progress in query.recentProgress if progress["numInputRows"]]


def records_in(offset: Any) -> int:
    """How many records of one topic lie before an offset of the progress."""
    return sum(from_json(json.loads(offset) if isinstance(offset, str) else offset or {}).values())


def behind(query: StreamingQuery, sent: int) -> int:
    failure = query.exception()
    assert failure is None, failure
    progress = query.lastProgress
    return sent - (records_in(progress["sources"][0]["endOffset"]) if progress else 0)


def wait_for_batches(query: StreamingQuery, more: int) -> None:
    """Until the query has finished so many more."""
    begun = (query.lastProgress or {"batchId": -1})["batchId"]

    def reached() -> bool:
        failure = query.exception()
        assert failure is None, failure
        return (query.lastProgress or {"batchId": -1})["batchId"] >= begun + more

    wait_for(reached, f"{more} more batches", 300)


def asks(cluster: LocalCluster) -> int:
    """How often the nodes were asked for offsets."""
    lines = [line for node in cluster.ids for line in cluster.http(node, "/metrics").splitlines()]
    wanted = [line for line in lines if line.startswith(REQUESTS) and 'request="ListOffsets"' in line]
    return int(sum(float(line.rpartition(" ")[2]) for line in wanted))


@pytest.mark.row(173)
def test_every_record_once_across_restarts(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    """Two runs over one checkpoint, in limited batches; between them records, a partition and a topic are added."""
    cluster.create_topic("once", 2, 3)
    write(cluster, "once", numbered(0, 100, 2))
    told = archive(spark, cluster, "once", tmp_path, subscribePattern="^once", maxOffsetsPerTrigger="60")
    assert [records_in(each["endOffset"]) for each in told] == [60, 100]
    assert [records_in(each["latestOffset"]) for each in told] == [100, 100]
    grow(cluster, "once", 3)
    cluster.wait_in_sync("once", 3)
    write(cluster, "once", numbered(100, 90, 3))
    cluster.create_topic("once-more", 1, 3)
    write(cluster, "once-more", numbered(190, 10, 1))
    archive(spark, cluster, "once", tmp_path, subscribePattern="^once")
    assert numbers(spark.read.parquet(str(tmp_path / "files"))) == list(range(200))


@pytest.mark.row(173)
def test_a_running_query_finds_new_partitions_and_topics(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    """They are read from their start, though the query began at the latest offset."""
    cluster.create_topic("grown", 1, 3)
    write(cluster, "grown", numbered(1000, 10, 1))
    copying = copy(spark, cluster, "grown", tmp_path, subscribePattern="^grown", startingOffsets="latest")
    query = copying.trigger(processingTime="0 seconds").start()
    try:
        wait_for(lambda: behind(query, 10) == 0, "the query to know where it begins", 300)
        grow(cluster, "grown", 3)
        cluster.wait_in_sync("grown", 3)
        write(cluster, "grown", numbered(0, 90, 3))
        cluster.create_topic("grown-up", 1, 3)
        write(cluster, "grown-up", numbered(90, 10, 1))
        wait_for(lambda: behind(query, 110) == 0, "the query to read all", 300)
    finally:
        query.stop()
    assert numbers(spark.read.parquet(str(tmp_path / "files"))) == list(range(100))


@pytest.mark.row(173)
def test_leaders_moved_and_brokers_killed_during_a_query(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    """A producer and a query go on while one leader stops and another dies."""
    cluster.create_topic("moved", 2, 3)
    cluster.wait_in_sync("moved", 2)
    copying = copy(spark, cluster, "moved", tmp_path, maxOffsetsPerTrigger="1000")
    query = copying.trigger(processingTime="0 seconds").start()
    try:
        with Numbers(cluster, "moved", 2) as written:
            for disturb in (cluster.stop, cluster.kill):
                wait_for_batches(query, 2)
                disturb(cluster.leader("moved"))
                written.wait_for_acks(100)
                wait_for_batches(query, 2)
                cluster.up()
                cluster.wait_in_sync("moved", 2)
        wait_for(lambda: behind(query, written.sent) == 0, "the query to have read everything", 300)
    finally:
        query.stop()
    assert numbers(spark.read.parquet(str(tmp_path / "files"))) == list(range(written.sent))


@pytest.mark.row(173)
def test_a_first_batch_from_latest_is_replayed_as_it_was(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    """Records come all the time, the sink fails in the first batch: the next run misses none since the start."""
    cluster.create_topic("newest", 2, 3)
    cluster.wait_in_sync("newest", 2)

    def failing(frame: DataFrame, number: int) -> None:
        raise RuntimeError(f"batch {number} is refused")

    with Numbers(cluster, "newest", 2) as written:
        written.wait_for_acks(50)
        source = stream(spark, cluster, "newest", startingOffsets="latest")
        query = source.writeStream.foreachBatch(failing).option("checkpointLocation", str(tmp_path / "checkpoint"))
        with pytest.raises(StreamingQueryException, match="batch 0 is refused"):
            query.start().awaitTermination(300)
        written.wait_for_acks(50)
    begun = json.loads((tmp_path / "checkpoint" / "offsets" / "0").read_text().splitlines()[2])["(start)"]["newest"]
    archive(spark, cluster, "newest", tmp_path, startingOffsets="latest")
    expected = [number for number in range(written.sent) if number // 2 >= begun[str(number % 2)]]
    assert 0 < len(expected) < written.sent
    assert numbers(spark.read.parquet(str(tmp_path / "files"))) == expected


@pytest.mark.row(173)
def test_an_idle_query_plans_nothing_and_asks_seldom(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    """Spark asks a hundred times a second; the nodes hear of it ten times, and the same offsets make no batch."""
    cluster.create_topic("idle", 12, 3)
    write(cluster, "idle", numbered(0, 24, 12))
    query = copy(spark, cluster, "idle", tmp_path).trigger(processingTime="0 seconds").start()
    try:
        wait_for(lambda: behind(query, 24) == 0, "the records that are there", 300)
        begun, asked = time.monotonic(), asks(cluster)
        wait_for(lambda: asks(cluster) >= asked + 60, "the query to ask again and again", 120)
        found, took = asks(cluster) - asked, time.monotonic() - begun
        assert found <= (took / POLL_PAUSE_S + 2) * len(cluster.ids)
        assert len(list((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))) <= 2
    finally:
        query.stop()


@pytest.mark.row(173)
def test_records_lost_between_runs(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    """Retention was faster than the query: an error that says so, or what is left."""
    cluster.create_topic("short", 1, 3)
    write(cluster, "short", numbered(0, 20, 1))
    archive(spark, cluster, "short", tmp_path)
    for first in (20, 40):
        write(cluster, "short", numbered(first, 20, 1))
    delete_records(cluster, "short", 0, 40)
    with pytest.raises(StreamingQueryException, match="failOnDataLoss"):
        archive(spark, cluster, "short", tmp_path)
    archive(spark, cluster, "short", tmp_path, failOnDataLoss="false")
    assert numbers(spark.read.parquet(str(tmp_path / "files"))) == [*range(20), *range(40, 60)]


@pytest.mark.row(173)
def test_a_topic_recreated_between_runs(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    """It has more records than the one before, so that its offsets alone tell nothing: an error, or all of them."""
    cluster.create_topic("again", 1, 3)
    write(cluster, "again", numbered(0, 20, 1))
    archive(spark, cluster, "again", tmp_path)
    make_again(cluster, "again")
    write(cluster, "again", numbered(20, 40, 1))
    quick = {"fetchOffset.retryIntervalMs": "100"}
    with pytest.raises(StreamingQueryException, match="again-0 belongs to a topic that was deleted and recreated"):
        archive(spark, cluster, "again", tmp_path, **quick)
    archive(spark, cluster, "again", tmp_path, failOnDataLoss="false", **quick)
    assert numbers(spark.read.parquet(str(tmp_path / "files"))) == list(range(60))


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
