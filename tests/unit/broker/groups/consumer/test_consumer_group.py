"""Rules of a group of the consumer protocol, one by one."""

from functools import partial
from typing import Any

import pytest

from rookery.broker.groups.consumer.member import TopicIdPartition
from rookery.broker.groups.consumer.records import ConsumerRecord
from rookery.broker.groups.group_state import ConsumerOptions, GroupOptions
from rookery.broker.groups.listing import described_consumer
from rookery.broker.groups.members import Identity
from rookery.broker.groups.step import Instant
from rookery.core.errors import (
    ErrorCode,
    IllegalGenerationError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnsupportedVersionError,
)
from tests.unit.broker.groups.consumer.driver import Consumer, ConsumerDriver, settle

E = ErrorCode


def driver_with(partitions: int = 4, **options: Any) -> ConsumerDriver:
    options.setdefault("assignment_interval_ms", 0)
    driver = ConsumerDriver(options=GroupOptions(consumer=ConsumerOptions(**options)))
    driver.cluster.make("t", partitions)
    return driver


def group_of(driver: ConsumerDriver, count: int) -> list[Consumer]:
    consumers = [Consumer(driver, f"m{number}") for number in range(count)]
    settle(consumers)
    return consumers


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member": ""}, E.INVALID_REQUEST),
        ({"member": "m", "group": ""}, E.INVALID_REQUEST),
        ({"member": "m", "instance": ""}, E.INVALID_REQUEST),
        ({"member": "m", "rack": ""}, E.INVALID_REQUEST),
        ({"member": "m", "epoch": -3}, E.INVALID_REQUEST),
        ({"member": "m", "epoch": -2}, E.INVALID_REQUEST),
        ({"member": "", "epoch": 1, "version": 0}, E.INVALID_REQUEST),
        ({"member": "m", "rebalance_ms": -1}, E.INVALID_REQUEST),
        ({"member": "m", "owned": None}, E.INVALID_REQUEST),
        ({"member": "m", "topics": None}, E.INVALID_REQUEST),
        ({"member": "m", "assignor": "mine"}, E.UNSUPPORTED_ASSIGNOR),
        ({"member": "m", "topics": (), "regex": "(?=a)"}, E.INVALID_REGULAR_EXPRESSION),
        ({"member": "m", "epoch": 1}, E.GROUP_ID_NOT_FOUND),
        ({"member": "m", "epoch": -1}, E.GROUP_ID_NOT_FOUND),
    ],
)
def test_requests_that_cannot_be_meant(fields: dict[str, Any], code: ErrorCode) -> None:
    driver = driver_with()
    given = {"topics": ("t",), "owned": (), "rebalance_ms": 1000, **fields}
    assert driver.beat(**given) is code
    assert not driver.log
    assert not driver.state.groups


def test_the_first_member_gets_everything_at_once() -> None:
    driver = driver_with()
    answer = driver.join_new("", "t", version=0)
    assert answer.member_id == "1"
    assert answer.member_epoch == 1
    assert [len(topic.partitions) for topic in answer.assignment.topic_partitions] == [4]
    assert answer.heartbeat_interval_ms == 5000
    assert driver.state_name == "Stable"


@pytest.mark.invariant("G7")
def test_a_partition_is_given_when_its_owner_has_let_go() -> None:
    driver = driver_with()
    first, second = Consumer(driver, "a"), Consumer(driver, "b")
    first.beat()
    second.beat()
    assert (first.epoch, second.epoch) == (1, 2)
    assert second.owned == frozenset()
    assert driver.state_name == "Reconciling"
    first.beat()
    assert len(first.owned) == 2
    assert first.epoch == 1
    second.beat()
    assert second.owned == frozenset(), "the first has not shown yet that it let go"
    first.beat()
    assert first.epoch == 2
    second.beat()
    assert len(second.owned) == 2
    assert not first.owned & second.owned
    assert driver.state_name == "Stable"


@pytest.mark.invariant("G11")
def test_a_heartbeat_that_changes_nothing_writes_nothing() -> None:
    driver = driver_with()
    consumers = group_of(driver, 3)
    written = len(driver.log)
    for _ in range(5):
        for consumer in consumers:
            assert consumer.beat().assignment is None
    assert len(driver.log) == written


