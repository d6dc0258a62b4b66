"""From the topic a client names to the partition on this broker, or to the error that says why not."""

from typing import NamedTuple
from uuid import UUID

from rookery.broker.handlers.ports import ClusterPort
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.partitions import Partitions
from rookery.core.errors import (
    InconsistentTopicIdError,
    NotLeaderOrFollowerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from rookery.core.metadata.image import Endpoint


class Leader(NamedTuple):
    """Who leads a partition now, and where it is reached on the client's listener."""

    id: int
    epoch: int
    endpoint: Endpoint | None
    rack: str | None


class Locator:
    """Looks partitions up; the image decides whether one that is not here exists elsewhere."""

    def __init__(self, partitions: Partitions, cluster: ClusterPort) -> None:
        self._partitions = partitions
        self._by_name = partitions.by_name
        self._cluster = cluster

    def named(self, topic: str, index: int) -> Partition:
        partition = self._by_name.get((topic, index))
        if partition is None:
            raise self._why_not(self._cluster.image.topic_ids.get(topic), topic, index)
        return partition

    def of(self, topic_id: UUID, index: int) -> Partition:
        partition = self._partitions.of(topic_id, index)
        if partition is None:
            known = self._cluster.image.topics.get(topic_id)
            if known is None:
                raise UnknownTopicIdError(f"no topic has the id {topic_id}")
            if self._partitions.named(known.name, index) is not None:
                raise InconsistentTopicIdError(f"{known.name}-{index} on this broker belongs to another topic id")
            raise self._why_not(topic_id, known.name, index)
        return partition

    def here(self, topic: str, index: int) -> Partition | None:
        return self._by_name.get((topic, index))

    def name_of(self, topic_id: UUID) -> str:
        """Empty where no topic has this id."""
        known = self._cluster.image.topics.get(topic_id)
        return "" if known is None else known.name

    def _why_not(self, topic_id: UUID | None, topic: str, index: int) -> Exception:
        image = self._cluster.image
        if topic_id is None or image.partition(topic_id, index) is None:
            return UnknownTopicOrPartitionError(f"there is no partition {topic}-{index}")
        refused = self._partitions.refused.get((topic, index))
        if refused is not None:
            return refused
        return NotLeaderOrFollowerError(f"{topic}-{index} has no replica on broker {self._cluster.node_id}")

    @property
    def node_id(self) -> int:
        return self._cluster.node_id

    def leader(self, topic: str, topic_id: UUID, index: int, listener: str) -> Leader | None:
        """Whom a client that asked the wrong broker should ask; a hint that spares it a metadata request."""
        image = self._cluster.image
        found = image.partition(image.topic_ids.get(topic, topic_id), index)
        if found is None:
            return None
        broker = image.brokers.get(found.leader)
        if broker is None:
            return Leader(found.leader, found.leader_epoch, None, None)
        return Leader(found.leader, found.leader_epoch, broker.endpoint(listener), broker.rack)
