"""The assignor `sticky`: as even as possible, and members keep what they had.

Each member sends what it had last, and in which generation. A partition that two members claim belongs to the one
with the newer generation; with equal generations to neither. With equal subscriptions the distribution is exact: all
members have the lower or the upper share. Otherwise partitions go to the least loaded reader of their topic, and move
while that makes the distribution more even.
"""

import struct
from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar

from rookery.client.consumer.assignors.spec import Assignments, Member, subscribed
from rookery.core.types import TopicPartition
from rookery.core.wire.consumer_protocol import TopicPartitions
from rookery.core.wire.message import Message
from rookery.core.wire.primitives import WireError
from rookery.core.wire.schema import Array, Int32, Struct, field


class StickyUserData(Struct):
    """What a member of `sticky` had; v1 says since which generation."""

    previous_assignment: tuple[TopicPartitions, ...] = field(Array(TopicPartitions))
    generation: int = field(Int32, "1+", default=-1)


USER_DATA = Message("sticky assignor user data", StickyUserData, versions="0-1")


class Sticky:
    name: ClassVar[str] = "sticky"
    cooperative: ClassVar[bool] = False

    def __init__(self) -> None:
        self._had: list[TopicPartition] | None = None
        self._generation = -1

    def user_data(self) -> bytes | None:
        if self._had is None:
            return None
        return pack(self._had, self._generation)

    def assigned(self, places: Collection[TopicPartition], generation: int) -> None:
        self._had = sorted(places)
        self._generation = generation

    def assign(self, members: Collection[Member], partitions: Mapping[str, int]) -> Assignments:
        claims = {member.id: unpack(member.user_data) for member in members}
        return distribute(members, partitions, claims)


def pack(had: Iterable[TopicPartition], generation: int) -> bytes:
    """The user data of v1, topics in the order in which they come."""
    topics: dict[str, list[int]] = {}
    for topic, index in had:
        topics.setdefault(topic, []).append(index)
    value = StickyUserData(
        previous_assignment=tuple(
            TopicPartitions(topic=topic, partitions=each) for topic, each in topics.items()
        ),
        generation=generation,
    )
    return b"".join(bytes(part) for part in USER_DATA.encode(1, value))


def unpack(raw: bytes) -> tuple[tuple[TopicPartition, ...], int]:
    """What the member had, and its generation; of v0 without one. Bytes that are neither count as nothing."""
    for version in (1, 0):
        try:
            value = USER_DATA.decode(version, raw)
        except (WireError, struct.error, IndexError):
            continue
        had = tuple(
            TopicPartition(each.topic, index)
            for each in value.previous_assignment
            for index in each.partitions
        )
        return had, value.generation
    return (), -1


# --- the distribution ---------------------------------------------------------------------------------------


def distribute(
    members: Collection[Member],
    partitions: Mapping[str, int],
    claims: Mapping[str, tuple[Collection[TopicPartition], int]],
) -> Assignments:
    """Even, with as much as possible kept of what each member claims (places, generation)."""
    readers = subscribed(members, partitions)
    kept = _kept(members, partitions, claims)
    if len({frozenset(member.topics) for member in members}) <= 1:
        return _equal(members, readers, partitions, kept)
    return _different(members, readers, partitions, kept)


def _kept(
    members: Collection[Member],
    partitions: Mapping[str, int],
    claims: Mapping[str, tuple[Collection[TopicPartition], int]],
) -> Assignments:
    """What each member may keep: partitions that exist, of topics it still reads, and that it is the last owner of."""
    owners: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in members:
        had, generation = claims.get(member.id, ((), -1))
        for tp in had:
            best = owners.get(tp)
            if best is None or generation > best[0]:
                owners[tp] = (generation, member.id)
            elif generation == best[0]:
                owners[tp] = (generation, None)
    kept: Assignments = {member.id: [] for member in members}
    for member in members:
        topics = set(member.topics)
        had, _ = claims.get(member.id, ((), -1))
        for tp in sorted(set(had)):
            exists = 0 <= tp.partition < partitions.get(tp.topic, 0)
            if exists and tp.topic in topics and owners[tp][1] == member.id:
                kept[member.id].append(tp)
    return kept


def _equal(
    members: Collection[Member],
    readers: Mapping[str, list[Member]],
    partitions: Mapping[str, int],
    kept: Assignments,
) -> Assignments:
    everything = [TopicPartition(topic, n) for topic in sorted(readers) for n in range(partitions[topic])]
    low, larger = divmod(len(everything), len(members))
    high = low + 1 if larger else low
    given: Assignments = {member.id: [] for member in members}
    filled = 0  # members that have the larger share
    for member in members:
        had = kept[member.id]
        if larger and len(had) >= high and filled < larger:
            given[member.id] = had[:high]
            filled += 1
        else:
            given[member.id] = had[:low]
    taken = {tp for places in given.values() for tp in places}
    free = iter([tp for tp in everything if tp not in taken])
    below = sorted(id for id, places in given.items() if len(places) < low)
    while below:  # one each in turn, until all have the lower share
        for id in below:
            given[id].append(next(free))
        below = [id for id in below if len(given[id]) < low]
    for id, tp in zip(sorted(id for id, places in given.items() if len(places) == low), free, strict=False):
        given[id].append(tp)
    return given


def _different(
    members: Collection[Member],
    readers: Mapping[str, list[Member]],
    partitions: Mapping[str, int],
    kept: Assignments,
) -> Assignments:
    given: Assignments = {id: list(places) for id, places in kept.items()}
    taken = {tp for places in given.values() for tp in places}
    # topics with few readers first: their partitions have the least choice
    for topic in sorted(readers, key=lambda name: (len(readers[name]), name)):
        for index in range(partitions[topic]):
            tp = TopicPartition(topic, index)
            if tp not in taken:
                least = min(readers[topic], key=lambda each: (len(given[each.id]), each.id))
                given[least.id].append(tp)
    _even_out(readers, partitions, given)
    return given


def _even_out(readers: Mapping[str, list[Member]], partitions: Mapping[str, int], given: Assignments) -> None:
    """Move partitions from more to less loaded readers while the difference is more than one. Every move makes the
    sum of squares smaller, so it ends."""
    owner = {tp: id for id, places in given.items() for tp in places}
    moved = True
    while moved:
        moved = False
        for topic in sorted(readers):
            if len(readers[topic]) < 2:
                continue
            for index in range(partitions[topic]):
                tp = TopicPartition(topic, index)
                least = min(readers[topic], key=lambda each: (len(given[each.id]), each.id)).id
                if len(given[owner[tp]]) > len(given[least]) + 1:
                    given[owner[tp]].remove(tp)
                    given[least].append(tp)
                    owner[tp] = least
                    moved = True
