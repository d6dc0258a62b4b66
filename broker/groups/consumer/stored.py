"""What the log says of one group of the consumer protocol: the fold of its records.

Requests are decided on a copy, a `Draft`, which folds each record the moment it is decided on. The records then go to
the log, and from there into the group itself. So a group is always the fold of the log, and a batch that could not be
written leaves nothing behind.
"""

from dataclasses import dataclass, field
from typing import Any

from rookery.broker.groups.consumer.member import (
    NOTHING,
    Current,
    Held,
    Member,
    TopicIdPartition,
    TopicIdPartitions,
    partitions_of,
    target_value,
)
from rookery.broker.groups.consumer.records import (
    ConsumerRecord,
    GroupValue,
    Kind,
    MemberValue,
    RegexValue,
    TargetValue,
)

NO_MEMBER = MemberValue(client_id="", client_host="", subscribed_topic_names=())
"""Of a member whose position comes before itself in a compacted log."""
_GOING = (Kind.CURRENT, Kind.MEMBER_TARGET, Kind.MEMBER)
"""In the order in which the tombstones of a member are written."""


@dataclass(slots=True)
class Stored:
    """`targets` may lack members, who are meant to have nothing. `owners` are the members that hold, or have yet to
    give up, each partition."""

    epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = 0
    assigned_at: int = 0
    """When the target was computed (wall clock, ms)."""
    members: dict[str, Member] = field(default_factory=dict)
    targets: dict[str, TopicIdPartitions] = field(default_factory=dict)
    regexes: dict[str, RegexValue] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)
    owners: dict[TopicIdPartition, str] = field(default_factory=dict)
    has_obsolete: bool = False
    """There is a record of the obsolete kind, to be dropped."""

    def copy(self) -> "Stored":
        return Stored(
            self.epoch,
            self.metadata_hash,
            self.assignment_epoch,
            self.assigned_at,
            dict(self.members),
            dict(self.targets),
            dict(self.regexes),
            dict(self.static),
            dict(self.owners),
            self.has_obsolete,
        )

    @property
    def resolved(self) -> dict[str, frozenset[str]]:
        return {regex: frozenset(value.topics) for regex, value in self.regexes.items()}

    def with_instance(self, instance_id: str) -> Member | None:
        member_id = self.static.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def may_be_assigned(self, wall_ms: int, interval_ms: int) -> bool:
        """Whether a new target is due, and the last one is old enough."""
        is_recent = self.assigned_at != 0 and 0 <= wall_ms - self.assigned_at < interval_ms
        return self.epoch > self.assignment_epoch and not is_recent

    # --- folding ----------------------------------------------------------------------------------------------

    def replay(self, record: ConsumerRecord) -> None:
        """One record about this group, except the group's own tombstone."""
        kind, _, item, value = record
        match kind:
            case Kind.GROUP:
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case Kind.TOPICS:
                self.has_obsolete = value is not None
            case Kind.MEMBER:
                self._member(item, value)
            case Kind.TARGET:
                self.assignment_epoch = 0 if value is None else value.assignment_epoch
                self.assigned_at = 0 if value is None else value.assignment_timestamp
            case Kind.MEMBER_TARGET if value is None:
                self.targets.pop(item, None)
            case Kind.MEMBER_TARGET:
                self.targets[item] = partitions_of(value.topic_partitions)
            case Kind.CURRENT:
                self._current(item, Current() if value is None else Current.restored(value), value is None)
            case Kind.REGEX if value is None:
                self.regexes.pop(item, None)
            case Kind.REGEX:
                self.regexes[item] = value

    def _member(self, id: str, about: MemberValue | None) -> None:
        before = self.members.get(id)
        if before is not None and before.instance_id is not None and self.static.get(before.instance_id) == id:
            del self.static[before.instance_id]
        if about is None:
            if before is not None:
                self._current(id, Current(), True)
                del self.members[id]
            return
        self.members[id] = Member(id, about, Current() if before is None else before.current)
        if about.instance_id is not None:
            self.static[about.instance_id] = id

    def _current(self, id: str, current: Current, gone: bool) -> None:
        member = self.members.get(id)
        if member is None:
            if gone:
                return
            member = Member(id, NO_MEMBER)
        self._disown(id, member.current.assigned)
        self._disown(id, member.current.pending)
        self.members[id] = Member(id, member.about, current)
        for place in current.assigned:
            self.owners[place] = id
        for place in current.pending:
            self.owners[place] = id

    def _disown(self, id: str, held: Held) -> None:
        for place in held:
            if self.owners.get(place) == id:
                del self.owners[place]


class Draft:
    """A copy of what is stored, and the records that lead from one to the other."""

    def __init__(self, group_id: str, stored: Stored) -> None:
        self.group_id = group_id
        self.stored = stored.copy()
        self.records: list[ConsumerRecord] = []

    def add(self, kind: Kind, item: str, value: Any) -> None:
        record = ConsumerRecord(kind, self.group_id, item, value)
        self.records.append(record)
        self.stored.replay(record)

    def set_epoch(self, epoch: int, metadata_hash: int) -> None:
        if self.stored.has_obsolete:
            self.add(Kind.TOPICS, "", None)
        self.add(Kind.GROUP, "", GroupValue(epoch=epoch, metadata_hash=metadata_hash))

    def set_targets(self, targets: dict[str, TopicIdPartitions], epoch: int, at_ms: int) -> None:
        """Members whose target stays the same need no record."""
        for id, places in sorted(targets.items()):
            if id not in self.stored.targets or self.stored.targets[id] != places:
                self.add(Kind.MEMBER_TARGET, id, target_value(places))
        self.add(Kind.TARGET, "", TargetValue(assignment_epoch=epoch, assignment_timestamp=at_ms))

    def set_current(self, id: str, current: Current) -> None:
        self.add(Kind.CURRENT, id, current.stored())

    def remove(self, id: str) -> None:
        for kind in _GOING:
            self.add(kind, id, None)

    def rename(self, old: Member, id: str) -> None:
        """A static member returns under another id and takes over what the old one had."""
        target = self.stored.targets.get(old.id, NOTHING)
        self.remove(old.id)
        self.add(Kind.MEMBER, id, old.about)
        self.add(Kind.MEMBER_TARGET, id, target_value(target))
        current = old.current
        self.set_current(id, Current(0, 0, current.state, current.assigned, current.pending))


def tombstones(group_id: str, stored: Stored) -> list[ConsumerRecord]:
    """All that makes a group go, in the order that other readers of the log rely on."""
    members = sorted(stored.members)
    keys = [(Kind.CURRENT, id) for id in members]
    keys += [(Kind.MEMBER_TARGET, id) for id in sorted({*members, *stored.targets})]
    keys.append((Kind.TARGET, ""))
    keys += [(Kind.MEMBER, id) for id in members]
    keys += [(Kind.REGEX, regex) for regex in sorted(stored.regexes)]
    if stored.has_obsolete:
        keys.append((Kind.TOPICS, ""))
    keys.append((Kind.GROUP, ""))
    return [ConsumerRecord(kind, group_id, item, None) for kind, item in keys]
