"""What an assignor is given and what it returns.

Assignors are functions of their input alone: members and topics are looked at in the order in which they are given, so
equal inputs give equal assignments everywhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from rookery.broker.groups.consumer.member import TopicIdPartition, TopicIdPartitions


class MemberSpec(NamedTuple):
    """One member. `before` is its old target, topics and partitions in order."""

    instance_id: str | None
    topics: frozenset[UUID]
    before: Mapping[UUID, Sequence[int]]


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """`topics` holds the number of partitions of each topic that somebody subscribes to and that is there."""

    members: Mapping[str, MemberSpec]
    topics: Mapping[UUID, int]
    homogeneous: bool
    """All members subscribe to the same topics."""
    taken: frozenset[TopicIdPartition] = field(init=False)
    """Partitions that are in some member's old target."""

    def __post_init__(self) -> None:
        taken = frozenset(
            TopicIdPartition(topic_id, index)
            for member in self.members.values()
            for topic_id, indexes in member.before.items()
            for index in indexes
        )
        object.__setattr__(self, "taken", taken)


Assignment = dict[str, TopicIdPartitions]
