"""A group changes its protocol, empty or with members, and keeps who owns what."""

from typing import Any

import pytest

from rookery.broker.groups.consumer.member import TopicIdPartition
from rookery.broker.groups.group import Group
from rookery.broker.groups.group_state import ConsumerOptions, GroupOptions
from rookery.broker.groups.members import Identity
from rookery.core.errors import ErrorCode
from rookery.core.wire.consumer_protocol import (
    ASSIGNMENT,
    SUBSCRIPTION,
    Assignment,
    Subscription,
    TopicPartitions,
    from_bytes,
    to_bytes,
)
from tests.unit.broker.groups.consumer.driver import Consumer, ConsumerDriver, settle

E = ErrorCode
BOTH = frozenset(("upgrade", "downgrade"))


def driver_with(migrations: frozenset[str] = BOTH, partitions: int = 4, **options: Any) -> ConsumerDriver:
    options.setdefault("assignment_interval_ms", 0)
    consumer = ConsumerOptions(migrations=migrations, **options)
    driver = ConsumerDriver(options=GroupOptions(consumer=consumer, initial_rebalance_delay_ms=0))
    driver.cluster.make("t", partitions)
    return driver


class Classic:
    """A client of the classic protocol that follows the rules of cooperative rebalances."""

    def __init__(self, driver: ConsumerDriver, *, instance: str | None = None) -> None:
        self.driver = driver
        self.instance = instance
        self.id = ""
        self.generation = -1
        self.owned: list[int] = []
        self.must_join = True

    def protocols(self) -> list[tuple[str, bytes]]:
        owned = [TopicPartitions(topic="t", partitions=self.owned)] if self.owned else []
        subscription = Subscription(topics=["t"], owned_partitions=owned, generation_id=self.generation)
        return [("cooperative-sticky", to_bytes(SUBSCRIPTION, 1, subscription))]

    def advance(self) -> None:
        """One round: join if asked to, hear what to read, or send a heartbeat."""
        if self.must_join:
            self._join()
            return
        code = self.driver.heartbeat(self.id, self.generation, self.instance)
        if code in (E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION, E.FENCED_INSTANCE_ID):
            self.owned, self.generation, self.must_join = [], -1, True
            self.id = "" if code is E.UNKNOWN_MEMBER_ID else self.id
        self.must_join = self.must_join or code is E.REBALANCE_IN_PROGRESS

    def _join(self) -> None:
        caller = self.driver.join(self.id, instance=self.instance, protocols=self.protocols())
        answer = caller.response
        if answer is None:
            self.waiting = caller
            return
        self.joined(answer)

    def joined(self, answer: Any) -> None:
        if answer.error_code == E.MEMBER_ID_REQUIRED:
            self.id = answer.member_id
            self._join()
            return
        if answer.error_code == E.UNKNOWN_MEMBER_ID:
            self.id = ""
        if answer.error_code:
            return
        self.id, self.generation = answer.member_id, answer.generation_id
        mine = {self.id: list(range(4))} if answer.leader == self.id else {}
        given = [
            (id, to_bytes(ASSIGNMENT, 1, Assignment(assigned_partitions=[TopicPartitions(topic="t", partitions=each)])))
            for id, each in mine.items()
        ]
        synced = self.driver.sync(self.id, self.generation, dict(given), instance=self.instance).response
        if synced is None or synced.error_code:
            return
        assigned = from_bytes(ASSIGNMENT, synced.assignment).assigned_partitions
        now = [index for topic in assigned for index in topic.partitions]
        given_up = set(self.owned) - set(now)
        self.owned = now
        self.must_join = bool(given_up)  # a cooperative client joins again once it has let go


def places(driver: ConsumerDriver, indexes: list[int]) -> set[TopicIdPartition]:
    info = driver.cluster.topic("t")
    assert info is not None
    return {TopicIdPartition(info.id, index) for index in indexes}


def rounds(driver: ConsumerDriver, classic: list[Classic], modern: list[Consumer], count: int = 10) -> None:
    for _ in range(count):
        for one in classic:
            one.advance()
        for other in modern:
            other.beat()
        held = [place for one in classic for place in places(driver, one.owned)]
        held += [place for other in modern for place in other.owned]
        assert len(held) == len(set(held)), "two owners"
        driver.pass_ms(500)


