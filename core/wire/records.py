"""Whole record batches: build them, read what is inside, rewrite them.

The header alone is `batch`'s business, rules about what a broker takes are `validation`'s, and the bytes of a
single record are `record`'s; their names can be imported from here, too.
"""

from collections.abc import Generator, Sequence
from typing import TypeVar

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
from rookery.core.wire.record import Record, RecordHeader, decode_records, encode_records, outline_records
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
    "check_in_steps",
    "check_records",
    "find_in_steps",
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
    "to_the_end",
    "validate_produce_batch",
    "validate_replica_batches",
    "verify",
]

NO_TIMESTAMP = -1
DEFAULT_BUDGET = 100 * 1024 * 1024  # as much as a request may carry uncompressed
STEP = 4096
"""Records looked at in one step: some milliseconds."""
WRONG_MAX = 100
"""Records named in a refusal at most."""


T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work that can pause after each step; the result comes with its end."""


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
        to_the_end(check_in_steps(buf, pos, keys=keys, budget=budget))
    except WireError as error:
        raise InvalidRecordError(str(error)) from None


def check_in_steps(
    buf: Buffer, pos: int = 0, *, keys: bool = False, budget: int = DEFAULT_BUDGET
) -> Steps[None]:
    """`check_records` in short steps but for the first one, which decompresses, and with WireError as it is. No record
    is kept, so memory is bounded by `budget`."""
    header = read_header(buf, pos)
    section = records_section(buf, pos, header, budget)
    wrong: list[tuple[int, str]] = []
    for index, (delta, _, has_key) in enumerate(outline_records(section, header.record_count), 1):
        if not index % STEP:
            yield
        if delta != index - 1:
            wrong.append((index - 1, f"its offset delta is {delta}"))
        if keys and not has_key:
            wrong.append((index - 1, "a compacted topic needs a key"))
        if len(wrong) >= WRONG_MAX:
            break
    if wrong:
        raise InvalidRecordsError(wrong)


def to_the_end(steps: Steps[T]) -> T:
    """Do all steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


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
    buf: Buffer, pos: int, timestamp: int, budget: int = DEFAULT_BUDGET, start: int = 0
) -> tuple[int, int] | None:
    """Offset and timestamp of the batch's first record, from offset `start` on, that is not older than `timestamp`
    (ms)."""
    return to_the_end(find_in_steps(buf, pos, timestamp, budget, start))


def offset_of_max_timestamp(
    buf: Buffer, pos: int, budget: int = DEFAULT_BUDGET, start: int = 0
) -> tuple[int, int] | None:
    """Offset and timestamp of the batch's newest record from offset `start` on, the first of them if several are."""
    return to_the_end(find_in_steps(buf, pos, None, budget, start))


def find_in_steps(
    buf: Buffer, pos: int, timestamp: int | None, budget: int = DEFAULT_BUDGET, start: int = 0
) -> Steps[tuple[int, int] | None]:
    """`offset_for_timestamp`, or `offset_of_max_timestamp` where that is None, in short steps but for the first one,
    which decompresses."""
    header = read_header(buf, pos)
    enough = header.max_timestamp if timestamp is None else timestamp
    if header.max_timestamp < enough:
        return None
    if header.attributes & LOG_APPEND_TIME:
        return max(start, header.base_offset), header.max_timestamp
    section = records_section(buf, pos, header, budget)
    best: tuple[int, int] | None = None
    for index, (delta, time, _) in enumerate(outline_records(section, header.record_count), 1):
        if not index % STEP:
            yield
        offset, time = header.base_offset + delta, header.base_timestamp + time
        if offset >= start and (best is None or time > best[1]):
            best = offset, time
            if time >= enough:
                return best
    return best if timestamp is None else None
