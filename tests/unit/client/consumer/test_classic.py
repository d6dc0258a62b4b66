"""Members of a classic group against a model of the coordinator: in any order of events no partition has two readers,
and a group that is left alone shares all of them."""

from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.client.consumer.assignors import ASSIGNORS
from rookery.client.consumer.classic import ClassicMembership
from rookery.client.consumer.membership import Ask, Learn, Wait
from rookery.client.types import TopicPartition
from rookery.core.errors import ErrorCode
from rookery.core.wire.apis.heartbeat import HEARTBEAT, HeartbeatResponse
from rookery.core.wire.apis.join_group import (
    JOIN_GROUP,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from rookery.core.wire.apis.leave_group import LEAVE_GROUP, LeaveGroupResponse
from rookery.core.wire.apis.sync_group import SYNC_GROUP, SyncGroupResponse

COUNTS = {"a": 4, "b": 3}
EVERYTHING = {TopicPartition(topic, n) for topic, count in COUNTS.items() for n in range(count)}


class Coordinator:
    """Joins wait until all members have joined, syncs until the leader's is there."""

    def __init__(self) -> None:
        self.generation = 0
        self.ids = 0
        self.members: dict[str, JoinGroupRequest | None] = {}
        """By id; the join that waits, or None."""
        self.joining = False
        self.assignments: dict[str, bytes] | None = None
        self.answers: dict[str, Any] = {}
        """For members whose request waits, when its time has come."""
        self.leader = ""

    def ask(self, ask: Ask) -> Any:
        """The answer, or None if it has to wait: it is in `answers` later."""
        request: Any = ask.request
        if ask.api is JOIN_GROUP:
            return self._join(request)
        if ask.api is LEAVE_GROUP:
            self.drop(request.members[0].member_id)
            return LeaveGroupResponse()
        id = request.member_id
        if id not in self.members:
            code = ErrorCode.UNKNOWN_MEMBER_ID
        elif request.generation_id != self.generation:
            code = ErrorCode.ILLEGAL_GENERATION
        elif self.joining:
            code = ErrorCode.REBALANCE_IN_PROGRESS
        elif ask.api is HEARTBEAT:
            code = ErrorCode.NONE
        else:
            return self._sync(request)
        return (
            HeartbeatResponse(error_code=code)
            if ask.api is HEARTBEAT
            else SyncGroupResponse(error_code=code, assignment=b"")
        )

    def drop(self, id: str) -> None:
        if self.members.pop(id, 0) != 0:
            self.joining = bool(self.members)
            self._complete()

    def _join(self, request: JoinGroupRequest) -> Any:
        if not request.member_id:
            self.ids += 1
            return JoinGroupResponse(
                error_code=ErrorCode.MEMBER_ID_REQUIRED,
                protocol_name="",
                leader="",
                member_id=f"m{self.ids}",
                members=[],
            )
        self.members[request.member_id] = request
        if not self.joining:  # syncs that wait are sent back to join
            self.joining = True
            for id in self.members:
                self.answers.setdefault(
                    id, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, assignment=b"")
                )
            self.answers.pop(request.member_id, None)
        self._complete()
        return None

    def _complete(self) -> None:
        if not self.joining or not self.members or any(join is None for join in self.members.values()):
            return
        self.generation += 1
        self.joining, self.assignments = False, None
        self.leader = next(iter(self.members))
        for id in self.members:
            everyone = [
                JoinGroupResponseMember(member_id=each, metadata=join.protocols[0].metadata)
                for each, join in self.members.items()
                if join is not None
            ]
            self.answers[id] = JoinGroupResponse(
                generation_id=self.generation,
                protocol_name=next(join for join in self.members.values() if join).protocols[0].name,
                leader=self.leader,
                member_id=id,
                members=everyone if id == self.leader else [],
            )
        self.members = dict.fromkeys(self.members)

    def _sync(self, request: Any) -> Any:
        if request.assignments:
            self.assignments = {each.member_id: each.assignment for each in request.assignments}
        return (
            SyncGroupResponse(assignment=self.assignments[request.member_id])
            if self.assignments is not None
            else None
        )


