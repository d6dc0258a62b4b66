"""The assignor `cooperative-sticky`: as `sticky`, and members keep reading while the group rebalances.

A partition that moves is first taken from its owner; only the rebalance after that gives it to the next one.
"""

import struct
from collections.abc import Collection, Mapping
from typing import ClassVar

from rookery.client.consumer.assignors.spec import Assignments, Member
from rookery.client.consumer.assignors.sticky import distribute
from rookery.core.types import TopicPartition

_GENERATION = struct.Struct(">i")


class CooperativeSticky:
    name: ClassVar[str] = "cooperative-sticky"
    cooperative: ClassVar[bool] = True

    def __init__(self) -> None:
        self._generation = -1

    def user_data(self) -> bytes | None:
        return _GENERATION.pack(self._generation)

    def assigned(self, places: Collection[TopicPartition], generation: int) -> None:
        self._generation = generation

    def assign(self, members: Collection[Member], partitions: Mapping[str, int]) -> Assignments:
        claims = {member.id: (member.owned, _generation(member)) for member in members}
        return _without_moves(distribute(members, partitions, claims), members)


def _generation(member: Member) -> int:
    """That of the subscription, which has it from v2 on, or that of the user data."""
    if member.generation >= 0:
        return member.generation
    if len(member.user_data) >= _GENERATION.size:
        generation: int = _GENERATION.unpack_from(member.user_data)[0]
        return generation
    return -1


def _without_moves(given: Assignments, members: Collection[Member]) -> Assignments:
    """Without the partitions that somebody else still owns."""
    owners: dict[TopicPartition, set[str]] = {}
    for member in members:
        for tp in member.owned:
            owners.setdefault(tp, set()).add(member.id)
    return {id: [tp for tp in places if not owners.get(tp, {id}) - {id}] for id, places in given.items()}
