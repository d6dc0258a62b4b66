"""Spark's own `format("kafka")` beside ours on the same topics: the same rows, read and written, batch and stream."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from rookery.client.reader import EARLIEST, PartitionReader, offset_at
from rookery.core.net.cluster import Cluster
from rookery.core.wire.records import Codec, RecordHeader
from tests import needs
from tests.cluster.local import LocalCluster, wait_for
from tests.spark.topics import Outgoing, high_watermark, into_files, numbered, numbers, write

pytestmark = pytest.mark.timeout(600)
"""The first test of a run also starts Java and the cluster."""

KINDS = ("kafka", "rookery")
CODECS, COMPACTED, STAMPED = "parity-codecs", "parity-compacted", "parity-stamped"
SEGMENT_BYTES = 1 << 20
LARGE = 300_000


@pytest.fixture(scope="module", autouse=True)
def topics(spark: SparkSession, cluster: LocalCluster) -> None:
    """All codecs, nulls, headers and an empty partition; a compacted log with holes; times of the broker."""
    needs.command("mvn", "it fetches Spark's own Kafka connector")
    cluster.create_topic(CODECS, 3, 3)
    for codec in Codec:
        for partition in (0, 2):
            write(cluster, CODECS, [_record(codec, step, partition) for step in range(60)], codec)
    cluster.create_topic(STAMPED, 1, 3, {"message.timestamp.type": "LogAppendTime"})
    write(cluster, STAMPED, [Outgoing(b"%d" % n, timestamp=1000 + n) for n in range(10)])
    _compact(cluster)


def _record(codec: Codec, step: int, partition: int) -> Outgoing:
    headers = [RecordHeader("h", b"%d" % step), RecordHeader("none", None), RecordHeader("h", b"")]
    return Outgoing(
        value=None if step % 7 == 3 else f"{codec.name} {step} ü ".encode() * (step % 5),
        key=None if step % 2 else b"key%d" % step,
        headers=headers[: step % 4],
        partition=partition,
        timestamp=1_700_000_000_000 + step,
    )


def _compact(cluster: LocalCluster) -> None:
    """Three records to a segment: of the closed ones, only the last record of each key stays."""
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": str(SEGMENT_BYTES),
        "min.cleanable.dirty.ratio": "0.01",
    }
    cluster.create_topic(COMPACTED, 2, 3, config)
    for number, key in enumerate((b"a", b"c", b"a", b"b", b"a", b"b", b"a", b"b")):
        write(cluster, COMPACTED, [Outgoing(b"%d" % number * LARGE, key, partition=0)])
    wait_for(lambda: _offsets(cluster) == [1, 4, 5, 6, 7], "the cleaner", 60)


def _offsets(cluster: LocalCluster) -> list[int]:
    """The offsets there are in the compacted partition."""

    async def read() -> list[int]:
        async with Cluster(cluster.awake) as client:
            reader = PartitionReader(client, COMPACTED, 0, await offset_at(client, COMPACTED, 0, EARLIEST))
            found: list[int] = []
            while reader.position < 8:
                found += [record.offset for record in (await reader.fetch()).records]
            return found

    return asyncio.run(read())


def rows(spark: SparkSession, kind: str, cluster: LocalCluster, **options: str) -> DataFrame:
    reader = spark.read.format(kind).option("kafka.bootstrap.servers", cluster.bootstrap)
    return reader.option("includeHeaders", "true").options(**options).load()


def in_order(frame: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))]


def content(frame: DataFrame) -> list[tuple[Any, ...]]:
    """What a copy keeps: key, value, partition and headers, in the order of the log."""
    return [(row[0], row[1], row[3], row[7]) for row in in_order(frame)]


@pytest.mark.row(173)
def test_batch_reads_are_equal_row_for_row(spark: SparkSession, cluster: LocalCluster) -> None:
    kafka, rookery = (rows(spark, kind, cluster, subscribePattern="parity-.*") for kind in KINDS)
    assert kafka.dtypes == rookery.dtypes
    expected, found = in_order(kafka), in_order(rookery)
    assert len(expected) == len(Codec) * 2 * 60 + 10 + 5
    assert found == expected
    bounds = {
        "assign": f'{{"{CODECS}":[0,2]}}',
        "startingOffsetsByTimestamp": f'{{"{CODECS}":{{"0":1700000000005,"2":1700000000000}}}}',
        "endingOffsets": f'{{"{CODECS}":{{"0":-1,"2":100}}}}',
        "minPartitions": "5",
    }
    kafka, rookery = (rows(spark, kind, cluster, **bounds) for kind in KINDS)
    assert rookery.rdd.getNumPartitions() == kafka.rdd.getNumPartitions()
    assert in_order(rookery) == in_order(kafka)


@pytest.mark.row(173)
def test_batch_writes_are_equal(spark: SparkSession, cluster: LocalCluster) -> None:
    """Also where no partition is given: keys choose the same one."""
    source = spark.range(300).selectExpr(
        "cast(concat('key', id) as binary) as key",
        "if(id % 9 = 0, null, cast(id as string)) as value",
        "if(id % 2 = 0, array(named_struct('key', 'h', 'value', cast('x' as binary))), null) as headers",
    )
    for kind in KINDS:
        cluster.create_topic(f"keyed-{kind}", 3, 3)
        writer = source.coalesce(1).write.format(kind).option("kafka.bootstrap.servers", cluster.bootstrap)
        writer.option("topic", f"keyed-{kind}").option("kafka.compression.type", "zstd").mode("append").save()
    kafka, rookery = (content(rows(spark, "rookery", cluster, subscribe=f"keyed-{kind}")) for kind in KINDS)
    assert len(kafka) == 300
    assert rookery == kafka


@pytest.mark.row(173)
def test_streams_are_equal(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    """A topic copied by a stream of each kind, in several batches: the copies are equal, also to the original."""
    copies = {}
    for kind in KINDS:
        copy = f"copy-{kind}"
        cluster.create_topic(copy, 3, 3)
        query = (
            spark.readStream.format(kind)
            .option("kafka.bootstrap.servers", cluster.bootstrap)
            .option("subscribe", CODECS)
            .option("startingOffsets", "earliest")
            .option("includeHeaders", "true")
            .option("maxOffsetsPerTrigger", "400")
            .load()
            .select("key", "value", "partition", "headers")
            .writeStream.format(kind)
            .option("kafka.bootstrap.servers", cluster.bootstrap)
            .option("topic", copy)
            .option("checkpointLocation", str(tmp_path / kind))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(300)
        assert query.exception() is None
        assert len(query.recentProgress) >= 2
        ends = [high_watermark(cluster, CODECS, partition) for partition in range(3)]
        assert _end(query) == ends
        copies[kind] = content(rows(spark, "kafka", cluster, subscribe=copy))
    assert copies["rookery"] == copies["kafka"] == content(rows(spark, "rookery", cluster, subscribe=CODECS))


@pytest.mark.row(173)
def test_a_checkpoint_of_sparks_own_source_is_gone_on_from(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    """A job changes the name of its format and keeps its place: every record once in the files."""
    cluster.create_topic("moved-in", 2, 3)
    for first, kind in ((0, "kafka"), (50, "rookery")):
        write(cluster, "moved-in", numbered(first, 50, 2))
        reader = spark.readStream.format(kind).option("kafka.bootstrap.servers", cluster.bootstrap)
        source = reader.option("subscribe", "moved-in").option("startingOffsets", "earliest").load()
        assert into_files(source, tmp_path).trigger(availableNow=True).start().awaitTermination(300)
    assert numbers(spark.read.parquet(str(tmp_path / "files"))) == list(range(100))


def _end(query: Any) -> list[int]:
    """Where a stream says that it ended, by partition."""
    told = query.lastProgress["sources"][0]["endOffset"]
    offsets = (json.loads(told) if isinstance(told, str) else told)[CODECS]
    return [offsets[str(partition)] for partition in range(3)]
