"""Histories of a group with members of both protocols: it changes its protocol as they come and go, with lost answers,
silence, failed writes and failovers.

A member that hears nothing for the rebalance timeout gives up what it has. Members of the classic protocol are eager:
they give up everything before they join.
"""

from random import Random
from typing import Any

import pytest

from rookery.broker.groups.consumer import migration
from rookery.broker.groups.consumer.member import Current, Member, TopicIdPartitions
from rookery.broker.groups.consumer.migration import ClassicMembers
from rookery.broker.groups.consumer.records import MemberValue
from rookery.broker.groups.consumer.target import Topics
from rookery.broker.groups.group import Group
from rookery.broker.groups.group_state import ConsumerOptions, GroupOptions
from rookery.broker.groups.members import Member as ClassicMember
from rookery.broker.groups.records import MemberMetadata
from rookery.core.errors import ErrorCode
from rookery.core.wire.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from rookery.core.wire.apis.join_group import JoinGroupResponse
from rookery.core.wire.apis.sync_group import SyncGroupResponse
from rookery.core.wire.consumer_protocol import (
    ASSIGNMENT,
    SUBSCRIPTION,
    Assignment,
    Subscription,
    TopicPartitions,
    from_bytes,
    to_bytes,
)
from tests.unit.broker.groups.consumer.driver import Consumer, ConsumerDriver
from tests.unit.broker.groups.driver import Caller

E = ErrorCode
PARTITIONS = 4
REBALANCE_MS = 6_000
STEPS = 60
LAST_ROUNDS = 80
SUBSCRIBED = to_bytes(SUBSCRIPTION, 1, Subscription(topics=["t"], owned_partitions=[], generation_id=-1))


class Eager:
    """A client of the classic protocol; one request is in flight."""

    def __init__(self, driver: ConsumerDriver, instance: str | None) -> None:
        self.driver = driver
        self.instance = instance
        self.id = ""
        self.generation = -1
        self.partitions: set[int] = set()
        self.must_join = True
        self.asked: Caller | None = None
        """Of the join or sync that is under way."""
        self.heard_at = driver.now.ms

    @property
    def waits_to_join(self) -> bool:
        return self.asked is not None and self.must_join and not isinstance(self.asked.response, SyncGroupResponse)

    def lost(self) -> None:
        self.partitions, self.generation, self.must_join, self.asked = set(), -1, True, None

    def forget_request(self) -> None:
        self.asked = None

    def step(self, *, lose: bool = False) -> None:
        if self.asked is not None:
            answer = self.asked.response
            if answer is not None:
                self.asked = None
                if not lose:
                    self._hear(answer)
        elif self.must_join:
            self.partitions = set()
            self.asked = self.driver.join(
                self.id, instance=self.instance, protocols=[("range", SUBSCRIBED)], rebalance_ms=REBALANCE_MS
            )
        else:
            code = self.driver.heartbeat(self.id, self.generation, self.instance)
            if not lose:
                self.heard_at = self.driver.now.ms
                self._told(code)

    def _told(self, code: int) -> None:
        if code == E.UNKNOWN_MEMBER_ID:
            self.id = ""
        if code in (E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION, E.FENCED_INSTANCE_ID):
            self.lost()
        elif code == E.REBALANCE_IN_PROGRESS:
            self.must_join = True

    def _hear(self, answer: Any) -> None:
        self.heard_at = self.driver.now.ms
        if isinstance(answer, SyncGroupResponse) and not answer.error_code:
            given = from_bytes(ASSIGNMENT, answer.assignment).assigned_partitions
            self.partitions, self.must_join = {index for topic in given for index in topic.partitions}, False
        elif isinstance(answer, SyncGroupResponse):
            self._told(answer.error_code)
        elif isinstance(answer, JoinGroupResponse):
            self._joined(answer)

    def _joined(self, answer: JoinGroupResponse) -> None:
        if answer.error_code == E.MEMBER_ID_REQUIRED:
            self.id = answer.member_id
        elif answer.error_code in (E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID):
            self.id = ""
        elif not answer.error_code:
            self.id, self.generation = answer.member_id, answer.generation_id
            ids = sorted(member.member_id for member in answer.members) if answer.leader == self.id else []
            shares = {id: list(range(PARTITIONS))[number :: len(ids)] for number, id in enumerate(ids)}
            self.asked = self.driver.sync(
                self.id, self.generation, {id: _assignment(share) for id, share in shares.items()},
                instance=self.instance,
            )  # fmt: skip

    def leave(self, random: Random) -> None:
        if self.id:
            self.driver.leave((self.id, self.instance))


