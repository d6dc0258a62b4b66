"""The values that users of the client get and give."""

from collections.abc import Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from rookery.core.types import TopicPartition

__all__ = [
    "Columns",
    "GroupMetadata",
    "Header",
    "Headers",
    "OffsetAndMetadata",
    "Record",
    "RecordMetadata",
    "TopicPartition",
    "as_headers",
]

K = TypeVar("K")
V = TypeVar("V")

Header = tuple[str, bytes | None]
Headers = Sequence[Header]


class Record(NamedTuple, Generic[K, V]):
    """A record that was read. `timestamp` is in milliseconds since 1970; a value of None is a tombstone."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: K
    value: V
    headers: Headers = ()
    leader_epoch: int = -1
    error: Exception | None = None
    """Why key or value could not be deserialized; they are bytes then."""


class Columns(NamedTuple, Generic[K, V]):
    """Records of one partition, a column for each field; those of one record are at the same place of each."""

    topic: str
    partition: int
    offsets: Sequence[int]
    timestamps: Sequence[int]
    keys: Sequence[K]
    values: Sequence[V]
    headers: Sequence[Headers]


class RecordMetadata(NamedTuple):
    """Where a record was stored. `offset` is -1 with acks=0."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class OffsetAndMetadata(NamedTuple):
    """An offset to commit, or one that was committed: that of the next record to read."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class GroupMetadata(NamedTuple):
    """A consumer's place in its group, as a transactional producer needs it."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


def as_headers(headers: "Headers | Mapping[str, bytes | None] | None") -> Headers:
    """Headers as a sequence of pairs, from what users write."""
    if not headers:
        return ()
    return tuple(headers.items()) if isinstance(headers, Mapping) else headers