class Simulation:
    def __init__(self, assignor: str, draw: Random) -> None:
        self.coordinator = Coordinator()
        self.assignor = assignor
        self.draw = draw
        self.now = 0.0
        self.members: list[ClassicMembership] = []
        self.asked: dict[int, Ask] = {}

    def join(self) -> None:
        member = ClassicMembership("g", [ASSIGNORS[self.assignor]()])
        member.subscribe(frozenset(COUNTS))
        self.members.append(member)

    def leave(self) -> None:
        if len(self.members) > 1:
            member = self.members.pop(self.draw.randrange(len(self.members)))
            self.asked.pop(id(member), None)
            request = member.leave()
            if request is not None:
                self.coordinator.ask(request)

    def evict(self) -> None:
        """The coordinator drops a member, which must not go on as if nothing had happened."""
        if self.members:
            member = self.draw.choice(self.members)
            self.coordinator.drop(member.member_id)
            self.coordinator.answers.pop(member.member_id, None)
            if id(member) in self.asked:
                del self.asked[id(member)]
                member.failed(self.now)
            self._give_up(member)

    def _give_up(self, member: ClassicMembership) -> None:
        """In real life the session's end gives time for this."""
        for _ in range(4):
            match member.next_step(self.now):
                case Ask() as ask if (answer := self.coordinator.ask(ask)) is not None:
                    ask.answered(answer, self.now)
                case Wait(until) if member.pending is None:
                    self.now = max(self.now, min(until, self.now + 10))
            if member.pending is not None and member.pending.lost:
                member.rebalanced(member.pending, self.now)
                return

    def step(self, member: ClassicMembership) -> None:
        ask = self.asked.get(id(member))
        if ask is not None:
            answer = self.coordinator.answers.pop(member.member_id, None)
            if answer is None and ask.api is SYNC_GROUP:
                answer = self.coordinator.ask(ask)
            if answer is not None and (ask.api is JOIN_GROUP) == isinstance(answer, JoinGroupResponse):
                del self.asked[id(member)]
                ask.answered(answer, self.now)
            return
        if member.pending is not None and self.draw.random() < 0.5:
            member.rebalanced(member.pending, self.now)
            self.check()
            return
        match member.next_step(self.now):
            case Wait(until):
                self.now = max(self.now, min(until, self.now + 3))
            case Learn():
                member.learned(COUNTS, self.now)
            case Ask() as ask:
                self.coordinator.answers.pop(member.member_id, None)
                answer = self.coordinator.ask(ask)
                if answer is None:
                    self.asked[id(member)] = ask
                else:
                    ask.answered(answer, self.now)

    def check(self) -> None:
        owned = [tp for member in self.members for tp in member.owned]
        assert len(owned) == len(set(owned)), "a partition has two readers"

    @property
    def at_rest(self) -> bool:
        return (
            not self.asked
            and all(
                member.state == "stable"
                and member.pending is None
                and member.generation == self.coordinator.generation
                for member in self.members
            )
            and not self.coordinator.joining
        )


@pytest.mark.parametrize("assignor", list(ASSIGNORS))
@settings(max_examples=40)
@given(
    st.lists(st.sampled_from(["join", "leave", "evict", *["step"] * 12]), max_size=150),
    st.integers(0, 2**32).map(Random),
)
def test_no_partition_has_two_readers_and_in_the_end_all_have_one(
    assignor: str, events: list[str], draw: Random
) -> None:
    world = Simulation(assignor, draw)
    world.join()
    for event in events:
        if event == "step":
            world.step(draw.choice(world.members))
        elif event != "join" or len(world.members) < 5:
            getattr(world, event)()
        world.check()
        assert all(member.failure is None for member in world.members)
    for _ in range(3000):
        if world.at_rest:
            break
        world.step(draw.choice(world.members))
    assert world.at_rest
    assert {tp for member in world.members for tp in member.owned} == EVERYTHING
    sizes = [len(member.owned) for member in world.members]
    if assignor != "range":
        assert max(sizes) - min(sizes) <= 1


def stable() -> tuple[ClassicMembership, Coordinator]:
    world = Simulation("range", Random(1))
    world.join()
    while not world.at_rest:
        world.step(world.members[0])
    return world.members[0], world.coordinator


