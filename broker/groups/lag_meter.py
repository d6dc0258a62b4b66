"""Asks the leaders, at intervals, where the partitions end of which this broker's groups have committed offsets.

One request per leader and interval, however many groups read from it; this broker's own partitions are looked at
directly. A leader that does not answer is left out until the next time.
"""

import asyncio
from collections.abc import Iterable

from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.groups.lag import OffsetTimes
from rookery.broker.handlers.ports import ClusterPort
from rookery.broker.log.partition_log import Isolation
from rookery.broker.replication.partition import LATEST
from rookery.broker.replication.partitions import Partitions
from rookery.core.clock import Clock
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.event_logging import get_logger
from rookery.core.net.connection import ConnectionLostError
from rookery.core.net.peers import Peers
from rookery.core.service import Service
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

_log = get_logger("broker.groups")
TIMEOUT_S = 5.0
CONSUMER = -1


class LagMeter(Service):
    """`times` is what is known, by partition: only of those with commits."""

    name = "group lag"

    def __init__(
        self,
        groups: GroupCoordinator,
        cluster: ClusterPort,
        partitions: Partitions,
        clock: Clock,
        peers: Peers,
        *,
        listener: str,
        interval_ms: int,
    ) -> None:
        """`listener` is where brokers reach each other; an interval of 0 measures nothing."""
        self.times: dict[TopicPartition, OffsetTimes] = {}
        self._groups = groups
        self._cluster = cluster
        self._partitions = partitions
        self._clock = clock
        self._peers = peers
        self._listener = listener
        self._interval_s = interval_ms / 1000

    async def serve(self) -> None:
        if self._interval_s == 0:
            await asyncio.Event().wait()
        while True:
            await asyncio.sleep(self._interval_s)
            await self.measure()

    async def stop(self) -> None:
        self._peers.close()

    async def measure(self) -> None:
        """One round."""
        wanted = await self._with_commits()
        for partition in self.times.keys() - wanted:
            del self.times[partition]
        by_leader = self._by_leader(sorted(wanted))
        own = by_leader.pop(self._cluster.node_id, [])
        for partition in own:
            self._look(partition)
        async with asyncio.TaskGroup() as group:
            for leader, asked in by_leader.items():
                group.create_task(self._ask(leader, asked), name=f"end offsets of broker {leader}")

    async def _with_commits(self) -> set[TopicPartition]:
        """Looked for shard by shard, so that others get their turn in between."""
        found: set[TopicPartition] = set()
        for shard in self._groups.shards:
            for group in shard.groups.groups.values():
                found.update(partition for partition, _ in group.offsets)
            await asyncio.sleep(0)
        return found

    def _by_leader(self, wanted: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        image = self._cluster.image
        leaders: dict[int, list[TopicPartition]] = {}
        for partition in wanted:
            topic = image.topic(partition.topic)
            found = topic.partitions.get(partition.partition) if topic is not None else None
            if found is not None and found.has_leader:
                leaders.setdefault(found.leader, []).append(partition)
        return leaders

    def _look(self, where: TopicPartition) -> None:
        partition = self._partitions.named(*where)
        if partition is None:
            return
        try:
            partition.check_leader()
            found = partition.list_offset(LATEST, Isolation.HIGH_WATERMARK)
        except KafkaError:
            return  # leadership moves: the next round asks the right broker
        if found is not None:
            self._add(where, found.offset)

    async def _ask(self, leader: int, asked: list[TopicPartition]) -> None:
        broker = self._cluster.image.brokers.get(leader)
        endpoint = broker.endpoint(self._listener) if broker is not None else None
        if endpoint is None:
            return
        address = (endpoint.host, endpoint.port)
        try:
            answer = await self._peers.ask(address, LIST_OFFSETS, _request(asked), timeout_s=TIMEOUT_S)
        except (OSError, ConnectionLostError, KafkaError) as error:
            _log.info("group.lag.unknown", leader=leader, partitions=len(asked), reason=str(error))
            return
        for topic in answer.topics:
            for each in topic.partitions:
                if each.error_code == ErrorCode.NONE:
                    self._add(TopicPartition(topic.name, each.partition_index), each.offset)

    def _add(self, partition: TopicPartition, end: int) -> None:
        self.times.setdefault(partition, OffsetTimes()).add(end, self._clock.wall_ms())


def _request(asked: Iterable[TopicPartition]) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for topic, index in asked:
        topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=index, timestamp=LATEST))
    return ListOffsetsRequest(
        replica_id=CONSUMER,
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )
