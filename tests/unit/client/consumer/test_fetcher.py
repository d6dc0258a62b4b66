"""The tasks that fetch: no faster than the nodes, also when something is wrong."""

import asyncio
import logging
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from rookery.client.consumer import fetcher
from rookery.client.consumer.fetcher import Fetcher, FetchSettings
from rookery.client.consumer.fetches import Fetches, FetchLimits, Leader
from rookery.client.consumer.partition import Partition
from rookery.client.consumer.stalls import Stalls
from rookery.client.types import TopicPartition
from rookery.core.errors import ErrorCode
from rookery.core.net.backoff import BackoffSettings
from rookery.core.wire.apis.fetch import FetchableTopicResponse, FetchResponse, PartitionData

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


class World:
    def __init__(self, *places: TopicPartition) -> None:
        self.fetches = Fetches(FetchLimits())
        for place in places:
            self.fetches.partitions[place] = Partition(place)
            self.fetches.partitions[place].seek(0)
        self.asked = 0
        self.unvalidated = 0
        self.answer = FetchResponse(error_code=int(ErrorCode.UNKNOWN_SERVER_ERROR), responses=())
        self.leaders = {place: Leader(1, 3, UUID(int=9)) for place in places}
        node = SimpleNamespace(endpoint=("localhost", 1))
        metadata: Any = SimpleNamespace(leader=self.leaders.get, node=lambda _: node, request=lambda: None)
        peers: Any = SimpleNamespace(ask=self._ask)
        settings = FetchSettings(1, 0.5, 1.0, "", 60.0, BackoffSettings(0.1, 1.0))
        self.fetcher = Fetcher(
            self.fetches,
            metadata,
            peers,
            settings,
            Random(1),
            on_data=lambda: None,
            on_out_of_range=lambda _: None,
            on_unvalidated=self._unvalidated,
        )

    async def _ask(self, *_: Any, **__: Any) -> FetchResponse:
        self.asked += 1
        await asyncio.sleep(0)
        return self.answer

    def _unvalidated(self) -> None:
        """The look-up fails at once, and tells the fetcher that it was tried."""
        self.unvalidated += 1
        asyncio.get_running_loop().call_soon(self.fetcher.notify)

    async def run(self, seconds: float) -> None:
        task = asyncio.create_task(self.fetcher.run())
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_node_that_refuses_whole_requests_is_not_asked_all_the_time() -> None:
    world = World(FIRST)
    await world.run(0.15)
    assert 1 <= world.asked <= 3


async def test_a_partition_that_nobody_answers_for_is_warned_of_and_that_it_goes_on_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fetcher, "LOOK_S", 0.01)
    caplog.set_level(logging.INFO, "rookery.client.consumer")
    world = World(FIRST)
    world.fetcher.stalls = Stalls(0.05)

    async def until(told: str) -> None:
        async with asyncio.timeout(10):
            while told not in (each.message for each in caplog.records):
                await asyncio.sleep(0.01)

    task = asyncio.create_task(world.fetcher.run())
    await until("partition.stalled")
    assert list(world.fetcher.stalls.since) == [FIRST]
    end = PartitionData(partition_index=0, high_watermark=0, last_stable_offset=0, records=b"")
    topic = FetchableTopicResponse(topic="t", topic_id=UUID(int=9), partitions=(end,))
    world.answer = FetchResponse(error_code=0, responses=(topic,))
    await until("partition.goes_on")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_position_that_cannot_be_validated_keeps_nobody_busy() -> None:
    world = World(FIRST, SECOND)
    world.fetches.partitions[FIRST].paused = True
    world.fetches.partitions[SECOND].seek(5, 2)
    await world.run(0.1)
    assert world.unvalidated == 1
