"""Our client beside aiokafka, kafka-python and confluent-kafka: records/s and CPU per record on one node, in one run.

Each client runs in a process of its own, so that its CPU is its own. They take turns; the better of two runs counts.
Each has enough records for some tenths of a second at least, so that connecting and closing (10 to 20 ms) count little.
A goal that is missed is followed by a profile of where our client's time went. confluent-kafka reads with settings
under which its queues never stand still (`queued.min.messages` and others below): with its defaults a backlog waits for
its back-off.
"""

import asyncio
import cProfile
import io
import json
import pstats
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from statistics import quantiles
from typing import Any

from tests.cluster.local import local_cluster

BYTES = 120_000_000
"""What the quick clients send and read in one run; small records are at most `RECORDS_MAX`."""
RECORDS_MAX = 400_000
BULK_TIMES = 3
"""So many times as much in bulk."""
SHARE = {"aiokafka": 3, "kafka-python": 12}
"""Slower clients get a part of it: records/s are compared."""
WARM = 2000
ROUNDS = 2
SIZES = (100, 1000)
BULK = 1000
RATE, RATE_S = 2000, 3
PROFILE_LINES = 12
GOALS = "goals: 3x aiokafka and kafka-python everywhere; 0.5x confluent-kafka one by one, 1x in bulk"
CASES = (
    "send rookery", "send rookery bulk", "send rookery.sync", "send aiokafka", "send aiokafka bulk",
    "send kafka-python", "send confluent-kafka", "read rookery", "read rookery bulk", "read rookery columns",
    "read aiokafka", "read aiokafka bulk", "read kafka-python", "read confluent-kafka", "read confluent-kafka bulk",
)  # fmt: skip
COMPARED = (
    ("send rookery", "send aiokafka", 3.0),
    ("send rookery", "send kafka-python", 3.0),
    ("send rookery", "send confluent-kafka", 0.5),
    ("send rookery bulk", "send aiokafka bulk", 3.0),
    ("send rookery bulk", "send confluent-kafka", 1.0),
    ("read rookery", "read aiokafka", 3.0),
    ("read rookery", "read kafka-python", 3.0),
    ("read rookery", "read confluent-kafka", 0.5),
    ("read rookery columns", "read aiokafka bulk", 3.0),
    ("read rookery columns", "read confluent-kafka bulk", 1.0),
)
"""What is compared with what, and how many times as fast it is to be."""


def records_of(case: str, size: int) -> int:
    share = next((part for name, part in SHARE.items() if name in case), 1)
    times = BULK_TIMES if case.endswith(("bulk", "columns")) else 1
    return min(RECORDS_MAX, BYTES // size) * times // share // BULK * BULK


async def _rookery(bootstrap: str, topic: str, value: bytes, records: int, bulk: bool) -> None:
    from rookery import Producer

    async with Producer(bootstrap_servers=bootstrap) as producer:
        if bulk:
            values = [value] * BULK
            for _ in range(records // BULK):
                await producer.send_many(topic, values)
        else:
            for _ in range(records):
                await producer.send(topic, value)


def rookery(bootstrap: str, topic: str, value: bytes, records: int) -> None:
    asyncio.run(_rookery(bootstrap, topic, value, records, bulk=False))


def rookery_bulk(bootstrap: str, topic: str, value: bytes, records: int) -> None:
    asyncio.run(_rookery(bootstrap, topic, value, records, bulk=True))


def rookery_sync(bootstrap: str, topic: str, value: bytes, records: int) -> None:
    from rookery.sync import Producer

    with Producer(bootstrap_servers=bootstrap) as producer:
        for _ in range(records):
            producer.send(topic, value)


async def _aiokafka(bootstrap: str, topic: str, value: bytes, records: int, bulk: bool) -> None:
    from aiokafka import AIOKafkaProducer

    size = 131_072
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, linger_ms=5, max_batch_size=size)
    await producer.start()
    try:
        if not bulk:
            for _ in range(records):
                await producer.send(topic, value)
            return
        sent = 0
        while sent < records:
            batch = producer.create_batch()
            while sent < records and batch.append(key=None, value=value, timestamp=None) is not None:
                sent += 1
            await producer.send_batch(batch, topic, partition=0)
    finally:
        await producer.stop()


def aiokafka(bootstrap: str, topic: str, value: bytes, records: int) -> None:
    asyncio.run(_aiokafka(bootstrap, topic, value, records, bulk=False))


def aiokafka_bulk(bootstrap: str, topic: str, value: bytes, records: int) -> None:
    asyncio.run(_aiokafka(bootstrap, topic, value, records, bulk=True))


def kafka_python(bootstrap: str, topic: str, value: bytes, records: int) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, linger_ms=5, batch_size=131_072)
    for _ in range(records):
        producer.send(topic, value)
    producer.flush()
    producer.close()