@pytest.mark.parametrize("epoch", [0, 1, 5])
def test_a_wrong_epoch_is_fenced(epoch: int) -> None:
    driver = driver_with()
    (consumer,) = group_of(driver, 1)
    consumer.topics = ("t", "u")
    driver.beat("m0", 1, topics=("t", "u"))
    driver.beat("m0", 2, topics=("t",))
    assert driver.group.members["m0"].current.epoch == 3
    answer = driver.join_new("m0", "t") if epoch == 0 else driver.beat("m0", epoch)
    if epoch == 0:
        assert answer.member_epoch == 3, "who joins again is welcome"
    else:
        assert answer is E.FENCED_MEMBER_EPOCH
    assert driver.beat("other", 3) is E.UNKNOWN_MEMBER_ID


@pytest.mark.invariant("G10")
def test_a_lost_answer_costs_only_time() -> None:
    driver = driver_with()
    (consumer,) = group_of(driver, 1)
    driver.cluster.grow("t", 6)
    driver.topics_changed()
    consumer.beat(lose_answer=True)
    assert consumer.epoch == 1
    assert driver.group.members["m0"].current.epoch == 2
    consumer.beat()
    assert consumer.epoch == 2
    assert len(consumer.owned) == 6
    # The previous epoch counts only with what the member may have.
    stranger = TopicIdPartition(next(iter(consumer.owned)).topic_id, 99)
    assert driver.beat("m0", 1, owned=[stranger]) is E.FENCED_MEMBER_EPOCH
    assert driver.beat("m0", 1) is E.FENCED_MEMBER_EPOCH


@pytest.mark.invariant("G7")
def test_a_late_copy_of_a_heartbeat_frees_nothing() -> None:
    """It says what the member had when it was sent, in an epoch that the member has left since."""
    driver = driver_with()
    first, second = group_of(driver, 2)
    epoch, owned = first.epoch, first.owned
    second.leave()
    settle([first])
    assert len(first.owned) == 4
    third = Consumer(driver, "m2")
    third.beat()
    assert driver.beat("m0", epoch, owned=owned) is E.FENCED_MEMBER_EPOCH
    first.beat()
    assert driver.beat("m0", epoch, owned=owned) is E.FENCED_MEMBER_EPOCH
    third.beat()
    assert third.owned == frozenset(), "the first has not given up anything yet"
    settle([first, third])
    assert (len(first.owned), len(third.owned)) == (2, 2)


@pytest.mark.invariant("G8", "G10")
def test_a_member_that_has_more_to_give_up_stays_in_its_epoch() -> None:
    """So a lost answer costs only time here, too."""
    driver = driver_with(6)
    first, second = group_of(driver, 1)[0], Consumer(driver, "m1")
    second.beat()
    first.beat()
    Consumer(driver, "m2").beat()
    assert len(first.owned) == 3
    first.beat(lose_answer=True)
    current = driver.group.members["m0"].current
    assert (current.epoch, len(current.assigned), len(current.pending)) == (1, 2, 1)
    (shown,) = (each for each in described_consumer(driver.state, "g").members if each.member_id == "m0")
    assert sum(len(each.partitions) for each in shown.assignment.topic_partitions) == 3, "all that it may still have"
    first.beat()
    assert (first.epoch, len(first.owned)) == (1, 2)
    first.beat()
    assert first.epoch == 3


@pytest.mark.invariant("G13")
def test_more_to_give_up_is_more_time_to_do_it() -> None:
    driver = driver_with(session_timeout_ms=100_000)
    slow = Consumer(driver, "slow", rebalance_ms=5_000)
    slow.beat()
    Consumer(driver, "m1").beat()
    slow.beat()
    Consumer(driver, "m2").beat()
    driver.wait(4_000)
    slow.beat()
    driver.wait(4_999)
    assert "slow" in driver.group.members
    driver.wait(1)
    assert "slow" not in driver.group.members


