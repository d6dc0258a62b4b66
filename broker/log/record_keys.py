"""Keys and offsets of the records in a batch, and nothing else: what compaction looks at first. Pure.

Most batches are kept or dropped as a whole, and for that decision values, headers and timestamps need not
be taken apart. The loop is written out flat because it runs twice for every record of a compacted log.
"""

from rookery.core.wire.batch import BatchHeader, Buffer
from rookery.core.wire.primitives import WireError, read_uvarint
from rookery.core.wire.records import records_section

KeyAt = tuple[int, bytes | None, bool]
"""A record's offset, its key, and whether it is a tombstone."""


def record_keys(buf: Buffer, pos: int, header: BatchHeader) -> list[KeyAt]:
    """One entry for each record of the batch at `pos`, in order."""
    data = bytes(records_section(buf, pos, header))
    try:
        found, end = _scan(data, header.record_count, header.base_offset)
    except IndexError:
        raise WireError(f"the last of {header.record_count} records is cut short") from None
    if end != len(data):
        raise WireError(f"{len(data) - end} bytes follow the last of {header.record_count} records")
    return found


def _signed(data: bytes, at: int) -> tuple[int, int]:
    """The zig-zag coded number at `at` and the position behind it."""
    value, at = read_uvarint(data, at)
    return value >> 1 ^ -(value & 1), at


def _scan(data: bytes, count: int, base_offset: int) -> tuple[list[KeyAt], int]:
    """Numbers of one and two bytes, by far the most, are read in line."""
    found: list[KeyAt] = []
    at = 0
    for _ in range(count):
        if (byte := data[at]) < 0x80:
            at += 1
            end = at + (byte >> 1)
        elif (more := data[at + 1]) < 0x80:
            at += 2
            end = at + (byte & 0x7F | more << 7) // 2
        else:
            size, at = _signed(data, at)
            end = at + size
        at += 1  # the attributes
        while data[at] >= 0x80:  # the timestamp
            at += 1
        at += 1
        if (byte := data[at]) < 0x80:
            at += 1
            offset = base_offset + (byte >> 1)
        elif (more := data[at + 1]) < 0x80:
            at += 2
            offset = base_offset + (byte & 0x7F | more << 7) // 2
        else:
            delta, at = _signed(data, at)
            offset = base_offset + delta
        if (byte := data[at]) < 0x80:
            size, at = byte >> 1 ^ -(byte & 1), at + 1
        else:
            size, at = _signed(data, at)
        if size >= 0:
            found.append(
                (offset, data[at : at + size], data[at + size] == 1)
            )  # a length of -1, zig-zag coded
            at += size
        else:
            found.append((offset, None, data[at] == 1))
        if at >= end:
            raise WireError(f"the key of the record at offset {offset} reaches beyond its record")
        at = end
    return found, at
