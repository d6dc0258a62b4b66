"""Names, formats and rolling: what a person who lists and dumps a partition's folder sees."""

import random
import struct

import pytest

from rookery.core.errors import CorruptMessageError, RecordListTooLargeError
from rookery.core.log import Log, LogConfig, names
from rookery.core.wire.batch import batches, crc_of, read_header
from tests.unit.core.log.sample import FOLDER, batch, disk, everything, opened


@pytest.mark.row(36, 37)
def test_a_partition_is_a_folder_of_segments_named_by_their_first_offset() -> None:
    on = disk()
    log = opened(on, LogConfig(segment_bytes=200))
    for _ in range(5):
        log.append_as_leader(batch([b"x", b"y"]), 0, 0)
    log.close()
    assert on.list(FOLDER) == [
        f"{base:020d}{kind}" for base in (0, 4, 8) for kind in (".index", ".log", ".timeindex")
    ] + ["leader-epoch-checkpoint"]


@pytest.mark.row(34)
def test_batches_are_stored_as_they_came_but_for_offset_and_epoch() -> None:
    on = disk()
    log = opened(on)
    log.append_as_leader(batch([b"x"]), 3, 0)
    sent = batch([b"a", b"b"])
    original = bytes(sent)
    done = log.append_as_leader(sent, 4, 0)
    stored = log.read(1, 1000).data
    assert bytes(stored[16:]) == original[16:]
    assert struct.unpack_from(">qii", stored) == (1, len(original) - 12, 4)
    header = read_header(stored)
    assert header.crc == crc_of(stored, 0, len(stored))
    assert done.batches == [(0, header)]
    assert (done.base_offset, done.last_offset, done.size, done.rolled) == (1, 2, len(original), None)


@pytest.mark.row(38, 39)
def test_index_files_have_kafkas_format() -> None:
    on = disk()
    log = Log.open(on, FOLDER, LogConfig(index_interval_bytes=100), recovery_point=0, log_start_offset=2**40)
    times = [500, 300, 900, 900, 800, 1000]
    sizes = [log.append_as_leader(batch([b"v" * 40], timestamps=[t]), 0, 0).size for t in times]
    log.close()
    size = sizes[0]
    assert 100 < size * 1 < 200
    offsets = [(1, size), (2, 2 * size), (3, 3 * size), (4, 4 * size), (5, 5 * size)]
    base = f"{FOLDER}/{2**40:020d}"
    assert on.read(f"{base}.index") == b"".join(struct.pack(">ii", *entry) for entry in offsets)
    assert on.read(f"{base}.timeindex") == b"".join(
        struct.pack(">qi", *entry) for entry in [(500, 0), (900, 2), (1000, 5)]
    )


@pytest.mark.row(41)
def test_the_log_rolls_when_a_batch_would_make_the_segment_too_large() -> None:
    size = len(batch([b"x"]))
    log = opened(disk(), LogConfig(segment_bytes=3 * size))
    rolled = [log.append_as_leader(batch([b"x"]), 0, 0).rolled for _ in range(7)]
    assert rolled == [None, None, None, 3, None, None, 6]
    assert [segment.size for segment in log.segments] == [3 * size, 3 * size, size]
    with pytest.raises(RecordListTooLargeError):
        log.append_as_leader(batch([b"x" * 3 * size]), 0, 0)
    assert log.end_offset == 7


@pytest.mark.row(41)
def test_the_log_rolls_by_the_time_of_its_records() -> None:
    log = opened(disk(), LogConfig(segment_ms=1000))
    times = [5000, 5900, 6000, 6001, 4000, 7001, 7002]
    rolled = [log.append_as_leader(batch([b"x"], timestamps=[t]), 0, 0).rolled for t in times]
    assert rolled == [None, None, None, 3, None, None, 6]


@pytest.mark.row(41)
def test_without_timestamps_the_clock_decides() -> None:
    log = opened(disk(), LogConfig(segment_ms=1000))
    rolled = [log.append_as_leader(batch([b"x"], timestamps=[-1]), 0, now).rolled for now in (0, 1000, 1001)]
    assert rolled == [None, None, 2]


@pytest.mark.row(41)
def test_jitter_spreads_rolls_below_the_configured_time() -> None:
    config = LogConfig(segment_ms=1000, segment_jitter_ms=500)
    waits = set()
    for seed in range(20):
        log = Log.open(disk(), FOLDER, config, recovery_point=0, rng=random.Random(seed))
        time = 0
        while log.append_as_leader(batch([b"x"], timestamps=[time]), 0, 0).rolled is None:
            time += 10
        waits.add(time)
    assert min(waits) > 500
    assert max(waits) <= 1010
    assert len(waits) > 5


@pytest.mark.row(41)
def test_the_log_rolls_when_an_index_is_full() -> None:
    config = LogConfig(index_interval_bytes=0, segment_index_bytes=48)  # 6 offsets or, keeping one free, 3 times
    for times, batches_a_segment in (([1] * 30, 7), (list(range(30)), 4)):
        log = opened(disk(), config)
        for time in times:
            log.append_as_leader(batch([b"x"], timestamps=[time]), 0, 0)
        assert {s.next_offset - s.base_offset for s in log.segments[:-1]} == {batches_a_segment}


