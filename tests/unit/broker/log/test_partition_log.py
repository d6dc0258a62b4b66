"""A partition: log, producers and transactions together."""

import random
from dataclasses import replace

import pytest

from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.partition_log import Isolation, PartitionLog
from rookery.broker.log.producer_state import NOT_VERIFIED
from rookery.broker.log.retention import Reason, Retention
from rookery.core.disk import Buffer
from rookery.core.errors import (
    CorruptMessageError,
    InvalidTimestampError,
    MessageTooLargeError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceNumberError,
)
from rookery.core.log import LogConfig, names
from rookery.core.testing.disk import MemoryDisk
from rookery.core.types import TopicPartition
from rookery.core.wire.markers import EndMarker, build_marker
from rookery.core.wire.records import batches, read_header, read_records
from tests.unit.broker.log.batches import NOW, batch

TP = TopicPartition("orders", 0)
SMALL = TopicLogConfig(log=LogConfig(segment_bytes=200, index_interval_bytes=64))
COMMIT, ABORT = EndMarker(True, 0), EndMarker(False, 0)


def new_disk() -> MemoryDisk:
    disk = MemoryDisk(random.Random(1))
    disk.mkdir("/d")
    return disk


def opened(
    disk: MemoryDisk, config: TopicLogConfig = SMALL, *, clean: bool = False, watermark: int = 0
) -> PartitionLog:
    return PartitionLog.open(
        disk, "/d/orders-0", TP, config, clean=clean, recovery_point=0, high_watermark=watermark, now_ms=NOW
    )


def end(log: PartitionLog, producer_id: int, marker: EndMarker, epoch: int = 0) -> int:
    built = build_marker(marker, producer_id=producer_id, producer_epoch=epoch, timestamp=NOW)
    return log.append_own(built, 0, NOW).base_offset


@pytest.mark.row(14, 15)
@pytest.mark.invariant("T1")
def test_a_retry_is_stored_once_and_answered_with_its_offset() -> None:
    log = opened(new_disk())
    sent = batch(3, producer_id=7, sequence=0)
    first = log.append_as_leader(bytearray(sent), 0, NOW)
    again = log.append_as_leader(bytearray(sent), 0, NOW)
    assert (first.base_offset, first.last_offset, first.duplicate) == (0, 2, False)
    assert (again.base_offset, again.last_offset, again.duplicate) == (0, 2, True)
    assert log.end_offset == 3
    with pytest.raises(OutOfOrderSequenceNumberError):
        log.append_as_leader(batch(producer_id=7, sequence=9), 0, NOW)
    assert log.end_offset == 3


@pytest.mark.invariant("T2")
@pytest.mark.parametrize("clean", [True, False])
def test_producers_are_known_after_a_restart(clean: bool) -> None:
    disk = new_disk()
    log = opened(disk)
    sent = [batch(2, producer_id=7, sequence=2 * n) for n in range(6)]
    offsets = [log.append_as_leader(bytearray(b), 0, NOW).base_offset for b in sent]
    assert len(log.segment_log.segments) > 2
    if clean:
        log.close()
    disk.restart()
    log = opened(disk, clean=clean)
    for data, offset in list(zip(sent, offsets, strict=True))[1:]:
        again = log.append_as_leader(bytearray(data), 0, NOW)
        assert (again.base_offset, again.duplicate) == (offset, True)
    assert not log.append_as_leader(batch(producer_id=7, sequence=12), 0, NOW).duplicate


@pytest.mark.invariant("T2")
@pytest.mark.parametrize("compacted", [True, False])
def test_producers_of_a_compacted_log_are_as_old_as_their_batches_after_a_crash(compacted: bool) -> None:
    """Their last batches may be gone: an older one must not bring them back with its sequence."""
    disk, old = new_disk(), NOW - 100_000
    config = replace(SMALL, compact=compacted)
    log = opened(disk, config)
    log.append_as_leader(batch(producer_id=7, sequence=0, timestamp=old), 0, old)
    log.append_as_leader(batch(producer_id=8, sequence=0, timestamp=NOW - 1000), 0, NOW)
    disk.restart()
    log = opened(disk, config)
    assert log.expire_producers(NOW, 50_000) == ([7] if compacted else [])
    assert 8 in log.store.state.entries
    if compacted:
        assert not log.append_as_leader(batch(producer_id=7, sequence=5), 0, NOW).duplicate


