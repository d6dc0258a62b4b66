"""`send` and `try_send` of a producer without a cluster: what is in the buffer, and what is not."""

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from rookery.client.producer.accumulator import Accumulator
from rookery.client.producer.partitioners import Route
from rookery.client.producer.producer import Producer
from rookery.client.producer.routes import Routes
from rookery.client.types import TopicPartition
from rookery.core.net.cluster import PartitionView, TopicView
from rookery.core.wire.primitives import NO_UUID


class World:
    def __init__(self, **options: Any) -> None:
        self.producer = Producer(bootstrap_servers="localhost:1", **options)
        self.core = Accumulator(self.producer._core, lambda _: 1, Random(1), asyncio.get_running_loop().time)
        self.asked: set[str] = set()
        cluster: Any = SimpleNamespace(view=SimpleNamespace(topics={}, nodes={}))
        self.cluster = cluster
        sender: Any = SimpleNamespace(
            accumulator=self.core,
            kick=lambda: None,
            crowded=False,
            wait_for_room=self._wait_for_room,
            refresh_soon=self.asked.update,
        )
        self.sender = self.producer._sender = sender
        self.routes = Routes(cluster, self.core, create=False, check_running=lambda: None)
        self.producer._routes = self.routes
        self.appear("t", 2)

    def appear(self, topic: str, partitions: int) -> None:
        views = {index: PartitionView(index, 1, 0, (1,), (1,), ()) for index in range(partitions)}
        self.cluster.view.topics[topic] = TopicView(topic, NO_UUID, False, views)
        if topic == "t":
            self.routes.known[topic] = Route(
                topic, [self.core.queue(TopicPartition(topic, index)) for index in views], list(views)
            )
        self.routes.metadata_changed()

    async def _wait_for_room(self, size: int, timeout_s: float) -> None:
        await asyncio.Event().wait()

    @property
    def count(self) -> int:
        return sum(batch.count for batch in self.core.incomplete)


async def test_without_room_it_returns_none_and_adds_nothing() -> None:
    world = World(buffer_memory=1000, batch_size=100, linger_ms=0)
    sent = [world.producer.try_send("t", b"x" * 300, partition=0) for _ in range(4)]
    assert [each is not None for each in sent] == [True, True, False, False]
    assert world.count == 2


async def test_a_topic_that_is_not_known_is_asked_for_and_works_then() -> None:
    world = World()
    assert world.producer.try_send("new", b"v") is None
    assert world.asked == {"new"}
    world.appear("new", 1)
    assert world.producer.try_send("new", b"v") is not None
    assert world.producer.try_send("t", b"v", partition=2) is None
    world.appear("t", 3)
    assert world.producer.try_send("t", b"v", partition=2) is not None


async def test_nobody_who_waits_for_room_is_overtaken() -> None:
    world = World()
    world.sender.crowded = True
    assert world.producer.try_send("t", b"v") is None


async def test_a_send_that_is_cancelled_has_not_sent_the_record() -> None:
    """Wherever it is cancelled: a caller that sends it again would double it otherwise."""
    for full in (False, True):
        world = World()
        await world.producer.send("t", b"first", partition=0)
        world.sender.crowded = full
        task = asyncio.create_task(world.producer.send("t", b"second", partition=0))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert world.count == 1


async def test_bulk_needs_no_more_room_at_once_than_the_buffer_has() -> None:
    """buffer.memory may be less than batch.size. The first part fits; the next waits for what is there to go."""
    world = World(buffer_memory=1000, batch_size=16_384)
    asked: list[int] = []

    async def all_settled(size: int, timeout_s: float) -> None:
        asked.append(size)
        world.core.abandon(RuntimeError("makes room"))

    world.sender.wait_for_room = all_settled
    await world.producer.send_many("t", [b"x" * 80] * 100, partition=0)
    assert asked
    assert max(asked) <= 1000
