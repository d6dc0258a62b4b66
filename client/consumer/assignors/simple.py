"""The assignors that look at nothing but members and partitions: `range` and `roundrobin`."""

from collections.abc import Collection, Mapping
from itertools import cycle
from typing import ClassVar

from rookery.client.consumer.assignors.spec import Assignments, Member, subscribed
from rookery.core.types import TopicPartition


class _Forgetful:
    """Members send nothing with their subscription, and remember nothing."""

    cooperative: ClassVar[bool] = False

    def user_data(self) -> bytes | None:
        return None

    def assigned(self, places: Collection[TopicPartition], generation: int) -> None:
        pass


class Range(_Forgetful):
    """Each topic is cut into consecutive ranges. Topics with equally many partitions are cut alike."""

    name: ClassVar[str] = "range"

    def assign(self, members: Collection[Member], partitions: Mapping[str, int]) -> Assignments:
        given: Assignments = {member.id: [] for member in members}
        for topic, readers in sorted(subscribed(members, partitions).items()):
            share, extra = divmod(partitions[topic], len(readers))
            first = 0
            for number, member in enumerate(readers):
                after = first + share + (number < extra)
                given[member.id].extend(TopicPartition(topic, index) for index in range(first, after))
                first = after
        return given


class RoundRobin(_Forgetful):
    """All partitions of all topics in order, one for each member in turn; who does not read a topic is passed over."""

    name: ClassVar[str] = "roundrobin"

    def assign(self, members: Collection[Member], partitions: Mapping[str, int]) -> Assignments:
        given: Assignments = {member.id: [] for member in members}
        topics = subscribed(members, partitions)
        turns = cycle(sorted(members, key=lambda each: each.rank))
        for topic in sorted(topics):
            for index in range(partitions[topic]):
                member = next(each for each in turns if topic in each.topics)
                given[member.id].append(TopicPartition(topic, index))
        return given