def confluent(bootstrap: str, topic: str, value: bytes, records: int) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0})
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush()


async def _read_rookery(bootstrap: str, topic: str, records: int, bulk: bool) -> None:
    from rookery import Consumer, TopicPartition

    left = records
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        if bulk:
            while left > 0:
                left -= len(await consumer.getmany(max_records=BULK))
            return
        async for _ in consumer:
            left -= 1
            if left == 0:
                return


def read_rookery(bootstrap: str, topic: str, value: bytes, records: int) -> None:
    asyncio.run(_read_rookery(bootstrap, topic, records, bulk=False))


def read_rookery_bulk(bootstrap: str, topic: str, value: bytes, records: int) -> None:
    asyncio.run(_read_rookery(bootstrap, topic, records, bulk=True))


async def _read_columns(bootstrap: str, topic: str, records: int) -> None:
    from rookery import Consumer, TopicPartition

    left = records
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while left > 0:
            left -= sum(len(each.values) for each in await consumer.getcolumns(max_records=BULK))


def read_columns(bootstrap: str, topic: str, value: bytes, records: int) -> None:
    asyncio.run(_read_columns(bootstrap, topic, records))


async def _read_aiokafka(bootstrap: str, topic: str, records: int, bulk: bool) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    left = records
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, 0)])
        if bulk:
            while left > 0:
                found = await consumer.getmany(timeout_ms=1000, max_records=BULK)
                left -= sum(map(len, found.values()))
            return
        async for _ in consumer:
            left -= 1
            if left == 0:
                return
    finally:
        await consumer.stop()


def read_aiokafka(bootstrap: str, topic: str, value: bytes, records: int) -> None:
    asyncio.run(_read_aiokafka(bootstrap, topic, records, bulk=False))


def read_aiokafka_bulk(bootstrap: str, topic: str, value: bytes, records: int) -> None:
    asyncio.run(_read_aiokafka(bootstrap, topic, records, bulk=True))


def read_kafka_python(bootstrap: str, topic: str, value: bytes, records: int) -> None:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    for number, _ in enumerate(consumer, 1):
        if number == records:
            break
    consumer.close()


def _confluent_consumer(bootstrap: str, topic: str) -> Any:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    options = {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False, "log_level": 0}
    options |= {"queued.min.messages": 1_000_000, "queued.max.messages.kbytes": 500_000, "fetch.queue.backoff.ms": 5}
    consumer = Consumer(options)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    return consumer


def read_confluent(bootstrap: str, topic: str, value: bytes, records: int) -> None:
    consumer, left = _confluent_consumer(bootstrap, topic), records
    while left > 0:
        left -= consumer.poll(1.0) is not None
    consumer.close()


def read_confluent_bulk(bootstrap: str, topic: str, value: bytes, records: int) -> None:
    consumer, left = _confluent_consumer(bootstrap, topic), records
    while left > 0:
        left -= len(consumer.consume(BULK, 1.0))
    consumer.close()


RUN: dict[str, Callable[[str, str, bytes, int], None]] = dict(
    zip(
        CASES,
        (
            rookery, rookery_bulk, rookery_sync, aiokafka, aiokafka_bulk, kafka_python, confluent, read_rookery,
            read_rookery_bulk, read_columns, read_aiokafka, read_aiokafka_bulk, read_kafka_python, read_confluent,
            read_confluent_bulk,
        ),
        strict=True,
    )
)  # fmt: skip


# --- latency ------------------------------------------------------------------------------------------------


class Latencies:
    """From `send` to the acknowledgement, in ms."""

    def __init__(self) -> None:
        self.found: list[float] = []

    def begin(self) -> Callable[..., None]:
        begun = time.perf_counter()
        return lambda *_: self.found.append((time.perf_counter() - begun) * 1000)

    def summary(self) -> list[float]:
        cuts = quantiles(self.found, n=100)
        return [cuts[49], cuts[98]]


async def _paced(send: Callable[[], Any]) -> None:
    """`RATE` calls a second, in steps of 10 ms."""
    begun = time.perf_counter()
    for number in range(RATE * RATE_S):
        late_s = begun + number / RATE - time.perf_counter()
        if late_s > 0:
            await asyncio.sleep(max(0.01, late_s))
        await send()