class Modern(Consumer):
    """A client of the consumer protocol."""

    heard_at = 0
    waits_to_join = False

    @property
    def partitions(self) -> set[int]:
        return {place.partition for place in self.owned}

    def forget_request(self) -> None:
        """Each is answered at once."""

    def step(self, *, lose: bool = False) -> None:
        answer = self.beat(lose_answer=lose)
        if not lose and isinstance(answer, ConsumerGroupHeartbeatResponse):
            self.heard_at = self.driver.now.ms

    def go(self, random: Random) -> None:
        self.leave(for_a_while=self.instance is not None and random.random() < 0.5)


def _assignment(partitions: list[int]) -> bytes:
    topics = [TopicPartitions(topic="t", partitions=partitions)]
    return to_bytes(ASSIGNMENT, 1, Assignment(assigned_partitions=topics))


class History:
    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        consumer = ConsumerOptions(session_timeout_ms=10_000, assignment_interval_ms=random.choice((0, 1_000)))
        delay_ms = random.choice((0, 500))
        self.driver = ConsumerDriver(options=GroupOptions(consumer=consumer, initial_rebalance_delay_ms=delay_ms))
        self.driver.cluster.make("t", PARTITIONS)
        self.actors: list[Eager | Modern] = []
        self.static = random.random() < 0.4
        self.made = 0

    def run(self) -> None:
        rules = (self.step, self.come, self.go, self.crash, self.wait, self.fail_over, self.fail_to_write)
        for rule in self.random.choices(rules, (60, 10, 5, 3, 14, 3, 3), k=STEPS):
            rule()
            self.check()
        for _ in range(LAST_ROUNDS):
            self.pass_ms(500)
            for actor in self.actors:
                actor.step()
            self.check()
        read = {index for actor in self.actors for index in actor.partitions}
        assert not self.actors or read == set(range(PARTITIONS)), "some partitions are read by nobody"

    def check(self) -> None:
        owned = [index for actor in self.actors for index in actor.partitions]
        assert len(owned) == len(set(owned)), "two owners"

    def step(self) -> None:
        if self.actors:
            self.random.choice(self.actors).step(lose=self.random.random() < 0.15)

    def come(self) -> None:
        if len(self.actors) == 4:
            return
        self.made += 1
        instance = f"i{self.made % 2}" if self.static else None
        if any(actor.instance == instance for actor in self.actors):
            instance = None
        actor: Eager | Modern = Eager(self.driver, instance)
        if self.random.random() < 0.5:
            actor = Modern(self.driver, f"n{self.made}", instance=instance, rebalance_ms=REBALANCE_MS)
        actor.heard_at = self.driver.now.ms
        self.actors.append(actor)
        actor.step()

    def go(self) -> None:
        if self.actors:
            actor = self.actors.pop(self.random.randrange(len(self.actors)))
            actor.leave(self.random) if isinstance(actor, Eager) else actor.go(self.random)

    def crash(self) -> None:
        if self.actors:
            self.actors.pop(self.random.randrange(len(self.actors)))

    def wait(self) -> None:
        self.pass_ms(self.random.choice((300, 1_000, 4_000)))

    def pass_ms(self, ms: int) -> None:
        self.driver.wait(ms)
        for actor in self.actors:
            if self.driver.now.ms - actor.heard_at >= REBALANCE_MS and not actor.waits_to_join:
                actor.lost()
                actor.heard_at = self.driver.now.ms

    def fail_over(self) -> None:
        self.driver.reload()
        for actor in self.actors:
            actor.heard_at = self.driver.now.ms
            actor.forget_request()

    def fail_to_write(self) -> None:
        self.driver.fail_writes = E.COORDINATOR_NOT_AVAILABLE
        for actor in self.actors:
            actor.step()
        self.driver.fail_writes = None


@pytest.mark.invariant("G7", "G12", "G16")
@pytest.mark.parametrize("seeds", [range(first, first + 25) for first in range(0, 100, 25)], ids=str)
def test_partitions_have_one_owner_whatever_their_members_speak(seeds: range) -> None:
    for seed in seeds:
        History(seed).run()


stored, converted = migration._stored, migration._converted


def stores_nothing_of_what_members_have(member: Member, protocol: str, topics: Topics) -> MemberMetadata:
    return stored(Member(member.id, member.about, Current(member.current.epoch)), protocol, topics)


def takes_what_classic_members_have_for_free(
    group: Group, member: ClassicMember, topics: Topics
) -> tuple[str, MemberValue, TopicIdPartitions]:
    id, about, _ = converted(group, member, topics)
    return id, about, frozenset()


def does_not_tell_what_is_free(self: ClassicMembers, member: Member) -> bool:
    return False


@pytest.mark.invariant("G7", "G16")
@pytest.mark.parametrize(
    ("where", "name", "planted", "seed"),
    [
        (migration, "_stored", stores_nothing_of_what_members_have, 65),
        (migration, "_converted", takes_what_classic_members_have_for_free, 1),
        (ClassicMembers, "_released", does_not_tell_what_is_free, 3),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_planted_bug_is_noticed(
    where: object, name: str, planted: object, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, name, planted)
    with pytest.raises(AssertionError):
        History(seed).run()
