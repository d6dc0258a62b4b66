"""Whole record batches: build them, read what is inside, rewrite them.

The header alone is `batch`'s business, rules about what a broker takes are `validation`'s, and the bytes of a
single record are `record`'s; their names can be imported from here, too.
"""

from collections.abc import Sequence

from rookery.core.errors import InvalidRecordError
from rookery.core.wire.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    batches,
    read_header,
    stamp,
    stamp_append_time,
    verify,
    write_header,
)
from rookery.core.wire.compression import Codec, compress, decompress
from rookery.core.wire.primitives import Buffer, WireError
from rookery.core.wire.record import Record, RecordHeader, decode_records, encode_records
from rookery.core.wire.validation import check_timestamp, validate_produce_batch, validate_replica_batches

__all__ = [
    "HEADER_SIZE",
    "BatchHeader",
    "Codec",
    "InvalidRecordsError",
    "Record",
    "RecordHeader",
    "batches",
    "build_batch",
    "check_records",
    "check_timestamp",
    "frame_batch",
    "offset_for_timestamp",
    "offset_of_max_timestamp",
    "read_header",
    "read_records",
    "recompress",
    "rewrite_batch",
    "stamp",
    "stamp_append_time",
    "validate_produce_batch",
    "validate_replica_batches",
    "verify",
]

NO_TIMESTAMP = -1
DEFAULT_BUDGET = 100 * 1024 * 1024  # as much as a request may carry uncompressed


class InvalidRecordsError(InvalidRecordError):
    """A batch refused for some of its records: (index in the batch, what is wrong) of each."""

    def __init__(self, record_errors: list[tuple[int, str]]) -> None:
        index, reason = record_errors[0]
        super().__init__(f"{len(record_errors)} records are not allowed; record {index}: {reason}")
        self.record_errors = record_errors


def build_batch(
    records: Sequence[Record],
    *,
    codec: int = Codec.NONE,
    level: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
) -> bytearray:
    """A batch of records whose offsets ascend; the first one's offset and timestamp are the batch's bases."""
    if not records:
        raise ValueError("a batch is built of at least one record")
    base_offset, base_timestamp = records[0].offset, records[0].timestamp
    return _assemble(
        encode_records(records, base_offset, base_timestamp),
        BatchHeader.to_write(
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            attributes=codec | TRANSACTIONAL * transactional | CONTROL * control,
            last_offset_delta=records[-1].offset - base_offset,
            base_timestamp=base_timestamp,
            max_timestamp=max(record.timestamp for record in records),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=len(records),
        ),
        level,
    )


def _assemble(records: Buffer, header: BatchHeader, level: int | None) -> bytearray:
    """The batch of uncompressed `records`, all else as `header` says but its length and checksum."""
    return frame_batch(compress(header.codec, records, level), header)


def frame_batch(packed: Buffer, header: BatchHeader) -> bytearray:
    """The batch of records that are compressed already; length and checksum are new, all else is as `header` says."""
    batch = bytearray(HEADER_SIZE)
    batch += packed
    write_header(batch, header)
    return batch


def records_section(buf: Buffer, pos: int, header: BatchHeader, budget: int = DEFAULT_BUDGET) -> Buffer:
    """The bytes of the batch's records, uncompressed; a view into `buf` if they were stored so."""
    section = memoryview(buf)[pos + HEADER_SIZE : pos + header.size]
    return decompress(header.codec, section, budget)


def read_records(buf: Buffer, pos: int = 0, budget: int = DEFAULT_BUDGET) -> list[Record]:
    """The records of the batch at `pos`, which may decompress to `budget` bytes at most."""
    header = read_header(buf, pos)
    data = bytes(records_section(buf, pos, header, budget))
    records = decode_records(data, header.record_count, header.base_offset, header.base_timestamp)
    if header.log_append_time:
        return [record._replace(timestamp=header.max_timestamp) for record in records]
    return records


def check_records(buf: Buffer, pos: int = 0, *, keys: bool = False, budget: int = DEFAULT_BUDGET) -> None:
    """Raise unless the records are what a produced batch's header says, with a key each where `keys` asks so.

    InvalidRecordError or InvalidRecordsError, which tells the single records at fault, is what to answer.
    """
    try:
        header = read_header(buf, pos)
        records = read_records(buf, pos, budget)
    except WireError as error:
        raise InvalidRecordError(str(error)) from None
    wrong = [
        (index, f"its offset delta is {record.offset - header.base_offset}")
        for index, record in enumerate(records)
        if record.offset != header.base_offset + index
    ]
    if keys:
        keyless = (index for index, record in enumerate(records) if record.key is None)
        wrong += [(index, "a compacted topic needs a key") for index in keyless]
    if wrong:
        raise InvalidRecordsError(wrong)


def recompress(
    buf: Buffer, pos: int, codec: int, level: int | None = None, budget: int = DEFAULT_BUDGET
) -> bytearray:
    """The same batch under another codec; its records are not decoded, all other fields stay."""
    header = read_header(buf, pos)
    section = records_section(buf, pos, header, budget)
    return _assemble(section, header._replace(attributes=header.attributes & ~CODEC_MASK | codec), level)


def rewrite_batch(
    header: BatchHeader, kept: Sequence[Record], delete_horizon: int | None = None, level: int | None = None
) -> bytearray:
    """The batch with only the `kept` of its records, as compaction writes it.

    Offsets, sequences and producer stay as they were, so that what followed the batch still follows it, even
    if no record is left. A delete horizon (ms) says when its tombstones may go.
    """
    attributes, base_timestamp = header.attributes, header.base_timestamp
    if delete_horizon is not None:
        attributes, base_timestamp = attributes | DELETE_HORIZON, delete_horizon
    max_timestamp = header.max_timestamp
    if not header.log_append_time:
        max_timestamp = max((record.timestamp for record in kept), default=NO_TIMESTAMP)
    return _assemble(
        encode_records(kept, header.base_offset, base_timestamp),
        header._replace(
            attributes=attributes if kept else attributes & ~CODEC_MASK,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            record_count=len(kept),
        ),
        level,
    )


def offset_for_timestamp(
    buf: Buffer, pos: int, timestamp: int, budget: int = DEFAULT_BUDGET
) -> tuple[int, int] | None:
    """Offset and timestamp of the batch's first record that is not older than `timestamp` (ms)."""
    header = read_header(buf, pos)
    if header.max_timestamp < timestamp:
        return None
    if header.attributes & LOG_APPEND_TIME:
        return header.base_offset, header.max_timestamp
    for record in read_records(buf, pos, budget):
        if record.timestamp >= timestamp:
            return record.offset, record.timestamp
    return None


def offset_of_max_timestamp(buf: Buffer, pos: int, budget: int = DEFAULT_BUDGET) -> tuple[int, int] | None:
    """Offset and timestamp of the batch's newest record, the first of them if several are."""
    return offset_for_timestamp(buf, pos, read_header(buf, pos).max_timestamp, budget)
