"""What every message is made of: the codec's one error, unsigned varints, UUIDs and skipping tags."""

from collections.abc import Callable
from struct import Struct as Layout
from uuid import UUID

Buffer = bytes | bytearray | memoryview

NO_UUID = UUID(int=0)

_UUIDS_KEPT = 8192
_uuids: dict[bytes, UUID] = {bytes(16): NO_UUID}


class WireError(ValueError):
    """Bytes that are not the message they claim to be, or a value that no such message can carry."""


def uvarint_bytes(value: int) -> bytes:
    """Seven bits a byte, least significant first, top bit set on all but the last."""
    if value < 0:
        raise WireError(f"an unsigned varint cannot carry {value}")
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14 & 0x7F | 0x80)) + uvarint_bytes(
        value >> 21
    )


UVARINTS = tuple(uvarint_bytes(n) for n in range(512))
"""Short lengths and counts, ready-made."""


def read_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """The varint at `pos` and the position after it."""
    if pos >= len(buf):
        raise WireError(f"the message ends at byte {pos}, where a varint should stand")
    return finish_uvarint(buf, pos + 1, buf[pos])


def finish_uvarint(buf: Buffer, pos: int, first: int) -> tuple[int, int]:
    """The rest of a varint whose first byte was read already; at most 32 bits, as Kafka has it."""
    try:
        value = first & 0x7F
        if first > 0x7F:
            second = buf[pos]
            pos += 1
            value |= (second & 0x7F) << 7
            if second > 0x7F:
                third = buf[pos]
                pos += 1
                value |= (third & 0x7F) << 14
                if third > 0x7F:
                    return _large_uvarint(buf, pos, value)
        return value, pos
    except IndexError:
        raise WireError(f"the message ends at byte {pos}, inside a varint") from None


def _large_uvarint(buf: Buffer, pos: int, value: int) -> tuple[int, int]:
    """The fourth and fifth byte of a varint."""
    fourth = buf[pos]
    value |= (fourth & 0x7F) << 21
    if fourth < 0x80:
        return value, pos + 1
    fifth = buf[pos + 1]
    if fifth > 0x0F:
        raise WireError(f"the varint before byte {pos + 2} has more than 32 bits")
    return value | fifth << 28, pos + 2


TAGS_MAX = 1000
"""Of one struct. Each costs a turn in Python, and no client has more than a few."""


def skip_tags(buf: Buffer, pos: int, count: int) -> int:
    """Step over tagged fields that are not known here; `count` is the first byte of their number, read already."""
    if count > 0x7F:
        count, pos = finish_uvarint(buf, pos, count)
    if count > TAGS_MAX:
        raise WireError(f"{count} tagged fields announced at byte {pos}: {TAGS_MAX} may be")
    end = len(buf)
    if count > (end - pos) >> 1:
        raise WireError(f"{count} tagged fields announced at byte {pos} where {end - pos} bytes remain")
    for _ in range(count):
        _, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        pos += size
        if pos > end:
            raise WireError(f"a tagged field of {size} bytes reaches {pos - end} bytes past the message")
    return pos


def bytes_at(buf: Buffer, pos: int, size: int) -> bytes:
    """The `size` bytes at `pos`; a plain slice could silently be too short."""
    if size > len(buf) - pos:
        raise WireError(f"{size} bytes announced at byte {pos} where {len(buf) - pos} remain")
    return bytes(buf[pos : pos + size])


def compact_bytes(buf: Buffer, pos: int) -> tuple[bytes, int]:
    """Bytes of any length with their length before them, and the position after them."""
    size, pos = read_uvarint(buf, pos)
    if size == 0:
        raise WireError(f"null at byte {pos - 1}, where a value must stand")
    return bytes_at(buf, pos, size - 1), pos + size - 1


def _refuse_null(buf: Buffer, pos: int) -> tuple[bytes]:
    raise WireError(f"null at byte {pos}, where a value must stand")


def _short(length: int) -> Callable[[Buffer, int], tuple[bytes]]:
    return Layout(f"x{length - 1}s").unpack_from if length else _refuse_null


SHORT = tuple(_short(length) for length in range(128))
"""Compact bytes by the one byte of their length: `SHORT[buf[pos]](buf, pos)` is a tuple with them. Faster than
slicing a view, and it cannot run past the end."""


def uuid_of(raw: bytes) -> UUID:
    """The UUID with these 16 bytes. Topic ids come again and again, so a bounded number of them is kept."""
    found = _uuids.get(raw)
    if found is None:
        if len(_uuids) >= _UUIDS_KEPT:
            _uuids.clear()
        found = _uuids[raw] = UUID(bytes=raw)
    return found
