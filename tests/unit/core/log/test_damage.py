"""Damage to closed segments: seen at start without reading them, met by every read, and never served."""

import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from rookery.core.errors import CorruptMessageError
from rookery.core.log import Log, LogConfig, LogCorrupt, names
from rookery.core.testing.disk import MemoryDisk
from rookery.core.wire.batch import HEADER_SIZE, batches, read_header, write_header
from rookery.core.wire.records import Record
from tests.unit.core.log.sample import FOLDER, batch, disk, everything, opened, records_of

SMALL = LogConfig(segment_bytes=900, index_interval_bytes=100)
BATCHES = 70
HIT = 2
"""The number of the segment that is damaged."""


def written(on: MemoryDisk) -> list[Record]:
    """A log of several closed segments with some index entries each, closed in order; its records."""
    log = opened(on, SMALL)
    for number in range(BATCHES):
        log.append_as_leader(batch([b"%03d" % number, b"x"], timestamps=[number, number]), 1, 0)
    records = everything(log)
    assert len(log.segments) > HIT + 2
    log.close()
    return records


def paths(on: MemoryDisk, suffix: str = ".log") -> list[str]:
    return [f"{FOLDER}/{name}" for name in on.list(FOLDER) if name.endswith(suffix)]


def _batch_at(on: MemoryDisk, number: int) -> tuple[int, int]:
    """Where the batch of this number in the damaged segment begins and ends."""
    starts = [pos for pos, _ in batches(on.read(paths(on)[HIT]))]
    return [*pairwise([*starts, len(on.read(paths(on)[HIT]))])][number]


def hole(on: MemoryDisk) -> None:
    start, end = _batch_at(on, 3)
    content = on.read(paths(on)[HIT])
    on.edit(paths(on)[HIT], content[:start] + content[end:])


def hole_and_no_index(on: MemoryDisk) -> None:
    hole(on)
    for suffix in (names.INDEX, names.TIME_INDEX):
        on.remove(paths(on, suffix)[HIT])


def first_batch_gone(on: MemoryDisk) -> None:
    on.edit(paths(on)[HIT], on.read(paths(on)[HIT])[_batch_at(on, 0)[1] :])


def missing(on: MemoryDisk) -> None:
    on.remove(paths(on)[HIT])


def emptied(on: MemoryDisk) -> None:
    on.edit(paths(on)[HIT], b"")


def last_batch_gone(on: MemoryDisk) -> None:
    on.edit(paths(on)[HIT], on.read(paths(on)[HIT])[: _batch_at(on, -1)[0]])


def torn(on: MemoryDisk) -> None:
    on.edit(paths(on)[HIT], on.read(paths(on)[HIT])[:-7])


def junk(on: MemoryDisk) -> None:
    on.edit(paths(on)[HIT], on.read(paths(on)[HIT]) + b"\0" * 100)


def twice(on: MemoryDisk) -> None:
    start, end = _batch_at(on, 3)
    content = on.read(paths(on)[HIT])
    on.edit(paths(on)[HIT], content[:end] + content[start:])


SEEN_AT_START = [
    hole, hole_and_no_index, first_batch_gone, missing, emptied, last_batch_gone, torn, twice,
]  # fmt: skip
Damage = Callable[[MemoryDisk], None]


def expect_refused_after_a_prefix(log: Log, records: list[Record]) -> None:
    """All before the damage is served, then an error, and nothing is passed over."""
    found: list[Record] = []

    def read_all() -> None:
        offset = log.start_offset
        while offset < log.end_offset:
            got = log.read(offset, 150)
            found.extend(records_of(got.data))
            offset = got.next_offset

    with pytest.raises(LogCorrupt, match="rebuild"):
        read_all()
    assert found == records[: len(found)]
    assert 2 * HIT <= len(found) < len(records)


