"""Batch headers: read, checked and stamped in place, and which batches a broker takes."""

import struct
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.errors import CorruptMessageError, ErrorCode, InvalidTimestampError, KafkaError
from rookery.core.wire.batch import CRC_FROM, crc_of
from rookery.core.wire.compression import Codec
from rookery.core.wire.primitives import WireError
from rookery.core.wire.records import (
    HEADER_SIZE,
    BatchHeader,
    Record,
    batches,
    build_batch,
    check_timestamp,
    read_header,
    read_records,
    stamp,
    stamp_append_time,
    validate_produce_batch,
    validate_replica_batches,
    verify,
)
from tests.unit.core.wire.records_strategies import NOW, some_batch, some_records

ROOM = 64 * 1024


def with_crc(batch: bytearray) -> bytearray:
    struct.pack_into(">I", batch, 17, crc_of(batch, 0, len(batch)))
    return batch


def changed(pos: int, form: str, *values: int, crc: bool = True) -> bytearray:
    batch = some_batch()
    struct.pack_into(form, batch, pos, *values)
    return with_crc(batch) if crc else batch


def produce_code(batch: bytes | bytearray | None) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        validate_produce_batch(batch, ROOM)
    return caught.value.code


@pytest.mark.row(34)
def test_header_fields() -> None:
    batch = build_batch(some_records(4), leader_epoch=7, producer_id=9, producer_epoch=2, base_sequence=11)
    header = read_header(batch)
    assert header == BatchHeader(
        0, len(batch) - 12, 7, 2, crc_of(batch, 0, len(batch)), 0, 3, NOW, NOW + 3, 9, 2, 11, 4
    )
    assert (header.size, header.last_offset, header.next_offset) == (len(batch), 3, 4)
    assert (header.last_sequence, header.codec) == (14, Codec.NONE)
    assert (header.control, header.transactional, header.log_append_time) == (False, False, False)
    assert header.delete_horizon is None


def test_sequences_wrap_to_zero() -> None:
    batch = build_batch(some_records(3), producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    assert read_header(batch).last_sequence == 0
    assert read_header(some_batch()).last_sequence == -1


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1))
def test_stamping_changes_nothing_the_checksum_covers(base_offset: int, epoch: int) -> None:
    batch = some_batch()
    covered = batch[CRC_FROM:]
    stamp(memoryview(batch), 0, base_offset, epoch)
    header = read_header(batch)
    verify(batch, 0, header)
    assert (header.base_offset, header.partition_leader_epoch) == (base_offset, epoch)
    assert batch[CRC_FROM:] == covered


def test_stamping_works_inside_a_larger_buffer_without_a_copy() -> None:
    frame = bytearray(b"before") + some_batch() + b"after"
    view = memoryview(frame)[6:-5]
    header = validate_produce_batch(view, ROOM)
    stamp(view, 0, 500, 3)
    assert read_header(frame[:-5], 6) == header._replace(base_offset=500, partition_leader_epoch=3)
    assert frame.startswith(b"before")
    assert frame.endswith(b"after")


def test_append_time_is_the_time_of_all_records() -> None:
    batch = bytearray(10) + some_batch()
    stamp_append_time(batch, 10, NOW + 5000)
    header = read_header(batch, 10)
    verify(batch, 10, header)
    assert header.log_append_time
    assert (header.base_timestamp, header.max_timestamp) == (NOW, NOW + 5000)
    assert {record.timestamp for record in read_records(batch, 10)} == {NOW + 5000}


def test_batches_are_walked_by_their_lengths() -> None:
    one, two = some_batch(1), some_batch(2)
    stamp(two, 0, 1, 0)
    found = [(pos, header.base_offset, header.record_count) for pos, header in batches(one + two)]
    assert found == [(0, 0, 1), (len(one), 1, 2)]
    assert list(batches(b"")) == []


@pytest.mark.parametrize("kept", [1, 11, 12, 40, HEADER_SIZE, HEADER_SIZE + 5])
def test_a_cut_last_batch_ends_a_fetch_and_fails_elsewhere(kept: int) -> None:
    whole = some_batch(1)
    cut = whole + some_batch(2)[:kept]
    assert [pos for pos, _ in batches(cut, partial_end=True)] == [0]
    with pytest.raises(WireError):
        list(batches(cut))


@pytest.mark.parametrize("length", [-1, 0, 48, -(2**31)])
def test_an_impossible_length_is_refused_even_where_a_cut_is_not(length: int) -> None:
    batch = changed(8, ">i", length, crc=False)
    for partial_end in (False, True):
        with pytest.raises(WireError, match="bytes behind its length field"):
            list(batches(batch, partial_end=partial_end))


@pytest.mark.invariant("S1")
@pytest.mark.row(34)
@pytest.mark.parametrize("codec", Codec)
def test_every_flipped_bit_under_the_checksum_is_a_corrupt_message(codec: Codec) -> None:
    batch = some_batch(2, codec)
    for position in [*range(17, 61), *range(61, len(batch), 7)]:
        for bit in range(8):
            batch[position] ^= 1 << bit
            assert produce_code(batch) is ErrorCode.CORRUPT_MESSAGE, position
            batch[position] ^= 1 << bit
    assert validate_produce_batch(batch, ROOM).record_count == 2


@pytest.mark.row(35)
@pytest.mark.parametrize("magic", [0, 1, 3, 127, -1])
def test_only_magic_two_is_taken(magic: int) -> None:
    batch = changed(16, ">b", magic)
    assert produce_code(batch) is ErrorCode.INVALID_RECORD
    with pytest.raises(WireError, match="magic"):
        read_header(batch)


