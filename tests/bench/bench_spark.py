"""Spark over one node, `rookery` beside `format("kafka")`: Spark and its workers on one core, the node on the others.

Rows per second are those of the wall clock; CPU is what the JVM and its Python workers used. What is compared takes
turns, and the fastest turn of each counts, so that other work of the machine weighs on both alike. The last table reads
and writes growing numbers of rows: cost per row and memory of a worker must stay as they are, and what a query costs
however few rows it has is seen. Spark's own connector is fetched by Maven; without Maven only our own rows are shown.
"""

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from rookery.client.spark.decoder import Decoder
from rookery.client.spark.encoder import encode, parts, rows_of
from rookery.client.spark.offsets import Range
from rookery.client.spark.routing import grouped, route
from rookery.client.spark.schema import names
from rookery.core.net.cluster import Cluster
from rookery.core.wire.apis.produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from rookery.core.wire.records import Record, build_batch
from tests.cluster.local import LocalCluster, local_cluster
from tests.spark import connector
from tests.spark.session import spark_session

SIZES = {100: 10_000_000, 1000: 500_000}
"""Bytes of a record, and how many there are of it."""
LENGTHS = (100_000, 1_000_000, 10_000_000)
COMPARED = {100: 2_000_000, 1000: 500_000}
WARM_UP = 2_000_000
WRITTEN = {100: 500_000, 1000: 200_000}
WRITTEN_LENGTHS = (100_000, 1_000_000)
COPIED = 200_000
BATCH_BYTES = 64_000
IN_FLIGHT = 8
TURNS = 5
KEY = b"key-%010d"

Took = tuple[float, float]
"""Wall and CPU seconds."""
K = TypeVar("K")


def batch_of(size: int, first: int = 0) -> tuple[int, bytes]:
    """As many records of a size as a producer puts into a batch, and their number."""
    value, count = b"v" * (size - 14), BATCH_BYTES // size
    return count, bytes(
        build_batch([Record(first + n, 1_700_000_000_000 + n, KEY % n, value) for n in range(count)])
    )


