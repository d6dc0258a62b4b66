"""Members of the new protocol against a model of the coordinator that loses requests and answers."""

from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.client.consumer.kip848 import ConsumerMembership
from rookery.client.consumer.membership import Ask, Wait
from rookery.client.types import TopicPartition
from rookery.core.errors import ErrorCode
from rookery.core.wire.apis.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

TOPIC = UUID(int=1)
PARTITIONS = 6


class Coordinator:
    """Targets are even; a partition is given when nobody else has it (assigned or not yet given up)."""

    def __init__(self) -> None:
        self.group_epoch = 1
        self.members: dict[str, dict[str, set[int] | int]] = {}

    def _target(self, id: str) -> set[int]:
        order = sorted(self.members)
        return {n for n in range(PARTITIONS) if order[n % len(order)] == id}

    def leave(self, id: str) -> None:
        if self.members.pop(id, None) is not None:
            self.group_epoch += 1

    def ask(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        id, epoch = request.member_id, request.member_epoch
        if epoch == -1:
            self.leave(id)
            return ConsumerGroupHeartbeatResponse(member_epoch=-1, heartbeat_interval_ms=0)
        if epoch == 0:
            assert request.topic_partitions is not None
            assert request.subscribed_topic_names is not None
            if id not in self.members:
                self.group_epoch += 1
            self.members[id] = {"epoch": 0, "assigned": set(), "pending": set(), "sent": -1}
        member = self.members.get(id)
        if member is None:
            return self._refuse(ErrorCode.UNKNOWN_MEMBER_ID)
        owned = (
            None
            if request.topic_partitions is None
            else {n for t in request.topic_partitions for n in t.partitions}
        )
        if epoch not in (0, member["epoch"]):
            assert isinstance(member["assigned"], set)
            if owned is None or not owned <= member["assigned"]:
                return self._refuse(ErrorCode.FENCED_MEMBER_EPOCH)
        self._reconcile(id, owned)
        changed = member["sent"] != sorted(member["assigned"])  # type: ignore[arg-type]
        full = request.rebalance_timeout_ms >= 0
        member["sent"] = sorted(member["assigned"])  # type: ignore[assignment, arg-type]
        assignment = None
        if changed or full:
            places = [TopicPartitions(topic_id=TOPIC, partitions=sorted(member["assigned"]))]  # type: ignore[arg-type]
            assignment = Assignment(topic_partitions=places if member["assigned"] else [])
        return ConsumerGroupHeartbeatResponse(
            member_id=id,
            member_epoch=member["epoch"],  # type: ignore[arg-type]
            heartbeat_interval_ms=5000,
            assignment=assignment,
        )

    def _reconcile(self, id: str, owned: set[int] | None) -> None:
        member = self.members[id]
        assigned, pending = member["assigned"], member["pending"]
        assert isinstance(assigned, set)
        assert isinstance(pending, set)
        target = self._target(id)
        if pending and (owned is None or owned & pending):
            return
        pending.clear()
        revoke = assigned - target
        if revoke and (owned is None or owned & revoke):
            member["assigned"], member["pending"] = assigned & target, revoke
            return
        others = {
            n
            for other, each in self.members.items()
            if other != id
            for kind in ("assigned", "pending")
            for n in each[kind]  # type: ignore[union-attr]
        }
        member["assigned"] = target - others
        member["epoch"] = self.group_epoch

    @staticmethod
    def _refuse(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(error_code=code, member_epoch=0, heartbeat_interval_ms=0)


class World:
    def __init__(self, draw: Random) -> None:
        self.coordinator = Coordinator()
        self.draw = draw
        self.now = 0.0
        self.members: list[ConsumerMembership] = []
        self.made = 0

    def join(self) -> None:
        self.made += 1
        member = ConsumerMembership("g", f"m{self.made}")
        member.subscribe(frozenset({"t"}))
        self.members.append(member)

    def leave(self) -> None:
        if len(self.members) > 1:
            request = self.members.pop(self.draw.randrange(len(self.members))).leave()
            if request is not None:
                self.coordinator.ask(request.request)  # type: ignore[arg-type]

    def step(self, member: ConsumerMembership, fate: str = "fine") -> None:
        if member.unnamed:
            member.name({TOPIC: "t"})
        if member.pending is not None and self.draw.random() < 0.5:
            member.rebalanced(member.pending, self.now)
            self.check()
            return
        match member.next_step(self.now):
            case Wait(until):
                self.now = max(self.now, min(until, self.now + 5))
            case Ask() as ask:
                if fate == "request lost":
                    member.failed(self.now)
                    return
                answer = self.coordinator.ask(ask.request)  # type: ignore[arg-type]
                if fate == "answer lost":
                    member.failed(self.now)
                else:
                    ask.answered(answer, self.now)

    def check(self) -> None:
        owned = [tp for member in self.members for tp in member.owned]
        assert len(owned) == len(set(owned)), "a partition has two readers"

    @property
    def at_rest(self) -> bool:
        return all(
            member.state == "stable"
            and {tp.partition for tp in member.owned} == self.coordinator._target(member.member_id)
            and member.generation == self.coordinator.group_epoch
            for member in self.members
        )


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from(["join", "leave", *["fine"] * 8, "request lost", "answer lost"]), max_size=120),
    st.integers(0, 2**32).map(Random),
)
def test_lost_requests_and_answers_cost_only_time(events: list[str], draw: Random) -> None:
    world = World(draw)
    world.join()
    for event in events:
        if event == "leave" or (event == "join" and len(world.members) < 5):
            getattr(world, event)()
        elif event != "join":
            world.step(draw.choice(world.members), event)
        world.check()
        assert all(member.failure is None for member in world.members)
    for _ in range(2000):
        if world.at_rest:
            break
        world.step(draw.choice(world.members))
    assert world.at_rest
    everything = {TopicPartition("t", n) for n in range(PARTITIONS)}
    assert {tp for member in world.members for tp in member.owned} == everything


