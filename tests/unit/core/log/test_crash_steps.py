"""A power cut before every single step of what changes more than one file: each time, a log that makes sense."""

import random
from collections.abc import Callable

import pytest

from rookery.core.log import Log, LogConfig, Segment, names
from rookery.core.log.checkpoints import RECOVERY_POINTS, read_offsets, write_offsets
from rookery.core.log.ownership import take_marker, write_marker
from rookery.core.testing.disk import MemoryDisk, PowerCut
from rookery.core.types import TopicPartition
from rookery.core.wire.batch import batches
from rookery.core.wire.records import Record
from tests.unit.core.log.sample import FOLDER, batch, everything, opened

SMALL = LogConfig(segment_bytes=250, index_interval_bytes=0)
Check = Callable[[MemoryDisk, bool], None]


def at_every_step(start: Callable[[MemoryDisk], Callable[[], None]], check: Check, seeds: int = 8) -> int:
    """Cut the power before each step of what `start` returns, until it runs through; how often that was."""
    steps = 0
    while True:
        for seed in range(seeds):
            on = MemoryDisk(random.Random(f"{steps}.{seed}"))
            on.mkdir("data")
            act = start(on)
            on.cut_after(steps)
            try:
                act()
                finished = True
            except PowerCut:
                finished = False
            on.power_cut()
            check(on, finished)
        steps += 1
        if finished:
            return steps


def filled(on: MemoryDisk, count: int = 9) -> Log:
    """A flushed log of `count` one-record batches, three to a segment."""
    log = opened(on, SMALL)
    for number in range(count):
        log.append_as_leader(batch([b"value-%d" % number]), 1, 0)
    log.flush()
    return log


def values(log: Log) -> list[bytes]:
    return [record.value or b"" for record in everything(log)]


def expected(start: int, stop: int) -> list[bytes]:
    return [b"value-%d" % number for number in range(start, stop)]


@pytest.mark.invariant("S7")
def test_checkpoints_are_the_old_ones_or_the_new_ones() -> None:
    partition = TopicPartition("orders", 0)

    def start(on: MemoryDisk) -> Callable[[], None]:
        write_offsets(on, f"data/{RECOVERY_POINTS}", {partition: 1})
        return lambda: write_offsets(on, f"data/{RECOVERY_POINTS}", {partition: 2})

    def check(on: MemoryDisk, finished: bool) -> None:
        found = read_offsets(on, f"data/{RECOVERY_POINTS}")[partition]
        assert found == 2 if finished else found in (1, 2)

    assert at_every_step(start, check) > 4


@pytest.mark.invariant("S6")
def test_the_marker_is_found_only_if_everything_before_it_was_durable() -> None:
    def start(on: MemoryDisk) -> Callable[[], None]:
        log = filled(on)
        for number in range(9, 12):
            log.append_as_leader(batch([b"value-%d" % number]), 1, 0)

        def shut_down() -> None:
            log.close()
            write_marker(on, "data", 77)

        return shut_down

    def check(on: MemoryDisk, finished: bool) -> None:
        marker = take_marker(on, "data")
        assert marker in (None, 77)
        assert marker == 77 or not finished
        log = opened(on, SMALL, clean=marker is not None, recovery_point=9)
        assert values(log)[:9] == expected(0, 9)
        assert marker is None or values(log) == expected(0, 12)

    assert at_every_step(start, check) > 10


@pytest.mark.invariant("S6")
def test_a_marker_that_was_taken_never_comes_back() -> None:
    def start(on: MemoryDisk) -> Callable[[], None]:
        write_marker(on, "data", 5)
        taken: list[int | None] = []

        def begin() -> None:
            taken.append(take_marker(on, "data"))
            log = filled(on, 3)  # the first writes after a start
            assert taken == [5]
            assert log.end_offset == 3

        return begin

    def check(on: MemoryDisk, finished: bool) -> None:
        marker = take_marker(on, "data")
        assert not (marker is not None and (finished or on.exists(FOLDER)))
        assert take_marker(on, "data") is None

    at_every_step(start, check)


@pytest.mark.invariant("S4", "S12")
@pytest.mark.row(41)
def test_a_roll_and_its_flush_lose_nothing_durable() -> None:
    points: list[int] = []

    def start(on: MemoryDisk) -> Callable[[], None]:
        log = filled(on, 4)
        points[:] = [log.recovery_point]

        def go_on() -> None:
            for number in range(4, 9):
                log.append_as_leader(batch([b"value-%d" % number]), 1, 0)
            log.flush()
            points[:] = [log.recovery_point]

        return go_on

    def check(on: MemoryDisk, finished: bool) -> None:
        log = opened(on, SMALL, recovery_point=points[0])
        assert points[0] == (9 if finished else 4)
        assert values(log) == expected(0, log.end_offset)
        assert log.end_offset >= points[0]

    assert at_every_step(start, check, 20) > 10