def test_what_a_producer_may_not_send_is_refused() -> None:
    log = opened(new_disk(), replace(SMALL, max_message_bytes=150))
    damaged = batch()
    damaged[-1] ^= 1
    with pytest.raises(CorruptMessageError):
        log.append_as_leader(damaged, 0, NOW)
    with pytest.raises(MessageTooLargeError):
        log.append_as_leader(batch(20), 0, NOW)
    with pytest.raises(InvalidTimestampError):
        log.append_as_leader(batch(timestamp=NOW + 10**9), 0, NOW)
    assert log.end_offset == 0


def test_log_append_time_is_the_brokers_clock() -> None:
    log = opened(new_disk(), replace(SMALL, log_append_time=True))
    stored = log.append_as_leader(batch(2, timestamp=5, producer_id=7, sequence=0), 0, NOW)
    assert stored.log_append_time == NOW
    again = log.append_as_leader(batch(2, timestamp=5, producer_id=7, sequence=0), 0, NOW + 99)
    assert (again.duplicate, again.log_append_time) == (True, NOW)
    data = log.read(0, 10_000, Isolation.LOG_END).data
    assert [record.timestamp for record in read_records(data)] == [NOW, NOW]


@pytest.mark.invariant("P14")
def test_readers_see_up_to_their_bound() -> None:
    log = opened(new_disk(), replace(SMALL, log=LogConfig()))
    log.append_as_leader(batch(2), 0, NOW)
    log.append_as_leader(batch(2, producer_id=1, sequence=0, transactional=True), 0, NOW, NOT_VERIFIED)
    log.append_as_leader(batch(2), 0, NOW)
    assert log.read(0, 10_000, Isolation.HIGH_WATERMARK).data == b""
    log.advance_high_watermark(6)
    assert log.last_stable_offset == 2
    assert log.read(0, 10_000, Isolation.HIGH_WATERMARK).next_offset == 6
    assert log.read(0, 10_000, Isolation.LAST_STABLE).next_offset == 2
    assert log.read(4, 10_000, Isolation.LAST_STABLE).data == b""
    end(log, 1, COMMIT)
    assert log.last_stable_offset == 2, "the marker is not replicated yet"
    log.advance_high_watermark(7)
    assert log.last_stable_offset == 7
    with pytest.raises(OffsetOutOfRangeError):
        log.read(8, 10, Isolation.HIGH_WATERMARK)


def test_aborted_transactions_come_with_the_data() -> None:
    log = opened(new_disk())
    for producer in (1, 2):
        log.append_as_leader(batch(1, producer_id=producer, sequence=0, transactional=True), 0, NOW, NOT_VERIFIED)
    end(log, 1, ABORT)
    log.append_as_leader(batch(6), 0, NOW)
    end(log, 2, ABORT)
    assert len(log.segment_log.segments) > 1, "the second transaction ends in a later segment"
    log.advance_high_watermark(log.end_offset)
    found = log.read(0, 150, Isolation.LAST_STABLE)
    assert [(entry.producer_id, entry.first_offset) for entry in found.aborted or []] == [(1, 0), (2, 1)]
    assert log.read(log.end_offset, 100, Isolation.LAST_STABLE).aborted == []
    assert log.read(0, 100, Isolation.HIGH_WATERMARK).aborted is None


@pytest.mark.invariant("T2")
def test_truncation_takes_producers_and_transactions_back() -> None:
    disk = new_disk()
    log = opened(disk, replace(SMALL, log=LogConfig()))
    for n in range(3):
        log.append_as_leader(batch(1, producer_id=7, sequence=n, transactional=True), 0, NOW, NOT_VERIFIED)
    end(log, 7, ABORT)
    behind = batch(1, producer_id=7, sequence=3, transactional=True)
    after = log.append_as_leader(behind, 0, NOW, NOT_VERIFIED).base_offset
    assert after == 4
    log.truncate_to(4, NOW)
    again = log.append_as_leader(batch(1, producer_id=7, sequence=3, transactional=True), 0, NOW, NOT_VERIFIED)
    assert not again.duplicate
    log.truncate_to(2, NOW)
    assert log.store.state.first_undecided_offset == 0
    assert log.store.aborted(0, 0, 9) == []
    assert disk.size(log.segment_log.active.path(names.TXN_INDEX)) == 0
    assert log.append_as_leader(batch(1, producer_id=7, sequence=1, transactional=True), 0, NOW, NOT_VERIFIED).duplicate
    again = log.append_as_leader(batch(1, producer_id=7, sequence=2, transactional=True), 0, NOW, NOT_VERIFIED)
    assert not again.duplicate


