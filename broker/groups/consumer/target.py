"""The target of a group: which partitions each member is meant to have, given who subscribes to what."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple, Protocol
from uuid import UUID

from rookery.broker.groups.assignors import ranges, uniform
from rookery.broker.groups.assignors.spec import Assignment, GroupSpec, MemberSpec
from rookery.broker.groups.consumer.member import NOTHING, Member, TopicIdPartitions, by_topic

ASSIGNORS: Mapping[str, Callable[[GroupSpec], Assignment]] = {"uniform": uniform.assign, "range": ranges.assign}
NO_HASH = 0


class TopicInfo(NamedTuple):
    """What the target depends on."""

    id: UUID
    partitions: int


class Topics(Protocol):
    """The topics of the cluster as they are now."""

    def topic(self, name: str) -> TopicInfo | None: ...

    def name_of(self, topic_id: UUID) -> str | None: ...

    def names(self) -> Iterable[str]: ...


class NoTopics:
    """A cluster without topics."""

    def topic(self, name: str) -> TopicInfo | None:
        return None

    def name_of(self, topic_id: UUID) -> str | None:
        return None

    def names(self) -> Iterable[str]:
        return ()


class Subscriptions:
    """Who subscribes to what. `resolved` are the topics that each regular expression matched."""

    def __init__(self, members: Mapping[str, Member], resolved: Mapping[str, frozenset[str]], topics: Topics) -> None:
        self._members = members
        self._resolved = resolved
        self._topics = topics
        self.known = {
            name: info
            for name in sorted(set().union(*(self.names_of(member) for member in members.values())))
            if (info := topics.topic(name)) is not None
        }
        """Topics that somebody subscribes to and that are there."""

    def names_of(self, member: Member) -> frozenset[str]:
        about = member.about
        names = frozenset(about.subscribed_topic_names)
        if about.subscribed_topic_regex:
            names |= self._resolved.get(about.subscribed_topic_regex, frozenset())
        return names

    def ids_of(self, member: Member) -> frozenset[UUID]:
        return frozenset(self.known[name].id for name in self.names_of(member) if name in self.known)

    @property
    def homogeneous(self) -> bool:
        """All members have the same names and no regular expression, or the same expression and no names."""
        shapes = {
            (frozenset(member.about.subscribed_topic_names), member.about.subscribed_topic_regex or "")
            for member in self._members.values()
        }
        names, regex = next(iter(shapes), (frozenset(), ""))
        return len(shapes) == 1 and not (names and regex)

    def metadata_hash(self) -> int:
        """Changes when a topic that somebody subscribes to comes, goes or grows."""
        if not self.known:
            return NO_HASH
        digest = blake2b(digest_size=8)
        for name, info in self.known.items():
            digest.update(f"{name}\0{info.id}\0{info.partitions}\0".encode())
        return int.from_bytes(digest.digest(), "big", signed=True)


def preferred_assignor(members: Iterable[Member], configured: Sequence[str]) -> str:
    """The one that most members ask for, the first configured one if none does. Equal votes: the first by name."""
    asked = (member.about.server_assignor for member in members)
    votes = Counter(name for name in asked if name is not None and name in configured)
    return min(votes, key=lambda name: (-votes[name], name)) if votes else configured[0]


def compute(
    members: Mapping[str, Member],
    before: Mapping[str, TopicIdPartitions],
    subscriptions: Subscriptions,
    assignor: str,
) -> dict[str, TopicIdPartitions]:
    """The new target of each member; `before` is the old one."""
    ordered = sorted(members)
    spec = GroupSpec(
        members={
            id: MemberSpec(
                members[id].instance_id,
                subscriptions.ids_of(members[id]),
                by_topic(before.get(id, NOTHING)),
            )
            for id in ordered
        },
        topics={info.id: info.partitions for info in sorted(subscriptions.known.values())},
        homogeneous=subscriptions.homogeneous,
    )
    return ASSIGNORS[assignor](spec)
