"""Batch reads: exactly the committed records, with Spark's own columns."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rookery.core.wire.records import Codec, RecordHeader
from tests.cluster.local import LocalCluster, wait_for
from tests.spark.numbers import Numbers
from tests.spark.topics import (
    Outgoing,
    end_offset,
    high_watermark,
    into_files,
    load,
    numbered,
    numbers,
    write,
)

pytestmark = pytest.mark.timeout(600)
"""The first test of a run also starts Java and the cluster."""

PARTITIONS = 3


@pytest.mark.row(173)
def test_a_batch_read_is_what_was_written(spark: SparkSession, cluster: LocalCluster) -> None:
    """All codecs, nulls, headers, and a partition without records; split into more tasks than partitions."""
    cluster.create_topic("all", PARTITIONS, 3)
    expected: dict[int, list[Outgoing]] = {0: [], 1: []}
    for codec in Codec:
        for partition in expected:
            records = [
                Outgoing(
                    None if step == 3 else b"%s-%d" % (codec.name.encode(), step) * step,
                    None if step % 2 else b"key%d" % step,
                    [RecordHeader("h", b"x"), RecordHeader("none", None)] if step % 4 == 0 else (),
                    partition,
                    1_700_000_000_000 + step,
                )
                for step in range(50)
            ]
            write(cluster, "all", records, codec)
            expected[partition] += records
    frame = load(spark, cluster, "all", includeHeaders="true", minPartitions="4")
    assert frame.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    found = frame.selectExpr("*", "unix_millis(timestamp) as ms").collect()
    rows = sorted(found, key=lambda row: (row.partition, row.offset))
    flat = [(record, offset) for records in expected.values() for offset, record in enumerate(records)]
    assert len(rows) == len(flat)
    for row, (record, offset) in zip(rows, flat, strict=True):
        assert (row.topic, row.partition, row.offset) == ("all", record.partition, offset)
        assert (row.key, row.value) == (record.key, record.value)
        assert (row.ms, row.timestampType) == (record.timestamp, 0)
        assert row.headers == ([(h.key, h.value) for h in record.headers] or None)


def test_offsets_bound_a_read_and_a_schema_picks_columns(spark: SparkSession, cluster: LocalCluster) -> None:
    cluster.create_topic("bounded", 1, 3)
    write(cluster, "bounded", numbered(0, 100, 1))
    reader = spark.read.format("rookery").schema("offset long, value binary")
    found = (
        reader.option("kafka.bootstrap.servers", cluster.bootstrap)
        .option("assign", '{"bounded":[0]}')
        .option("startingOffsets", '{"bounded":{"0":10}}')
        .option("endingOffsets", '{"bounded":{"0":20}}')
        .option("maxRecordsPerPartition", "4")
        .load()
    )
    assert found.columns == ["offset", "value"]
    assert sorted(row.offset for row in found.collect()) == list(range(10, 20))
    assert found.rdd.getNumPartitions() == 3
    assert found.limit(2).count() == 2, "a task may be told to stop before its end"
    assert load(spark, cluster, "bounded", startingOffsets='{"bounded":{"0":100}}').count() == 0


@pytest.mark.row(173)
@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"startingOffset": "earliest"}, "startingOffsets"),
        ({"maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger"),
        ({"kafka.auto.offset.reset": "latest"}, "kafka.auto.offset.reset"),
        ({"endingOffsets": '{"refused":{"0":99}}'}, "endingOffsets"),
        ({"startingOffsets": '{"refused":{"1":0}}'}, "refused-0"),
    ],
)
def test_wrong_options_are_refused_before_any_task(
    spark: SparkSession, cluster: LocalCluster, options: dict[str, str], named: str
) -> None:
    if not cluster.admin().list_topics(timeout=10).topics.get("refused"):
        cluster.create_topic("refused", 1, 3)
    with pytest.raises(PySparkException, match=named):
        load(spark, cluster, "refused", **options).collect()


@pytest.mark.row(173)
@pytest.mark.invariant("P2")
def test_no_row_above_the_high_watermark(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    """A producer goes on while the followers stand still: the leader's log grows, Spark sees what is committed."""
    cluster.create_topic("ahead", 1, 3)
    cluster.wait_in_sync("ahead")
    leader = cluster.leader("ahead")
    followers = [node for node in cluster.ids if node != leader]
    with Numbers(cluster, "ahead", 1) as written:
        written.wait_for_acks(50)
        for node in followers:
            cluster.pause(node)
        try:
            least = wait_for(lambda: _ahead(cluster, leader), "the leader's log to run ahead")
            planned = load(spark, cluster, "ahead")
            found = numbers(planned)
            assert least <= len(found) <= high_watermark(cluster, "ahead") < end_offset(cluster, leader, "ahead")
            assert found == list(range(len(found)))
            streamed = _streamed(spark, cluster, tmp_path)
            assert len(found) <= len(streamed) <= high_watermark(cluster, "ahead")
            assert streamed == list(range(len(streamed)))
        finally:
            for node in followers:
                cluster.resume(node)
        written.wait_for_acks(50)
        assert numbers(planned) == found
    assert numbers(load(spark, cluster, "ahead")) == list(range(written.sent))
    assert _streamed(spark, cluster, tmp_path) == list(range(written.sent))


def _streamed(spark: SparkSession, cluster: LocalCluster, folder: Path) -> list[int]:
    """What a stream has copied when it has read what is there now."""
    reader = spark.readStream.format("rookery").option("kafka.bootstrap.servers", cluster.awake)
    rows = reader.option("subscribe", "ahead").option("startingOffsets", "earliest").load()
    assert into_files(rows, folder).trigger(availableNow=True).start().awaitTermination(300)
    return numbers(spark.read.parquet(str(folder / "files")))


def _ahead(cluster: LocalCluster, leader: int) -> int:
    """The high watermark if the leader has more, else 0."""
    committed = high_watermark(cluster, "ahead")
    return committed if end_offset(cluster, leader, "ahead") > committed else 0