@pytest.mark.invariant("G7")
def test_members_of_both_protocols_share_a_group() -> None:
    driver = driver_with()
    old = Classic(driver)
    rounds(driver, [old], [])
    assert old.owned == [0, 1, 2, 3]
    generation = old.generation
    new = Consumer(driver, "new")
    new.beat()
    assert driver.state.groups["g"].kind == "consumer"
    assert driver.group.stored.epoch == generation + 1
    rounds(driver, [old], [new])
    assert (len(old.owned), len(new.owned)) == (2, 2)
    driver.group.check_commit(Identity(old.id), old.generation, driver.now, version=8)
    driver.reload()
    rounds(driver, [old], [new])
    assert (len(old.owned), len(new.owned)) == (2, 2)
    third = Classic(driver)
    rounds(driver, [old, third], [new], 20)
    assert sorted(map(len, (old.owned, third.owned, new.owned))) == [1, 1, 2]


@pytest.mark.invariant("G7")
def test_the_last_member_of_the_new_protocol_takes_it_along() -> None:
    driver = driver_with()
    old = Classic(driver)
    rounds(driver, [old], [])
    new = Consumer(driver, "new")
    rounds(driver, [old], [new])
    new.leave()
    group = driver.state.groups["g"]
    assert isinstance(group, Group)
    assert [member.id for member in group.members] == [old.id]
    generation = old.generation
    rounds(driver, [old], [])
    assert old.owned == [0, 1, 2, 3]
    assert old.generation > generation
    driver.reload()
    assert driver.state.groups["g"].kind == "classic"


def test_a_new_member_that_falls_silent_takes_it_along_too() -> None:
    driver = driver_with(session_timeout_ms=5_000)
    old = Classic(driver)
    rounds(driver, [old], [])
    new = Consumer(driver, "new")
    rounds(driver, [old], [new], 3)
    for _ in range(12):
        driver.wait(500)
        old.advance()
    assert driver.state.groups["g"].kind == "classic"
    rounds(driver, [old], [])
    assert old.owned == [0, 1, 2, 3]


@pytest.mark.parametrize("migrations", [frozenset(), frozenset(("downgrade",))])
def test_without_leave_to_upgrade_the_group_stays(migrations: frozenset[str]) -> None:
    driver = driver_with(migrations)
    old = Classic(driver)
    rounds(driver, [old], [])
    assert Consumer(driver, "new").beat() is E.GROUP_ID_NOT_FOUND
    assert driver.state.groups["g"].kind == "classic"
    rounds(driver, [old], [])
    assert len(old.owned) == 4


def test_without_leave_to_go_back_members_of_the_classic_protocol_stay_in_the_new_group() -> None:
    driver = driver_with(frozenset(("upgrade",)))
    old = Classic(driver)
    rounds(driver, [old], [])
    new = Consumer(driver, "new")
    rounds(driver, [old], [new])
    assert (len(old.owned), len(new.owned)) == (2, 2)
    new.leave()
    rounds(driver, [old], [])
    assert driver.state.groups["g"].kind == "consumer"
    assert old.owned == [0, 1, 2, 3]


def test_without_leave_to_migrate_classic_members_cannot_join() -> None:
    driver = driver_with(frozenset())
    Consumer(driver, "new").beat()
    answer = driver.join(protocols=Classic(driver).protocols()).response
    assert answer.error_code == E.INCONSISTENT_GROUP_PROTOCOL


def test_other_types_and_other_bytes_stay_classic() -> None:
    driver = driver_with()
    member = driver.join(protocol_type="connect").response.member_id
    driver.join(member, protocol_type="connect")
    assert Consumer(driver, "new").beat() is E.GROUP_ID_NOT_FOUND
    other = driver_with()
    member = other.join(protocols=[("range", b"?")]).response.member_id
    other.join(member, protocols=[("range", b"?")])
    assert Consumer(other, "new").beat() is E.GROUP_ID_NOT_FOUND


def test_an_empty_group_changes_both_ways() -> None:
    driver = driver_with(frozenset())
    new = Consumer(driver, "new")
    new.beat()
    new.leave()
    old = Classic(driver)
    rounds(driver, [old], [])
    assert driver.state.groups["g"].kind == "classic"
    assert len(old.owned) == 4
    driver.leave((old.id, None))
    new = Consumer(driver, "new2")
    new.beat()
    assert driver.state.groups["g"].kind == "consumer"
    assert len(new.owned) == 4
    driver.reload()
    assert driver.state.groups["g"].kind == "consumer"


def test_a_write_that_fails_leaves_the_group_as_it_was() -> None:
    driver = driver_with()
    old = Classic(driver)
    rounds(driver, [old], [])
    driver.fail_writes = E.COORDINATOR_NOT_AVAILABLE
    assert Consumer(driver, "new").beat() is E.COORDINATOR_NOT_AVAILABLE
    driver.fail_writes = None
    assert driver.state.groups["g"].kind == "classic"
    rounds(driver, [old], [])
    assert len(old.owned) == 4