@pytest.mark.invariant("S3")
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", SEEN_AT_START)
def test_start_sees_damage_to_a_closed_segment_and_changes_nothing(damage: Damage, clean: bool) -> None:
    on = disk()
    records = written(on)
    damage(on)
    before = {name: on.read(f"{FOLDER}/{name}") for name in on.list(FOLDER)}
    log = opened(on, SMALL, clean=clean, recovery_point=2 * BATCHES)
    assert log.damage is not None
    expect_refused_after_a_prefix(log, records)
    behind = log.segments[HIT + 1].base_offset
    assert everything(log, behind) == [record for record in records if record.offset >= behind]
    logs = {name: content for name, content in before.items() if name.endswith(".log")}
    assert all(on.read(f"{FOLDER}/{name}") == content for name, content in logs.items())
    log.append_as_leader(batch([b"goes on"]), 2, 0)
    assert everything(log, 2 * BATCHES)[0].value == b"goes on"


@pytest.mark.invariant("S3")
def test_junk_behind_the_last_batch_is_reported_and_not_served() -> None:
    on = disk()
    records = written(on)
    junk(on)
    log = opened(on, SMALL, clean=True, recovery_point=2 * BATCHES)
    assert log.damage is not None
    assert everything(log) == records
    log = opened(on, SMALL, clean=True, recovery_point=2 * BATCHES)
    assert everything(log, max_bytes=10_000) == records


@pytest.mark.invariant("S3", "S5")
@pytest.mark.parametrize("suffix", [names.INDEX, names.TIME_INDEX])
@pytest.mark.parametrize("kept", [None, 0, 8, 13])
def test_a_damaged_index_is_no_damage(suffix: str, kept: int | None) -> None:
    on = disk()
    records = written(on)
    path = paths(on, suffix)[HIT]
    if kept is None:
        on.remove(path)
    else:
        on.edit(path, on.read(path)[:kept] + b"\xff" * (8 if kept else 0))
    log = opened(on, SMALL, clean=True, recovery_point=2 * BATCHES)
    assert log.damage is None
    assert everything(log, max_bytes=200) == records


@pytest.mark.invariant("S3")
@pytest.mark.parametrize("damage", [hole, first_batch_gone, emptied, last_batch_gone, torn, twice])
@pytest.mark.parametrize("read_before", [False, True])
def test_a_read_meets_damage_done_while_the_log_is_open(damage: Damage, read_before: bool) -> None:
    on = disk()
    records = written(on)
    log = opened(on, SMALL, clean=True, recovery_point=2 * BATCHES)
    if read_before:
        assert everything(log) == records
    damage(on)
    expect_refused_after_a_prefix(log, records)


@pytest.mark.invariant("S3")
def test_one_read_over_a_hole_ends_before_it() -> None:
    on = disk()
    written(on)
    log = opened(on, SMALL, clean=True, recovery_point=2 * BATCHES)
    segment = log.segments[HIT]
    segment.load()
    hole(on)
    on.edit(segment.log_path, on.read(segment.log_path).ljust(segment.size, b"?"))
    got = log.read(segment.base_offset, segment.size - 100)
    assert got.next_offset == segment.base_offset + 6
    assert [record.offset for record in records_of(got.data)] == list(range(segment.base_offset, got.next_offset))
    with pytest.raises(LogCorrupt, match="stands where"):
        log.read(got.next_offset, 200)


@pytest.mark.invariant("S3")
def test_damage_reported_by_others_ends_what_is_served() -> None:
    """As the scrubber finds it: a checksum is wrong, which a read does not see."""
    on = disk()
    records = written(on)
    log = opened(on, SMALL, clean=True, recovery_point=2 * BATCHES)
    segment = log.segments[HIT]
    start, _ = _batch_at(on, 3)
    log.set_damaged(LogCorrupt(segment.log_path, start, "the checksum is wrong"))
    expect_refused_after_a_prefix(log, records)
    with pytest.raises(LogCorrupt):
        log.truncate_to(log.segments[HIT].base_offset + 1)
    assert log.damage is not None
    log.take_old(2 * BATCHES, lambda one, _: one.base_offset <= segment.base_offset)
    assert log.damage is None, "what was damaged is gone"


