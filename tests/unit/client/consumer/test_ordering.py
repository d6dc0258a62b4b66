"""The parallel runner's order: one at a time per key, and only finished prefixes."""

from collections.abc import Callable, Hashable
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rookery.client.consumer.ordering import Order, by_key, by_partition
from rookery.client.types import Record, TopicPartition


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from([b"a", b"b", None])), max_size=40),
    st.integers(1, 5),
    st.sampled_from([by_key, by_partition, None]),
    st.integers(0, 2**32).map(Random),
)
def test_order_and_finished_prefixes(
    shape: list[tuple[int, bytes | None]],
    concurrency: int,
    lane: Callable[[Record[Any, Any]], Hashable] | None,
    draw: Random,
) -> None:
    order = Order(lane)
    ends = [0, 0, 0]
    todo = []
    for partition, key in shape:
        todo.append(Record("t", partition, ends[partition], 0, key, b"", leader_epoch=1))
        ends[partition] += 1
    running: list[Record[Any, Any]] = []
    begun: list[Record[Any, Any]] = []
    handled: set[tuple[int, int]] = set()
    while todo or order.unfinished:
        if todo and draw.random() < 0.5:
            order.add(todo.pop(0))
        while order.running < concurrency and (record := order.next()) is not None:
            if lane is not None:
                assert lane(record) not in {lane(each) for each in running}
            running.append(record)
            begun.append(record)
        if running:
            done = running.pop(draw.randrange(len(running)))
            order.handled(done)
            handled.add((done.partition, done.offset))
        for tp, offset in order.finished().items():
            assert all((tp.partition, n) in handled for n in range(offset.offset))
    assert {tp.partition: each.offset for tp, each in order.finished().items()} == {
        n: end for n, end in enumerate(ends) if end
    }
    if lane is not None:
        for name in {lane(each) for each in begun}:
            offsets = [each.offset for each in begun if lane(each) == name]
            assert offsets == sorted(offsets)


def test_a_failed_record_is_never_passed() -> None:
    order = Order(by_key)
    for offset in range(4):
        order.add(Record("t", 0, offset, 0, b"k%d" % (offset % 2), b""))
    first, second = order.next(), order.next()
    assert first is not None
    assert second is not None
    order.handled(second)
    order.failed(first)
    third = order.next()
    assert third is not None
    assert third.offset == 3
    order.handled(third)
    assert order.next() is None
    assert order.finished() == {}


def test_partitions_that_go_leave_nothing_behind() -> None:
    order = Order(by_partition)
    for partition in (0, 1):
        for offset in range(3):
            order.add(Record("t", partition, offset, 0, None, b""))
    gone = TopicPartition("t", 0)
    first = order.next()
    assert first is not None
    assert first.partition == 0
    order.drop_waiting([gone])
    order.handled(first)
    assert order.finished([gone])[gone].offset == 1
    order.forget([gone])
    assert order.unfinished == 3


def test_a_partition_that_comes_back_is_handled_again() -> None:
    order = Order(by_key)
    record = Record("t", 0, 0, 0, b"k", b"")
    order.add(record)
    order.drop_waiting([TopicPartition("t", 0)])
    order.forget([TopicPartition("t", 0)])
    assert order.unfinished == 0
    order.add(record)
    assert order.next() == record


def test_a_dropped_record_makes_way_for_those_of_other_partitions_in_its_lane() -> None:
    order = Order(lambda record: record.key)
    other = Record("t", 1, 0, 0, b"k", b"")
    order.add(Record("t", 0, 0, 0, b"k", b""))
    order.add(other)
    order.drop_waiting([TopicPartition("t", 0)])
    assert order.next() == other
