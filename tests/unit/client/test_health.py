"""What `health()` of the clients says, without a cluster."""

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any

from rookery import Consumer, Producer, TopicPartition
from rookery.client.consumer.explaining import problems
from rookery.client.consumer.fetches import Fetches, FetchLimits
from rookery.client.consumer.partition import Partition
from rookery.client.producer.accumulator import Accumulator
from rookery.core.errors import NotLeaderOrFollowerError

PLACE = TopicPartition("t", 0)


async def test_a_client_that_is_not_started_or_closed_is_not_well() -> None:
    for client in (Producer(bootstrap_servers="localhost:1"), Consumer("t", bootstrap_servers="localhost:1")):
        assert not client.health().ok
        assert "not started" in client.health().problems[0]


async def test_a_producer_names_the_last_error_and_a_missing_leader() -> None:
    producer = Producer(bootstrap_servers="localhost:1", linger_ms=0)
    leader = 1
    core = Accumulator(producer._core, lambda _: leader, Random(1), asyncio.get_running_loop().time)
    sender: Any = SimpleNamespace(accumulator=core, crowded=False)
    producer._sender = sender
    assert producer.health().ok
    core.identify(1, 0)
    core.append(core.queue(PLACE), 20, 0, None, b"v", ())
    assert producer.health().ok, "a record that waits for its turn is no problem"
    leader = -1
    assert producer.health().problems == ("t-0 has no leader",)
    leader = 1
    [request] = core.plan(asyncio.get_running_loop().time()).requests
    core.answered(request, 0)
    core.not_stored(request.batches[0], NotLeaderOrFollowerError("another one leads"), 0)
    [problem] = producer.health().problems
    assert "t-0" in problem
    assert "another one leads" in problem
    sender.crowded = True
    assert "buffer.memory" in producer.health().problems[-1]


def test_a_consumer_names_what_its_partitions_and_its_group_suffer_from() -> None:
    fetches = Fetches(FetchLimits())
    fetches.partitions[PLACE] = Partition(PLACE)
    engine: Any = SimpleNamespace(
        crash=None,
        group=SimpleNamespace(failure=None),
        metadata=SimpleNamespace(failure=None, leader=lambda _: 1),
        fetcher=SimpleNamespace(stalls=SimpleNamespace(since={})),
    )
    assert problems(engine, fetches) == []
    engine.fetcher.stalls.since = {PLACE: 1.0}
    assert problems(engine, fetches) == ["t-0 stands still: it looks up the group's committed offset"]
    fetches.partitions[PLACE].failures = 3
    assert problems(engine, fetches) == ["t-0: the last 3 fetches failed"]
    engine.metadata.leader = lambda _: None
    engine.group.failure = ValueError("fenced")
    assert problems(engine, fetches) == ["fenced", "t-0 has no leader"]
