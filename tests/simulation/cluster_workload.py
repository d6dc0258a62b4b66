"""Clients of the simulated cluster: producers that repeat until they know, and readers that look at everything.

They speak the real protocol over simulated connections. Only whom to ask they learn by looking into the view of
some broker, which may be old, as an answer to a Metadata request would be.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.net.connection import Connection, ConnectionLostError
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.delete_records import (
    DELETE_RECORDS,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from rookery.core.wire.apis.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from rookery.core.wire.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from rookery.core.wire.apis.produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from rookery.core.wire.records import Record, batches, build_batch, read_records
from tests.simulation.cluster_broker import EPOCH_MS, PORT
from tests.simulation.cluster_loop import Process
from tests.simulation.cluster_net import HostNetwork
from tests.simulation.cluster_oracles import require

if TYPE_CHECKING:
    from tests.simulation.cluster_world import World

LATEST = -1
Failed = (ConnectionLostError, OSError, KafkaError)


class Client:
    """One client process with a connection to each broker it needs."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.rng = Random(f"{world.seed} client {name}")
        self.process = Process(name)
        self._connections: dict[int, Connection] = {}
        self._epochs: dict[TopicPartition, int] = {}

    def leader(self, place: TopicPartition) -> tuple[int, int] | None:
        """(leader, epoch) as some broker knows it; clients do not go back to one older than they have heard of."""
        views = [b.role.view.image for b in self.world.brokers.values() if b.running and b.ready and b.role is not None]
        if not views:
            return None
        image = self.rng.choice(views)
        topic = image.topic(place.topic)
        partition = topic.partitions.get(place.partition) if topic is not None else None
        if partition is None or partition.leader < 0 or partition.leader_epoch < self._epochs.get(place, 0):
            return None
        self._epochs[place] = partition.leader_epoch
        return partition.leader, partition.leader_epoch

    async def ask(self, node: int, api: Any, version: int, request: Any) -> Any:
        timeout_s = self.world.swarm.request_timeout_ms / 1000
        connection = self._connections.get(node)
        if connection is None or connection.closed:
            network = HostNetwork(self.world.network)
            connection = await Connection.open(
                f"b{node}", PORT, client_id=self.process.host, network=network, timeout_s=timeout_s
            )
            self._connections[node] = connection
        return await connection.request(api, version, request, timeout_s)


class Producer(Client):
    """Sends unique values to one partition, one batch at a time."""

    def __init__(self, world: World, number: int, place: TopicPartition, *, acks: int) -> None:
        super().__init__(world, f"p{number}")
        self._number = number
        self._place = place
        self._acks = acks
        self._next = 0
        self._sequence = 0
        self.idle = True
        self.process.context.run(world.loop.create_task, self._run(), name=f"producer {number}")

    async def _run(self) -> None:
        while not self.world.quiet:
            await asyncio.sleep(self.rng.expovariate(1.0) * self.world.swarm.produce_s)
            if not self.world.quiet:
                self.idle = False
                values = [self._value() for _ in range(self.rng.choice((1, 1, 2, 5)))]
                await (self._until_acked(values) if self._acks == -1 else self._once(values))
                self.idle = True

    def _value(self) -> bytes:
        value = f"p{self._number}-{self._next}".encode()
        self._next += 1
        self.world.oracles.sent[value] = self._place
        return value

    async def _until_acked(self, values: list[bytes]) -> None:
        """Repeat with the same sequence until acknowledged; give up only what was surely not written."""
        batch = self._batch(values, self._number, self._sequence)
        unsure = False
        while True:
            code, offset = await self._send(batch)
            if code == ErrorCode.NONE:
                self.world.oracles.acked(self._place, offset, values)
                self.world.trace("ack", self._place, offset, values[0])
                self._sequence += len(values)
                return
            if code == ErrorCode.NOT_ENOUGH_REPLICAS and not unsure and self.rng.random() < 0.3:
                for value in values:
                    self.world.oracles.refused[value] = code.name
                return
            unsure = unsure or code != ErrorCode.NOT_ENOUGH_REPLICAS
            forgotten = code in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)
            if forgotten and self.world.lossy(self._place):
                self._sequence += len(values)
                return
            require(not forgotten, "T2", f"{self._place}: {code.name} for", values[0], "sequence", self._sequence)
            await asyncio.sleep(0.02 + self.rng.random() * 0.3)

    async def _once(self, values: list[bytes]) -> None:
        """acks=1, not idempotent: whatever the answer is, the next batch is another."""
        code, _ = await self._send(self._batch(values, -1, -1))
        if code == ErrorCode.NONE:
            self.world.oracles.count("acks=1")

    def _batch(self, values: list[bytes], producer: int, sequence: int) -> bytearray:
        now = EPOCH_MS + int(self.world.loop.time() * 1000)
        records = [Record(offset, now, None, value) for offset, value in enumerate(values)]
        epoch = 0 if producer >= 0 else -1
        return build_batch(records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)

    async def _send(self, batch: bytearray) -> tuple[ErrorCode, int]:
        found = self.leader(self._place)
        if found is None:
            return ErrorCode.LEADER_NOT_AVAILABLE, -1
        request = ProduceRequest(
            acks=self._acks,
            timeout_ms=self.world.swarm.request_timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=self._place.topic,
                    partition_data=[PartitionProduceData(index=self._place.partition, records=bytes(batch))],
                )
            ],
        )
        try:
            answer = await self.ask(found[0], PRODUCE, 9, request)
        except Failed:
            return ErrorCode.NETWORK_EXCEPTION, -1
        answered = answer.responses[0].partition_responses[0]
        return ErrorCode(answered.error_code), answered.base_offset


