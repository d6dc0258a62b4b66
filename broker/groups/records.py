"""What stands in `__consumer_offsets`, byte for byte as Kafka writes it.

A record's key begins with a number that says what kind of record it is; its value begins with the version of its
schema. Kinds 0 and 1 are committed offsets, 2 a classic group with its members and their assignments. Those of groups
of the consumer protocol are in `consumer.records`. All other kinds (of share and streams groups) are left alone:
`decode` knows nothing of them, compaction keeps them by their keys. A kind that is added needs a row in `_KINDS` and
nothing else here.

A value of None is a tombstone: the offset, or the group, is gone.
"""

from collections.abc import Callable, Sequence
from struct import Struct as Layout
from typing import Any, NamedTuple
from uuid import UUID

from rookery.broker.groups.consumer import records as consumer
from rookery.broker.groups.consumer.records import ConsumerRecord
from rookery.core.wire.message import Message
from rookery.core.wire.primitives import NO_UUID, Buffer, WireError
from rookery.core.wire.schema import Array, Bytes, Int32, Int64, String, Struct, Uuid, field

NO_TIMESTAMP = -1

_OFFSET_BEFORE_0_9, _OFFSET, _GROUP = 0, 1, 2
_OFFSET_VALUE_VERSION = 4
_EXPIRING_OFFSET_VALUE_VERSION = 1
_GROUP_VALUE_VERSION = 3
_VERSION = Layout(">h")


class OffsetCommitKey(Struct):
    group: str = field(String)
    topic: str = field(String)
    partition: int = field(Int32)


class OffsetCommitValue(Struct):
    offset: int = field(Int64)
    leader_epoch: int = field(Int32, "3+", default=-1)
    metadata: str = field(String)
    commit_timestamp: int = field(Int64)
    expire_timestamp: int = field(Int64, "1", default=NO_TIMESTAMP)
    topic_id: UUID = field(Uuid, "4+", tag=0, default=NO_UUID)


class GroupMetadataKey(Struct):
    group: str = field(String)


class MemberMetadata(Struct):
    member_id: str = field(String)
    group_instance_id: str | None = field(String, "3+", nullable="3+", default=None)
    client_id: str = field(String)
    client_host: str = field(String)
    rebalance_timeout: int = field(Int32, "1+", default=-1)
    session_timeout: int = field(Int32)
    subscription: bytes = field(Bytes)
    assignment: bytes = field(Bytes)


class GroupMetadataValue(Struct):
    protocol_type: str = field(String)
    generation: int = field(Int32)
    protocol: str | None = field(String, nullable="0+")
    leader: str | None = field(String, nullable="0+")
    current_state_timestamp: int = field(Int64, "2+", default=NO_TIMESTAMP)
    members: Sequence[MemberMetadata] = field(Array(MemberMetadata))


_OFFSET_KEY = Message("OffsetCommitKey", OffsetCommitKey, "0-1")
_OFFSET_VALUE = Message("OffsetCommitValue", OffsetCommitValue, "0-4", "4+")
_GROUP_KEY = Message("GroupMetadataKey", GroupMetadataKey, "2")
_GROUP_VALUE = Message("GroupMetadataValue", GroupMetadataValue, "0-4", "4+")


class OffsetRecord(NamedTuple):
    """A group has read a partition up to here."""

    group: str
    topic: str
    partition: int
    value: OffsetCommitValue | None


class GroupRecord(NamedTuple):
    """A classic group, as it was when its assignment was handed out or its last member left."""

    group: str
    value: GroupMetadataValue | None


GroupsRecord = OffsetRecord | GroupRecord | ConsumerRecord


def encode(record: GroupsRecord) -> tuple[bytes, bytes | None]:
    """Key and value as they are stored."""
    if isinstance(record, ConsumerRecord):
        return consumer.encode(record)
    if isinstance(record, OffsetRecord):
        group, topic, partition, value = record
        key = _written(_OFFSET_KEY, _OFFSET, OffsetCommitKey(group=group, topic=topic, partition=partition))
        if value is None:
            return key, None
        expires = value.expire_timestamp != NO_TIMESTAMP
        version = _EXPIRING_OFFSET_VALUE_VERSION if expires else _OFFSET_VALUE_VERSION
        return key, _written(_OFFSET_VALUE, version, value)
    key = _written(_GROUP_KEY, _GROUP, GroupMetadataKey(group=record.group))
    if record.value is None:
        return key, None
    return key, _written(_GROUP_VALUE, _GROUP_VALUE_VERSION, record.value)


def decode(key: bytes | None, value: bytes | None) -> GroupsRecord | None:
    """The record, or None where it is of a kind that is not known here. Raises WireError on damaged bytes."""
    if key is None or len(key) < _VERSION.size:
        raise WireError("a record of the offsets topic has no key")
    kind = _version(key)
    read = _KINDS.get(kind)
    return None if read is None else read(kind, key, value)


def _offset(kind: int, key: bytes, value: bytes | None) -> OffsetRecord:
    where = _OFFSET_KEY.decode(kind, key, _VERSION.size)
    return OffsetRecord(where.group, where.topic, where.partition, _read(_OFFSET_VALUE, value))


def _group(kind: int, key: bytes, value: bytes | None) -> GroupRecord:
    return GroupRecord(_GROUP_KEY.decode(kind, key, _VERSION.size).group, _read(_GROUP_VALUE, value))


_KINDS: dict[int, Callable[[int, bytes, bytes | None], GroupsRecord]] = {
    _OFFSET_BEFORE_0_9: _offset,
    _OFFSET: _offset,
    _GROUP: _group,
    **dict.fromkeys(map(int, consumer.Kind), consumer.decode),
}


def _written(message: Message[Any], version: int, value: Struct) -> bytes:
    return b"".join((_VERSION.pack(version), *message.encode(version, value)))


def _read(message: Message[Any], value: bytes | None) -> Any:
    if value is None:
        return None
    if len(value) < _VERSION.size:
        raise WireError(f"{message.name}: {len(value)} bytes hold no version")
    return message.decode(_version(value), value, _VERSION.size)


def _version(data: Buffer) -> int:
    version: int = _VERSION.unpack_from(data)[0]
    return version
