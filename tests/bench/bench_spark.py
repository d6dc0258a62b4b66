"""Spark over one node: rows per second of `rookery`, beside `format("kafka")` where its jars are at hand.

ROOKERY_SPARK_KAFKA_JARS is a folder with Spark's Kafka connector and what it needs (four jars). Without it only
our own rows are shown. The decoder alone is measured in CPU time, since it is what bounds a task.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from pyspark.sql import SparkSession

from rookery.client.cluster import Cluster
from rookery.client.sender import Outgoing, Sender
from rookery.client.spark.decoder import Decoder
from rookery.client.spark.offsets import Range
from rookery.client.spark.schema import names
from rookery.core.wire.records import Record, build_batch
from tests.cluster.local import LocalCluster, local_cluster
from tests.spark.session import spark_session

SIZES = (100, 1000)
ROWS = 200_000
PARTITIONS = 2
KEY = b"key-%010d"


def decoder() -> None:
    print(f"{'decoder, one core':<28}{'rows/s CPU':>12}{'MB/s':>8}")
    for size in SIZES:
        value = b"v" * (size - 14)
        data = b"".join(
            build_batch([Record(first + n, 1_700_000_000_000 + n, KEY % n, value) for n in range(100)])
            for first in range(0, 20_000, 100)
        )
        decode = Decoder(Range("t", 0, 0, 1 << 40), names(False)).decode
        best = min(_cpu_of(decode, data) for _ in range(5))
        print(f"{size:>6} B{'':<20}{20_000 / best:>12,.0f}{len(data) / best / 1e6:>8.0f}")


def _cpu_of(decode: Callable[[bytes], Iterable[object]], data: bytes) -> float:
    begun = time.process_time()
    list(decode(data))
    return time.process_time() - begun


def fill(cluster: LocalCluster, topic: str, size: int) -> None:
    async def send() -> None:
        async with Cluster(cluster.bootstrap) as client:
            sender = Sender(client, topic)
            value = b"v" * (size - 14)
            for first in range(0, ROWS, 500):
                await sender.send([Outgoing(value, KEY % n) for n in range(first, first + 500)])

    asyncio.run(send())


def seconds(spark: SparkSession, kind: str, cluster: LocalCluster, topic: str) -> float:
    """The best of three reads into nothing; the first one also warms the JVM and its workers."""
    reader = spark.read.format(kind).option("kafka.bootstrap.servers", cluster.bootstrap)
    best = float("inf")
    for _ in range(3):
        begun = time.monotonic()
        reader.option("subscribe", topic).load().write.format("noop").mode("overwrite").save()
        best = min(best, time.monotonic() - begun)
    return best


def main() -> None:
    decoder()
    jars = sorted(Path(os.environ.get("ROOKERY_SPARK_KAFKA_JARS", "/nowhere")).glob("*.jar"))
    kinds = ["rookery", *(["kafka"] if jars else [])]
    settings = {"spark.jars": ",".join(map(str, jars))} if jars else {}
    with local_cluster(1) as cluster, spark_session(settings) as spark:
        print(f"\n{'batch read':<12}{'size':>8}{'rows/s':>12}{'MB/s':>8}{'against kafka':>15}")
        for size in SIZES:
            topic = f"rows-{size}"
            cluster.create_topic(topic, PARTITIONS, 1)
            fill(cluster, topic, size)
            took = {kind: seconds(spark, kind, cluster, topic) for kind in kinds}
            for kind in kinds:
                rate = ROWS / took[kind]
                ratio = f"{took['kafka'] / took[kind]:.2f}x" if jars else "-"
                print(f"{kind:<12}{size:>6} B{rate:>12,.0f}{rate * size / 1e6:>8.0f}{ratio:>15}")