@pytest.mark.row(42, 43)
@pytest.mark.invariant("P15")
def test_retention_deletes_whole_segments_up_to_the_high_watermark() -> None:
    disk = new_disk()
    log = opened(disk)
    for n in range(12):
        log.append_as_leader(batch(2, timestamp=NOW + n * 10), 0, NOW)
    log.config = replace(SMALL, retention=Retention(True, 20, -1))
    assert log.delete_old_segments(NOW + 10_000) == ([], ()), "nothing is committed yet"
    second = log.segment_log.segments[1].base_offset
    log.advance_high_watermark(second + 1)
    taken, reasons = log.delete_old_segments(NOW + 10_000)
    assert (len(taken), reasons) == (1, (Reason.TIME,))
    assert log.start_offset == second
    assert any(name.endswith(".deleted") for name in disk.list("/d/orders-0"))
    with pytest.raises(OffsetOutOfRangeError):
        log.read(0, 100, Isolation.HIGH_WATERMARK)
    log.advance_high_watermark(log.end_offset)
    log.delete_old_segments(NOW + 10_000)
    assert log.start_offset == log.end_offset == 24
    for segment in taken:
        segment.remove_files(names.DELETED)
    log.append_as_leader(batch(), 0, NOW)
    assert log.end_offset == 25


@pytest.mark.invariant("T2")
@pytest.mark.parametrize("clean", [True, False])
def test_producers_are_known_after_all_their_records_are_gone(clean: bool) -> None:
    disk = new_disk()
    log = opened(disk, replace(SMALL, retention=Retention(True, 20, -1)))
    sent = [batch(1, producer_id=7, sequence=n) for n in range(4)]
    for data in sent:
        log.append_as_leader(bytearray(data), 0, NOW)
    log.advance_high_watermark(log.end_offset)
    log.delete_old_segments(NOW + 10_000)
    assert log.start_offset == log.end_offset == 4
    if clean:
        log.close()
    else:
        log.store.save()
    disk.restart()
    log = opened(disk, clean=clean)
    assert log.append_as_leader(bytearray(sent[-1]), 0, NOW).duplicate
    assert not log.append_as_leader(batch(1, producer_id=7, sequence=4), 0, NOW).duplicate


@pytest.mark.invariant("P15")
def test_records_are_deleted_up_to_the_high_watermark_only() -> None:
    log = opened(new_disk())
    log.append_as_leader(batch(6), 0, NOW)
    log.advance_high_watermark(4)
    with pytest.raises(OffsetOutOfRangeError):
        log.delete_records(5)
    assert log.delete_records(3) == 3
    assert log.delete_records(1) == 3, "the log start never goes back"
    assert log.delete_records(-1) == 4
    with pytest.raises(OffsetOutOfRangeError):
        log.read(3, 100, Isolation.HIGH_WATERMARK)