def test_who_subscribes_to_less_while_giving_up_keeps_nothing_of_the_rest() -> None:
    driver = driver_with()
    driver.cluster.make("u", 2)
    first = Consumer(driver, "m0", ("t", "u"))
    first.beat()
    Consumer(driver, "m1", ("t", "u")).beat()
    first.beat()
    assert first.epoch == 1
    t, u = (driver.cluster.known[name].id for name in "tu")
    assert {place.topic_id for place in first.owned} == {t}
    first.topics, first.told = ("u",), None
    first.beat()
    assert first.owned == frozenset()
    assert first.epoch == 1, "it has not shown yet that it gave them up"
    settle([first])
    assert first.epoch == driver.group.stored.epoch
    assert {place.topic_id for place in first.owned} == {u}


@pytest.mark.invariant("G13")
def test_silence_frees_what_a_member_had() -> None:
    driver = driver_with(session_timeout_ms=10_000)
    first, second = group_of(driver, 2)
    driver.wait(6_000)
    first.beat()
    driver.wait(3_999)
    assert set(driver.group.members) == {"m0", "m1"}
    driver.wait(1)
    assert set(driver.group.members) == {"m0"}
    first.beat()
    assert len(first.owned) == 4
    assert second.beat() is E.UNKNOWN_MEMBER_ID
    assert second.owned == frozenset()


@pytest.mark.invariant("G13")
def test_who_does_not_give_up_partitions_in_time_is_removed() -> None:
    driver = driver_with(session_timeout_ms=100_000)
    slow = Consumer(driver, "slow", rebalance_ms=5_000)
    slow.beat()
    other = Consumer(driver, "other")
    other.beat()
    slow.beat()
    held = slow.owned
    for _ in range(4):
        driver.wait(1_000)
        driver.beat("slow", 1)  # alive, but it does not say that it let go
    assert "slow" in driver.group.members
    driver.wait(1_000)
    assert "slow" not in driver.group.members
    other.beat()
    assert len(other.owned) == 4
    assert held


def test_a_failover_starts_all_deadlines_anew() -> None:
    driver = driver_with(session_timeout_ms=10_000)
    consumers = group_of(driver, 2)
    driver.wait(9_000)
    driver.reload()
    driver.wait(9_999)
    assert len(driver.group.members) == 2
    written = len(driver.log)
    for consumer in consumers:
        consumer.beat()
    assert len(driver.log) == written, "nobody moves for a failover"


def test_leaving_returns_the_epoch_and_frees_everything() -> None:
    driver = driver_with()
    first, second = group_of(driver, 2)
    answer = second.leave()
    assert (answer.member_epoch, answer.assignment) == (-1, None)
    first.beat()
    assert len(first.owned) == 4
    first.leave()
    assert driver.state_name == "Empty"
    assert not driver.group.stored.owners


@pytest.mark.invariant("G14")
def test_a_static_member_that_returns_moves_nothing() -> None:
    driver = driver_with()
    static, other = Consumer(driver, "s1", instance="i"), Consumer(driver, "o")
    settle([static, other])
    had, epoch = static.owned, driver.group.stored.epoch
    assert driver.join_new("s2", "t", instance="i") is E.UNRELEASED_INSTANCE_ID
    assert static.leave(for_a_while=True).member_epoch == -2
    written = len(driver.log)
    other.beat()
    assert len(driver.log) == written
    again = Consumer(driver, "s2", instance="i")
    again.beat()
    assert again.owned == had
    assert driver.group.stored.epoch == epoch
    assert driver.beat("s1", epoch, instance="i") is E.FENCED_INSTANCE_ID
    assert driver.beat("s1", epoch) is E.UNKNOWN_MEMBER_ID


@pytest.mark.invariant("G10")
def test_a_static_member_whose_join_was_not_answered_joins_again() -> None:
    driver = driver_with()
    static = Consumer(driver, "s1", instance="i")
    static.beat(lose_answer=True)
    static.lost()
    static.beat()
    assert len(static.owned) == 4
    assert driver.group.stored.epoch == 1


