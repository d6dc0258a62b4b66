"""Records and whole batches of them: build batches, read what is inside, rewrite them.

This is for code that must look inside a batch: compaction, time lookups, our own client and tools. Brokers store and
serve batches without coming here. The loops over records are written out flat because they run once per record. The
header alone is the business of `batch`, rules about what a broker accepts that of `validation`; their names can be
imported from here, too.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

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

_SMALLEST = 7  # bytes of a record without key, value and headers
_KEY_BYTES = "surrogateescape"  # header keys are UTF-8; bytes that are not come back as they were


class RecordHeader(NamedTuple):
    key: str
    value: bytes | None


class Record(NamedTuple):
    """One record at its place in the log; a value of None is a tombstone."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[RecordHeader] = ()


@lru_cache(4096)  # lengths and deltas repeat, and finding one is cheaper than working it out
def varint(value: int) -> bytes:
    """A signed number, zig-zag coded so that small negative ones are short too."""
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def read_zigzag(data: Buffer, pos: int, bits: int = 32) -> tuple[int, int]:
    """The number at `pos`, still zig-zag coded, which must fit `bits`; and the position behind it."""
    if (byte := data[pos + 1]) < 0x80:
        return data[pos] & 0x7F | byte << 7, pos + 2
    rest = data[pos] & 0x7F | (byte & 0x7F) << 7
    at, shift = pos + 2, 14
    while shift < bits:
        byte = data[at]
        at += 1
        rest |= (byte & 0x7F) << shift
        if byte < 0x80 and not rest >> bits:
            return rest, at
        shift += 7
    raise WireError(f"the number at byte {pos} of the records has more than {bits} bits")


def encode_records(records: Iterable[Record], base_offset: int, base_timestamp: int) -> bytes:
    """The records section of a batch with these bases, uncompressed."""
    parts: list[bytes] = []
    for offset, timestamp, key, value, headers in records:
        fields = (
            b"\0",
            varint(timestamp - base_timestamp),
            varint(offset - base_offset),
            varint(-1 if key is None else len(key)),
            key or b"",
            varint(-1 if value is None else len(value)),
            value or b"",
            encode_headers(headers) if headers else b"\0",
        )
        record = b"".join(fields)
        parts += (varint(len(record)), record)
    return b"".join(parts)


def encode_headers(headers: Sequence[RecordHeader]) -> bytes:
    parts = [varint(len(headers))]
    for name, content in headers:
        key = name.encode("utf-8", _KEY_BYTES)
        parts += (varint(len(key)), key)
        parts += (varint(-1),) if content is None else (varint(len(content)), content)
    return b"".join(parts)


def decode_records(data: bytes, count: int, base_offset: int, base_timestamp: int) -> list[Record]:
    """All `count` records of an uncompressed records section; WireError if the bytes hold anything else."""
    if not 0 <= count <= len(data) // _SMALLEST:
        raise WireError(f"{count} records cannot stand in {len(data)} bytes")
    try:
        records, end = _decode(data, count, base_offset, base_timestamp)
    except IndexError:
        raise WireError(f"the last of {count} records is cut short") from None
    if end != len(data):
        raise WireError(f"{len(data) - end} bytes follow the last of {count} records")
    return records


def _decode(data: bytes, count: int, base_offset: int, base_timestamp: int) -> tuple[list[Record], int]:
    """Numbers of one byte, by far the most, are read in line; all others by `read_zigzag`."""
    records: list[Record] = []
    pos = 0
    for index in range(count):
        size = data[pos]
        pos += 1
        if size >= 0x80:
            size, pos = read_zigzag(data, pos - 1)
        end = pos + (size >> 1)
        time = data[pos + 1]  # behind a byte of attributes, which have no meaning yet
        pos += 2
        if time >= 0x80:
            time, pos = read_zigzag(data, pos - 1, 64)
        offset = data[pos]
        pos += 1
        if offset >= 0x80:
            offset, pos = read_zigzag(data, pos - 1)
        length = data[pos]
        pos += 1
        if length >= 0x80:
            length, pos = read_zigzag(data, pos - 1)
        start = pos
        pos += length >> 1
        key = null_field(length, pos) if length & 1 else data[start:pos]
        length = data[pos]
        pos += 1
        if length >= 0x80:
            length, pos = read_zigzag(data, pos - 1)
        start = pos
        pos += length >> 1
        value = null_field(length, pos) if length & 1 else data[start:pos]
        headers: Sequence[RecordHeader] = ()
        if data[pos]:
            headers, pos = read_headers(data, pos, end)
        else:
            pos += 1
        if pos != end or size & 1:
            raise WireError(f"record {index} says it ends at byte {end} of the records, its fields at {pos}")
        offset = base_offset + (offset >> 1 ^ -(offset & 1))
        time = base_timestamp + (time >> 1 ^ -(time & 1))
        records.append(_new(Record, (offset, time, key, value, headers)))
    return records, pos


