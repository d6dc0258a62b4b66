"""The members of a classic group: who they are, what they vote for, who leads them."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from rookery.broker.groups.records import MemberMetadata
from rookery.broker.groups.step import Receiver
from rookery.core.errors import FencedInstanceIdError, UnknownMemberIdError
from rookery.core.wire.consumer_protocol import CONSUMER, subscribed_topics

Protocols = tuple[tuple[str, bytes], ...]
"""Names of assignment protocols, the preferred one first, with the member's metadata for each."""


class Identity(NamedTuple):
    """How a request says whose it is."""

    member_id: str
    instance_id: str | None = None


@dataclass(slots=True)
class Member:
    """One member. `joining` and `syncing` are its requests that wait for an answer."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    expires_at: int
    assignment: bytes = b""
    joining: Receiver | None = None
    syncing: Receiver | None = None
    is_new: bool = False
    """It has never got an answer to its join, so its client may not even know that it is a member."""
    synced: bool = True
    """It has asked for its assignment in this generation."""

    @property
    def deadline(self) -> int | None:
        """When it is given up; None while it waits for an answer, since then it is the group's turn."""
        waits = self.syncing is not None or (self.joining is not None and not self.is_new)
        return None if waits else self.expires_at

    def metadata(self, protocol: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def stored(self, protocol: str | None) -> MemberMetadata:
        return MemberMetadata(
            member_id=self.id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=self.assignment,
        )

    @staticmethod
    def restored(stored: MemberMetadata, protocol: str | None) -> "Member":
        """A member as the log has it; its session has yet to begin."""
        rebalance_timeout = stored.rebalance_timeout
        return Member(
            id=stored.member_id,
            instance_id=stored.group_instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            session_timeout_ms=stored.session_timeout,
            rebalance_timeout_ms=rebalance_timeout if rebalance_timeout >= 0 else stored.session_timeout,
            protocols=((protocol or "", stored.subscription),),
            expires_at=0,
            assignment=stored.assignment,
        )


class Members:
    """In the order in which they joined."""

    def __init__(self) -> None:
        self._by_id: dict[str, Member] = {}
        self._static: dict[str, str] = {}
        self._speakers: Counter[str] = Counter()
        """How many members speak each protocol."""
        self.leader: str | None = None
        self.joining = 0
        """How many wait for the answer to their join."""

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self._by_id.values()))

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._by_id

    def get(self, member_id: str) -> Member | None:
        return self._by_id.get(member_id)

    def with_instance(self, instance_id: str | None) -> Member | None:
        """The static member of this instance id."""
        if instance_id is None:
            return None
        member_id = self._static.get(instance_id)
        return None if member_id is None else self._by_id[member_id]

    def identified(self, who: Identity) -> Member:
        """The member who asks. Raises for one that is unknown, or whose instance id another has taken over."""
        if who.instance_id is None:
            member = self._by_id.get(who.member_id)
        else:
            member = self.with_instance(who.instance_id)
            if member is not None and member.id != who.member_id:
                raise FencedInstanceIdError(
                    f"the instance {who.instance_id!r} is member {member.id!r} now, not {who.member_id!r}"
                )
        if member is None:
            raise UnknownMemberIdError(f"the group has no member {who.member_id!r}")
        return member

    def add(self, member: Member) -> None:
        self._by_id[member.id] = member
        self._speakers.update(_names(member.protocols))
        if member.instance_id is not None:
            self._static[member.instance_id] = member.id
        if self.leader is None:
            self.leader = member.id

    def remove(self, member: Member) -> None:
        self.answered(member)
        del self._by_id[member.id]
        self._speakers.subtract(_names(member.protocols))
        if member.instance_id is not None and self._static.get(member.instance_id) == member.id:
            del self._static[member.instance_id]
        if self.leader == member.id:
            self.leader = next(iter(self._by_id), None)

    def rename(self, member: Member, member_id: str) -> None:
        """A static member came back: it keeps its place under a new id."""
        leads = self.leader == member.id
        self._by_id = {member_id if one is member else id: one for id, one in self._by_id.items()}
        member.id = member_id
        if member.instance_id is not None:
            self._static[member.instance_id] = member_id
        if leads:
            self.leader = member_id

    def joins(self, member: Member, to: Receiver) -> None:
        """The member waits for the end of the join phase."""
        self.joining += member.joining is None
        member.joining = to

    def answered(self, member: Member) -> Receiver | None:
        """It waits no longer; returns whom to answer, if it did."""
        to, member.joining = member.joining, None
        self.joining -= to is not None
        return to

    def speaks(self, member: Member, protocols: Protocols) -> None:
        """The member offers other protocols than before."""
        self._speakers.subtract(_names(member.protocols))
        self._speakers.update(_names(protocols))
        member.protocols = protocols

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it joins, else take the first who does; False if nobody does."""
        leader = self._by_id.get(self.leader or "")
        if leader is None or leader.joining is None:
            leader = next((member for member in self if member.joining is not None), None)
        if leader is None:
            return False
        self.leader = leader.id
        return True

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self._by_id.values()), default=0)

    def common_protocols(self) -> set[str]:
        """Protocols that every member speaks."""
        size = len(self._by_id)
        return {name for name, speakers in self._speakers.items() if speakers == size > 0}

    def elected_protocol(self) -> str:
        """The protocol with the most votes: each member votes for its first that all speak."""
        common = self.common_protocols()
        votes = Counter(
            next(name for name, _ in member.protocols if name in common) for member in self._by_id.values()
        )
        return max(votes, key=lambda name: votes[name])

    def subscribed_topics(self, protocol_type: str | None, protocol: str | None) -> frozenset[str] | None:
        """What consumers subscribe to; None where that is not known."""
        if protocol_type != CONSUMER:
            return None
        topics: set[str] = set()
        for member in self._by_id.values():
            subscribed = subscribed_topics(member.metadata(protocol))
            if subscribed is None:
                return None
            topics |= subscribed
        return frozenset(topics)


def _names(protocols: Protocols) -> set[str]:
    return {name for name, _ in protocols}
