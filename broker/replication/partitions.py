"""The partitions this broker holds, by name and by topic id. It only looks up; partitions do the work."""

from collections.abc import Iterator
from uuid import UUID

from rookery.broker.replication.partition import Partition
from rookery.core.errors import KafkaError


class Partitions:
    """Both ways of asking lead to the same partition, since a name may be given to another topic later."""

    def __init__(self) -> None:
        self.by_name: dict[tuple[str, int], Partition] = {}
        self._by_id: dict[tuple[UUID, int], Partition] = {}
        self.refused: dict[tuple[str, int], KafkaError] = {}
        """Replicas that cannot be used, and what to answer to who asks for them."""

    def __len__(self) -> int:
        return len(self.by_name)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self.by_name.values())

    def add(self, partition: Partition) -> None:
        self.refused.pop((partition.topic, partition.index), None)
        self.by_name[partition.topic, partition.index] = partition
        self._by_id[partition.topic_id, partition.index] = partition

    def remove(self, topic_id: UUID, index: int) -> Partition | None:
        """Take a partition out; the name may belong to a newer topic by now and is then left alone."""
        partition = self._by_id.pop((topic_id, index), None)
        if partition is not None and self.by_name.get((partition.topic, index)) is partition:
            del self.by_name[partition.topic, index]
        return partition

    def named(self, topic: str, index: int) -> Partition | None:
        return self.by_name.get((topic, index))

    def of(self, topic_id: UUID, index: int) -> Partition | None:
        return self._by_id.get((topic_id, index))