@pytest.mark.invariant("S2")
@pytest.mark.row(63)
def test_truncated_batches_never_come_back_behind_new_ones() -> None:
    def start(on: MemoryDisk) -> Callable[[], None]:
        log = filled(on, 9)

        def truncate_and_go_on() -> None:
            log.truncate_to(4)
            for number in range(2):
                log.append_as_leader(batch([b"new-%d" % number]), 2, 0)
            log.flush()

        return truncate_and_go_on

    def check(on: MemoryDisk, finished: bool) -> None:
        found = values(opened(on, SMALL, recovery_point=4))
        old = [value for value in found if value.startswith(b"value")]
        new = found[len(old) :]
        assert old == expected(0, len(old))
        assert new == [b"new-0", b"new-1"][: len(new)]
        assert len(old) == 4 if new else len(old) >= 4
        assert not finished or len(new) == 2

    assert at_every_step(start, check, 20) > 8


@pytest.mark.invariant("S2")
def test_starting_anew_leaves_a_prefix_or_the_new_log() -> None:
    def start(on: MemoryDisk) -> Callable[[], None]:
        log = filled(on, 9)

        def begin_at_100() -> None:
            log.truncate_fully_and_start_at(100)
            log.append_as_leader(batch([b"new"]), 2, 0)
            log.flush()

        return begin_at_100

    def check(on: MemoryDisk, finished: bool) -> None:
        log = opened(on, SMALL)
        if log.start_offset == 100:
            assert values(log) in ([b"new"], [])
        else:
            assert values(log) == expected(0, log.end_offset)
        assert not finished or values(log) == [b"new"]

    assert at_every_step(start, check) > 5


@pytest.mark.row(42, 43)
def test_old_segments_go_whole_and_in_order() -> None:
    def start(on: MemoryDisk) -> Callable[[], None]:
        log = filled(on, 9)

        def delete() -> None:
            taken = log.take_old(log.end_offset, lambda segment, end: end <= 6)
            log.flush()
            on.sync_dir(FOLDER)
            for segment in taken:
                segment.remove_files(names.DELETED)

        return delete

    def check(on: MemoryDisk, finished: bool) -> None:
        log = opened(on, SMALL)
        assert log.start_offset in (0, 3, 6)
        assert log.start_offset == 6 or not finished
        assert values(log) == expected(log.start_offset, 9)
        assert not [name for name in on.list(FOLDER) if name.endswith(names.DELETED)]

    assert at_every_step(start, check) > 8


def compacted(on: MemoryDisk, log: Log, old: list[Segment]) -> Segment:
    """What a cleaner leaves of `old`: the last record of each, in `.cleaned` files that are durable."""
    cleaned = Segment(on, FOLDER, old[0].base_offset, 0, 0)
    cleaned.start_indexes()
    kept = bytearray()
    for segment in old:
        last = everything(log, segment.next_offset - 1)[0]
        kept += batch([last.value or b""], base_offset=last.offset, epoch=1)
    file = on.open(cleaned.log_path + names.CLEANED, create=True)
    file.write(kept)
    file.sync()
    file.close()
    for position, header in batches(kept):
        cleaned.note(position, header)
    cleaned.size = len(kept)
    cleaned.seal()
    for write in cleaned.index_writes():
        write._replace(path=write.path + names.CLEANED).run(on, sync=True)
    cleaned.indexes_saved()
    on.sync_dir(FOLDER)
    return cleaned


@pytest.mark.invariant("S2")
@pytest.mark.row(44)
def test_segments_are_replaced_all_or_not_at_all() -> None:
    outcomes: set[int] = set()

    def start(on: MemoryDisk) -> Callable[[], None]:
        log = filled(on, 9)
        old = log.segments[:2]

        def replace() -> None:
            log.replace_segments(compacted(on, log, old), old)
            assert values(log) == [b"value-2", b"value-5", *expected(6, 9)]
            log.flush()
            on.sync_dir(FOLDER)

        return replace

    def check(on: MemoryDisk, finished: bool) -> None:
        log = opened(on, SMALL, recovery_point=9)
        found = values(log)
        assert found in (expected(0, 9), [b"value-2", b"value-5", *expected(6, 9)])
        assert len(found) == 5 or not finished
        assert [name for name in on.list(FOLDER) if name.endswith((".cleaned", ".swap", ".deleted"))] == []
        outcomes.add(len(found))
        _reads_everywhere(log)

    assert at_every_step(start, check, 20) > 15
    assert outcomes == {5, 9}


def _reads_everywhere(log: Log) -> None:
    known: list[Record] = everything(log)
    for offset in range(log.start_offset, log.end_offset):
        first = next(record for record in known if record.offset >= offset)
        assert everything(log, offset)[0] == first


def test_a_flush_that_ran_beside_a_truncation_promises_nothing() -> None:
    on = MemoryDisk(random.Random(0))
    log = filled(on, 4)
    for number in range(4, 8):
        log.append_as_leader(batch([b"value-%d" % number]), 1, 0)
    job = log.begin_flush()
    log.truncate_to(5)
    log.append_as_leader(batch([b"other"]), 2, 0)
    log.append_as_leader(batch([b"other"]), 2, 0)
    job.run()
    assert log.flushed(job) == 4
    log.flush()
    assert log.recovery_point == log.end_offset == 7
