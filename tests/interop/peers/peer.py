"""What every client is asked to do."""

from typing import NamedTuple, Protocol

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""Where a client writes one partition per codec, it is the partition of this place."""
RECORDS = 10
BASE_MS = 1_700_000_000_000
PATIENCE_S = 30


class Seen(NamedTuple):
    """A record as a client shows it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


def key(number: int) -> bytes:
    return b"k%d" % number


def value(number: int) -> bytes:
    return b"value %d " % number * 20


def timestamp(number: int) -> int:
    return BASE_MS + 1000 * number


class Peer(Protocol):
    """One client. All calls wait until what they ask for has happened, and raise if it does not in time."""

    name: str
    sets_timestamps: bool
    """Whether its producer can say when a record was made."""
    deletes: bool
    """Whether it can delete topics."""

    def create(self, bootstrap: str, topic: str, partitions: int) -> None: ...

    def delete(self, bootstrap: str, topic: str) -> None: ...

    def write(self, bootstrap: str, topic: str) -> None:
        """RECORDS records per codec with keys, headers and, where it can, timestamps."""

    def read(self, bootstrap: str, topic: str, partition: int, offset: int, count: int) -> list[Seen]:
        """`count` records from an offset on."""

    def since(self, bootstrap: str, topic: str, partition: int, timestamp: int, count: int) -> list[Seen]:
        """`count` records from a time on."""
