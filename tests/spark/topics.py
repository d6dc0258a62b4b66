"""Topics with known records, for reading with Spark."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from rookery.client import admin
from rookery.client.reader import LATEST, offset_at
from rookery.core.net.cluster import Cluster
from rookery.core.wire.records import Codec, RecordHeader
from rookery.sync import Producer
from tests.cluster.local import LocalCluster

Row = tuple[int, bytes | None, bytes | None]


class Outgoing(NamedTuple):
    """A record to be written."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[RecordHeader] = ()
    partition: int | None = None
    timestamp: int | None = None


def write(
    cluster: LocalCluster,
    topic: str,
    records: Sequence[Outgoing],
    codec: Codec = Codec.NONE,
    acks: int = -1,
) -> None:
    """All records of a partition in one batch."""
    how = {"compression_type": codec.name.lower(), "acks": "all" if acks < 0 else str(acks)}
    with Producer(bootstrap_servers=cluster.awake, linger_ms=10_000, batch_size=1 << 20, **how) as producer:
        for each in records:
            producer.send(
                topic,
                each.value,
                key=each.key,
                headers=each.headers,
                partition=each.partition,
                timestamp_ms=each.timestamp,
            )
        producer.flush()


def numbered(first: int, count: int, partitions: int) -> list[Outgoing]:
    """Records with their number as value, dealt out to the partitions in turn."""
    return [Outgoing(b"%d" % n, b"k%d" % n, partition=n % partitions) for n in range(first, first + count)]


def high_watermark(cluster: LocalCluster, topic: str, partition: int = 0) -> int:
    async def ask() -> int:
        async with Cluster(cluster.awake) as client:
            return await offset_at(client, topic, partition, LATEST)

    return asyncio.run(ask())


def end_offset(cluster: LocalCluster, node: int, topic: str) -> int:
    """How far a node's own log of partition 0 goes, committed or not."""
    labels = (f'topic="{topic}"', 'partition="0"')
    for line in cluster.http(node, "/metrics").splitlines():
        if line.startswith("kafka_log_log_logendoffset{") and all(label in line for label in labels):
            return int(float(line.rpartition(" ")[2]))
    raise AssertionError(f"node {node} tells of no log of {topic}")


def grow(cluster: LocalCluster, topic: str, partitions: int) -> None:
    async def ask() -> None:
        async with Cluster(cluster.awake) as client:
            await admin.create_partitions(client, topic, partitions)

    asyncio.run(ask())


def make_again(cluster: LocalCluster, topic: str) -> None:
    """Delete a topic and make another with its name, known to all nodes."""

    async def ask() -> None:
        async with Cluster(cluster.awake) as client:
            await admin.delete_topic(client, topic)

    asyncio.run(ask())
    cluster.wait_until_known(topic, 0)
    cluster.create_topic(topic, 1, 3)


def load(spark: SparkSession, cluster: LocalCluster, topic: str, **options: str) -> DataFrame:
    """A batch read of a topic. Each load is planned anew."""
    reader = spark.read.format("rookery").option("kafka.bootstrap.servers", cluster.awake)
    return reader.option("subscribe", topic).options(**options).load()


def into_files(rows: DataFrame, folder: Path) -> DataStreamWriter:
    """A query that copies rows into Parquet files, its checkpoint beside them."""
    writer = rows.writeStream.format("parquet").option("path", str(folder / "files"))
    return writer.option("checkpointLocation", str(folder / "checkpoint"))


def numbers(frame: DataFrame) -> list[int]:
    """The values of numbered records, in order."""
    return sorted(int(bytes(row.value)) for row in frame.select("value").collect())
