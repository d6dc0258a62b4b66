"""Our client beside aiokafka, kafka-python and confluent-kafka: records/s and CPU per record on one node, in one run.

Each client runs in a process of its own, so that its CPU is its own. They take turns; the better of two runs counts.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.cluster.local import local_cluster

RECORDS = 50_000
ROUNDS = 2
SIZES = (100, 1000)
BULK = 1000
GOALS = "goals: 3x aiokafka and kafka-python everywhere; 0.5x confluent-kafka one by one, 1x in bulk"
CASES = (
    "send rookery", "send rookery bulk", "send rookery.sync", "send aiokafka", "send aiokafka bulk",
    "send kafka-python", "send confluent-kafka", "read rookery", "read rookery bulk", "read aiokafka",
    "read aiokafka bulk", "read kafka-python", "read confluent-kafka", "read confluent-kafka bulk",
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
    ("read rookery bulk", "read aiokafka bulk", 3.0),
    ("read rookery bulk", "read confluent-kafka bulk", 1.0),
)
"""What is compared with what, and how many times as fast it is to be."""


async def _rookery(bootstrap: str, topic: str, value: bytes, bulk: bool) -> None:
    from rookery import Producer

    async with Producer(bootstrap_servers=bootstrap) as producer:
        if bulk:
            values = [value] * BULK
            for _ in range(RECORDS // BULK):
                await producer.send_many(topic, values)
        else:
            for _ in range(RECORDS):
                await producer.send(topic, value)


def rookery(bootstrap: str, topic: str, value: bytes) -> None:
    asyncio.run(_rookery(bootstrap, topic, value, bulk=False))


def rookery_bulk(bootstrap: str, topic: str, value: bytes) -> None:
    asyncio.run(_rookery(bootstrap, topic, value, bulk=True))


def rookery_sync(bootstrap: str, topic: str, value: bytes) -> None:
    from rookery.sync import Producer

    with Producer(bootstrap_servers=bootstrap) as producer:
        for _ in range(RECORDS):
            producer.send(topic, value)


async def _aiokafka(bootstrap: str, topic: str, value: bytes, bulk: bool) -> None:
    from aiokafka import AIOKafkaProducer

    size = 131_072
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, linger_ms=5, max_batch_size=size)
    await producer.start()
    try:
        if not bulk:
            for _ in range(RECORDS):
                await producer.send(topic, value)
            return
        sent = 0
        while sent < RECORDS:
            batch = producer.create_batch()
            while sent < RECORDS and batch.append(key=None, value=value, timestamp=None) is not None:
                sent += 1
            await producer.send_batch(batch, topic, partition=0)
    finally:
        await producer.stop()


def aiokafka(bootstrap: str, topic: str, value: bytes) -> None:
    asyncio.run(_aiokafka(bootstrap, topic, value, bulk=False))


def aiokafka_bulk(bootstrap: str, topic: str, value: bytes) -> None:
    asyncio.run(_aiokafka(bootstrap, topic, value, bulk=True))


def kafka_python(bootstrap: str, topic: str, value: bytes) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, linger_ms=5, batch_size=131_072)
    for _ in range(RECORDS):
        producer.send(topic, value)
    producer.flush()
    producer.close()


def confluent(bootstrap: str, topic: str, value: bytes) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0})
    for _ in range(RECORDS):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush()


async def _read_rookery(bootstrap: str, topic: str, bulk: bool) -> None:
    from rookery import Consumer, TopicPartition

    left = RECORDS
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


def read_rookery(bootstrap: str, topic: str, value: bytes) -> None:
    asyncio.run(_read_rookery(bootstrap, topic, bulk=False))


def read_rookery_bulk(bootstrap: str, topic: str, value: bytes) -> None:
    asyncio.run(_read_rookery(bootstrap, topic, bulk=True))


async def _read_aiokafka(bootstrap: str, topic: str, bulk: bool) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    left = RECORDS
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


def read_aiokafka(bootstrap: str, topic: str, value: bytes) -> None:
    asyncio.run(_read_aiokafka(bootstrap, topic, bulk=False))


def read_aiokafka_bulk(bootstrap: str, topic: str, value: bytes) -> None:
    asyncio.run(_read_aiokafka(bootstrap, topic, bulk=True))


def read_kafka_python(bootstrap: str, topic: str, value: bytes) -> None:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    for number, _ in enumerate(consumer, 1):
        if number == RECORDS:
            break
    consumer.close()


def _confluent_consumer(bootstrap: str, topic: str) -> Any:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    options = {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer(options)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    return consumer


def read_confluent(bootstrap: str, topic: str, value: bytes) -> None:
    consumer, left = _confluent_consumer(bootstrap, topic), RECORDS
    while left > 0:
        left -= consumer.poll(1.0) is not None
    consumer.close()


def read_confluent_bulk(bootstrap: str, topic: str, value: bytes) -> None:
    consumer, left = _confluent_consumer(bootstrap, topic), RECORDS
    while left > 0:
        left -= len(consumer.consume(BULK, 1.0))
    consumer.close()


RUN: dict[str, Callable[[str, str, bytes], None]] = dict(
    zip(
        CASES,
        (
            rookery, rookery_bulk, rookery_sync, aiokafka, aiokafka_bulk, kafka_python, confluent, read_rookery,
            read_rookery_bulk, read_aiokafka, read_aiokafka_bulk, read_kafka_python, read_confluent,
            read_confluent_bulk,
        ),
        strict=True,
    )
)  # fmt: skip


def child(case: str, bootstrap: str, size: str) -> None:
    """One run of one client; prints seconds and seconds of CPU."""
    value = b"x" * int(size)
    RUN[case](bootstrap, "warm", value[:10])  # imports and connects; those who read find what was sent there
    wall, cpu = time.perf_counter(), time.process_time()
    RUN[case](bootstrap, f"bench-{size}", value)
    print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]))


def measured(case: str, bootstrap: str, size: int) -> tuple[float, float]:
    command = [sys.executable, "-m", "tests.bench.bench_client", case, bootstrap, str(size)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    found: Any = json.loads(done.stdout.splitlines()[-1])
    return found[0], found[1]


def main() -> None:
    print(GOALS)
    with local_cluster(1) as cluster:
        for topic in ("warm", *(f"bench-{size}" for size in SIZES)):
            cluster.create_topic(topic, 1)
        for size in SIZES:
            best: dict[str, tuple[float, float]] = {}
            for _ in range(ROUNDS):
                for case in CASES:
                    run = measured(case, cluster.bootstrap, size)
                    best[case] = min(best.get(case, run), run)
            for case, (wall, cpu) in best.items():
                rate, own = RECORDS / wall, cpu / RECORDS * 1e6
                print(f"{size:5} B  {case:<26} {rate:10,.0f} records/s  {own:6.2f} us CPU a record", flush=True)
            for ours, theirs, goal in COMPARED:
                times = best[theirs][0] / best[ours][0]
                verdict = "met" if times >= goal else "MISSED"
                print(f"{size:5} B  {ours} is {times:.2f}x {theirs}; goal {goal:g}x: {verdict}", flush=True)


if __name__ == "__main__":
    child(*sys.argv[1:])
