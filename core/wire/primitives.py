"""What every message is made of: the codec's one error, unsigned varints, UUIDs and skipping tags."""

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
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


UVARINTS = tuple(uvarint_bytes(n) for n in range(512))
"""Short lengths and counts, ready-made."""


def read_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """The varint at `pos` and the position after it."""
    if pos >= len(buf):
        raise WireError(f"the message ends at byte {pos}, where a varint should stand")
    return finish_uvarint(buf, pos + 1, buf[pos])


def finish_uvarint(buf: Buffer, pos: int, first: int) -> tuple[int, int]:
    """The rest of a varint whose first byte was read already; at most 32 bits, as Kafka has it."""
    value = first & 0x7F
    shift = 0
    while first & 0x80:
        shift += 7
        if shift > 28:
            raise WireError(f"varint before byte {pos} is longer than 5 bytes")
        if pos >= len(buf):
            raise WireError(f"the message ends at byte {pos}, inside a varint")
        first = buf[pos]
        pos += 1
        value |= (first & 0x7F) << shift
    if value > 0xFFFFFFFF:
        raise WireError(f"varint before byte {pos} needs more than 32 bits")
    return value, pos


def skip_tags(buf: Buffer, pos: int, count: int) -> int:
    """Step over tagged fields nobody here knows; `count` is the first byte of their number, read already."""
    if count > 0x7F:
        count, pos = finish_uvarint(buf, pos, count)
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


def uuid_of(raw: bytes) -> UUID:
    """The UUID with these 16 bytes. Topic ids come again and again, so a bounded number of them is kept."""
    found = _uuids.get(raw)
    if found is None:
        if len(_uuids) >= _UUIDS_KEPT:
            _uuids.clear()
        found = _uuids[raw] = UUID(bytes=raw)
    return found
