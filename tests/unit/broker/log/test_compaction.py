"""Compaction: the newest value of each key stays, offsets and sequences stay, the rest goes in its time."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.broker.log.background import CancelledWork, Throttle
from rookery.broker.log.cleaning import CleanedGroup, CleaningJob, begin_cleaning, cleaning_plan, put_in_place
from rookery.broker.log.compaction import (
    BatchSweep,
    CleanableSegment,
    CompactionPolicy,
    OffsetMap,
    grouped,
    is_due,
    plan,
)
from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.partition_log import Isolation, PartitionLog
from rookery.broker.log.producer_state import NOT_VERIFIED
from rookery.broker.log.retention import Retention
from rookery.core.config.options import LONG_MAX
from rookery.core.log import LogConfig, names
from rookery.core.testing.disk import MemoryDisk, PowerCut
from rookery.core.types import TopicPartition
from rookery.core.wire.markers import EndMarker, build_marker
from rookery.core.wire.records import Codec, batches, read_header, read_records, rewrite_batch, stamp
from tests.unit.broker.log.batches import NOW, batch
from tests.unit.broker.log.table import table, visible

TP = TopicPartition("users", 0)
COMPACT = TopicLogConfig(
    log=LogConfig(segment_bytes=400, index_interval_bytes=64),
    compact=True,
    retention=Retention(False, -1, -1),
    compaction=CompactionPolicy(0.0, 0, LONG_MAX),
    delete_retention_ms=1000,
)


def new_disk(seed: int = 1) -> MemoryDisk:
    disk = MemoryDisk(random.Random(seed))
    disk.mkdir("/d")
    return disk


def opened(
    disk: MemoryDisk, config: TopicLogConfig = COMPACT, *, recovery_point: int = 0, high_watermark: int = 0
) -> PartitionLog:
    return PartitionLog.open(
        disk,
        "/d/users-0",
        TP,
        config,
        recovery_point=recovery_point,
        high_watermark=high_watermark,
        now_ms=NOW,
    )


def put(log: PartitionLog, key: bytes, value: bytes | None, *, at: int = NOW) -> int:
    offset = log.append_as_leader(batch(1, keys=[key], values=[value], timestamp=at), 0, NOW).base_offset
    log.advance_high_watermark(log.end_offset)
    return offset


def roll(log: PartitionLog) -> None:
    log.roll(NOW)


def clean(log: PartitionLog, now_ms: int = NOW, memory: int = 1 << 20) -> bool:
    """One pass of the cleaner over the log; False if there was nothing worth doing."""
    found = cleaning_plan(log, now_ms)
    if found is None:
        return False
    job = begin_cleaning(log, found, memory_bytes=memory, throttle=Throttle(1e12), now_ms=now_ms)
    job.prepare()
    while (group := job.next_group()) is not None:
        old = put_in_place(log, group, now_ms)
        assert old is not None
        log.segment_log.flush()
        for segment in old:
            segment.remove_files(names.DELETED)
    log.clean_offset = job.end
    return True


def offsets(log: PartitionLog) -> list[int]:
    return [record.offset for record in visible(log)]


@pytest.mark.row(44)
def test_the_last_value_of_each_key_stays_at_its_offset() -> None:
    log = opened(new_disk())
    for n in range(12):
        put(log, b"k%d" % (n % 3), b"v%d" % n)
    roll(log)
    put(log, b"k0", b"new")  # in the active segment, which is never touched
    before = table(log)
    assert clean(log)
    assert offsets(log) == [9, 10, 11, 12]
    assert table(log) == before
    assert log.end_offset == 13
    roll(log)
    clean(log)
    assert len(log.segment_log.segments) == 2, "small segments became one"
    assert table(log) == before


@pytest.mark.row(44)
def test_a_tombstone_stays_for_delete_retention_and_then_goes() -> None:
    log = opened(new_disk())
    put(log, b"a", b"1")
    put(log, b"b", b"1")
    put(log, b"a", None)
    put(log, b"c", b"1")
    roll(log)
    clean(log, NOW)
    assert offsets(log) == [1, 2, 3], "the value went, the tombstone is still to be read"
    put(log, b"x", b"1")
    roll(log)
    clean(log, NOW + 999)
    assert 2 in offsets(log)
    put(log, b"y", b"1")
    roll(log)
    clean(log, NOW + 1000)
    assert 2 not in offsets(log)
    assert b"a" not in table(log)


@pytest.mark.invariant("T2")
def test_the_last_batches_of_a_producer_keep_their_sequences() -> None:
    disk = new_disk()
    log = opened(disk)
    for n in range(4):
        log.append_as_leader(batch(2, keys=[b"a", b"a"], producer_id=7, sequence=2 * n), 0, NOW)
    log.advance_high_watermark(log.end_offset)
    put(log, b"a", b"last")
    roll(log)
    put(log, b"z", b"1")
    clean(log)
    assert offsets(log) == [8, 9]
    for name in disk.list("/d/users-0"):
        if name.endswith(names.SNAPSHOT):
            disk.remove(f"/d/users-0/{name}")
    disk.restart()
    log = opened(disk)
    for sequence in (0, 2, 4, 6):
        again = log.append_as_leader(batch(2, keys=[b"a", b"a"], producer_id=7, sequence=sequence), 0, NOW)
        assert (again.duplicate, again.base_offset) == (True, sequence)
    assert not log.append_as_leader(batch(1, producer_id=7, sequence=8), 0, NOW).duplicate


@pytest.mark.invariant("T2")
def test_retries_are_known_after_compaction_and_truncation() -> None:
    log = opened(new_disk())
    sent = [batch(1, keys=[b"a"], producer_id=7, sequence=n) for n in range(8)]
    for data in sent[:3]:
        log.append_as_leader(bytearray(data), 0, NOW)
    roll(log)
    log.advance_high_watermark(log.end_offset)
    for data in sent[3:]:
        log.append_as_leader(bytearray(data), 0, NOW)
    assert clean(log)
    log.truncate_to(4, NOW)  # now the first four are the last ones again
    for offset, data in enumerate(sent[:4]):
        again = log.append_as_leader(bytearray(data), 1, NOW)
        assert (again.duplicate, again.base_offset) == (True, offset)


def test_aborted_data_goes_and_its_marker_later() -> None:
    log = opened(new_disk())

    def transaction(commit: bool, sequence: int, key: bytes) -> None:
        data = batch(1, keys=[key], producer_id=5, sequence=sequence, transactional=True)
        log.append_as_leader(data, 0, NOW, NOT_VERIFIED)
        built = build_marker(EndMarker(commit, 0), producer_id=5, producer_epoch=0, timestamp=NOW)
        log.append_own(built, 0, NOW)
        log.advance_high_watermark(log.end_offset)

    put(log, b"a", b"0")
    transaction(False, 0, b"a")
    transaction(True, 1, b"b")
    transaction(True, 2, b"b")
    roll(log)
    put(log, b"q", b"1")
    before = table(log)
    clean(log, NOW)
    assert table(log) == before == {b"a": b"0", b"b": b"v0", b"q": b"1"}
    aborted = next(header for header in log.segment_log.headers(0) if header.base_offset == 1)
    assert aborted.record_count == 0, "the record is gone, the sequence is kept"
    markers = [header.base_offset for header in log.segment_log.headers(0) if header.control]
    assert markers == [2, 4, 6]
    log.expire_producers(NOW + 10**9, 1)  # no retry is to be known any more
    for n in range(3):  # first their empty batches go, then their markers get a horizon
        roll(log)
        put(log, b"r", b"%d" % n)
        clean(log, NOW + n)
    roll(log)
    put(log, b"s", b"1")
    clean(log, NOW + 2000)
    markers = [h.base_offset for h in log.segment_log.headers(0) if h.control and h.record_count]
    assert markers == [6], "only the transaction with data left keeps its marker"
    assert table(log).items() >= before.items()


def test_an_abort_before_the_dirty_part_hides_nothing_behind_it() -> None:
    log = opened(new_disk(), replace(COMPACT, log=LogConfig()))
    put(log, b"a", b"old")
    for sequence, commit in ((0, False), (1, True)):
        data = batch(1, keys=[b"a"], producer_id=5, sequence=sequence, transactional=True)
        log.append_as_leader(data, 0, NOW, NOT_VERIFIED)
        built = build_marker(EndMarker(commit, 0), producer_id=5, producer_epoch=0, timestamp=NOW)
        log.append_own(built, 0, NOW)
    log.advance_high_watermark(log.end_offset)
    roll(log)
    put(log, b"z", b"1")
    log.clean_offset = 3  # the aborted transaction lies before, in the same segment
    assert clean(log)
    assert offsets(log) == [3, 5]


def test_what_the_map_does_not_cover_is_left_alone() -> None:
    covered = OffsetMap(1 << 20)
    covered.latest_offset = 9
    sweep = BatchSweep(covered, {}, now_ms=NOW, delete_retention_ms=0)
    stored = batch(3, keys=[None, b"a", b"b"], values=[b"1", None, b"2"])
    stamp(stored, 0, 10, 0)
    header = read_header(stored)
    expired = rewrite_batch(header, read_records(stored), NOW - 1)
    for each in (stored, expired):
        kept = sweep.sweep(each, 0, read_header(each))
        assert kept is not None
        assert [record.offset for record in read_records(kept)] == [10, 11, 12]


@pytest.mark.invariant("P15")
def test_nothing_is_cleaned_from_an_open_transaction_on() -> None:
    log = opened(new_disk())
    put(log, b"a", b"0")
    put(log, b"a", b"1")
    roll(log)
    log.append_as_leader(batch(1, keys=[b"a"], producer_id=5, sequence=0, transactional=True), 0, NOW, NOT_VERIFIED)
    log.append_as_leader(batch(1, keys=[b"a"]), 0, NOW)
    log.append_as_leader(batch(1, keys=[b"a"]), 0, NOW)
    log.advance_high_watermark(log.end_offset)
    roll(log)
    clean(log)
    kept = [header.base_offset for header in log.segment_log.headers(0)]
    assert kept == [1, 2, 3, 4], "only the segment below the last stable offset was cleaned"


@pytest.mark.invariant("P15")
def test_nothing_is_cleaned_above_the_high_watermark() -> None:
    log = opened(new_disk())
    for n in range(8):
        log.append_as_leader(batch(1, keys=[b"a"], values=[b"%d" % n]), 0, NOW)
    roll(log)
    assert not clean(log)
    log.advance_high_watermark(log.segment_log.segments[1].base_offset)
    clean(log)
    assert log.segment_log.segments[0].next_offset == log.segment_log.segments[1].base_offset
    kept = [header.base_offset for header in log.segment_log.headers(0)]
    assert kept[0] == log.segment_log.segments[1].base_offset - 1
    assert kept[1:] == list(range(log.segment_log.segments[1].base_offset, 8))


@pytest.mark.parametrize("codec", Codec)
def test_batches_stay_readable_in_every_codec(codec: Codec) -> None:
    log = opened(new_disk())
    for n in range(6):
        keys: list[bytes | None] = [b"k%d" % ((n + i) % 4) for i in range(3)]
        log.append_as_leader(batch(3, keys=keys, codec=codec), 0, NOW)
    log.advance_high_watermark(log.end_offset)
    roll(log)
    before = table(log)
    clean(log)
    assert table(log) == before
    assert len(visible(log)) == 4


def test_a_full_map_cleans_as_far_as_it_reaches() -> None:
    log = opened(new_disk())
    for n in range(30):
        put(log, b"key-%d" % (n % 10), b"v%d" % n)
    roll(log)
    before = table(log)
    assert clean(log, memory=4 * 176)
    first = log.clean_offset
    assert first is not None
    assert 4 <= first < 30
    rounds = 1
    while (log.clean_offset or 0) < 30:
        previous = log.clean_offset or 0
        clean(log, memory=4 * 176)
        assert (log.clean_offset or 0) > previous
        rounds += 1
    assert rounds > 2
    assert table(log) == before
    assert len(offsets(log)) < 30


def test_records_without_a_key_go() -> None:
    log = opened(new_disk())
    log.append_as_leader(batch(2, keys=[None, b"a"]), 0, NOW)
    put(log, b"b", b"1")
    roll(log)
    put(log, b"c", b"1")
    clean(log)
    assert offsets(log) == [1, 2, 3]


def test_damage_is_not_copied() -> None:
    disk = new_disk()
    log = opened(disk)
    for n in range(6):
        put(log, b"a", b"%d" % n)
    roll(log)
    path = log.segment_log.segments[0].log_path
    content = bytearray(disk.read(path))
    content[100] ^= 1
    disk.edit(path, content)
    with pytest.raises(Exception, match="damaged"):
        clean(log)
    assert not any(n.endswith(names.SWAP) for n in disk.list("/d/users-0"))


def _twelve_puts() -> tuple[MemoryDisk, PartitionLog]:
    disk = new_disk()
    log = opened(disk)
    put(log, b"only here", b"1")
    for n in range(12):
        put(log, b"k%d" % (n % 3), b"v%d" % n)
    roll(log)
    put(log, b"z", b"1")
    log.segment_log.flush()
    return disk, log


def test_a_cancelled_attempt_removes_its_files() -> None:
    disk, log = _twelve_puts()
    found = cleaning_plan(log, NOW)
    assert found is not None
    job = begin_cleaning(log, found, memory_bytes=1 << 20, throttle=Throttle(1e12), now_ms=NOW)
    job.prepare()
    job.next_group()
    job.revoked.set()
    with pytest.raises(CancelledWork):
        job.next_group()
    assert not [n for n in disk.list("/d/users-0") if n.endswith(names.CLEANED)]


def test_unfinished_files_of_an_earlier_attempt_do_not_mislead_recovery() -> None:
    """A crash anywhere in a replacement, with a `.cleaned` file left behind by an attempt before it."""
    finished = False
    for step in range(40):
        disk, log = _twelve_puts()
        before, end, point = table(log), log.end_offset, log.segment_log.recovery_point
        disk.open("/d/users-0/00000000000000000099.log.cleaned", create=True)
        found = cleaning_plan(log, NOW)
        assert found is not None
        job = begin_cleaning(log, found, memory_bytes=1 << 20, throttle=Throttle(1e12), now_ms=NOW)
        job.prepare()
        group = job.next_group()
        assert group is not None
        disk.cut_after(step)
        try:
            put_in_place(log, group, NOW)
            finished = True
        except (PowerCut, OSError):
            finished = False
        disk.restart()
        log = opened(disk, recovery_point=point, high_watermark=end)
        assert (log.end_offset, table(log)) == (end, before), step
    assert finished


def test_the_offset_map_keeps_short_and_long_keys_apart() -> None:
    found = OffsetMap(1 << 20)
    found.put(b"x" * 15, 1)
    found.put(b"x" * 16, 2)
    found.put(b"x" * 17, 3)
    found.put(b"x" * 16, 4)
    assert [found.get(b"x" * n) for n in (14, 15, 16, 17)] == [-1, 1, 4, 3]
    assert len(found) == 3


SEGMENTS = [
    CleanableSegment(0, 10, 100, 8, 1000, 1500),
    CleanableSegment(10, 20, 100, 8, 2000, 2500),
    CleanableSegment(20, 30, 100, 8, 3000, 3500),
    CleanableSegment(30, 35, 50, 8, 4000, 4500),
]


def planned(**how: int) -> tuple[int, int, int, int]:
    policy = CompactionPolicy(0.5, how.pop("min_lag", 0), how.pop("max_lag", LONG_MAX))
    found = plan(
        SEGMENTS,
        policy,
        checkpoint=how.get("checkpoint"),
        log_start_offset=0,
        log_end_offset=35,
        last_stable_offset=how.get("stable", 35),
        now_ms=how.get("now", 5000),
    )
    return found.first_dirty, found.end, found.clean_bytes, found.dirty_bytes


@pytest.mark.row(44)
def test_what_is_dirty_and_may_be_cleaned() -> None:
    assert planned() == (0, 30, 0, 300), "never the active segment"
    assert planned(checkpoint=20) == (20, 30, 200, 100)
    assert planned(stable=15) == (0, 10, 0, 100), "a segment with an unstable record is left alone"
    assert planned(min_lag=2000) == (0, 20, 0, 200), "records younger than min.compaction.lag.ms"
    assert planned(checkpoint=99) == (0, 30, 0, 300), "a log that was cut is cleaned anew"


def test_when_cleaning_is_due() -> None:
    def due(checkpoint: int, **how: int) -> bool:
        policy = CompactionPolicy(0.5, 0, how.get("max_lag", LONG_MAX))
        found = plan(
            SEGMENTS,
            policy,
            checkpoint=checkpoint,
            log_start_offset=0,
            log_end_offset=35,
            last_stable_offset=35,
            now_ms=5000,
        )
        return is_due(found, policy)

    assert due(10)
    assert not due(20), "a third is dirty, half is asked for"
    assert due(20, max_lag=1999), "the oldest dirty record waits for 2000 ms"
    assert not due(20, max_lag=2000)
    assert not due(30, max_lag=1), "nothing is dirty"


def test_groups_fit_into_a_segment_and_its_offsets() -> None:
    far = CleanableSegment(2**31 + 15, 2**31 + 29, 1, 0, 0, 0)
    groups = grouped([*SEGMENTS, far], segment_bytes=250, segment_index_bytes=100)
    assert [[s.base_offset for s in group] for group in groups] == [[0, 10], [20, 30], [2**31 + 15]]
    groups = grouped(SEGMENTS, segment_bytes=1000, segment_index_bytes=16)
    assert [len(group) for group in groups] == [2, 2]


def _history(log: PartitionLog, draw: Callable[[int], int], steps: int) -> None:
    """Random puts, tombstones and transactions, always left with no transaction open."""
    sequences = {p: entry.last_sequence + 1 for p, entry in log.store.state.entries.items()}
    open_producers: set[int] = set()

    def finish(producer: int, commit: bool) -> None:
        built = build_marker(EndMarker(commit, 0), producer_id=producer, producer_epoch=0, timestamp=NOW)
        log.append_own(built, 0, NOW)
        open_producers.discard(producer)

    for step in range(steps):
        kind, key = draw(8), b"k%d" % draw(5)
        if kind <= 3:
            value = None if kind == 0 else b"v%d" % step
            log.append_as_leader(batch(1, keys=[key], values=[value], timestamp=NOW + step), 0, NOW)
        elif kind <= 6:
            producer = draw(3)
            sequence = sequences.get(producer, 0)
            keys = [key, b"k%d" % draw(5)]
            sequences[producer] = sequence + 2
            open_producers.add(producer)
            data = batch(2, keys=keys, producer_id=producer, sequence=sequence, transactional=True)
            log.append_as_leader(data, 0, NOW, NOT_VERIFIED)
        elif open_producers:
            finish(min(open_producers), draw(2) == 0)
    for producer in sorted(open_producers):
        finish(producer, draw(2) == 0)
    log.advance_high_watermark(log.end_offset)


@pytest.mark.row(44)
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9))
def test_any_history_reads_the_same_after_any_number_of_passes(seed: int) -> None:
    rng = random.Random(seed)
    disk = new_disk(seed)
    log = opened(disk)
    now = NOW
    for _ in range(3):
        _history(log, rng.randrange, 15)
        roll(log)
        before = table(log)
        now += rng.choice((0, 500, 2000))
        clean(log, now, memory=rng.choice((176 * 3, 1 << 20)))
        assert table(log) == before
        seen = offsets(log)
        assert seen == sorted(seen)
    if log.clean_offset == log.segment_log.active.base_offset:
        keys = [(r.key, r.value) for r in visible(log) if r.offset < log.clean_offset]
        assert len({key for key, _ in keys}) == len(keys), "one record per key"
    state = {p: (e.epoch, e.last_sequence, e.txn_first_offset) for p, e in log.store.state.entries.items()}
    _forget_caches(disk)
    disk.restart()
    log = opened(disk, high_watermark=log.high_watermark)
    assert table(log) == before
    again = {p: (e.epoch, e.last_sequence, e.txn_first_offset) for p, e in log.store.state.entries.items()}
    assert again == state


def _forget_caches(disk: MemoryDisk) -> None:
    for name in disk.list("/d/users-0"):
        if name.endswith((names.SNAPSHOT, names.TXN_INDEX, names.INDEX, names.TIME_INDEX)):
            disk.remove(f"/d/users-0/{name}")


def _prepared(seed: int) -> tuple[MemoryDisk, PartitionLog]:
    disk = new_disk(seed)
    log = opened(disk)
    _history(log, random.Random(seed).randrange, 14)
    roll(log)
    put(log, b"k1", b"after")
    log.segment_log.flush()
    log.store.save()
    return disk, log


@pytest.mark.row(44)
@pytest.mark.invariant("S2", "S12")
@pytest.mark.parametrize("kind", ["kill", "power"])
def test_a_crash_at_any_step_of_compaction_leaves_the_same_log(kind: str) -> None:
    disk, log = _prepared(3)
    start = disk.steps
    clean(log)
    total = disk.steps - start
    assert total > 20
    for step in range(total):
        disk, log = _prepared(3)
        before, end, watermark = table(log), log.end_offset, log.high_watermark
        point = log.segment_log.recovery_point
        disk.cut_after(step)
        with pytest.raises((PowerCut, OSError)):
            clean(log)
        if kind == "power":
            disk.power_cut()
        else:
            disk.restart()
        log = opened(disk, recovery_point=point, high_watermark=watermark)
        assert log.end_offset == end, step
        assert table(log) == before, step
        left = [n for n in disk.list("/d/users-0") if n.endswith((names.CLEANED, names.SWAP, names.DELETED))]
        assert left == [], step
        log.append_as_leader(batch(1, keys=[b"k1"]), 0, NOW)
        assert clean(log) or log.segment_log.segments[0] is log.segment_log.active


def _one_group(log: PartitionLog) -> tuple[CleaningJob, CleanedGroup]:
    found = cleaning_plan(log, NOW)
    assert found is not None
    job = begin_cleaning(log, found, memory_bytes=1 << 20, throttle=Throttle(1e12), now_ms=NOW)
    job.prepare()
    group = job.next_group()
    assert group is not None
    return job, group


def test_a_log_that_was_cut_meanwhile_is_not_replaced() -> None:
    disk, log = _twelve_puts()
    job, group = _one_group(log)
    second = log.segment_log.segments[1].base_offset
    log.truncate_to(second - 1, NOW)
    put(log, b"other", b"?" * 2)  # the segment may well have the size it had
    roll(log)
    put(log, b"z", b"1")
    before = table(log)
    assert put_in_place(log, group, NOW) is None
    job.discard(group)
    assert table(log) == before
    assert not [n for n in disk.list("/d/users-0") if n.endswith(names.CLEANED)]


def test_a_log_that_lost_segments_to_retention_meanwhile_is_not_replaced() -> None:
    _, log = _twelve_puts()
    _, group = _one_group(log)
    log.delete_records(log.segment_log.segments[1].base_offset)
    log.delete_old_segments(NOW)
    before = table(log)
    assert put_in_place(log, group, NOW) is None
    assert table(log) == before


@pytest.mark.row(44)
def test_compact_and_delete_together() -> None:
    both = replace(COMPACT, retention=Retention(True, 100, -1))
    log = opened(new_disk(), both)
    put(log, b"old", b"1", at=NOW)
    roll(log)
    put(log, b"a", b"1", at=NOW + 1000)
    put(log, b"a", b"2", at=NOW + 1000)
    roll(log)
    put(log, b"b", b"1", at=NOW + 1000)
    log.delete_old_segments(NOW + 1050)
    clean(log, NOW + 1050)
    assert table(log) == {b"a": b"2", b"b": b"1"}
    assert log.start_offset == 1


def test_a_cleaned_segment_is_found_by_offset() -> None:
    log = opened(new_disk())
    for n in range(40):
        put(log, b"k%d" % (n % 7), b"v%d" % n)
    roll(log)
    clean(log)
    for offset in range(40):
        read = log.read(offset, 1, Isolation.HIGH_WATERMARK)
        first = next(header for _, header in batches(read.data))
        assert first.last_offset >= offset