async def _latency_rookery(bootstrap: str, found: Latencies) -> None:
    from rookery import Producer

    async with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:

        async def send() -> None:
            await producer.send("latency", b"x" * 100, on_delivery=found.begin())

        await _paced(send)


async def _latency_aiokafka(bootstrap: str, found: Latencies) -> None:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, linger_ms=0)
    await producer.start()

    async def send() -> None:
        (await producer.send("latency", b"x" * 100)).add_done_callback(found.begin())

    await _paced(send)
    await producer.stop()


async def _latency_kafka_python(bootstrap: str, found: Latencies) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, linger_ms=0)

    async def send() -> None:
        producer.send("latency", b"x" * 100).add_callback(found.begin())

    await _paced(send)
    producer.flush()
    producer.close()


async def _latency_confluent(bootstrap: str, found: Latencies) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, "log_level": 0})
    ended = threading.Event()

    def poll() -> None:
        while not ended.is_set():
            producer.poll(0.05)

    polling = threading.Thread(target=poll)
    polling.start()

    async def send() -> None:
        producer.produce("latency", b"x" * 100, on_delivery=found.begin())

    await _paced(send)
    producer.flush()
    ended.set()
    polling.join()


LATENCY: dict[str, Callable[[str, Latencies], Any]] = {
    "rookery": _latency_rookery,
    "aiokafka": _latency_aiokafka,
    "kafka-python": _latency_kafka_python,
    "confluent-kafka": _latency_confluent,
}


# --- processes ----------------------------------------------------------------------------------------------


def child(case: str, bootstrap: str, size: str, what: str = "measure") -> None:
    """One run of one client; prints seconds and seconds of CPU, latencies, or a profile."""
    if what == "latency":
        found = Latencies()
        asyncio.run(LATENCY[case](bootstrap, found))
        print(json.dumps(found.summary()))
        return
    value, records = b"x" * int(size), records_of(case, int(size))
    RUN[case](bootstrap, "warm", value[:10], WARM)  # imports and connects; those who read find what was sent there
    if what == "profile":
        profile, text = cProfile.Profile(), io.StringIO()
        profile.runcall(RUN[case], bootstrap, f"bench-{size}", value, records)
        pstats.Stats(profile, stream=text).strip_dirs().sort_stats("tottime").print_stats(PROFILE_LINES)
        print(json.dumps([line for line in text.getvalue().splitlines() if line.strip()][2:]))
        return
    wall, cpu = time.perf_counter(), time.process_time()
    RUN[case](bootstrap, f"bench-{size}", value, records)
    print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]))


def measured(case: str, bootstrap: str, size: int, what: str = "measure") -> Any:
    command = [sys.executable, "-m", "tests.bench.bench_client", case, bootstrap, str(size), what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def compare(bootstrap: str, size: int) -> list[str]:
    """Prints all figures of one size; returns the cases of ours that missed a goal."""
    best: dict[str, tuple[float, float]] = {}
    for _ in range(ROUNDS):
        for case in CASES:
            wall, cpu = measured(case, bootstrap, size)
            records = records_of(case, size)
            each = (wall / records, cpu / records)
            best[case] = min(best.get(case, each), each)
    for case, (wall, cpu) in best.items():
        print(f"{size:5} B  {case:<26} {1 / wall:10,.0f} records/s  {cpu * 1e6:6.2f} us CPU a record", flush=True)
    missed: dict[str, None] = {}
    for ours, theirs, goal in COMPARED:
        times = best[theirs][0] / best[ours][0]
        verdict = "met" if times >= goal else "MISSED"
        print(f"{size:5} B  {ours} is {times:.2f}x {theirs}; goal {goal:g}x: {verdict}", flush=True)
        if times < goal:
            missed[ours] = None
    return list(missed)


def main() -> None:
    print(GOALS)
    with local_cluster(1) as cluster:
        for topic in ("warm", "latency", *(f"bench-{size}" for size in SIZES)):
            cluster.create_topic(topic, 1)
        for size in SIZES:
            for case in compare(cluster.bootstrap, size):
                print(f"{size:5} B  {case}: where the time went")
                print("\n".join(measured(case, cluster.bootstrap, size, "profile")), flush=True)
        for name in LATENCY:
            half, most = measured(name, cluster.bootstrap, 100, "latency")
            print(f"{RATE}/s  {name:<16} acknowledged after {half:.1f} ms (median), {most:.1f} ms (99 %)", flush=True)


if __name__ == "__main__":
    child(*sys.argv[1:])