@pytest.mark.row(47)
@pytest.mark.parametrize("first", [2**31 - 2, 2**31, 2**40, 2**62])
def test_offsets_have_64_bits(first: int) -> None:
    on = disk()
    log = Log.open(on, FOLDER, LogConfig(segment_bytes=400), recovery_point=0, log_start_offset=first)
    for _ in range(10):
        log.append_as_leader(batch([b"x", b"y"]), 0, 0)
    log.close()
    again = opened(on, LogConfig(segment_bytes=400), clean=True, log_start_offset=first)
    assert [r.offset for r in everything(again)] == list(range(first, first + 20))
    assert on.exists(f"{FOLDER}/{first:020d}.log")


@pytest.mark.row(47)
def test_a_segment_ends_where_relative_offsets_would_not_fit() -> None:
    log = opened(disk())
    log.append_as_leader(batch([b"x"]), 0, 0)
    far = 2**31 + 5
    log.append_as_follower(batch([b"near"], base_offset=2**31 - 1, epoch=0), 0)
    log.append_as_follower(batch([b"far"], base_offset=far, epoch=0), 0)
    log.append_as_follower(batch([b"further"], base_offset=far * 9, epoch=0), 0)
    assert [segment.base_offset for segment in log.segments] == [0, 2**31, far * 9]
    assert [record.value for record in everything(log)] == [b"x", b"near", b"far", b"further"]


@pytest.mark.invariant("S1")
@pytest.mark.row(34)
def test_damaged_batches_are_not_appended() -> None:
    log = opened(disk())
    good = batch([b"abc"], epoch=1)
    for at in range(len(good)):
        if 0 <= at < 8 or 12 <= at < 16:
            continue  # offset and epoch are the leader's to give
        bad = bytearray(good)
        bad[at] ^= 1
        with pytest.raises(CorruptMessageError):
            log.append_as_leader(bad, 1, 0)
        with pytest.raises(CorruptMessageError):
            log.append_as_follower(bytes(bad), 0)
    assert (log.end_offset, log.size) == (0, 0)


def test_a_follower_keeps_offsets_and_refuses_what_does_not_follow() -> None:
    log = opened(disk(), LogConfig(segment_bytes=200))
    run = bytearray().join(batch([b"r%d" % i], base_offset=10 + 2 * i, epoch=i // 3) for i in range(8))
    done = log.append_as_follower(bytes(run), 0)
    assert (done.base_offset, done.last_offset, done.size) == (10, 24, len(run))
    assert done.rolled == log.active.base_offset
    assert [header for _, header in done.batches] == [header for _, header in batches(run)]
    assert log.epochs.entries == [(0, 10), (1, 16), (2, 22)]
    for late in (0, 24):
        with pytest.raises(CorruptMessageError, match="came where 25 is next"):
            log.append_as_follower(bytes(batch([b"x"], base_offset=late, epoch=2)), 0)


@pytest.mark.row(38, 40)
def test_a_read_looks_at_one_index_entry_and_a_bounded_stretch() -> None:
    class Counting:
        """A file that counts the bytes read."""

        def __init__(self, inner: object) -> None:
            self.inner = inner
            self.reads: list[int] = []

        def __getattr__(self, name: str) -> object:
            return getattr(self.inner, name)

        def pread(self, size: int, position: int) -> bytes:
            self.reads.append(size)
            return bytes(self.inner.pread(size, position))  # type: ignore[attr-defined]

    log = opened(disk(), LogConfig(index_interval_bytes=1000))
    for _ in range(3000):
        log.append_as_leader(batch([b"x" * 30]), 0, 0)
    file = log.active._file = Counting(log.active.file)  # type: ignore[assignment]
    rng = random.Random(4)
    for _ in range(200):
        offset = rng.randrange(3000)
        file.reads.clear()
        assert read_header(log.read(offset, 1, min_one=True).data).base_offset == offset
        assert sum(file.reads) <= 2 * 4096 + 200


def test_files_of_other_parts_are_renamed_and_removed_with_their_segment() -> None:
    on = disk()
    log = opened(on, LogConfig(segment_bytes=200))
    for _ in range(4):
        log.append_as_leader(batch([b"x", b"y"]), 0, 0)
    log.flush()
    first = log.segments[0]
    for kind in (names.TXN_INDEX, names.SNAPSHOT):
        on.open(first.path(kind), create=True).close()
    taken = log.take_old(log.end_offset, lambda segment, end: segment is first)
    assert taken == [first]
    kinds = (".index", ".log", ".snapshot", ".timeindex", ".txnindex")
    assert [n for n in on.list(FOLDER) if n.endswith(".deleted")] == [f"{0:020d}{k}.deleted" for k in kinds]
    first.remove_files(names.DELETED)
    assert not [n for n in on.list(FOLDER) if n.startswith(f"{0:020d}")]


def test_idle_logs_hold_no_files_open() -> None:
    on = disk()
    log = opened(on, LogConfig(segment_bytes=200))
    for _ in range(40):
        log.append_as_leader(batch([b"x", b"y"]), 0, 0)
    log.flush()
    everything(log)
    open_now = [segment for segment in log.segments if segment._file is not None]
    assert len(log.segments) == 20
    assert len(open_now) <= 5
    log.close()
    again = opened(on, LogConfig(segment_bytes=200), clean=True)
    assert [segment for segment in again.segments if segment._file is not None] == []