def test_a_member_that_changes_its_instance_is_not_found_by_the_old_one() -> None:
    driver = driver_with()
    driver.join_new("s1", "t", instance="i")
    driver.join_new("s1", "t", instance="j")
    assert driver.group.stored.static == {"j": "s1"}
    assert driver.join_new("s2", "t", instance="i").member_epoch == 2


def test_a_static_member_that_stays_away_is_removed() -> None:
    driver = driver_with(session_timeout_ms=10_000)
    static, other = Consumer(driver, "s1", instance="i"), Consumer(driver, "o")
    settle([static, other])
    static.leave(for_a_while=True)
    for _ in range(5):
        driver.wait(2_000)
        other.beat()
    assert set(driver.group.members) == {"o"}
    settle([other])
    assert len(other.owned) == 4


def test_a_full_group_takes_nobody_but_those_it_knows() -> None:
    driver = driver_with(max_size=2)
    group_of(driver, 2)
    assert driver.join_new("new", "t") is E.GROUP_MAX_SIZE_REACHED
    assert driver.join_new("m0", "t").member_epoch == 2


def test_who_subscribes_to_nothing_is_a_member_that_gets_nothing() -> None:
    """A Java client with a pattern of its own (`subscribe(Pattern)`) joins before it knows a topic that matches."""
    driver = driver_with()
    answer = driver.beat("m", topics=(), owned=(), rebalance_ms=1000)
    assert (answer.member_epoch, list(answer.assignment.topic_partitions)) == (1, [])
    assert driver.state_name == "Stable"
    answer = driver.beat("m", 1, topics=("t",))
    assert [len(topic.partitions) for topic in answer.assignment.topic_partitions] == [4]
    second = driver.beat("n", regex="", owned=(), rebalance_ms=1000)
    assert (second.member_epoch, list(second.assignment.topic_partitions)) == (2, [])


def test_partitions_that_are_added_are_assigned_with_the_next_heartbeat() -> None:
    driver = driver_with()
    consumers = group_of(driver, 2)
    driver.cluster.grow("t", 6)
    driver.topics_changed()
    settle(consumers)
    assert sorted(len(consumer.owned) for consumer in consumers) == [3, 3]


def test_targets_are_not_computed_more_often_than_asked_for() -> None:
    driver = driver_with(assignment_interval_ms=1_000)
    first = Consumer(driver, "a")
    first.beat()
    assert len(first.owned) == 4, "the first is computed at once"
    second = Consumer(driver, "b")
    second.beat()
    assert driver.state_name == "Assigning"
    first.beat()
    assert len(first.owned) == 4
    driver.wait(1_000)
    settle([first, second])
    assert driver.state_name == "Stable"
    assert len(second.owned) == 2


def test_an_assignment_of_nothing_is_none_to_wait_for() -> None:
    driver = driver_with(assignment_interval_ms=10_000)
    first = Consumer(driver, "m0", topics=())
    first.beat()
    first.topics, first.told = ("t",), None
    first.beat()
    assert len(first.owned) == 4


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_most_members_choose_the_assignor(assignor: str) -> None:
    driver = driver_with()
    driver.cluster.make("u", 4)
    for number in range(3):
        driver.join_new(f"m{number}", "t", "u", assignor=assignor if number else None)
    assert driver.group.assignor == assignor


def test_regular_expressions_follow_the_topics() -> None:
    driver = driver_with()
    consumer = Consumer(driver, "a", topics=(), regex="t.*")
    consumer.beat()
    assert len(consumer.owned) == 4
    driver.cluster.make("t2", 2)
    driver.cluster.make("x", 2)
    driver.topics_changed()
    consumer.beat()
    assert len(consumer.owned) == 4, "topics were matched a moment ago"
    driver.wait(10_000)
    consumer.beat()
    assert len(consumer.owned) == 6
    driver.beat("a", consumer.epoch, topics=("x",), regex="")
    assert not driver.group.stored.regexes


def test_a_clock_that_was_ahead_does_not_stop_the_matching_of_topics() -> None:
    driver = driver_with()
    consumer = Consumer(driver, "a", topics=(), regex="t.*")
    consumer.beat()
    driver.now = Instant(driver.now.ms, driver.now.wall_ms - 3_600_000)
    driver.cluster.make("t2", 2)
    driver.topics_changed()
    consumer.beat()
    assert len(consumer.owned) == 6


