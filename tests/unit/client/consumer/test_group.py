"""The task of a group: what concerns the user is told when it is known, not with the next heartbeat."""

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from rookery.client.consumer.group import Group
from rookery.client.consumer.kip848 import ConsumerMembership
from rookery.client.types import TopicPartition
from rookery.core.net.backoff import BackoffSettings
from rookery.core.wire.apis.consumer_group_heartbeat import (
    CONSUMER_GROUP_HEARTBEAT,
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

TOPIC = UUID(int=1)
AN_HOUR_MS = 3_600_000


class Coordinator:
    """Gives the member a partition with its first answer, and wants the next heartbeat in an hour."""

    async def coordinator(self, kind: Any, group: str) -> Any:
        return SimpleNamespace(endpoint=("h", 1), address="h:1")

    async def connection(self, endpoint: Any) -> Any:
        return SimpleNamespace(versions={CONSUMER_GROUP_HEARTBEAT.key: (0, 1)})

    async def ask(self, endpoint: Any, api: Any, request: Any, **_: Any) -> Any:
        given = Assignment(topic_partitions=[TopicPartitions(topic_id=TOPIC, partitions=[0])])
        return ConsumerGroupHeartbeatResponse(
            member_id="m", member_epoch=1, heartbeat_interval_ms=AN_HOUR_MS, assignment=given
        )


async def test_partitions_are_offered_as_soon_as_their_topic_has_a_name() -> None:
    coordinator: Any = Coordinator()
    metadata: Any = SimpleNamespace(names=lambda: {TOPIC: "t"}, counts=dict)
    offered = asyncio.Event()
    group = Group(
        coordinator,
        coordinator,
        metadata,
        "g",
        None,
        ("consumer",),
        lambda _: ConsumerMembership("g", "m"),
        backoff=BackoffSettings(),
        rng=Random(1),
        slow_timeout_s=1.0,
        on_attention=offered.set,
    )
    group.subscribe(frozenset({"t"}), None)
    running = asyncio.create_task(group.run())
    try:
        async with asyncio.timeout(30):
            await offered.wait()
        assert group.pending is not None
        assert group.pending.assign == {TopicPartition("t", 0)}
    finally:
        running.cancel()
        await asyncio.wait((running,))
