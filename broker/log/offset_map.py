"""The newest offset of each key, within a bound of memory: what compaction compares records with. Pure."""

from hashlib import blake2b

_DIGEST = 16
ENTRY_BYTES = 176
"""What one key costs: a dict slot at its usual fill, a digest and a number."""

ABSENT = -1


class OffsetMap:
    """Keys of less than 16 bytes stand for themselves, longer ones for a digest of that size.

    The bound holds up to one batch: a batch is taken whole or not at all, so that the map always covers all
    records up to `latest_offset` and even the smallest map makes progress.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._offsets: dict[bytes, int] = {}
        self._keys_max = max(1, memory_bytes // ENTRY_BYTES)
        self.latest_offset = ABSENT

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def full(self) -> bool:
        return len(self._offsets) >= self._keys_max

    def put(self, key: bytes, offset: int) -> None:
        self._offsets[key if len(key) < _DIGEST else blake2b(key, digest_size=_DIGEST).digest()] = offset

    def get(self, key: bytes) -> int:
        """The newest offset of the key in the mapped range, or -1."""
        return self._offsets.get(
            key if len(key) < _DIGEST else blake2b(key, digest_size=_DIGEST).digest(), ABSENT
        )
