"""Members of consumer groups: they join, take their share, commit, and leave or vanish."""

from __future__ import annotations

import asyncio
import json
from itertools import count
from typing import TYPE_CHECKING, Any

from rookery.core.errors import ErrorCode
from rookery.core.wire.apis.find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from rookery.core.wire.apis.heartbeat import HEARTBEAT, HeartbeatRequest
from rookery.core.wire.apis.join_group import JOIN_GROUP, JoinGroupRequest, JoinGroupRequestProtocol
from rookery.core.wire.apis.leave_group import LEAVE_GROUP, LeaveGroupRequest, MemberIdentity
from rookery.core.wire.apis.offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from rookery.core.wire.apis.offset_fetch import OFFSET_FETCH, OffsetFetchRequest, OffsetFetchRequestTopic
from rookery.core.wire.apis.sync_group import SYNC_GROUP, SyncGroupRequest, SyncGroupRequestAssignment
from tests.simulation.controller_rules import require
from tests.simulation.nodes_clients import Client, Failed

if TYPE_CHECKING:
    from uuid import UUID

    from tests.simulation.nodes_world import World

SHARE = ("range", b"")
Key = tuple[str, str, int]
"""Group, topic, partition."""


class Commits:
    """What members of all groups were told of their commits."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._numbers = count(1)
        self.acked: dict[Key, tuple[int, UUID | None]] = {}
        """The highest that was acknowledged, and for which topic of that name."""
        self._answered: dict[int, float] = {}
        self._unsure: dict[Key, dict[int, None]] = {}
        """Commits without an answer: they may be carried out later than others."""
        self._alive: dict[str, float] = {}

    def alive(self, group: str, at: float) -> None:
        """A request of a member that was sent then was answered as that of a member. Before it the group may have been
        empty for so long that its offsets expired."""
        plan, before = self._world.swarm.expiry, self._alive.get(group, at)
        if plan is not None and plan.offsets_ms and at - before > plan.kept_s:
            self._world.oracles.count("groups that rested")
            self.acked = {key: known for key, known in self.acked.items() if key[0] != group}
        self._alive[group] = max(before, at)

    def begin(self, key: Key) -> int:
        value = next(self._numbers)
        self._unsure.setdefault(key, {})[value] = None
        return value

    def topic_id(self, name: str) -> UUID | None:
        topic = self._world.image.topic(name)
        return topic.id if topic is not None else None

    def committed(self, key: Key, value: int, topic_id: UUID | None) -> None:
        known = self.acked.get(key)
        if self.topic_id(key[1]) == topic_id and (known is None or known[1] != topic_id or known[0] < value):
            self.acked[key] = (value, topic_id)

    def answered(self, key: Key, value: int) -> None:
        self._answered[value] = self._world.loop.time()
        del self._unsure[key][value]

    def fetched(self, key: Key, value: int, wanted: tuple[int, UUID | None] | None, topic_id: UUID | None) -> None:
        """G: what was acknowledged is not forgotten, and not inherited by the next topic of that name."""
        world = self._world
        now_id = self.topic_id(key[1])
        if now_id is None or now_id != topic_id:
            return
        if wanted is not None and wanted[1] == now_id:
            known = value >= wanted[0] or value in self._unsure.get(key, {})
            require(known, "G1", f"{key}: committed {wanted[0]}, fetched", value)
        created = world.oracles._histories[now_id].created_at
        answered = self._answered.get(value)
        inherited = answered is not None and answered < created - 1.0
        require(not inherited, "G2", f"{key}: {value} was committed to an earlier topic of that name")
        world.oracles.count("offsets fetched")


class Member(Client):
    """One member; it starts again as another whenever its session ends."""

    def __init__(self, world: World, group: str, number: int, commits: Commits) -> None:
        super().__init__(world, f"{group}m{number}")
        self._group = group
        self._commits = commits
        self._member_id = ""
        self._generation = -1
        self._coordinator = -1
        self._share: list[tuple[str, int]] = []
        self.stable_since: float | None = None
        self._silences_s: tuple[float, ...] = (0.0,)
        self._sent_at = 0.0
        self._answered_at = 0.0
        self._joined_at: tuple[int, ...] = ()
        self.stopped = False
        self.done = False
        self.session_ms = int(max(3000, world.swarm.session_ms) * (3 if world.swarm.days else 1))
        self.run(self._go())

    async def _go(self) -> None:
        pace, plan = 10.0 if self.world.swarm.days else 1.0, self.world.swarm.expiry
        while not self.stopped:
            try:
                if plan is not None and plan.rests(self.world.loop.time()) and not self.world.quiet:
                    if self._member_id:
                        await self._leave()
                elif self._generation < 0:
                    await self._join()
                else:
                    await self._work()
                await asyncio.sleep((0.2 + self.rng.random() * 0.6) * pace)
            except Failed:
                self._coordinator = -1
                await asyncio.sleep((0.1 + self.rng.random() * 0.3) * pace)
        if self._generation >= 0:
            await self._leave()
        self.done = True
        self.close()

    async def _find(self) -> None:
        request = FindCoordinatorRequest(key=self._group, key_type=0)
        answer = await self.ask(self.some_node(), FIND_COORDINATOR, 2, request)
        self._coordinator = answer.node_id if answer.error_code == 0 else -1

    async def _to_coordinator(self, api: Any, version: int, request: Any, timeout_s: float | None = None) -> Any:
        if self._coordinator < 0:
            await self._find()
        if self._coordinator < 0:
            raise OSError("no coordinator")
        self._sent_at = sent_at = self.world.loop.time()
        answer = await self.ask(self._coordinator, api, version, request, timeout_s)
        self._silences_s = (*self._silences_s[-2:], sent_at - self._answered_at)
        self._answered_at = self.world.loop.time()
        return answer

    def _coordinators(self) -> tuple[int, ...]:
        """Changes whenever somebody else may coordinate."""
        topic = self.world.image.topic("__consumer_offsets")
        epochs = [p.leader_epoch for _, p in topic.in_order()] if topic is not None else []
        return (self._coordinator, *epochs)

    def _evicted(self) -> None:
        """G3: nobody is thrown out who was there all the time, with the same coordinator, and no fault around."""
        quiet_s = self.world.loop.time() - self.world.calm_since
        silence_s = max(self._silences_s)  # not every answer renews a session
        there = self._member_id and silence_s < 0.4 * self.session_ms / 1000
        same = self._joined_at == self._coordinators()
        alone = quiet_s > self.session_ms / 1000 and there and same
        require(not alone, "G3", f"{self.name} was evicted after a silence of {silence_s:.3f} s")

    def _judge(self, code: int) -> bool:
        """Whether an answer was good; what it means for this member if not."""
        if code == 0:
            return True
        error = ErrorCode(code)
        if error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return False  # its share holds a topic that was deleted: the group is none the worse
        self.stable_since = None
        if error in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            self._coordinator = -1
        elif error == ErrorCode.UNKNOWN_MEMBER_ID or error == ErrorCode.FENCED_INSTANCE_ID:
            self._evicted()
            self._member_id, self._generation = "", -1
        elif error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            self._generation = -1
        return False

    async def _join(self) -> None:
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.session_ms,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=SHARE[0], metadata=SHARE[1])],
        )
        joined = await self._to_coordinator(JOIN_GROUP, 5, request, 2 * self.session_ms / 1000 + 5)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
            return
        if not self._judge(joined.error_code):
            return
        self._member_id = joined.member_id
        self._joined_at = self._coordinators()
        leads = joined.leader == joined.member_id
        if leads and len(joined.members) > 1 and self.world.teasing and self.rng.random() < 0.5:
            self._member_id = ""  # it vanishes without a word and comes back as another
            return
        assignments = self._assignments(joined.members) if joined.leader == joined.member_id else []
        sync = SyncGroupRequest(
            group_id=self._group,
            generation_id=joined.generation_id,
            member_id=self._member_id,
            assignments=assignments,
        )
        if self.rng.random() < 0.05 and not self.world.quiet:
            await asyncio.sleep(self.session_ms * self.rng.random() / 1000)
        synced = await self._to_coordinator(SYNC_GROUP, 3, sync, 2 * self.session_ms / 1000 + 5)
        if self._judge(synced.error_code):
            self._generation = joined.generation_id
            self._commits.alive(self._group, self._sent_at)
            self._share = [(topic, index) for topic, index in json.loads(bytes(synced.assignment) or b"[]")]
            self.stable_since = self.world.loop.time()
            self.world.oracles.count("joined")

    def _assignments(self, members: Any) -> list[SyncGroupRequestAssignment]:
        places = [p for p in self.world.places() if not p.topic.startswith("__")]
        shares: dict[str, list[tuple[str, int]]] = {member.member_id: [] for member in members}
        names = sorted(shares)
        for number, place in enumerate(places):
            shares[names[number % len(names)]].append((place.topic, place.index))
        return [
            SyncGroupRequestAssignment(member_id=name, assignment=json.dumps(shares[name]).encode()) for name in names
        ]

    async def _work(self) -> None:
        request = HeartbeatRequest(group_id=self._group, generation_id=self._generation, member_id=self._member_id)
        answer = await self._to_coordinator(HEARTBEAT, 3, request)
        if not self._judge(answer.error_code):
            return
        self._commits.alive(self._group, self._sent_at)
        self.stable_since = self.stable_since or self.world.loop.time()
        if not self._share:
            return
        topic, index = self.rng.choice(self._share)
        await (self._commit(topic, index) if self.rng.random() < 0.6 else self.fetch(topic, index))
        if self.rng.random() < (0.15 if self.world.teasing else 0.02) and not self.world.quiet:
            await self._leave()

    async def _commit(self, topic: str, index: int) -> None:
        topic_id = self._commits.topic_id(topic)
        key = (self._group, topic, index)
        value = self._commits.begin(key)
        asked = OffsetCommitRequestPartition(partition_index=index, committed_offset=value)
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[asked])],
        )
        answer = await self._to_coordinator(OFFSET_COMMIT, 7, request)
        self._commits.answered(key, value)
        if self._judge(answer.topics[0].partitions[0].error_code):
            self._commits.alive(self._group, self._sent_at)
            self._commits.committed(key, value, topic_id)
            self.world.oracles.count("committed")
            self.world.trace("committed", self._group, topic, index, value)

    async def fetch(self, topic: str, index: int) -> int | None:
        key = (self._group, topic, index)
        topic_id, wanted = self._commits.topic_id(topic), self._commits.acked.get(key)
        request = OffsetFetchRequest(
            group_id=self._group, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[index])]
        )
        answer = await self._to_coordinator(OFFSET_FETCH, 5, request)
        if not self._judge(answer.error_code):
            return None
        found = answer.topics[0].partitions[0]
        if found.error_code:
            self._judge(found.error_code)
            return None
        self._commits.fetched(key, found.committed_offset, wanted, topic_id)
        return int(found.committed_offset)

    async def _leave(self) -> None:
        identity = MemberIdentity(member_id=self._member_id)
        self._generation, member = -1, self._member_id
        self._member_id = ""
        self.stable_since = None
        try:
            await self._to_coordinator(
                LEAVE_GROUP, 3, LeaveGroupRequest(group_id=self._group, member_id=member, members=[identity])
            )
        except Failed:
            return
