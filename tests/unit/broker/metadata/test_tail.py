"""What a broker fetched but may not use yet."""

import pytest

from rookery.broker.metadata.tail import ForkedError, Tail
from rookery.core.errors import CorruptMessageError
from rookery.core.metadata_log import SnapshotId
from rookery.core.wire.records import Record, build_batch


def batch(offset: int, *values: bytes, epoch: int = 1, control: bool = False) -> bytes:
    records = [Record(offset + index, 5, b"\0\0\0\2" if control else None, v) for index, v in enumerate(values)]
    return bytes(build_batch(records, leader_epoch=epoch, control=control))


def test_values_are_given_once_they_are_committed() -> None:
    tail = Tail()
    tail.append(batch(0, b"", control=True) + batch(1, b"a", b"b") + batch(3, b"c", epoch=2))
    assert (tail.end_offset, tail.end_epoch, tail.committed) == (4, 2, 0)
    assert [found.values for found in tail.take(2)] == [], "half a batch is not committed"
    assert [found.values for found in tail.take(3)] == [(b"a", b"b")]
    assert [found.values for found in tail.take(100)] == [(b"c",)]
    assert (tail.committed, tail.size) == (4, 0)


def test_records_that_came_twice_count_once_and_gaps_are_noticed() -> None:
    tail = Tail()
    tail.append(batch(0, b"a"))
    tail.append(batch(0, b"a") + batch(1, b"b"))
    assert [found.values for found in tail.take(2)] == [(b"a",), (b"b",)]
    with pytest.raises(CorruptMessageError, match="2 to 5 are missing"):
        tail.append(batch(5, b"x"))


def test_damaged_records_are_not_taken() -> None:
    data = bytearray(batch(0, b"a"))
    data[-2] ^= 1
    tail = Tail()
    with pytest.raises(CorruptMessageError):
        tail.append(bytes(data))
    with pytest.raises(CorruptMessageError):
        tail.append(bytes(data[:30]))
    assert tail.end_offset == 0


def test_what_the_leader_does_not_have_is_forgotten_unless_it_was_committed() -> None:
    tail = Tail()
    tail.append(batch(0, b"a") + batch(1, b"old", epoch=1) + batch(2, b"old", epoch=1))
    tail.take(1)
    tail.truncate(1, 1)
    assert (tail.end_offset, tail.end_epoch, tail.size) == (1, 1, 0)
    tail.append(batch(1, b"new", epoch=2))
    assert [found.values for found in tail.take(2)] == [(b"new",)]
    with pytest.raises(ForkedError, match="records up to 2 of epoch 2 were committed"):
        tail.truncate(1, 2)
    with pytest.raises(ForkedError):
        tail.truncate(5, 1)


@pytest.mark.invariant("M12")
def test_records_of_an_epoch_that_the_leader_does_not_have_are_forgotten_wherever_they_end() -> None:
    tail = Tail()
    tail.append(batch(0, b"a") + batch(1, b"b") + batch(2, b"lost", epoch=2) + batch(3, b"lost", epoch=3))
    tail.take(1)
    tail.truncate(9, 2)
    assert (tail.end_offset, tail.end_epoch) == (3, 2)
    tail.truncate(9, 1)
    assert (tail.end_offset, tail.end_epoch) == (2, 1)
    tail.drop_uncommitted()
    assert (tail.end_offset, tail.size) == (1, 0)


def test_a_snapshot_replaces_everything() -> None:
    tail = Tail()
    tail.append(batch(0, b"a"))
    tail.restart_at(SnapshotId(50, 4))
    assert (tail.committed, tail.end_offset, tail.end_epoch, tail.size) == (50, 50, 4, 0)
