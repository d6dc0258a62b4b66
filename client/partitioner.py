"""Which partition a keyed record goes to: the same as Java's client chooses."""

from functools import lru_cache
from struct import Struct

SEED = 0x9747B28C
M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Murmur 2 in 32 bits, as an unsigned number."""
    length = len(data)
    h = SEED ^ length
    for k in _words(length >> 2).unpack_from(data):
        k = k * M & _MASK
        h = (h * M ^ (k ^ k >> 24) * M) & _MASK
    if length & 3:
        h = (h ^ int.from_bytes(data[length & ~3 :], "little")) * M & _MASK
    h ^= h >> 13
    h = h * M & _MASK
    return h ^ (h >> 15)


@lru_cache(256)
def _words(count: int) -> Struct:
    """Reads `count` words of four bytes."""
    return Struct(f"<{count}I")


def partition_for_key(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions
