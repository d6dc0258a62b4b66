"""Ids and small values that every part of the system names in the same way."""

from typing import NamedTuple, NewType
from uuid import UUID

NodeId = NewType("NodeId", int)
Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)

NO_NODE = NodeId(-1)
NO_EPOCH = LeaderEpoch(-1)
NO_TOPIC_ID = UUID(int=0)


class TopicPartition(NamedTuple):
    """One partition, by the names people use."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