class Consumer(Client):
    """Reads all partitions over and over, each from where it stands, and asks for LATEST now and then."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, f"r{number}")
        self.positions = {place: 0 for place in world.places}
        self.process.context.run(world.loop.create_task, self._run(), name=f"consumer {number}")

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self.rng.random() * 0.3)
            for place in self.positions:
                found = self.leader(place)
                if found is None:
                    continue
                try:
                    if self.rng.random() < 0.3:
                        await self._latest(place, *found)
                    else:
                        await self._read(place, *found)
                except Failed:
                    continue

    async def _latest(self, place: TopicPartition, leader: int, epoch: int) -> None:
        asked = ListOffsetsPartition(partition_index=place.partition, current_leader_epoch=epoch, timestamp=LATEST)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=place.topic, partitions=[asked])]
        )
        answer = await self.ask(leader, LIST_OFFSETS, 5, request)
        answered = answer.topics[0].partitions[0]
        if answered.error_code == 0:
            self.world.oracles.latest(place, answered.leader_epoch, answered.offset)

    async def _read(self, place: TopicPartition, leader: int, epoch: int) -> None:
        asked = FetchPartition(
            partition=place.partition,
            current_leader_epoch=epoch,
            fetch_offset=self.positions[place],
            partition_max_bytes=self.rng.choice((200, 100_000)),
        )
        request = FetchRequest(
            max_wait_ms=self.rng.choice((0, 200)),
            min_bytes=1,
            topics=[FetchTopic(topic=place.topic, partitions=[asked])],
        )
        answer = await self.ask(leader, FETCH, 12, request)
        if answer.responses:
            self._take(place, epoch, answer.responses[0].partitions[0])

    def _take(self, place: TopicPartition, epoch: int, data: Any) -> None:
        oracles = self.world.oracles
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            ended = self.world.deleted_to.get(place, 0)
            allowed = self.world.lossy(place) or self.positions[place] < ended
            require(allowed, "P5", f"{place}: position {self.positions[place]} is out of range")
            self.positions[place] = ended if self.positions[place] < ended else 0
            return
        if data.error_code:
            return
        oracles.showed(place, epoch, data.high_watermark)
        content = data.records or b""
        for position, header in batches(content):
            require(header.last_offset < data.high_watermark, "P14", f"{place}: read past the high watermark", header)
            for record in read_records(content, position):
                if record.offset >= self.positions[place]:
                    skipped = record.offset - self.positions[place]
                    allowed = skipped == 0 or self.positions[place] < self.world.deleted_to.get(place, 0)
                    allowed = allowed or self.world.lossy(place)
                    require(allowed, "poll-skip", f"{place}: from", self.positions[place], record.offset)
                    oracles.saw(place, record.offset, record.value or b"", "read")
                    oracles.count("read")
                    self.positions[place] = record.offset + 1


class Deleter(Client):
    """Asks for DeleteRecords when told to."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "d1")

    def delete(self, place: TopicPartition) -> None:
        self.process.context.run(self.world.loop.create_task, self._delete(place))

    async def _delete(self, place: TopicPartition) -> None:
        found = self.leader(place)
        end = self.world.oracles.acked_end.get(place, 0)
        if found is None or not end:
            return
        offset = self.rng.randint(0, end)
        self.world.deleted_to[place] = max(offset, self.world.deleted_to.get(place, 0))
        asked = DeleteRecordsPartition(partition_index=place.partition, offset=offset)
        request = DeleteRecordsRequest(
            timeout_ms=1000, topics=[DeleteRecordsTopic(name=place.topic, partitions=[asked])]
        )
        try:
            await self.ask(found[0], DELETE_RECORDS, 1, request)
        except Failed:
            return
