"""Batches built, read and rewritten: round trips, and byte for byte what other implementations write."""

import struct
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from rookery.core.errors import ErrorCode, InvalidRecordError
from rookery.core.wire.compression import Codec
from rookery.core.wire.markers import EndMarker, build_marker, read_marker
from rookery.core.wire.primitives import WireError
from rookery.core.wire.records import (
    HEADER_SIZE,
    InvalidRecordsError,
    Record,
    RecordHeader,
    build_batch,
    check_records,
    decode_records,
    encode_records,
    offset_for_timestamp,
    offset_of_max_timestamp,
    outline_records,
    read_header,
    read_records,
    recompress,
    rewrite_batch,
    stamp_append_time,
    varint,
    verify,
)
from tests.unit.core.wire.records_strategies import (
    NOW,
    codecs,
    plain,
    record_lists,
    some_batch,
    some_records,
)


@pytest.mark.row(34, 46)
@given(record_lists(), codecs)
@settings(max_examples=150, deadline=None)
def test_records_come_back_as_they_were(records: list[Record], codec: Codec) -> None:
    batch = build_batch(records, codec=codec)
    header = read_header(batch)
    verify(batch, 0, header)
    assert plain(read_records(memoryview(batch))) == plain(records)
    assert (header.record_count, header.last_offset) == (len(records), records[-1].offset)
    assert header.max_timestamp == max(record.timestamp for record in records)


def built_by(builder: type[Any], records: list[Record], **fields: int) -> bytes:
    numbers = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1} | fields
    theirs = builder(magic=2, compression_type=0, is_transactional=False, batch_size=1 << 20, **numbers)
    for index, record in enumerate(records):
        theirs.append(index, record.timestamp, record.key, record.value, [tuple(h) for h in record.headers])
    return bytes(theirs.build())


@pytest.mark.row(34)
@pytest.mark.parametrize("builder", [AioBuilder, KafkaPythonBuilder])
@given(records=record_lists(contiguous=True), producer=st.integers(0, 2**62), sequence=st.integers(0, 2**30))
@settings(max_examples=60, deadline=None)
def test_bytes_equal_other_implementations(
    builder: type[Any], records: list[Record], producer: int, sequence: int
) -> None:
    from_zero = [record._replace(offset=index) for index, record in enumerate(records)]
    epoch = read_header(built_by(builder, records)).partition_leader_epoch  # left open: they differ
    ours = build_batch(
        from_zero, leader_epoch=epoch, producer_id=producer, producer_epoch=3, base_sequence=sequence
    )
    fields = {"producer_id": producer, "producer_epoch": 3, "base_sequence": sequence}
    assert bytes(ours) == built_by(builder, from_zero, **fields)


@pytest.mark.row(34)
@given(record_lists(), codecs)
@settings(max_examples=60, deadline=None)
def test_aiokafka_reads_ours(records: list[Record], codec: Codec) -> None:
    theirs = AioBatch(bytes(build_batch(records, codec=codec)))
    assert theirs.validate_crc()
    read = [
        Record(r.offset, r.timestamp, r.key, r.value, [RecordHeader(*h) for h in r.headers]) for r in theirs
    ]
    assert read == plain(records)


def test_header_keys_that_are_not_utf8_survive() -> None:
    raw = b"\x00\x00\x00\x01\x01\x02\x04\xff\xfe\x01"  # one header, key ff fe, null value
    batch = build_batch(some_records(1))[:HEADER_SIZE] + varint(len(raw)) + raw
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    [record] = read_records(batch)
    assert record.headers[0].key.encode("utf-8", "surrogateescape") == b"\xff\xfe"
    assert bytes(rewrite_batch(read_header(batch), [record]))[HEADER_SIZE:] == bytes(batch)[HEADER_SIZE:]


def test_a_batch_needs_a_record() -> None:
    with pytest.raises(ValueError, match="at least one"):
        build_batch([])


def test_numbers_beyond_64_bits_do_not_fit_a_batch() -> None:
    with pytest.raises(WireError, match="cannot carry"):
        build_batch([Record(0, 2**64, b"k", b"v")])


@pytest.mark.parametrize("start", Codec)
@pytest.mark.parametrize("target", Codec)
def test_recompression_keeps_everything_else(start: Codec, target: Codec) -> None:
    batch = build_batch(
        some_records(50), codec=start, producer_id=5, producer_epoch=1, base_sequence=8, transactional=True
    )
    stamp_append_time(batch, 0, NOW + 77)
    before = read_header(batch)
    after = recompress(batch, 0, target)
    header = read_header(after)
    verify(after, 0, header)
    assert header.codec == target
    same = {"batch_length": 0, "crc": 0, "attributes": before.attributes}
    assert header._replace(**same) == before._replace(**same)
    assert read_records(after) == read_records(batch)


@pytest.mark.parametrize("codec", Codec)
def test_compaction_keeps_offsets_and_sequences(codec: Codec) -> None:
    batch = build_batch(some_records(5), codec=codec, producer_id=5, producer_epoch=1, base_sequence=8)
    before = read_header(batch)
    records = read_records(batch)
    kept = [records[1], records[3]]
    after = rewrite_batch(before, kept, delete_horizon=NOW + 86_400_000)
    header = read_header(after)
    verify(after, 0, header)
    assert read_records(after) == kept
    assert header.delete_horizon == NOW + 86_400_000
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 4, 2)
    assert (header.base_sequence, header.last_sequence, header.producer_id) == (8, 12, 5)
    assert header.max_timestamp == NOW + 3


def test_compaction_may_leave_an_empty_batch() -> None:
    after = rewrite_batch(read_header(some_batch(5, Codec.ZSTD)), [])
    header = read_header(after)
    verify(after, 0, header)
    assert (len(after), header.record_count, header.last_offset, header.codec) == (HEADER_SIZE, 0, 4, 0)
    assert read_records(after) == []


@pytest.mark.parametrize("codec", Codec)
def test_lookups_by_time(codec: Codec) -> None:
    times = [NOW + 5, NOW + 2, NOW + 9, NOW + 9, NOW + 1]
    batch = build_batch([Record(70 + i, t, None, b"v") for i, t in enumerate(times)], codec=codec)
    assert offset_for_timestamp(batch, 0, 0) == (70, NOW + 5)
    assert offset_for_timestamp(batch, 0, NOW + 6) == (72, NOW + 9)
    assert offset_for_timestamp(batch, 0, NOW + 10) is None
    assert offset_of_max_timestamp(batch, 0) == (72, NOW + 9)
    stamp_append_time(batch, 0, NOW + 100)
    assert offset_for_timestamp(batch, 0, NOW + 10) == (70, NOW + 100)
    assert offset_of_max_timestamp(batch, 0) == (70, NOW + 100)


def test_records_of_a_compacted_topic_need_keys() -> None:
    records = [Record(i, NOW, None if i % 2 else b"k", b"v") for i in range(4)]
    batch = build_batch(records, codec=Codec.LZ4)
    check_records(batch)
    with pytest.raises(InvalidRecordsError) as caught:
        check_records(batch, keys=True)
    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in caught.value.record_errors] == [1, 3]


def test_offset_deltas_must_be_the_records_places() -> None:
    batch = build_batch([Record(i, NOW, b"k", b"v") for i in (0, 2, 1, 3)])
    with pytest.raises(InvalidRecordsError) as caught:
        check_records(batch)
    assert [index for index, _ in caught.value.record_errors] == [1, 2]


@pytest.mark.parametrize("count", [-1, 0, 2, 4, 2**31 - 1])
def test_a_wrong_count_is_an_invalid_record(count: int) -> None:
    batch = some_batch(3)
    struct.pack_into(">i", batch, 57, count)
    with pytest.raises(InvalidRecordError):
        check_records(batch)
    with pytest.raises(WireError):
        read_records(batch)


def section(*records: bytes) -> bytearray:
    batch = some_batch(1)[:HEADER_SIZE] + b"".join(records)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">i", batch, 57, len(records))
    return batch


def body(*fields: int) -> bytes:
    return varint(len(fields)) + bytes(fields)