def stable() -> tuple[ConsumerMembership, World]:
    world = World(Random(1))
    world.join()
    while not world.at_rest:
        world.step(world.members[0])
    return world.members[0], world


def test_a_quiet_heartbeat_carries_nothing() -> None:
    member, world = stable()
    step = member.next_step(world.now + 10)
    assert isinstance(step, Ask)
    request = step.request
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assert request.member_epoch == member.generation
    assert request.topic_partitions is None
    assert request.subscribed_topic_names is None
    assert request.subscribed_topic_regex is None


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
def test_a_fenced_member_gives_up_everything_before_it_joins_again(code: ErrorCode) -> None:
    member, world = stable()
    step = member.next_step(world.now + 10)
    assert isinstance(step, Ask)
    step.answered(Coordinator._refuse(code), world.now + 10)
    assert member.pending is not None
    assert member.pending.lost
    assert member.pending.revoke == member.owned
    assert isinstance(member.next_step(world.now + 20), Wait)
    member.rebalanced(member.pending, world.now + 20)
    again = member.next_step(world.now + 20)
    assert isinstance(again, Ask)
    assert again.request.member_epoch == 0  # type: ignore[attr-defined]


def test_a_user_that_does_not_poll_leaves_and_comes_back() -> None:
    member, world = stable()
    member.expire(world.now)
    leave = member.next_step(world.now)
    assert isinstance(leave, Ask)
    assert leave.request.member_epoch == -1  # type: ignore[attr-defined]
    assert isinstance(member.next_step(world.now), Wait)
    assert member.pending is not None
    member.rebalanced(member.pending, world.now)
    join = member.next_step(world.now)
    assert isinstance(join, Ask)
    assert join.request.member_epoch == 0  # type: ignore[attr-defined]


def test_a_static_member_waits_for_the_end_of_its_predecessor() -> None:
    member = ConsumerMembership("g", "m", instance_id="i")
    member.subscribe(frozenset({"t"}))
    now = 0.0
    while member.failure is None:
        step = member.next_step(now)
        assert isinstance(step, Ask)
        step.answered(Coordinator._refuse(ErrorCode.UNRELEASED_INSTANCE_ID), now)
        now += 1.0
    assert 60 <= now <= 62
    leaving = ConsumerMembership("g", "m", instance_id="i")
    leaving.subscribe(frozenset({"t"}))
    request = leaving.leave()
    assert request is not None
    assert request.request.member_epoch == -2  # type: ignore[attr-defined]


@pytest.mark.parametrize("joined", [False, True])
def test_a_member_fenced_while_it_takes_its_first_partitions_gives_them_up_and_gets_them_again(joined: bool) -> None:
    """The user takes partitions while the member is fenced, and perhaps has joined again."""
    coordinator = Coordinator()
    member = ConsumerMembership("g", "m")
    member.subscribe(frozenset({"t"}))

    def ask(now: float) -> ConsumerGroupHeartbeatRequest:
        step = member.next_step(now)
        assert isinstance(step, Ask)
        assert isinstance(step.request, ConsumerGroupHeartbeatRequest)
        step.answered(coordinator.ask(step.request), now)
        member.name({TOPIC: "t"})
        return step.request

    ask(0)
    taking = member.pending
    assert taking is not None
    coordinator.leave("m")
    ask(10)
    if joined:
        ask(10)
    member.rebalanced(taking, 11)
    assert member.pending is not None
    assert member.pending.lost
    assert member.pending.revoke == taking.assign
    member.rebalanced(member.pending, 12)
    assert ask(12).topic_partitions == []
    assert member.pending is not None
    assert member.pending.assign == taking.assign