def test_a_static_member_changes_its_protocol() -> None:
    driver = driver_with()
    old = Classic(driver, instance="i")
    rounds(driver, [old], [])
    new = Consumer(driver, "new", instance="i")
    settle([new])
    assert len(new.owned) == 4
    assert driver.heartbeat(old.id, old.generation, "i") is E.FENCED_INSTANCE_ID
    again = Classic(driver, instance="i")
    rounds(driver, [again], [])
    assert driver.state.groups["g"].kind == "classic"
    assert len(again.owned) == 4


def test_while_the_next_assignment_has_to_wait_classic_members_are_left_in_peace() -> None:
    """Joining again would change nothing yet."""
    driver = driver_with(assignment_interval_ms=5_000)
    old, new = Classic(driver), Consumer(driver, "new")
    rounds(driver, [old], [])
    new.beat()
    rounds(driver, [old], [new], 11)
    third = Consumer(driver, "third")
    rounds(driver, [old], [new, third], 8)
    Consumer(driver, "fourth").beat()
    assert driver.group.stored.epoch > driver.group.stored.assignment_epoch
    assert driver.heartbeat(old.id, old.generation) is E.NONE
    assert driver.sync(old.id, old.generation).response.error_code == E.NONE
    driver.pass_ms(5_000)
    assert driver.heartbeat(old.id, old.generation) is E.REBALANCE_IN_PROGRESS


def test_who_is_asked_to_join_has_to() -> None:
    driver = driver_with(session_timeout_ms=100_000)
    old = Classic(driver)
    rounds(driver, [old], [])
    new = Consumer(driver, "new")
    new.beat()
    for _ in range(13):
        driver.wait(5_000)
        driver.heartbeat(old.id, old.generation)
        new.beat()
    assert old.id not in driver.group.members
    assert len(new.owned) == 4


def test_who_joined_but_could_not_be_written_down_is_not_waited_for() -> None:
    driver = driver_with()
    new = Consumer(driver, "new")
    settle([new])
    member_id = driver.join().response.member_id
    driver.fail_writes = E.COORDINATOR_NOT_AVAILABLE
    assert driver.join(member_id, rebalance_ms=5_000).response is E.COORDINATOR_NOT_AVAILABLE
    driver.fail_writes = None
    driver.wait(10_000)
    assert list(driver.group.join_by) == []
    assert set(driver.group.members) == {"new"}


def test_a_failover_before_the_rebalance_of_who_is_left_does_not_forget_it() -> None:
    driver = driver_with()
    old = Classic(driver)
    rounds(driver, [old], [])
    new = Consumer(driver, "new")
    rounds(driver, [old], [new])
    new.leave()
    driver.reload()
    assert driver.state.groups["g"].kind == "classic"
    rounds(driver, [old], [])
    assert old.owned == [0, 1, 2, 3]


@pytest.mark.invariant("G7")
def test_what_a_classic_member_has_yet_to_give_up_is_not_free_after_two_changes() -> None:
    """The new member leaves and another comes, all before the classic one has heard of anything."""
    driver = driver_with()
    old = Classic(driver)
    rounds(driver, [old], [])
    assert old.owned == [0, 1, 2, 3]
    brief, next_one = Consumer(driver, "brief"), Consumer(driver, "next")
    brief.beat()
    brief.leave()
    assert driver.state.groups["g"].kind == "classic"
    next_one.beat()
    assert not next_one.owned
    rounds(driver, [old], [next_one])
    assert (len(old.owned), len(next_one.owned)) == (2, 2)


def test_an_assignment_that_could_not_be_written_after_the_change_is_asked_for_again() -> None:
    driver = driver_with()
    old = Classic(driver)
    rounds(driver, [old], [])
    new = Consumer(driver, "new")
    rounds(driver, [old], [new])
    new.leave()
    driver.fail_writes = E.COORDINATOR_NOT_AVAILABLE
    code = driver.heartbeat(old.id, old.generation)
    assert code is E.REBALANCE_IN_PROGRESS
    joined = driver.join(old.id, protocols=old.protocols()).response
    assert driver.sync(old.id, joined.generation_id, {old.id: b""}).response is E.COORDINATOR_NOT_AVAILABLE
    driver.fail_writes = None
    rounds(driver, [old], [])
    assert old.owned == [0, 1, 2, 3]