@pytest.mark.parametrize(
    "record",
    [
        body(0, 0, 0, 1, 1, 1),  # minus one headers
        body(0, 0, 0, 1, 1, 8),  # four headers in no bytes
        body(0, 0, 0, 1, 1, 2, 1, 1),  # a header without a key
        body(0, 0, 0, 3, 1, 0),  # a key of minus two bytes
        body(0, 0, 0, 1, 100, 0),  # a value past the end
        body(0, 0, 0, 1, 1, 0, 0),  # one byte more than its fields
        body(0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 1, 1, 0),  # an offset delta of six bytes
        body(0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0x1F, 1, 1, 0),  # an offset delta of 33 bits
        body(0, 0, 0, 1, 1, 0)[:-1],  # cut
        b"\x0b\x00\x00\x00\x01\x01\x00",  # length minus six
        b"",
        b"\xff",
        b"\xff\xff\xff\xff\xff\xff\xff",
    ],
)
def test_malformed_records_are_wire_errors(record: bytes) -> None:
    good = body(0, 0, 0, 1, 1, 0)
    assert read_records(section(good, good)) == [Record(0, NOW, None, None, ())] * 2
    with pytest.raises(WireError):
        read_records(section(good, record))


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_agree_with_aiokafka(value: int) -> None:
    from aiokafka.record.util import decode_varint, encode_varint_py

    theirs = bytearray()
    encode_varint_py(value, theirs.append)
    assert varint(value) == bytes(theirs)
    assert decode_varint(varint(value)) == (value, len(theirs))


@pytest.mark.parametrize("commit", [True, False])
def test_markers(commit: bool) -> None:
    marker = EndMarker(commit, coordinator_epoch=12)
    batch = build_marker(marker, producer_id=4000, producer_epoch=7, timestamp=NOW, offset=99, leader_epoch=5)
    header = read_header(batch)
    verify(batch, 0, header)
    assert (header.control, header.transactional, header.record_count) == (True, True, 1)
    assert (header.base_offset, header.partition_leader_epoch, header.base_sequence) == (99, 5, -1)
    assert (header.producer_id, header.producer_epoch) == (4000, 7)
    assert read_marker(batch) == marker
    assert AioBatch(bytes(batch)).is_control_batch


def test_other_control_records_are_no_markers() -> None:
    leader_change = build_batch([Record(0, NOW, b"\0\0\0\2", b"")], control=True)
    assert read_marker(leader_change) is None
    assert read_marker(rewrite_batch(read_header(leader_change), [])) is None
    for key, value in ((b"\0\0\0", b""), (b"\0\0\0\1", b"\0\0\0"), (None, None)):
        with pytest.raises(WireError, match="cut short"):
            read_marker(build_batch([Record(0, NOW, key, value)], control=True))
    with pytest.raises(WireError, match="not a control batch"):
        read_marker(some_batch(1))


def _outcome(work: Any) -> Any:
    try:
        return list(work())
    except WireError as error:
        return str(error)


@given(record_lists(), st.data())
def test_outlines_are_what_decoding_finds_of_sound_and_of_damaged_records(
    records: list[Record], data: st.DataObject
) -> None:
    section = bytearray(encode_records(records, records[0].offset, records[0].timestamp))
    for _ in range(data.draw(st.integers(0, 2))):
        section[data.draw(st.integers(0, len(section) - 1))] = data.draw(st.integers(0, 255))
    section = section[: data.draw(st.integers(0, len(section)))] if data.draw(st.booleans()) else section
    count = len(records)
    outlined = _outcome(lambda: outline_records(memoryview(section), count))
    decoded = _outcome(lambda: decode_records(bytes(section), count, 0, 0))
    if isinstance(decoded, list):
        decoded = [(record.offset, record.timestamp, record.key is not None) for record in decoded]
    assert outlined == decoded


def test_a_refusal_names_a_bounded_number_of_records() -> None:
    batch = build_batch([Record(n, NOW, None, b"") for n in range(5000)])
    with pytest.raises(InvalidRecordsError) as refused:
        check_records(batch, keys=True)
    assert len(refused.value.record_errors) == 100
