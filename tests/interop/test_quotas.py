"""Clients with quotas: they hear that they are held, get no more than their quota allows, and miss nothing."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, ThrottleEvent, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PyPartition

from rookery.core.metadata.image import QuotaEntity
from rookery.core.metadata.records import ClientQuotaRecord
from rookery.core.metadata.requests import CreateTopicsRequest, NewTopic
from tests.unit.broker.one_broker import OneBroker, running_broker

WAIT_S = 60.0
RATE = 20_000
WINDOW_S = 11
VALUE = bytes(range(250)) * 4
"""A thousand bytes, so that a value is nearly all of its record."""
BATCH = 8_000


async def limit(broker: OneBroker) -> None:
    """Make a topic, and a quota for the client id that has its name."""
    await broker.cluster.ask(CreateTopicsRequest((NewTopic("limited", 1, 1),)))
    entity = (QuotaEntity("client-id", "limited"),)
    for key in ("producer_byte_rate", "consumer_byte_rate"):
        broker.cluster.commit([ClientQuotaRecord(entity, key, RATE)])


@pytest.fixture
async def broker() -> AsyncIterator[OneBroker]:
    async with running_broker() as running:
        await limit(running)
        yield running


async def fill(broker: OneBroker, values: list[bytes]) -> None:
    """Write records as a client that has no quota."""
    free = Producer({"bootstrap.servers": f"127.0.0.1:{broker.port}", "batch.size": BATCH})
    for value in values:
        free.produce("limited", value, partition=0)
    assert await asyncio.to_thread(free.flush, WAIT_S) == 0


class Run:
    """What one client has done, and what it was told."""

    def __init__(self) -> None:
        self.bytes = 0
        self.held_s: list[float] = []
        self._began = time.monotonic()

    def settings(self, broker: OneBroker, **more: Any) -> dict[str, Any]:
        own = {
            "bootstrap.servers": f"127.0.0.1:{broker.port}",
            "client.id": "limited",
            "throttle_cb": self._throttled,
        }
        return own | {name.replace("_", "."): value for name, value in more.items()}

    def _throttled(self, event: ThrottleEvent) -> None:
        if event.throttle_time > 0:  # librdkafka also tells when it is over, with 0
            self.held_s.append(event.throttle_time)

    def until(self, done: Callable[[], bool], step: Callable[[], object]) -> None:
        while not done():
            step()
            assert time.monotonic() - self._began < WAIT_S, f"{self.bytes} bytes, held for {self.held_s}"

    def check(self, at_once: int) -> None:
        """No more went than the quota allows, what a window holds, and `at_once` on top of it."""
        elapsed = time.monotonic() - self._began
        assert self.bytes <= RATE * (elapsed + WINDOW_S) + at_once


def produce(broker: OneBroker) -> Run:
    run = Run()
    settings = run.settings(broker, linger_ms=5, batch_size=BATCH, max_in_flight=1, queue_buffering_max_messages=500)

    def delivered(error: Any, message: Any) -> None:
        run.bytes += len(VALUE) if error is None else 0

    producer = Producer(settings)

    def step() -> None:
        try:
            producer.produce("limited", VALUE, partition=0, on_delivery=delivered)
            producer.poll(0)
        except BufferError:
            producer.poll(0.1)

    run.until(lambda: len(run.held_s) >= 4, step)
    run.check(2 * BATCH)
    producer.purge()
    producer.flush(0.1)
    return run


def consume(broker: OneBroker) -> Run:
    run = Run()
    consumer = Consumer(run.settings(broker, group_id="none", enable_auto_commit=False))
    consumer.assign([TopicPartition("limited", 0, OFFSET_BEGINNING)])

    def step() -> None:
        for message in consumer.consume(500, 0.1):
            assert message.error() is None, message.error()
            run.bytes += len(message.value() or b"")

    with closing(consumer):
        run.until(lambda: bool(run.held_s) and run.bytes > 0, step)
        run.check(BATCH)
    return run


async def test_a_producer_learns_that_it_is_held_and_keeps_to_its_quota(broker: OneBroker) -> None:
    run = await asyncio.to_thread(produce, broker)
    assert run.held_s
    assert run.bytes > RATE * (WINDOW_S - 2), "ten seconds' worth may go at once"


async def test_a_consumer_learns_that_it_is_held_and_keeps_to_its_quota(broker: OneBroker) -> None:
    await fill(broker, [VALUE] * 1000)
    run = await asyncio.to_thread(consume, broker)
    assert run.held_s


async def test_a_consumer_with_a_fetch_session_misses_nothing_while_it_is_held() -> None:
    """kafka-python: an empty answer does not end its session, and what was held back comes later."""
    values = [b"%04d" % number + VALUE for number in range(60)]

    def read(servers: str) -> list[bytes]:
        consumer = KafkaConsumer(bootstrap_servers=servers, client_id="limited", enable_auto_commit=False)
        consumer.assign([PyPartition("limited", 0)])
        consumer.seek_to_beginning()
        found: list[bytes] = []
        with closing(consumer):
            Run().until(
                lambda: len(found) == len(values),
                lambda: found.extend(one.value for batch in consumer.poll(100).values() for one in batch),
            )
        return found

    async with running_broker(config={"quota.window.num": "2"}) as broker:
        await limit(broker)
        await fill(broker, values)
        assert await asyncio.to_thread(read, f"127.0.0.1:{broker.port}") == values
        assert broker.server.requests.route("Fetch").times("throttle").count > 0
