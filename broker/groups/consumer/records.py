"""The records of groups of the consumer protocol in `__consumer_offsets`, byte for byte as Kafka writes them.

A key is a number, the kind, then the group and for some kinds a member id or a regular expression. A value begins with
version 0 of its schema. A value of None is a tombstone.
"""

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct as Layout
from typing import Any, NamedTuple
from uuid import UUID

from rookery.core.wire.message import Message
from rookery.core.wire.primitives import WireError
from rookery.core.wire.schema import Array, Bytes, Int8, Int32, Int64, String, Struct, Uuid, field

NO_TIMEOUT = -1
_VERSION = Layout(">h")


class Kind(IntEnum):
    """What a record says."""

    GROUP = 3
    TOPICS = 4
    """Obsolete since Kafka 4.1: read and dropped."""
    MEMBER = 5
    TARGET = 6
    MEMBER_TARGET = 7
    CURRENT = 8
    REGEX = 16


class GroupKey(Struct):
    group: str = field(String)


class ItemKey(Struct):
    group: str = field(String)
    item: str = field(String)


class GroupValue(Struct):
    """The group's epoch, and the hash of what was known of its topics then."""

    epoch: int = field(Int32)
    metadata_hash: int = field(Int64, tag=0, default=0)


class ClassicProtocol(Struct):
    name: str = field(String)
    metadata: bytes = field(Bytes)


class ClassicMemberMetadata(Struct):
    """What a member that speaks the classic protocol said in its JoinGroup."""

    session_timeout_ms: int = field(Int32)
    supported_protocols: Sequence[ClassicProtocol] = field(Array(ClassicProtocol))


class MemberValue(Struct):
    """A member and what it subscribes to."""

    instance_id: str | None = field(String, nullable="0+", default=None)
    rack_id: str | None = field(String, nullable="0+", default=None)
    client_id: str = field(String)
    client_host: str = field(String)
    subscribed_topic_names: Sequence[str] = field(Array(String))
    subscribed_topic_regex: str | None = field(String, nullable="0+", default=None)
    rebalance_timeout_ms: int = field(Int32, default=NO_TIMEOUT)
    server_assignor: str | None = field(String, nullable="0+", default=None)
    classic: ClassicMemberMetadata | None = field(ClassicMemberMetadata, nullable="0+", tag=0, default=None)


class TargetValue(Struct):
    """The group epoch for which the target assignment was computed."""

    assignment_epoch: int = field(Int32)
    assignment_timestamp: int = field(Int64, tag=0, default=0)


class TargetPartitions(Struct):
    topic_id: UUID = field(Uuid)
    partitions: Sequence[int] = field(Array(Int32))


class MemberTargetValue(Struct):
    topic_partitions: Sequence[TargetPartitions] = field(Array(TargetPartitions))


class CurrentPartitions(Struct):
    topic_id: UUID = field(Uuid)
    partitions: Sequence[int] = field(Array(Int32))
    assignment_epochs: Sequence[int] = field(Array(Int32), tag=0, default=())


class CurrentValue(Struct):
    """Where a member stands on its way to its target."""

    member_epoch: int = field(Int32)
    previous_member_epoch: int = field(Int32)
    state: int = field(Int8)
    assigned_partitions: Sequence[CurrentPartitions] = field(Array(CurrentPartitions))
    partitions_pending_revocation: Sequence[CurrentPartitions] = field(Array(CurrentPartitions))


class RegexValue(Struct):
    """The topics a regular expression matched."""

    topics: Sequence[str] = field(Array(String))
    version: int = field(Int64)
    timestamp: int = field(Int64)


class TopicsValue(Struct):
    """Of the obsolete kind only the tombstone matters."""


class ConsumerRecord(NamedTuple):
    """`item` is a member id or a regular expression; empty for what is said of the whole group."""

    kind: Kind
    group: str
    item: str
    value: Any


_OF_GROUP = Message("ConsumerGroupKey", GroupKey, "3-16")
_OF_ITEM = Message("ConsumerGroupItemKey", ItemKey, "3-16")
_WITH_ITEM = frozenset((Kind.MEMBER, Kind.MEMBER_TARGET, Kind.CURRENT, Kind.REGEX))
_VALUES: dict[Kind, Message[Any]] = {
    Kind.GROUP: Message("ConsumerGroupMetadataValue", GroupValue, "0", "0+"),
    Kind.MEMBER: Message("ConsumerGroupMemberMetadataValue", MemberValue, "0", "0+"),
    Kind.TARGET: Message("ConsumerGroupTargetAssignmentMetadataValue", TargetValue, "0", "0+"),
    Kind.MEMBER_TARGET: Message("ConsumerGroupTargetAssignmentMemberValue", MemberTargetValue, "0", "0+"),
    Kind.CURRENT: Message("ConsumerGroupCurrentMemberAssignmentValue", CurrentValue, "0", "0+"),
    Kind.REGEX: Message("ConsumerGroupRegularExpressionValue", RegexValue, "0", "0+"),
}


def encode(record: ConsumerRecord) -> tuple[bytes, bytes | None]:
    """Key and value as they are stored."""
    kind, group, item, value = record
    if kind in _WITH_ITEM:
        key = _written(kind, _OF_ITEM.encode(kind, ItemKey(group=group, item=item)))
    else:
        key = _written(kind, _OF_GROUP.encode(kind, GroupKey(group=group)))
    return key, None if value is None else _written(0, _VALUES[kind].encode(0, value))


def decode(kind: int, key: bytes, value: bytes | None) -> ConsumerRecord:
    """Raises WireError on damaged bytes."""
    which = Kind(kind)
    item = ""
    if which in _WITH_ITEM:
        named = _OF_ITEM.decode(kind, key, _VERSION.size)
        group, item = named.group, named.item
    else:
        group = _OF_GROUP.decode(kind, key, _VERSION.size).group
    if value is None:
        return ConsumerRecord(which, group, item, None)
    if which is Kind.TOPICS:
        return ConsumerRecord(which, group, item, TopicsValue())
    if len(value) < _VERSION.size or _VERSION.unpack_from(value) != (0,):
        raise WireError(f"{_VALUES[which].name} of group {group!r} is not of version 0")
    return ConsumerRecord(which, group, item, _VALUES[which].decode(0, value, _VERSION.size))


def _written(version: int, parts: Sequence[Any]) -> bytes:
    return b"".join((_VERSION.pack(version), *parts))
