"""The messages that members of a classic consumer group exchange through JoinGroup and SyncGroup.

They begin with their version; a version newer than ours is read as our newest, because later ones only add at the end.
To the broker these are bytes, except for the topics a member subscribes to. Protocol types other than `consumer` (Kafka
Connect, schema registries) have metadata of their own, which is never opened.
"""

from collections.abc import Sequence
from struct import Struct as Layout
from typing import TypeVar

from rookery.core.types import TopicPartition
from rookery.core.wire.message import Message
from rookery.core.wire.primitives import Buffer, WireError
from rookery.core.wire.schema import Array, Bytes, Int32, String, Struct, field

CONSUMER = "consumer"
"""The protocol type."""
_VERSION = Layout(">h")

Value = TypeVar("Value", bound=Struct)


class TopicPartitions(Struct):
    topic: str = field(String)
    partitions: Sequence[int] = field(Array(Int32))


class Subscription(Struct):
    """The topics a member wants; v1 adds the partitions it owns, v2 since which generation, v3 its rack."""

    topics: Sequence[str] = field(Array(String))
    user_data: bytes | None = field(Bytes, nullable="0+", default=None)
    owned_partitions: Sequence[TopicPartitions] = field(Array(TopicPartitions), "1+", default=())
    generation_id: int = field(Int32, "2+", default=-1)
    rack_id: str | None = field(String, "3+", nullable="3+", default=None)


class Assignment(Struct):
    """What the leader gave a member."""

    assigned_partitions: Sequence[TopicPartitions] = field(Array(TopicPartitions))
    user_data: bytes | None = field(Bytes, nullable="0+", default=None)


SUBSCRIPTION = Message("consumer subscription", Subscription, versions="0-3")
ASSIGNMENT = Message("consumer assignment", Assignment, versions="0-3")


def to_bytes(message: Message[Value], version: int, value: Value) -> bytes:
    """The version, then the value in it."""
    return b"".join([_VERSION.pack(version), *message.encode(version, value)])


def from_bytes(message: Message[Value], raw: Buffer) -> Value:
    """The value, in whatever version it says it is."""
    if len(raw) < _VERSION.size:
        raise WireError(f"{message.name} of {len(raw)} bytes has no version")
    (version,) = _VERSION.unpack_from(raw)
    return message.decode(min(version, message.max_version), raw, _VERSION.size)


def subscribed_topics(metadata: Buffer) -> frozenset[str] | None:
    """The topics of a subscription; None where the bytes are not one."""
    try:
        return frozenset(from_bytes(SUBSCRIPTION, metadata).topics)
    except WireError:
        return None


def assigned_partitions(assignment: Buffer) -> frozenset[TopicPartition]:
    """The partitions of an assignment; none where the bytes are not one."""
    try:
        assigned = from_bytes(ASSIGNMENT, assignment).assigned_partitions
    except WireError:
        return frozenset()
    return frozenset(TopicPartition(each.topic, index) for each in assigned for index in each.partitions)