@pytest.mark.invariant("S3")
def test_a_segment_that_the_device_cannot_read_is_damaged_not_the_disk() -> None:
    on = disk()
    written(on)
    on.fail("read", paths(on)[HIT].rpartition("/")[2], times=1)
    log = opened(on, SMALL, clean=True, recovery_point=2 * BATCHES)
    assert log.segments[HIT].damage is not None
    assert log.segments[HIT + 1].damage is None


@pytest.mark.invariant("S3")
def test_start_costs_the_same_for_large_and_small_segments() -> None:
    class Counting(MemoryDisk):
        reads = 0

        def meet(self, operation: str, path: str) -> None:
            self.reads += operation == "read"
            super().meet(operation, path)

    reads = []
    for count in (20, 200):
        on = Counting(random.Random(0))
        config = LogConfig(segment_bytes=count * 80, index_interval_bytes=100)
        log = opened(on, config)
        for number in range(count * 5):
            log.append_as_leader(batch([b"%06d" % number]), 1, 0)
        log.close()
        segments = len(log.segments)
        on.reads = 0
        opened(on, config, clean=True, recovery_point=count * 5)
        reads.append(on.reads / segments)
    assert max(reads) < 8


def test_compaction_leaves_gaps_that_are_no_damage() -> None:
    on = disk()
    log = opened(on, SMALL)
    for number in range(BATCHES):
        log.append_as_follower(batch([b"%03d" % number], base_offset=number + 5 * (number > 20), epoch=1), 0)
    assert log.sparse
    records = everything(log)
    log.close()
    for clean in (True, False):
        again = opened(on, SMALL, clean=clean, recovery_point=BATCHES + 5)
        assert again.sparse
        assert again.damage is None
        assert everything(again, max_bytes=200) == records
        again.close()
    on.remove(f"{FOLDER}/{names.SPARSE}")
    told = Log.open(on, FOLDER, SMALL, clean=True, recovery_point=BATCHES + 5, sparse=True)
    assert everything(told) == records, "as in a folder that Apache Kafka compacted"
    told.close()
    again = opened(on, SMALL, clean=True, recovery_point=BATCHES + 5)
    assert everything(again) == records, "also when the topic is compacted no longer"
    again.abandon()
    on.remove(f"{FOLDER}/{names.SPARSE}")
    with pytest.raises(LogCorrupt, match="offset 26 stands where 21 is next"):
        everything(opened(on, SMALL, clean=True, recovery_point=BATCHES + 5), max_bytes=1)


def test_that_a_log_has_gaps_is_known_after_a_power_cut() -> None:
    on = disk()
    log = opened(on, SMALL)
    log.append_as_follower(batch([b"a"], base_offset=0, epoch=1), 0)
    log.append_as_follower(batch([b"b"], base_offset=7, epoch=1), 0)
    log.flush()
    on.power_cut()
    on.restart()
    assert opened(on, SMALL, recovery_point=8).sparse
    on.remove(f"{FOLDER}/{names.SPARSE}")
    assert opened(on, SMALL, recovery_point=1).sparse, "a gap in what was not durable is believed"


@pytest.mark.invariant("S1")
@pytest.mark.parametrize("wrong", ["epoch", "count"])
def test_a_follower_refuses_batches_whose_headers_contradict_each_other(wrong: str) -> None:
    log = opened(disk(), SMALL)
    first = batch([b"a"], base_offset=0, epoch=3)
    second = batch([b"b"], base_offset=1, epoch=2 if wrong == "epoch" else 3)
    if wrong == "count":
        write_header(second, read_header(second)._replace(record_count=5))
    with pytest.raises(CorruptMessageError):
        log.append_as_follower(bytes(first + second), 0)
    assert log.end_offset == 0


def test_a_time_is_not_looked_for_in_records_that_cannot_be_read() -> None:
    log = opened(disk(), SMALL)
    malformed = batch([b"abc"], timestamps=[100])
    malformed[HEADER_SIZE:] = b"\xff" * (len(malformed) - HEADER_SIZE)
    write_header(malformed, read_header(malformed))
    log.append_as_leader(malformed, 1, 0)
    for timestamp in (50, -3):
        with pytest.raises(CorruptMessageError, match="cannot be read"):
            log.offset_for_timestamp(timestamp, 1)