@pytest.mark.row(35)
def test_old_message_sets_are_refused_by_their_magic() -> None:
    from kafka.record.legacy_records import LegacyRecordBatchBuilder

    for magic in (0, 1):
        old = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=9999)
        old.append(0, timestamp=NOW, key=b"k", value=b"v" * 60)
        assert produce_code(bytes(old.build())) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        (lambda: None, ErrorCode.INVALID_RECORD),
        (lambda: b"", ErrorCode.INVALID_RECORD),
        (lambda: some_batch() + some_batch(), ErrorCode.INVALID_RECORD),
        (lambda: some_batch() + b"\0", ErrorCode.INVALID_RECORD),
        (lambda: some_batch()[:-1], ErrorCode.CORRUPT_MESSAGE),
        (lambda: some_batch()[:40], ErrorCode.CORRUPT_MESSAGE),
        (lambda: some_batch()[:5], ErrorCode.CORRUPT_MESSAGE),
        (lambda: changed(8, ">i", 48), ErrorCode.CORRUPT_MESSAGE),
        (lambda: changed(8, ">i", 2**31 - 1, crc=False), ErrorCode.CORRUPT_MESSAGE),
        (lambda: changed(0, ">q", 5), ErrorCode.INVALID_RECORD),
        (lambda: changed(57, ">i", 2), ErrorCode.INVALID_RECORD),
        (lambda: changed(57, ">i", 0), ErrorCode.INVALID_RECORD),
        (lambda: changed(57, ">i", -1), ErrorCode.INVALID_RECORD),
        (lambda: changed(23, ">i", 7), ErrorCode.INVALID_RECORD),
        (lambda: changed(21, ">h", 0x20), ErrorCode.INVALID_RECORD),  # control
        (lambda: changed(21, ">h", 0x10), ErrorCode.INVALID_RECORD),  # transactional, no producer
        (lambda: changed(21, ">h", 0x40), ErrorCode.INVALID_RECORD),  # delete horizon
        (lambda: changed(21, ">h", 0x08), ErrorCode.INVALID_TIMESTAMP),  # log append time
        (lambda: changed(21, ">h", 5), ErrorCode.INVALID_RECORD),  # no such codec
        (lambda: changed(43, ">qhi", 5, 0, -1), ErrorCode.INVALID_RECORD),
        (lambda: changed(43, ">qhi", 5, -1, 0), ErrorCode.INVALID_RECORD),
        (lambda: build_batch(some_records(5000)), ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
@pytest.mark.row(34)
def test_what_producers_may_not_send(batch: Callable[[], bytearray | None], code: ErrorCode) -> None:
    assert produce_code(batch()) is code


@pytest.mark.parametrize("codec", Codec)
def test_what_producers_send(codec: Codec) -> None:
    idempotent = build_batch(some_records(), codec=codec, producer_id=4, producer_epoch=0, base_sequence=0)
    transactional = build_batch(
        some_records(), codec=codec, producer_id=4, producer_epoch=1, base_sequence=9, transactional=True
    )
    for batch in (some_batch(3, codec), idempotent, transactional):
        for form in (bytes(batch), batch, memoryview(batch), memoryview(bytes(batch))):
            assert validate_produce_batch(form, ROOM).codec == codec


def test_timestamps_near_the_clock_are_taken() -> None:
    header = read_header(some_batch(3))
    check_timestamp(header, NOW, before_max_ms=1000, after_max_ms=1000)
    with pytest.raises(InvalidTimestampError, match="after"):
        check_timestamp(header, NOW - 1000, before_max_ms=1000, after_max_ms=1000)
    with pytest.raises(InvalidTimestampError, match="before"):
        check_timestamp(header, NOW + 1001, before_max_ms=1000, after_max_ms=1000)


def placed(offset: int, epoch: int, count: int = 2) -> bytearray:
    batch = some_batch(count)
    stamp(batch, 0, offset, epoch)
    return batch


@pytest.mark.invariant("S1")
def test_a_follower_takes_batches_in_order_with_gaps() -> None:
    fetched = placed(10, 1) + placed(12, 1) + placed(30, 2)
    found = validate_replica_batches(memoryview(fetched), 10)
    assert [header.base_offset for _, header in found] == [10, 12, 30]
    assert validate_replica_batches(b"", 10) == []


@pytest.mark.invariant("S1")
@pytest.mark.parametrize(
    ("fetched", "reason"),
    [
        (placed(9, 1), "came where 10 is next"),
        (placed(10, 1) + placed(11, 1), "came where 12 is next"),
        (placed(10, 2) + placed(12, 1), "leader epoch"),
        (placed(10, 1) + placed(12, 1)[:-1], "bytes behind its length"),
        (placed(10, 1)[:-1] + b"?", "checksum"),
        (changed(0, ">q", 10)[:23] + struct.pack(">i", 0) + changed(0, ">q", 10)[27:], "last offset delta"),
    ],
)
def test_a_follower_refuses_what_a_leader_cannot_have_sent(fetched: bytearray, reason: str) -> None:
    with pytest.raises(CorruptMessageError, match=reason):
        validate_replica_batches(fetched, 10)


def test_nothing_on_the_header_path_copies_records() -> None:
    batch = memoryview(build_batch([Record(0, NOW, None, bytes(4 << 20))]))
    tracemalloc.start()
    try:
        validate_produce_batch(batch, len(batch))
        stamp(batch, 0, 500, 3)
        validate_replica_batches(batch, 500)
        stamp_append_time(batch, 0, NOW + 1)
        verify(batch, 0, read_header(batch))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 * 1024