def heartbeat(member: ClassicMembership, code: int, now: float = 100.0) -> None:
    step = member.next_step(now)
    assert isinstance(step, Ask)
    assert step.api is HEARTBEAT
    step.answered(HeartbeatResponse(error_code=code), now)


@pytest.mark.row(108)
def test_heartbeats_come_at_their_interval() -> None:
    member, _ = stable()
    now = 100.0
    asked: list[float] = []
    while len(asked) < 4:
        match member.next_step(now):
            case Wait(until):
                now = until
            case Ask() as ask:
                assert ask.api is HEARTBEAT
                asked.append(now)
                ask.answered(HeartbeatResponse(), now)
    assert [later - sooner for sooner, later in pairwise(asked)] == [3.0] * 3


@pytest.mark.row(106)
def test_a_member_keeps_beating_while_the_user_is_busy() -> None:
    member, _ = stable()
    heartbeat(member, ErrorCode.REBALANCE_IN_PROGRESS)
    assert member.pending is not None
    assert member.pending.revoke == EVERYTHING
    heartbeat(member, ErrorCode.REBALANCE_IN_PROGRESS, 110.0)
    assert member.owned == EVERYTHING


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_member_that_was_removed_loses_its_partitions_before_it_joins_again(code: ErrorCode) -> None:
    member, _ = stable()
    heartbeat(member, code)
    assert member.pending is not None
    assert member.pending.lost
    assert member.generation == -1
    assert isinstance(member.next_step(101.0), Wait)
    member.rebalanced(member.pending, 101.0)
    step = member.next_step(101.0)
    assert isinstance(step, Ask)
    assert step.api is JOIN_GROUP


def test_a_user_that_does_not_poll_leaves_and_comes_back() -> None:
    member, coordinator = stable()
    member.expire(50.0)
    leave = member.next_step(50.0)
    assert isinstance(leave, Ask)
    assert leave.api is LEAVE_GROUP
    leave.answered(coordinator.ask(leave), 50.0)
    assert isinstance(member.next_step(60.0), Wait)
    assert member.pending is not None
    assert member.pending.lost
    member.rebalanced(member.pending, 70.0)
    join = member.next_step(70.0)
    assert isinstance(join, Ask)
    assert join.api is JOIN_GROUP


def test_a_fenced_instance_is_reported_to_the_user() -> None:
    member, _ = stable()
    heartbeat(member, ErrorCode.FENCED_INSTANCE_ID)
    assert member.failure is not None
    assert isinstance(member.next_step(200.0), Wait)


def test_the_leader_joins_again_when_a_topic_grows() -> None:
    member, _ = stable()
    member.learned(COUNTS, 10.0)
    assert member.state == "stable"
    member.learned({**COUNTS, "a": 5}, 10.0)
    assert member.state == "revoking"


@pytest.mark.parametrize("steps", range(6))
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_partitions_taken_while_the_member_is_removed_are_given_up(assignor: str, steps: int) -> None:
    """The user takes partitions; meanwhile the member is removed and perhaps has joined again."""
    coordinator = Coordinator()
    member = ClassicMembership("g", [ASSIGNORS[assignor]()])
    member.subscribe(frozenset(COUNTS))

    def step(now: float) -> None:
        match member.next_step(now):
            case Ask() as ask:
                answer = coordinator.ask(ask)
                ask.answered(coordinator.answers.pop(member.member_id) if answer is None else answer, now)
            case Learn():
                member.learned(COUNTS, now)

    while (taking := member.pending) is None:
        step(0.0)
    coordinator.drop(member.member_id)
    heartbeat(member, ErrorCode.UNKNOWN_MEMBER_ID)
    for _ in range(steps):
        step(100.0)
    member.rebalanced(taking, 100.0)
    lost = member.pending
    assert lost is not None
    assert lost.lost
    assert lost.revoke == EVERYTHING
    member.rebalanced(lost, 100.0)
    assert member.owned == frozenset()
    for _ in range(10):
        step(100.0)
        if member.pending is not None:
            member.rebalanced(member.pending, 100.0)
    assert member.owned == EVERYTHING