class Outline(NamedTuple):
    """What a check of a record asks for."""

    offset_delta: int
    timestamp_delta: int
    has_key: bool


def outline_records(data: Buffer, count: int) -> Iterator[Outline]:
    """The outlines of all `count` records of an uncompressed records section, one by one: however many there are,
    none is kept. WireError, when it comes so far, if the bytes hold anything else."""
    if not 0 <= count <= len(data) // _SMALLEST:
        raise WireError(f"{count} records cannot stand in {len(data)} bytes")
    try:
        end = yield from _outline(data, count)
    except IndexError:
        raise WireError(f"the last of {count} records is cut short") from None
    if end != len(data):
        raise WireError(f"{len(data) - end} bytes follow the last of {count} records")


def _outline(data: Buffer, count: int) -> Generator[Outline, None, int]:
    """As `_decode`, but what is inside keys, values and headers is passed over; returns where the records end."""
    pos = 0
    for index in range(count):
        size = data[pos]
        pos += 1
        if size >= 0x80:
            size, pos = read_zigzag(data, pos - 1)
        end = pos + (size >> 1)
        time = data[pos + 1]
        pos += 2
        if time >= 0x80:
            time, pos = read_zigzag(data, pos - 1, 64)
        offset = data[pos]
        pos += 1
        if offset >= 0x80:
            offset, pos = read_zigzag(data, pos - 1)
        key = data[pos]
        pos += 1
        if key >= 0x80:
            key, pos = read_zigzag(data, pos - 1)
        pos += key >> 1
        if key & 1:
            null_field(key, pos)
        value = data[pos]
        pos += 1
        if value >= 0x80:
            value, pos = read_zigzag(data, pos - 1)
        pos += value >> 1
        if value & 1:
            null_field(value, pos)
        pos = _pass_headers(data, pos, end) if data[pos] else pos + 1
        if pos != end or size & 1:
            raise WireError(f"record {index} says it ends at byte {end} of the records, its fields at {pos}")
        yield _new(Outline, (offset >> 1 ^ -(offset & 1), time >> 1 ^ -(time & 1), not key & 1))
    return pos


def _pass_headers(data: Buffer, pos: int, end: int) -> int:
    count, pos = _header_count(data, pos, end)
    for _ in range(count):
        length = data[pos]
        pos += 1
        if length >= 0x80:
            length, pos = read_zigzag(data, pos - 1)
        if length & 1:
            raise WireError(f"a header before byte {pos} of the records has no key")
        pos += length >> 1
        length = data[pos]
        pos += 1
        if length >= 0x80:
            length, pos = read_zigzag(data, pos - 1)
        pos += length >> 1
        if length & 1:
            null_field(length, pos)
    return pos


_new = tuple.__new__  # a named tuple of fields that are known to be right, without its constructor


def null_field(length: int, pos: int) -> bytes | None:
    """An odd length is negative; only -1, which is 1 in zig-zag, has a meaning."""
    if length != 1:
        raise WireError(f"a field before byte {pos} of the records says it has {-(length + 1 >> 1)} bytes")
    return None


def _header_count(data: Buffer, pos: int, end: int) -> tuple[int, int]:
    count = data[pos]
    pos += 1
    if count >= 0x80:
        count, pos = read_zigzag(data, pos - 1)
    if count & 1 or count > end - pos:  # a header has two bytes at least, and the count is still doubled
        raise WireError(f"{count >> 1} headers cannot stand in {end - pos} bytes")
    return count >> 1, pos


def read_headers(data: bytes, pos: int, end: int) -> tuple[list[RecordHeader], int]:
    count, pos = _header_count(data, pos, end)
    headers = []
    for _ in range(count):
        length = data[pos]
        pos += 1
        if length >= 0x80:
            length, pos = read_zigzag(data, pos - 1)
        if length & 1:
            raise WireError(f"a header before byte {pos} of the records has no key")
        start = pos
        pos += length >> 1
        key = str(data[start:pos], "utf-8", _KEY_BYTES)
        length = data[pos]
        pos += 1
        if length >= 0x80:
            length, pos = read_zigzag(data, pos - 1)
        start = pos
        pos += length >> 1
        value = null_field(length, pos) if length & 1 else data[start:pos]
        headers.append(_new(RecordHeader, (key, value)))
    return headers, pos


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

    InvalidRecordError or InvalidRecordsError, which lists the invalid records, is the error to answer with.
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
