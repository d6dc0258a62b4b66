"""Whom a broker names as coordinator while it is cut off from the other nodes, but not from clients.

It goes on as leader in its own view, and clients that are connected to nobody else would ask it for ever. So in place
of itself it names replicas that were in sync: one of them leads by now, and each knows who does. Metadata still names
it: perhaps the others are dead, and this is the only replica that can be read.
"""

from collections.abc import Callable
from random import Random
from uuid import UUID

from rookery.broker.replication.partitions import Partitions
from rookery.core.metadata import image


class OtherLeaders:
    def __init__(
        self, node_id: int, partitions: Partitions, random: Random, session_lasts: Callable[[], bool]
    ) -> None:
        self._node_id = node_id
        self._partitions = partitions
        self._random = random
        self._session_lasts = session_lasts

    @property
    def needed(self) -> bool:
        """Whether the controller has been silent for a whole session. No partition is stranded before."""
        return not self._session_lasts()

    def leader(self, topic_id: UUID, index: int, state: image.Partition) -> int:
        """The leader of a partition, or another replica in sync if this broker leads it and is stranded."""
        if not self.needed or state.leader != self._node_id:
            return state.leader
        partition = self._partitions.of(topic_id, index)
        named = [each for each in state.isr if each != self._node_id]
        if partition is None or not partition.stranded or not named:
            return state.leader
        return self._random.choice(named)