@pytest.mark.row(39)
def test_offsets_are_found_by_time_within_the_readers_bound() -> None:
    log = opened(new_disk())
    for n in range(6):
        log.append_as_leader(batch(2, timestamp=NOW + n * 100), n // 3, NOW)
    last = batch(1, producer_id=1, sequence=0, transactional=True, timestamp=NOW + 900)
    log.append_as_leader(last, 2, NOW, NOT_VERIFIED)
    assert log.offset_for_timestamp(NOW, Isolation.HIGH_WATERMARK) is None, "nothing is committed"
    log.advance_high_watermark(8)
    assert log.offset_for_timestamp(NOW + 101, Isolation.HIGH_WATERMARK) == (3, NOW + 101, 0)
    assert log.offset_for_timestamp(NOW + 350, Isolation.HIGH_WATERMARK) is None
    assert log.offset_for_timestamp(NOW + 350, Isolation.LOG_END) == (8, NOW + 400, 1)
    log.advance_high_watermark(13)
    latest = log.offset_for_timestamp(-1, Isolation.HIGH_WATERMARK)
    stable = log.offset_for_timestamp(-1, Isolation.LAST_STABLE)
    earliest = log.offset_for_timestamp(-2, Isolation.HIGH_WATERMARK)
    assert latest is not None
    assert stable is not None
    assert earliest is not None
    assert (earliest.offset, stable.offset, latest.offset) == (0, 12, 13)
    newest = log.offset_for_timestamp(-3, Isolation.HIGH_WATERMARK)
    assert newest == (12, NOW + 900, 2)


@pytest.mark.invariant("P15")
def test_a_follower_deletes_what_its_leader_deleted_once_it_is_committed() -> None:
    log = opened(new_disk())
    log.append_as_leader(batch(6), 0, NOW)
    log.advance_high_watermark(2)
    log.follow_log_start(4)
    assert log.start_offset == 2
    log.advance_high_watermark(6)
    log.follow_log_start(4)
    assert log.start_offset == 4
    log.follow_log_start(1)
    assert log.start_offset == 4


def test_a_follower_takes_the_leaders_bytes() -> None:
    leader, follower = opened(new_disk()), opened(new_disk())
    for n in range(9):
        leader.append_as_leader(batch(2, producer_id=7, sequence=2 * n), n // 3, NOW)
    offset = 0
    while offset < leader.end_offset:
        found = leader.read(offset, 10_000, Isolation.LOG_END)
        follower.append_as_follower(bytes(found.data), NOW)
        offset = found.next_offset
    assert follower.end_offset == leader.end_offset
    assert follower.store.state.entries == leader.store.state.entries
    assert follower.segment_log.epochs.entries == leader.segment_log.epochs.entries
    again = follower.append_as_leader(batch(2, producer_id=7, sequence=16), 9, NOW)
    assert again.duplicate, "a follower that becomes leader knows the retry"


def test_a_follower_that_gets_several_segments_at_once_keeps_a_snapshot_for_each() -> None:
    leader = opened(new_disk(), replace(SMALL, log=LogConfig()))
    for n in range(12):
        leader.append_as_leader(batch(2, producer_id=7, sequence=2 * n), 0, NOW)
    disk = new_disk()
    follower = opened(disk)
    follower.append_as_follower(bytes(leader.read(0, 10**6, Isolation.LOG_END).data), NOW)
    bases = [segment.base_offset for segment in follower.segment_log.segments]
    assert len(bases) > 3
    assert sorted(follower.store.unsaved) == bases[1:]
    follower.close()
    assert opened(disk, clean=True).store.state.entries == leader.store.state.entries


async def test_snapshots_are_written_off_the_loop_and_survive() -> None:
    disk = new_disk()
    log = opened(disk)
    for n in range(9):
        log.append_as_leader(batch(2, producer_id=7, sequence=2 * n), 0, NOW)
    bases = [segment.base_offset for segment in log.segment_log.segments[1:]]
    await log.store.save_async()
    assert log.store.unsaved == {}
    on_disk = [names.base_offset_of(name, names.SNAPSHOT) for name in disk.list("/d/orders-0")]
    assert [offset for offset in on_disk if offset is not None] == bases


async def test_a_snapshot_that_became_wrong_while_it_was_written_is_removed() -> None:
    class SlowDisk(MemoryDisk):
        async def replace(self, path: str, data: Buffer) -> None:
            await super().replace(path, data)
            if log.end_offset > 1:
                log.truncate_to(1, NOW)

    disk = SlowDisk(random.Random(1))
    disk.mkdir("/d")
    log = opened(disk)
    for n in range(9):
        log.append_as_leader(batch(1, producer_id=7, sequence=n), 0, NOW)
    assert log.store.unsaved
    await log.store.save_async()
    assert [name for name in disk.list("/d/orders-0") if name.endswith(names.SNAPSHOT)] == []


def test_reads_return_whole_batches_with_their_headers() -> None:
    log = opened(new_disk())
    for _ in range(3):
        log.append_as_leader(batch(4), 5, NOW)
    log.advance_high_watermark(12)
    data = log.read(6, 1, Isolation.HIGH_WATERMARK).data
    assert [header.base_offset for _, header in batches(data)] == [4]
    assert read_header(data).partition_leader_epoch == 5


def test_a_transaction_that_nobody_ends_is_noticed() -> None:
    log = opened(new_disk())
    assert not log.has_late_transaction(NOW, 100)
    log.append_as_leader(batch(1, producer_id=7, sequence=0, transactional=True), 0, NOW, NOT_VERIFIED)
    assert not log.has_late_transaction(NOW + 100, 100)
    assert log.has_late_transaction(NOW + 101, 100)
    log.append_as_leader(batch(1, producer_id=7, sequence=1, transactional=True), 0, NOW + 60, NOT_VERIFIED)
    assert not log.has_late_transaction(NOW + 101, 100), "it is idle since its last batch"
    end(log, 7, EndMarker(False, 0))
    assert not log.has_late_transaction(NOW + 1000, 100)
