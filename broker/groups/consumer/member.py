"""A member of a group of the consumer protocol: what it subscribes to, and where it stands on its way to its target."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, NamedTuple
from uuid import UUID

from rookery.broker.groups.consumer.records import (
    CurrentPartitions,
    CurrentValue,
    MemberTargetValue,
    MemberValue,
    TargetPartitions,
)

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""A static member leaves, and will be back."""


class TopicIdPartition(NamedTuple):
    """One partition, by the id of its topic."""

    topic_id: UUID
    partition: int


TopicIdPartitions = frozenset[TopicIdPartition]
Held = Mapping[TopicIdPartition, int]
"""Partitions with the member epoch in which each was assigned."""
NOTHING: TopicIdPartitions = frozenset()


class MemberState(IntEnum):
    """As stored. A member gives up partitions, waits for those others give up, or has all that is meant for it."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


@dataclass(frozen=True, slots=True)
class Current:
    """What a member has. `pending` are partitions it has to give up before it goes on."""

    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Held = field(default_factory=dict)
    pending: Held = field(default_factory=dict)

    def reached(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def stored(self) -> CurrentValue:
        return CurrentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=_stored(self.assigned),
            partitions_pending_revocation=_stored(self.pending),
        )

    @staticmethod
    def restored(value: CurrentValue) -> "Current":
        """A state that is not known here is that of a member which has to show what it gave up."""
        known = value.state in tuple(MemberState)
        return Current(
            value.member_epoch,
            value.previous_member_epoch,
            MemberState(value.state) if known else MemberState.UNREVOKED_PARTITIONS,
            _restored(value.assigned_partitions, value.member_epoch),
            _restored(value.partitions_pending_revocation, value.member_epoch),
        )


@dataclass(slots=True)
class Member:
    """`about` and `current` are what the log has; each is replaced whole."""

    id: str
    about: MemberValue
    current: Current = field(default_factory=Current)

    @property
    def instance_id(self) -> str | None:
        return self.about.instance_id

    @property
    def is_classic(self) -> bool:
        """It speaks JoinGroup, SyncGroup and Heartbeat."""
        return self.about.classic is not None


def by_topic(places: Iterable[TopicIdPartition]) -> dict[UUID, list[int]]:
    """Both in order, so that equal sets look alike."""
    topics: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(places):
        topics.setdefault(topic_id, []).append(partition)
    return topics


def partitions_of(topics: Iterable[Any]) -> TopicIdPartitions:
    """From anything with topic ids and partitions, as requests and records have it."""
    return frozenset(TopicIdPartition(each.topic_id, index) for each in topics for index in each.partitions)


def target_value(places: TopicIdPartitions) -> MemberTargetValue:
    return MemberTargetValue(
        topic_partitions=[
            TargetPartitions(topic_id=topic_id, partitions=indexes) for topic_id, indexes in by_topic(places).items()
        ]
    )


def _stored(held: Held) -> list[CurrentPartitions]:
    return [
        CurrentPartitions(
            topic_id=topic_id,
            partitions=indexes,
            assignment_epochs=[held[TopicIdPartition(topic_id, index)] for index in indexes],
        )
        for topic_id, indexes in by_topic(held).items()
    ]


def _restored(topics: Sequence[CurrentPartitions], member_epoch: int) -> dict[TopicIdPartition, int]:
    """Records of earlier releases have no assignment epochs: the member's epoch is the strictest there can be."""
    held = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if len(epochs) != len(topic.partitions):
            epochs = [member_epoch] * len(topic.partitions)
        for index, epoch in zip(topic.partitions, epochs, strict=True):
            held[TopicIdPartition(topic.topic_id, index)] = epoch
    return held


def reconcile(
    current: Current,
    target_epoch: int,
    target: TopicIdPartitions,
    owned: TopicIdPartitions | None,
    is_free: Callable[[TopicIdPartition], bool],
) -> Current:
    """One step of a member towards its target assignment.

        state                  may go on when                          goes to
        Stable                 it is not what the target says          see below
        Unrevoked partitions   it no longer has those to give up       see below
        Unreleased partitions  always: others may have given up some   see below

    It keeps what it has and is meant to have. If it has more, it has to give that up first: it stays in its epoch,
    Unrevoked. Otherwise it reaches the epoch of the target and gets what no other member has; it is Unreleased while
    others have some of the rest. So no partition is given to a member before the one that had it has shown that it gave
    it up, or has left.

    `owned` is what the member says it has; None where it says nothing, so it may still have everything. `is_free`
    returns whether no other member has the partition."""
    if current.state is MemberState.UNREVOKED_PARTITIONS:
        if owned is None or not owned.isdisjoint(current.pending):
            return current
        # What it was to give up is given up. There may be more by now: then it waits again.
        return _next(current, target_epoch, target, owned, is_free)
    if current.reached(target_epoch) and target.issuperset(current.assigned):
        return current
    return _next(current, target_epoch, target, owned, is_free)


def also_give_up(current: Current, wanted: frozenset[UUID]) -> Current:
    """A member that gives up partitions changed its subscription: it gives up those of other topics, too."""
    keep = {place: epoch for place, epoch in current.assigned.items() if place.topic_id in wanted}
    rest = {place: epoch for place, epoch in current.assigned.items() if place not in keep}
    return replace(current, assigned=keep, pending={**current.pending, **rest}) if rest else current


def _next(
    current: Current,
    target_epoch: int,
    target: TopicIdPartitions,
    owned: TopicIdPartitions | None,
    is_free: Callable[[TopicIdPartition], bool],
) -> Current:
    keep = {place: epoch for place, epoch in current.assigned.items() if place in target}
    revoke = {place: epoch for place, epoch in current.assigned.items() if place not in target}
    if revoke and (owned is None or not owned.isdisjoint(revoke)):
        return moved(current, current.epoch, MemberState.UNREVOKED_PARTITIONS, keep, revoke)
    wanted = target.difference(keep)
    free = [place for place in wanted if is_free(place)]
    state = MemberState.STABLE if len(free) == len(wanted) else MemberState.UNRELEASED_PARTITIONS
    assigned = {**keep, **dict.fromkeys(sorted(free), target_epoch)}
    return moved(current, target_epoch, state, assigned, {})


def moved(current: Current, epoch: int, state: MemberState, assigned: Held, pending: Held) -> Current:
    """The epoch before is remembered where it changes: an answer may be lost on its way."""
    previous = current.epoch if epoch != current.epoch else current.previous_epoch
    return Current(epoch, previous, state, assigned, pending)
