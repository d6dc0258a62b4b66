"""Members of one group that speak the consumer protocol (KIP-848), or the classic one in turn: the group changes
its protocol as they come and go.

A member has what it was told to have, until it is told otherwise, leaves, or has heard nothing for its session. Copies
of heartbeats arrive late where they say nothing of what the member has; others are sent twice at once. What the
protocol cannot refuse is left out: a late copy of a heartbeat that says less than the member has by now.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from rookery.core.errors import ErrorCode
from rookery.core.wire.apis.consumer_group_heartbeat import (
    CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
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
from rookery.core.wire.consumer_protocol import (
    ASSIGNMENT,
    SUBSCRIPTION,
    Assignment,
    Subscription,
    from_bytes,
    to_bytes,
)
from rookery.core.wire.consumer_protocol import TopicPartitions as Named
from tests.simulation.controller_rules import require
from tests.simulation.nodes_clients import Failed
from tests.simulation.nodes_host import Place
from tests.simulation.nodes_transactions import GROUP, Coordinated

if TYPE_CHECKING:
    from tests.simulation.nodes_consumer_load import ConsumerLoad

JOIN, LEAVE, LEAVE_FOR_A_WHILE = 0, -1, -2
_E = ErrorCode
AGAIN = {
    _E.NOT_COORDINATOR, _E.COORDINATOR_NOT_AVAILABLE, _E.COORDINATOR_LOAD_IN_PROGRESS, _E.REQUEST_TIMED_OUT,
    _E.UNRELEASED_INSTANCE_ID, _E.MEMBER_ID_REQUIRED, _E.UNKNOWN_TOPIC_OR_PARTITION,
}  # fmt: skip
OUT = {_E.UNKNOWN_MEMBER_ID, _E.FENCED_MEMBER_EPOCH, _E.GROUP_ID_NOT_FOUND, _E.FENCED_INSTANCE_ID}
"""A member that is told this has nothing any more."""
STALE = {_E.STALE_MEMBER_EPOCH, _E.ILLEGAL_GENERATION, _E.REBALANCE_IN_PROGRESS, _E.INCONSISTENT_GROUP_PROTOCOL}
VANISH, LEAVES, LOSE = 0.01, 0.015, 0.05
"""How often in a round a member falls silent, leaves, or loses an answer."""


class Member(Coordinated):
    """One client after the other with the same name; each is a member with an id of its own."""

    def __init__(self, load: ConsumerLoad, name: str, instance: str | None) -> None:
        super().__init__(load.world, name)
        self.load = load
        self._instance = instance
        self._lives = 0
        self.id = ""
        self.epoch = 0
        self.classic = False
        self.owned: set[Place] = set()
        self.stable_since: float | None = None
        self._joined_with: tuple[int, ...] = ()
        self._told: set[Place] | None = None
        """What the coordinator was told last; None where it must be told everything."""
        self._must_join = True
        self._shared: set[Place] | None = None
        """What it has given to the members, as the leader of a classic group."""
        self._heard_at = 0.0
        """When the last request was sent that kept the member alive."""
        self._asked_at = 0.0
        self._losses = 0
        self._doubled = False
        """The answer to a copy may have been the one with a new assignment: everything is asked for once more."""
        self.done = False
        self.run(self._go())

    async def _go(self) -> None:
        self._begin()
        while not self.load.closing:
            await asyncio.sleep(self.load.plan.heartbeat_ms / 1000 * (0.5 + self.rng.random()))
            if self.world.loop.time() - self._heard_at > self.load.plan.session_ms / 1000:
                self._lost()
            try:
                await self._round()
            except Failed:
                self._unheard()
                self._coordinators.clear()
            await self._perhaps_go()
        joined = not self._must_join
        self._lost()
        if joined:
            await self._leave(LEAVE)
        self.done = True
        self.close()

    async def _round(self) -> None:
        """One heartbeat, or what comes before it; then perhaps offsets."""
        if not self.classic:
            await self._heartbeat()
        elif self._must_join:
            await self._join()
        else:
            await self._beat()
        if self.owned and not self._must_join:
            place = self.rng.choice(sorted(self.owned))
            await (self._commit(place) if self.rng.random() < 0.6 else self._fetch(place))

    def _begin(self) -> None:
        """A new process: with a new id, unless it is known by its instance id, which may have one as well."""
        self._lives += 1
        self.classic = self.rng.random() < self.load.plan.classic
        self.id = "" if self.classic else f"{self.name}-{self._lives}"
        self.epoch = JOIN
        self._lost()

    def _lost(self) -> None:
        """It has nothing and joins again."""
        self._losses += 1
        self.load.gives_up(self, set(self.owned))
        self.epoch, self._told, self._must_join, self.stable_since = JOIN, None, True, None
        self._heard_at = self.world.loop.time()

    def _unheard(self) -> None:
        self._told, self.stable_since = None, None

    def gives_up_by_time(self) -> None:
        """Called before somebody else gets something: who has heard nothing for its session has nothing."""
        if self.owned and self.world.loop.time() - self._heard_at > self.load.plan.session_ms / 1000:
            self._lost()

    async def _perhaps_go(self) -> None:
        chance = self.rng.random()
        if self.world.quiet or chance > VANISH + LEAVES:
            return
        if chance > VANISH and not self._must_join:
            for_a_while = self._instance is not None and not self.classic and self.rng.random() < 0.7
            self.load.gives_up(self, set(self.owned))
            await self._leave(LEAVE_FOR_A_WHILE if for_a_while else LEAVE)
        self._begin()
        if chance < VANISH:
            await asyncio.sleep(self.rng.random() * 2 * self.load.plan.session_ms / 1000)

    async def _ask(self, api: Any, version: int, request: Any, timeout_s: float | None = None) -> Any:
        """Ask the group's coordinator once; Failed where there is no answer, or it gets lost."""
        node = await self._find(GROUP, self.load.group)
        sent_at, losses = self.world.loop.time(), self._losses
        if sent_at - self._heard_at > self.load.plan.session_ms / 1000:
            raise OSError("the coordinator was found too late")
        answer = await self.ask(node, api, version, request, timeout_s)
        if self.rng.random() < LOSE and not self.world.calm:
            raise OSError("the answer got lost")
        took_s = self.world.loop.time() - sent_at
        if losses != self._losses or (took_s > self.load.plan.session_ms / 1000 and api is not JOIN_GROUP):
            raise OSError("the answer came too late")
        keeps_alive = api not in (OFFSET_COMMIT, OFFSET_FETCH)  # not in the consumer protocol
        self._asked_at = sent_at if keeps_alive else self._heard_at
        return answer

    def _judge(self, code: int, what: str) -> bool:
        """Whether an answer was good; what it means for this member if not."""
        error = ErrorCode(code)
        if error == _E.NONE:
            self._heard_at = max(self._heard_at, self._asked_at)
            return True
        self.world.oracles.count(error.name)
        require(error in AGAIN | OUT | STALE, "error", f"{self.name}: {what} was answered with {error.name}")
        self._unheard()
        if error in (_E.NOT_COORDINATOR, _E.COORDINATOR_NOT_AVAILABLE):
            self._coordinators.clear()
        elif error in OUT:
            self._check_eviction(error)
            self._lost()
            self.id = "" if self.classic else self.id
        elif self.classic and error in STALE:
            self._must_join = True
        return False

    def _check_eviction(self, error: ErrorCode) -> None:
        """G3: nobody is thrown out who was there all the time, with the same coordinator, and no fault around."""
        world, session_s = self.world, self.load.plan.session_ms / 1000
        calm_s = world.loop.time() - world.calm_since
        there = bool(self.owned) and world.loop.time() - self._heard_at < 0.4 * session_s
        same = self._joined_with == self.load.coordinators()
        alone = calm_s > 2 * session_s and there and same and not self.classic
        require(not alone, "G3", f"{self.name} was thrown out ({error.name}) though it was there")

    # --- the consumer protocol -------------------------------------------------------------------------------

    def _request(self, **more: Any) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self.load.group, member_id=self.id, member_epoch=self.epoch, instance_id=self._instance, **more
        )

    async def _heartbeat(self) -> None:
        full = self._told is None or self.epoch == JOIN or self._doubled
        self._doubled = False
        more: dict[str, Any] = {}
        if full:
            more = {"rebalance_timeout_ms": 3 * self.load.plan.session_ms, "subscribed_topic_names": self.load.topics}
        if full or self._told != self.owned:
            more["topic_partitions"] = self._have()
        request, told = self._request(**more), set(self.owned)
        if self.epoch > JOIN and self.rng.random() < self.load.plan.repeats and not self.world.quiet:
            await self._twice(request, late="topic_partitions" not in more)
        answer = await self._ask(CONSUMER_GROUP_HEARTBEAT, 1, request)
        if not self._judge(answer.error_code, "ConsumerGroupHeartbeat"):
            return
        if self.epoch == JOIN:
            self._joined_with = self.load.coordinators()
            self.world.oracles.count("joined")
        higher = answer.member_epoch >= self.epoch
        require(higher, "G1", f"{self.name}: epoch {answer.member_epoch} after {self.epoch}")
        self.epoch, self._told, self._must_join = answer.member_epoch, told, False
        if answer.assignment is not None:
            await self._follow(
                {
                    Place(self.load.name_of(each.topic_id), each.topic_id, index)
                    for each in answer.assignment.topic_partitions
                    for index in each.partitions
                }
            )
        else:
            self.stable_since = self.stable_since or self.world.loop.time()

    def _have(self) -> list[TopicPartitions]:
        by_topic: dict[Any, list[int]] = {}
        for place in sorted(self.owned):
            by_topic.setdefault(place.id, []).append(place.index)
        return [TopicPartitions(topic_id=id, partitions=indexes) for id, indexes in by_topic.items()]

    async def _follow(self, assigned: set[Place]) -> None:
        """Give up, sometimes after a while, and take what is new."""
        self.stable_since = None
        revoked = self.owned - assigned
        if revoked and self.rng.random() < 0.3:
            await asyncio.sleep(self.rng.random() * 0.5)
            if self._must_join:
                return
        self.load.gives_up(self, revoked)
        self.load.takes(self, assigned - self.owned)

    async def _twice(self, request: Any, *, late: bool) -> None:
        """A copy of a request, on another connection; only one that says little may come late."""
        try:
            node = await self._find(GROUP, self.load.group)
        except Failed:
            return
        copy = self.load.send_copy(node, CONSUMER_GROUP_HEARTBEAT, 1, request, self.rng.random() * 2.0 if late else 0.0)
        copy.add_done_callback(self._answered_twice)
        if not late:
            await copy

    def _answered_twice(self, _: object) -> None:
        self._doubled = True

    async def _leave(self, epoch: int) -> None:
        member, self.epoch = self.epoch, epoch
        try:
            if self.classic:
                identity = MemberIdentity(member_id=self.id)
                request = LeaveGroupRequest(group_id=self.load.group, member_id=self.id, members=[identity])
                await self._ask(LEAVE_GROUP, 3, request)
            else:
                await self._ask(CONSUMER_GROUP_HEARTBEAT, 1, self._request())
        except Failed:
            self.world.trace("left without an answer", self.name, member)

    # --- the classic protocol --------------------------------------------------------------------------------

    async def _join(self) -> None:
        """An eager member gives up everything before it joins."""
        plan = self.load.plan
        self.load.gives_up(self, set(self.owned))
        metadata = to_bytes(
            SUBSCRIPTION, 1, Subscription(topics=self.load.topics, owned_partitions=[], generation_id=-1)
        )
        request = JoinGroupRequest(
            group_id=self.load.group,
            session_timeout_ms=plan.session_ms,
            rebalance_timeout_ms=3 * plan.session_ms,
            member_id=self.id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        joined = await self._ask(JOIN_GROUP, 5, request, 4 * plan.session_ms / 1000)
        if joined.error_code == _E.MEMBER_ID_REQUIRED:
            self.id = joined.member_id
            return
        if not self._judge(joined.error_code, "JoinGroup"):
            return
        self.id = joined.member_id
        leads = joined.leader == self.id
        self._shared = set(self.load.places()) if leads else None
        shares = self._shares([each.member_id for each in joined.members]) if leads else {}
        sync = SyncGroupRequest(
            group_id=self.load.group,
            generation_id=joined.generation_id,
            member_id=self.id,
            assignments=[SyncGroupRequestAssignment(member_id=id, assignment=data) for id, data in shares.items()],
        )
        synced = await self._ask(SYNC_GROUP, 3, sync, 4 * plan.session_ms / 1000)
        if not self._judge(synced.error_code, "SyncGroup"):
            return
        self.epoch, self._must_join = joined.generation_id, False
        self.world.oracles.count("joined classic")
        given = from_bytes(ASSIGNMENT, synced.assignment).assigned_partitions if synced.assignment else ()
        found = {(each.topic, index) for each in given for index in each.partitions}
        self.load.takes(self, {place for place in self.load.places() if (place.topic, place.index) in found})

    def _shares(self, ids: list[str]) -> dict[str, bytes]:
        """The leader of a classic group assigns."""
        found: dict[str, dict[str, list[int]]] = {id: {} for id in sorted(ids)}
        for number, place in enumerate(self.load.places()):
            found[sorted(ids)[number % len(ids)]].setdefault(place.topic, []).append(place.index)
        return {
            id: to_bytes(
                ASSIGNMENT,
                1,
                Assignment(
                    assigned_partitions=[Named(topic=name, partitions=indexes) for name, indexes in topics.items()]
                ),
            )
            for id, topics in found.items()
        }

    async def _beat(self) -> None:
        """A leader that finds other partitions than it has shared out joins again, for all to get their shares anew."""
        if self._shared is not None and self._shared != set(self.load.places()):
            self._unheard()
            self._must_join = True
            return
        request = HeartbeatRequest(group_id=self.load.group, generation_id=self.epoch, member_id=self.id)
        answer = await self._ask(HEARTBEAT, 3, request)
        if self._judge(answer.error_code, "Heartbeat"):
            self.stable_since = self.stable_since or self.world.loop.time()

    # --- offsets ---------------------------------------------------------------------------------------------

    async def _commit(self, place: Place) -> None:
        commits, key = self.load.commits, (self.load.group, place.topic, place.index)
        value = commits.begin(key)
        asked = OffsetCommitRequestPartition(partition_index=place.index, committed_offset=value)
        request = OffsetCommitRequest(
            group_id=self.load.group,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.id,
            topics=[OffsetCommitRequestTopic(name=place.topic, partitions=[asked])],
        )
        version = 8 if self.classic else 9
        copied = self.rng.random() < self.load.plan.repeats and not self.world.quiet
        if copied:
            node = await self._find(GROUP, self.load.group)
            self.load.commit_late(self, place, node, version, request, self.rng.random() * 3.0)
        answer = await self._ask(OFFSET_COMMIT, version, request)
        if not copied:
            commits.answered(key, value)
        if self._judge(answer.topics[0].partitions[0].error_code, "OffsetCommit"):
            commits.committed(key, value, place.id)
            self.world.oracles.count("committed")
            self.world.trace("committed", self.name, place, value)

    async def _fetch(self, place: Place) -> None:
        key = (self.load.group, place.topic, place.index)
        wanted = self.load.commits.acked.get(key)
        request = OffsetFetchRequest(
            group_id=self.load.group,
            topics=[OffsetFetchRequestTopic(name=place.topic, partition_indexes=[place.index])],
        )
        answer = await self._ask(OFFSET_FETCH, 5, request)
        code = answer.error_code or answer.topics[0].partitions[0].error_code
        if self._judge(code, "OffsetFetch"):
            found = answer.topics[0].partitions[0].committed_offset
            self.load.commits.fetched(key, found, wanted, place.id)
