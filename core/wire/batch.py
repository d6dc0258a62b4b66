"""The 61-byte header of a record batch (magic 2): read it, check it, stamp it, all in place.

Nothing here looks at the records behind the header: every function costs the same for a small and a large
batch, except that a checksum is taken over the bytes it covers. That is all a broker does with a batch which
it stores as it came. Base offset and leader epoch precede the checksum's range, so stamping them is free.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from rookery.core.errors import CorruptMessageError
from rookery.core.wire.primitives import Buffer as Buffer
from rookery.core.wire.primitives import WireError

MutableBuffer = bytearray | memoryview

MAGIC = 2
HEADER_SIZE = 61
LENGTH_END = 12  # batch_length counts the bytes behind itself
MIN_LENGTH = HEADER_SIZE - LENGTH_END
CRC_FROM = 21
MAX_SEQUENCE = 2**31 - 1

CODEC_MASK = 0b111
LOG_APPEND_TIME = 0b1000
TRANSACTIONAL = 0b1_0000
CONTROL = 0b10_0000
DELETE_HORIZON = 0b100_0000
LAST_CODEC = 4

_HEADER = struct.Struct(">qiibIhiqqqhii")
unpack_fields = _HEADER.unpack_from
"""The fields of a `BatchHeader` as a plain tuple; struct.error where there are too few bytes."""
_INT16, _INT32, _INT64, _UINT32 = (struct.Struct(form) for form in (">h", ">i", ">q", ">I"))
_LENGTH_AT = 8
_LEADER_EPOCH_AT = 12
MAGIC_AT = 16
_CRC_AT = 17
_MAX_TIMESTAMP_AT = 35


class BatchHeader(NamedTuple):
    """The fields as they stand in the bytes; what follows from them is a property."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @classmethod
    def to_write(
        cls,
        *,
        attributes: int,
        last_offset_delta: int,
        base_timestamp: int,
        max_timestamp: int,
        record_count: int,
        base_offset: int = 0,
        leader_epoch: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
    ) -> "BatchHeader":
        """Of a batch to be made. Length, magic and checksum come with `write_header`."""
        return cls(
            base_offset=base_offset,
            batch_length=0,
            partition_leader_epoch=leader_epoch,
            magic=0,
            crc=0,
            attributes=attributes,
            last_offset_delta=last_offset_delta,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=record_count,
        )

    @property
    def size(self) -> int:
        return LENGTH_END + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; sequences go on at 0 after 2^31-1."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon(self) -> int | None:
        """When the batch's tombstones may go (ms), if the cleaner has decided that already."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


def unpack_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """The fields as they stand, unchecked: for those who read headers from a file without what follows."""
    try:
        return BatchHeader._make(_HEADER.unpack_from(buf, pos))
    except struct.error:
        raise WireError(f"a batch header needs {HEADER_SIZE} bytes, {len(buf) - pos} remain") from None


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """The header of the batch at `pos`; WireError unless the buffer holds the whole of a plausible batch."""
    header = unpack_header(buf, pos)
    if header.magic != MAGIC:
        raise WireError(f"record batch at {pos} has magic {header.magic}, only {MAGIC} is supported")
    if not MIN_LENGTH <= header.batch_length <= len(buf) - pos - LENGTH_END:
        raise WireError(
            f"record batch at {pos} says it has {header.batch_length} bytes behind its length field, "
            f"but that must be {MIN_LENGTH} to {len(buf) - pos - LENGTH_END}"
        )
    return header


def batches(buf: Buffer, pos: int = 0, partial_end: bool = False) -> Iterator[tuple[int, BatchHeader]]:
    """Each batch's position and header, in order.

    A fetch may cut the last batch short: with `partial_end` the iteration ends before such a batch, without
    it the cut is an error, as in a file or a request.
    """
    end = len(buf)
    while pos < end:
        if partial_end and _is_cut(buf, pos, end):
            return
        header = read_header(buf, pos)
        yield pos, header
        pos += header.batch_length + LENGTH_END


def _is_cut(buf: Buffer, pos: int, end: int) -> bool:
    if end - pos < HEADER_SIZE:
        return True
    length: int = _INT32.unpack_from(buf, pos + _LENGTH_AT)[0]
    return length > end - pos - LENGTH_END


def crc_of(buf: Buffer, pos: int, size: int) -> int:
    """CRC-32C over everything from the attributes to the batch's last byte."""
    return crc32c(memoryview(buf)[pos + CRC_FROM : pos + size])


def verify(buf: Buffer, pos: int, header: BatchHeader) -> None:
    """Raise CorruptMessageError unless the checksum fits the bytes; `header` is `read_header`'s answer."""
    actual = crc_of(buf, pos, header.batch_length + LENGTH_END)
    if actual != header.crc:
        raise CorruptMessageError(
            f"record batch with base offset {header.base_offset}: its bytes have checksum {actual:#010x}, "
            f"its header says {header.crc:#010x}"
        )


def stamp(buf: MutableBuffer, pos: int, base_offset: int, leader_epoch: int) -> None:
    """Give the batch its place in the log. The checksum does not cover these fields and stays right."""
    _INT64.pack_into(buf, pos, base_offset)
    _INT32.pack_into(buf, pos + _LEADER_EPOCH_AT, leader_epoch)


def stamp_append_time(buf: MutableBuffer, pos: int, timestamp: int) -> None:
    """Make `timestamp` (ms) the time of all records, as message.timestamp.type=LogAppendTime asks."""
    header = read_header(buf, pos)
    _INT16.pack_into(buf, pos + CRC_FROM, header.attributes | LOG_APPEND_TIME)
    _INT64.pack_into(buf, pos + _MAX_TIMESTAMP_AT, timestamp)
    _UINT32.pack_into(buf, pos + _CRC_AT, crc_of(buf, pos, header.batch_length + LENGTH_END))


def write_header(batch: bytearray, header: BatchHeader) -> None:
    """Fill the first 61 bytes of `batch`, whose records stand behind them; length and checksum are new."""
    whole = header._replace(batch_length=len(batch) - LENGTH_END, magic=MAGIC, crc=0)
    try:
        _HEADER.pack_into(batch, 0, *whole)
    except struct.error as error:
        raise WireError(f"a batch cannot carry {whole}: {error}") from None
    _UINT32.pack_into(batch, _CRC_AT, crc_of(batch, 0, len(batch)))