def test_names_and_a_regular_expression_together() -> None:
    driver = driver_with()
    driver.cluster.make("x", 2)
    driver.join_new("a", "x", regex="t")
    assert len(driver.group.members["a"].current.assigned) == 6


@pytest.mark.invariant("G15")
def test_commits_need_an_epoch_in_which_the_member_had_the_partition() -> None:
    driver = driver_with()
    first, second = Consumer(driver, "a"), Consumer(driver, "b")
    first.beat()
    before = first.owned
    settle([first, second])
    group, now = driver.group, driver.now
    kept, moved = first.owned, before - first.owned
    group.check_commit(Identity("a"), 2, now)
    group.check_commit(Identity("a"), 1, now, places=lambda: kept)
    for epoch, places in ((1, moved), (3, kept), (0, kept)):
        with pytest.raises(StaleMemberEpochError):
            group.check_commit(Identity("a"), epoch, now, places=partial(sorted, places))
    with pytest.raises(IllegalGenerationError):
        group.check_commit(Identity("a"), 1, now, places=lambda: moved, transactional=True)
    with pytest.raises(UnknownMemberIdError):
        group.check_commit(Identity(""), -1, now)
    with pytest.raises(UnsupportedVersionError):
        group.check_commit(Identity("a"), 2, now, version=8)
    group.check_commit(Identity(""), -1, now, transactional=True)
    group.check_fetch(None, -1)
    group.check_fetch("a", 2)
    with pytest.raises(StaleMemberEpochError):
        group.check_fetch("a", 1)
    with pytest.raises(UnknownMemberIdError):
        group.check_fetch("c", 1)


def test_while_partitions_are_given_up_they_can_be_committed() -> None:
    driver = driver_with()
    first = Consumer(driver, "a")
    first.beat()
    before = first.owned
    Consumer(driver, "b").beat()
    first.beat()
    driver.group.check_commit(Identity("a"), 1, driver.now, places=lambda: before)


@pytest.mark.invariant("G12")
def test_a_write_that_fails_changes_nothing() -> None:
    driver = driver_with()
    consumers = group_of(driver, 2)
    before = driver.state.as_stored()
    driver.fail_writes = E.COORDINATOR_NOT_AVAILABLE
    assert driver.join_new("new", "t") is E.COORDINATOR_NOT_AVAILABLE
    driver.wait(45_000)
    assert driver.state.as_stored() == before
    driver.fail_writes = None
    for consumer in consumers:
        consumer.beat()
    assert driver.state.as_stored() == before


def test_an_empty_group_of_the_classic_protocol_is_replaced_and_keeps_its_offsets() -> None:
    driver = driver_with()
    member = driver.join().response.member_id
    driver.join(member)
    driver.wait(3_000)
    driver.leave((member, None))
    assert driver.state.groups["g"].kind == "classic"
    driver.join_new("m", "t")
    assert driver.state.groups["g"].kind == "consumer"
    driver.reload()
    assert driver.state.groups["g"].kind == "consumer"


def test_a_group_goes_with_all_its_records() -> None:
    driver = driver_with()
    (consumer,) = group_of(driver, 1)
    driver.beat("m0", consumer.epoch, topics=("t",), regex="t.*")
    consumer.leave()
    latest = {}
    for record in [*driver.log, *driver.group.tombstones()]:
        assert isinstance(record, ConsumerRecord)
        latest[record.kind, record.item] = record.value
    assert set(latest.values()) == {None}


def test_members_come_before_or_after_their_position_in_a_compacted_log() -> None:
    driver = driver_with()
    (consumer,) = group_of(driver, 1)
    driver.beat("m0", consumer.epoch, rack="r")
    last = {(record.kind, record.item): number for number, record in enumerate(driver.log)}  # type: ignore[union-attr]
    before = driver.state.as_stored()
    driver.log = [record for number, record in enumerate(driver.log) if number in last.values()]
    driver.reload()
    assert driver.state.as_stored() == before
