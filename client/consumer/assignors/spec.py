"""What an assignor is given and what it gives."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from rookery.core.types import TopicPartition

Assignments = dict[str, list[TopicPartition]]
"""The partitions of each member."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member as the leader of its group sees it."""

    id: str
    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    """The generation in which it got what it owns; -1 if that is not known."""
    instance_id: str | None = None
    rack: str | None = None
    user_data: bytes = b""

    @property
    def rank(self) -> tuple[bool, str]:
        """Static members come first, by instance id; the others by member id."""
        return (self.instance_id is None, self.id if self.instance_id is None else self.instance_id)


class Assignor(Protocol):
    """One instance belongs to one consumer, and may remember what that consumer had."""

    name: ClassVar[str]
    cooperative: ClassVar[bool]
    """Whether members keep their partitions during a rebalance."""

    def user_data(self) -> bytes | None:
        """What goes with this member's subscription."""

    def assign(self, members: Collection[Member], partitions: Mapping[str, int]) -> Assignments:
        """Distribute the partitions (a count by topic) over the members."""
        ...

    def assigned(self, places: Collection[TopicPartition], generation: int) -> None:
        """This member got `places` in a generation."""


def subscribed(members: Collection[Member], partitions: Mapping[str, int]) -> dict[str, list[Member]]:
    """The members of each topic that exists, members in order of rank."""
    found: dict[str, list[Member]] = {}
    for member in sorted(members, key=lambda each: each.rank):
        for topic in member.topics:
            if partitions.get(topic, 0) > 0:
                found.setdefault(topic, []).append(member)
    return found