def codecs() -> None:
    """Both directions without Spark, the cluster or the network."""
    print(f"{'one core':<18}{'size':>8}{'rows/s CPU':>12}{'MB/s':>8}")
    for size in SIZES:
        count, _ = batch_of(size)
        data = b"".join(batch_of(size, first)[1] for first in range(0, 20_000, count))
        rows = -(-20_000 // count) * count
        values = [pa.array([KEY % n for n in range(rows)]), pa.repeat(b"v" * (size - 14), rows)]
        batch = pa.RecordBatch.from_arrays(values, names=["key", "value"])
        for what, work in (("decode", partial(_decode, data)), ("place, encode", partial(_encode, batch))):
            best = min(_cpu_of(work) for _ in range(9))
            print(f"{what:<18}{size:>6} B{rows / best:>12,.0f}{len(data) / best / 1e6:>8.0f}")


def _decode(data: bytes) -> None:
    decoder = Decoder(Range("t", 0, 0, 1 << 40), names(False))
    list(decoder.feed(data))
    list(decoder.rest())


def _encode(batch: pa.RecordBatch) -> None:
    """For a topic of three partitions."""
    rows = rows_of(batch)
    for _, there in grouped(rows, route(rows.column("key"), None, 3, 0)):
        for part in parts(there, 1 << 20):
            encode(part)


def _cpu_of(work: Callable[[], None]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def fill(cluster: LocalCluster, topic: str, size: int, rows: int) -> None:
    """The same batch again and again: the node gives each its offsets."""
    count, batch = batch_of(size)

    async def send() -> None:
        async with Cluster(cluster.bootstrap) as client:
            leader, view = await client.leader(topic, 0), await client.topic(topic)

            async def write(number: int) -> None:
                for _ in range(number, -(-rows // count), IN_FLIGHT):
                    data = PartitionProduceData(index=0, records=bytearray(batch))
                    topics = [TopicProduceData(name=topic, topic_id=view.id, partition_data=[data])]
                    request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=topics)
                    await client.ask(leader, PRODUCE, request)

            await asyncio.gather(*map(write, range(IN_FLIGHT)))

    asyncio.run(send())


def seen(path: Path) -> str:
    """A file of /proc; empty if its process has ended."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def descendants(pid: int) -> list[int]:
    children = [int(each) for path in Path(f"/proc/{pid}/task").glob("*/children") for each in seen(path).split()]
    return [pid, *(below for child in children for below in descendants(child))]


class Spark:
    """A session and what its processes use."""

    def __init__(self, session: SparkSession, cluster: LocalCluster) -> None:
        self._session = session
        self._cluster = cluster
        gateway: Any = session.sparkContext._gateway
        self._jvm = int(gateway.proc.pid)
        self._ticks: dict[int, int] = {}

    def cpu_s(self) -> float:
        """Of the JVM and its workers, of those that have ended as far as it was seen."""
        for pid in descendants(self._jvm):
            fields = seen(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
            if fields:
                self._ticks[pid] = int(fields[11]) + int(fields[12])
        return sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")

    def worker_peak_mb(self) -> float:
        """The most that a Python worker ever had in memory."""
        statuses = [seen(Path(f"/proc/{pid}/status")) for pid in descendants(self._jvm)[1:]]
        peaks = [line.split()[1] for status in statuses for line in status.splitlines() if line.startswith("VmHWM")]
        return max(map(int, peaks)) / 1024

    def read(self, kind: str, topic: str, rows: int) -> Took:
        """Wall and CPU seconds of a read into nothing."""
        reader = self._session.read.format(kind).option("kafka.bootstrap.servers", self._cluster.bootstrap)
        reader = reader.option("subscribe", topic).option("endingOffsets", json.dumps({topic: {"0": rows}}))
        return self._timed(lambda: reader.load().write.format("noop").mode("overwrite").save())

    def write(self, kind: str, topic: str, size: int, rows: int) -> Took:
        """The same of writing rows that Spark makes up, in one task."""
        value = f"cast(repeat('v', {size - 14}) as binary) as value"
        frame = self._session.range(0, rows, 1, 1).selectExpr("cast(printf('key-%010d', id) as binary) as key", value)
        writer = frame.write.format(kind).option("kafka.bootstrap.servers", self._cluster.bootstrap)
        return self._timed(lambda: writer.option("topic", topic).mode("append").save())

    def copy(self, topic: str, exactly_once: bool) -> Took:
        """The same of a stream from a topic to another, all rows in one micro-batch."""
        reader = self._session.readStream.format("rookery").option("kafka.bootstrap.servers", self._cluster.bootstrap)
        rows = reader.option("subscribe", topic).option("startingOffsets", "earliest").load().select("key", "value")
        writer = rows.writeStream.format("rookery").option("kafka.bootstrap.servers", self._cluster.bootstrap)
        writer = writer.option("topic", "by-stream").option("exactly_once", str(exactly_once).lower())

        def run() -> None:
            with tempfile.TemporaryDirectory(prefix="rookery-bench-") as checkpoint:
                started = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
                started.awaitTermination()

        return self._timed(run)

    def _timed(self, work: Callable[[], None]) -> Took:
        begun, cpu = time.monotonic(), self.cpu_s()
        work()
        return time.monotonic() - begun, self.cpu_s() - cpu


def in_turns(works: Mapping[K, Callable[[], Took]], turns: int = TURNS) -> dict[K, Took]:
    """The least wall and the least CPU time of each."""
    found: dict[K, list[Took]] = {each: [] for each in works}
    for _ in range(turns):
        for each, work in works.items():
            found[each].append(work())
    return {each: (min(wall for wall, _ in took), min(cpu for _, cpu in took)) for each, took in found.items()}


def compare(what: str, size: int, rows: int, took: Mapping[str, Took]) -> None:
    for kind, (wall, cpu) in took.items():
        rate, cost = rows / wall, cpu / rows * 1e6
        ratio = f"{took['kafka'][0] / wall:.2f}x" if "kafka" in took else "-"
        figures = f"{rate:>12,.0f}{rate * size / 1e6:>8.0f}{cost:>12.2f}{ratio:>15}"
        print(f"{what:<8}{kind:<10}{size:>6} B{figures}", flush=True)


def sizes(spark: Spark, kinds: list[str]) -> None:
    print(f"\n{'':<18}{'size':>8}{'rows/s':>12}{'MB/s':>8}{'CPU us/row':>12}{'against kafka':>15}")
    for kind in kinds * 2:  # a JVM takes millions of rows to be at its best
        spark.read(kind, "rows-100", WARM_UP)
    for size, rows in COMPARED.items():
        reads = {kind: partial(spark.read, kind, f"rows-{size}", rows) for kind in kinds}
        compare("read", size, rows, in_turns(reads))
    for size, rows in WRITTEN.items():
        writes = {kind: partial(spark.write, kind, f"by-{kind}", size, rows) for kind in kinds}
        compare("write", size, rows, in_turns(writes))


def streams(spark: Spark) -> None:
    print(f"\n{'stream':<18}{'size':>8}{'rows/s':>12}{'CPU us/row':>12}{'against at least once':>23}")
    for size in SIZES:
        took = in_turns({once: partial(spark.copy, f"stream-{size}", once) for once in (False, True)})
        for once, (wall, cpu) in took.items():
            name = "exactly once" if once else "at least once"
            ratio = f"{took[False][0] / wall:.2f}x"
            print(f"{name:<18}{size:>6} B{COPIED / wall:>12,.0f}{cpu / COPIED * 1e6:>12.2f}{ratio:>23}", flush=True)


def lengthen(spark: Spark, kinds: list[str]) -> None:
    print(f"\n{'100 B':<18}{'rows':>12}{'us/row':>10}{'CPU us/row':>12}{'worker peak MB':>16}")
    for rows in LENGTHS:
        reads = {kind: partial(spark.read, kind, "rows-100", rows) for kind in kinds}
        longer("read", rows, in_turns(reads, TURNS if rows < LENGTHS[-1] else 2), spark.worker_peak_mb())
    for rows in WRITTEN_LENGTHS:
        writes = {kind: partial(spark.write, kind, f"by-{kind}", 100, rows) for kind in kinds}
        longer("write", rows, in_turns(writes, 3), spark.worker_peak_mb())


def longer(what: str, rows: int, took: Mapping[str, Took], peak: float) -> None:
    for kind, (wall, cpu) in took.items():
        memory = f"{peak:.0f}" if kind == "rookery" else "-"
        figures = f"{rows:>12,}{wall / rows * 1e6:>10.2f}{cpu / rows * 1e6:>12.2f}{memory:>16}"
        print(f"{what:<8}{kind:<10}{figures}", flush=True)


def main() -> None:
    codecs()
    settings = connector.settings()
    kinds = ["rookery", *(["kafka"] if settings else [])]
    cores = os.sched_getaffinity(0)
    with local_cluster(1, log__retention__ms="-1") as cluster:
        for size, rows in SIZES.items():
            cluster.create_topic(f"rows-{size}", 1, 1)
            fill(cluster, f"rows-{size}", size, rows)
            cluster.create_topic(f"stream-{size}", 1, 1)
            fill(cluster, f"stream-{size}", size, COPIED)
        for kind in (*kinds, "stream"):
            cluster.create_topic(f"by-{kind}", 1, 1)
        os.sched_setaffinity(0, {min(cores)})
        try:
            full_speed = {"spark.driver.extraJavaOptions": "", "spark.master": "local[1]"}
            with spark_session({**settings, **full_speed}) as session:
                spark = Spark(session, cluster)
                sizes(spark, kinds)
                streams(spark)
                lengthen(spark, kinds)
        finally:
            os.sched_setaffinity(0, cores)
