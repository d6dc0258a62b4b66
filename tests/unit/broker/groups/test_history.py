"""The history of a group: who came, went and why, what moved, and how long it took."""

from rookery.broker.groups.history import KEPT, Event, History
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.leave_group import LeaveGroupRequest, MemberIdentity
from rookery.core.wire.consumer_protocol import (
    ASSIGNMENT,
    Assignment,
    TopicPartitions,
    assigned_partitions,
    to_bytes,
)
from tests.unit.broker.groups.consumer.driver import Consumer, ConsumerDriver, settle
from tests.unit.broker.groups.driver import GROUP, Caller, Driver


def taken(driver: Driver) -> list[Event]:
    return [event for event in driver.state.groups[GROUP].history.take() if not event.is_detail]


def test_a_group_of_the_consumer_protocol() -> None:
    driver = ConsumerDriver()
    driver.cluster.make("t", 2)
    a, b = Consumer(driver, "a"), Consumer(driver, "b", rebalance_ms=5_000)
    settle([a])
    assert taken(driver) == [
        Event("joined", "a", "client"),
        Event("assigned", more={"moved": 0, "new": 2, "moves": []}),
    ]
    b.beat()
    driver.pass_ms(700)
    settle([a, b])
    assert taken(driver) == [
        Event("joined", "b", "client"),
        Event("assigned", more={"moved": 1, "new": 0, "moves": ["t-1: a -> b"]}),
        Event("stable", more={"ms": 700}),
    ]
    b.leave()
    settle([a])
    assert [event[:3] for event in taken(driver)] == [
        ("removed", "b", "left"), ("assigned", "", ""), ("stable", "", ""),
    ]  # fmt: skip
    driver.pass_ms(60_000)
    driver.run(driver.state.on_time(GROUP, driver.now))
    assert [event[:3] for event in taken(driver)] == [
        ("removed", "a", "no heartbeat within the session timeout"),
    ]  # fmt: skip


def test_a_classic_group() -> None:
    def gives(*partitions: int) -> bytes:
        given = Assignment(assigned_partitions=[TopicPartitions(topic="t", partitions=partitions)])
        return to_bytes(ASSIGNMENT, 1, given)

    driver = Driver()
    a, joined = driver.join_known()
    driver.wait(driver.options.initial_rebalance_delay_ms)
    driver.sync(a, joined.response.generation_id, {a: gives(0, 1)})
    assert taken(driver) == [
        Event("joined", a, "client"),
        Event("assigned", more={"moved": 0, "new": 2, "moves": []}),
        Event("stable", more={"ms": driver.options.initial_rebalance_delay_ms}),
    ]
    b, _ = driver.join_known()
    driver.wait(200)
    joined = driver.join(a)
    driver.sync(a, joined.response.generation_id, {a: gives(0), b: gives(1)})
    assert taken(driver) == [
        Event("joined", b, "client"),
        Event("assigned", more={"moved": 1, "new": 0, "moves": [f"t-1: {a} -> {b}"]}),
        Event("stable", more={"ms": 200}),
    ]
    driver.wait(60_000)
    assert {event[:3] for event in taken(driver)} >= {
        ("removed", a, "no heartbeat within the session timeout"),
        ("removed", b, "no heartbeat within the session timeout"),
    }


def test_a_member_that_leaves_says_why() -> None:
    driver = Driver()
    (a, b) = driver.stable(2)
    taken(driver)
    leaving = [MemberIdentity(member_id=a, reason="poll " * 100), MemberIdentity(member_id=b)]
    driver.run(driver.state.leave(LeaveGroupRequest(group_id=GROUP, members=leaving), Caller(), driver.now))
    assert [event[:3] for event in taken(driver) if event.what == "removed"] == [
        ("removed", a, f"left: {'poll ' * 20}"), ("removed", b, "left"),
    ]  # fmt: skip


def test_a_long_list_of_moves_is_cut_and_what_cannot_be_written_is_forgotten() -> None:
    history = History()
    history.assigned({"a": range(100)}, {"b": range(100)}, str)
    (event,) = history.take()
    assert event.more["moved"] == 100
    assert event.more["moves"] == [f"{number}: a -> b" for number in range(20)]
    for _ in range(2 * KEPT):
        history.add(Event("joined"))
    assert len(history.take()) == KEPT
    history.add(Event("joined"))
    history.forget()
    assert history.take() == []


def test_assignments_that_are_none_hold_no_partitions() -> None:
    assert assigned_partitions(b"\0") == frozenset()
    raw = to_bytes(ASSIGNMENT, 0, Assignment(assigned_partitions=[TopicPartitions(topic="t", partitions=[3])]))
    assert assigned_partitions(raw) == {TopicPartition("t", 3)}
