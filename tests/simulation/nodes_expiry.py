"""What nobody has used for days is forgotten: producers in partitions, offsets of groups, transactional ids. In seeds
with an `ExpiryPlan` days are seconds.

Nothing may go while somebody can still need it: a retry must be recognised, a committed offset found, a transaction
ended. In the end all of it must be gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from rookery.broker.log.housekeeper import HousekeepingOptions
from rookery.core.errors import ErrorCode
from rookery.core.wire.apis.offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from rookery.core.wire.apis.offset_fetch import OFFSET_FETCH, OffsetFetchRequest, OffsetFetchRequestTopic
from tests.simulation.controller_rules import require
from tests.simulation.nodes_transactions import GROUP, Coordinated, Over

if TYPE_CHECKING:
    from uuid import UUID

    from tests.simulation.nodes_swarm import ExpiryPlan
    from tests.simulation.nodes_world import World

ALONE = "alone"


@contextmanager
def installed(plan: ExpiryPlan) -> Iterator[None]:
    """Offsets may be kept for less than a minute, and producers are looked at more often than every ten."""
    housekeeping = partial(HousekeepingOptions, producer_id_expiration_check_interval_ms=plan.check_ms)
    with ExitStack() as stack:
        stack.enter_context(patch("rookery.broker.node.broker_role.HousekeepingOptions", housekeeping))
        if plan.offsets_ms:
            stack.enter_context(patch("rookery.broker.groups.settings._MINUTE_MS", plan.offsets_ms))
        yield


def remembered(world: World) -> list[str]:
    """What has not been forgotten, on any node."""
    found = []
    plan = world.swarm.expiry
    for node in world.nodes.values():
        role = node.role
        if plan is None or role is None:
            continue
        for log in role.log_dirs.partitions.values():
            found += [f"{log.partition} on {node.id}: producer {each}" for each in log.store.state.entries]
        for ids in role.transactions.shards:
            found += [f"transactional id {each} on {node.id}" for each in ids.transactions.transactions]
        if plan.offsets_ms:
            for groups in role.groups.shards:
                found += [f"group {each} on {node.id}" for each in groups.groups.groups]
    return found


class Committer(Coordinated):
    """Commits offsets of a group that has no members, and looks whether they are there, until they may have expired."""

    def __init__(self, world: World, plan: ExpiryPlan) -> None:
        super().__init__(world, ALONE)
        self._kept_s = plan.kept_s
        self._value = 0
        self._committed: dict[tuple[str, int], tuple[int, float, UUID]] = {}
        """What was committed last, when at the earliest, and for which topic."""
        self.run(self._go())

    async def _go(self) -> None:
        while not self.world.quiet:
            await asyncio.sleep(self.rng.expovariate(1.0) * self._kept_s / 4)
            places = [p for p in self.world.places() if not p.topic.startswith("__")]
            if not places or self.world.quiet:
                continue
            place = self.rng.choice(places)
            try:
                if self.rng.random() < 0.3:
                    await self._commit(place.topic, place.index, place.id)
                else:
                    await self._look(place.topic, place.index)
            except Over:
                continue
        self.close()

    async def _commit(self, topic: str, index: int, topic_id: UUID) -> None:
        self._value += 1
        self._committed.pop((topic, index), None)
        asked = OffsetCommitRequestPartition(partition_index=index, committed_offset=self._value)
        request = OffsetCommitRequest(
            group_id=ALONE, member_id="", topics=[OffsetCommitRequestTopic(name=topic, partitions=[asked])]
        )
        begun = self.world.loop.time()

        def code_of(answer: Any) -> int:
            return int(answer.topics[0].partitions[0].error_code)

        code, _ = await self.coordinate(GROUP, ALONE, OFFSET_COMMIT, 7, request, code_of, attempts=1)
        if code == ErrorCode.NONE:
            self._committed[topic, index] = (self._value, begun, topic_id)
            self.world.oracles.count("committed alone")

    async def _look(self, topic: str, index: int) -> None:
        request = OffsetFetchRequest(
            group_id=ALONE, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[index])]
        )
        code, answer = await self.coordinate(
            GROUP, ALONE, OFFSET_FETCH, 5, request, lambda each: int(each.error_code), attempts=1
        )
        value, since, topic_id = self._committed.get((topic, index), (-1, 0.0, None))
        current = self.world.image.topic(topic)
        if code != ErrorCode.NONE or current is None or current.id != topic_id:
            return
        found = answer.topics[0].partitions[0]
        if found.committed_offset == -1:
            age_s = self.world.loop.time() - since
            require(age_s >= self._kept_s, "G1", f"{ALONE} {topic}-{index}: {value} is gone after {age_s:.3f} s")
            self.world.oracles.count("offsets expired")
        else:
            require(found.committed_offset >= value, "G1", f"{ALONE} {topic}-{index}: {value}", found.committed_offset)
