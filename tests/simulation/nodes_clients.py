"""Clients of simulated nodes: producers that repeat until they know, readers that look at everything, and probes.

They speak the real protocol over simulated connections. Only whom to ask they learn by looking into the view of some
node, which may be old, as an answer to a Metadata request would be.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.net.connection import Connection, ConnectionLostError
from rookery.core.testing.hosts import HostNetwork
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from rookery.core.wire.apis.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from rookery.core.wire.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from rookery.core.wire.apis.produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from rookery.core.wire.batch import crc_of
from rookery.core.wire.records import Record, batches, build_batch, read_records
from tests.simulation.controller_rules import require
from tests.simulation.loop import Process
from tests.simulation.nodes_host import EPOCH_MS, KAFKA, Place

if TYPE_CHECKING:
    from tests.simulation.nodes_world import World

LATEST = -1
Failed = (ConnectionLostError, OSError, KafkaError)
KEYS = 7
OWN_IDS = 1 << 40
"""Producer ids that nobody was given begin here."""
FORGOTTEN = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH)


class Client:
    """One client process with a connection to each node it needs."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.rng = Random(f"{world.seed} client {name}")
        self.process = Process(name)
        self._connections: dict[int, Connection] = {}
        self._epochs: dict[Place, int] = {}

    def run(self, coroutine: Any) -> None:
        self.process.context.run(self.world.loop.create_task, coroutine, name=self.name)

    def view(self) -> Any:
        """The cluster as some node knows it."""
        nodes = self.world.nodes.values()
        views = [n.role.view.image for n in nodes if n.running and n.ready and n.role is not None]
        return self.rng.choice(views) if views else None

    def some_node(self) -> int:
        """A broker that seems to be there, or one at random."""
        up = [n.id for n in self.world.nodes.values() if n.up and n.ready and n.is_broker]
        return self.rng.choice(up or self.world.brokers)

    def leader(self, place: Place, view: Any = None) -> tuple[int, int] | None:
        """(leader, epoch) as some node knows it; clients do not go back to one older than they have heard of."""
        image = view or self.view()
        partition = image.partition(place.id, place.index) if image is not None else None
        if partition is None or partition.leader < 0 or partition.leader_epoch < self._epochs.get(place, 0):
            return None
        self._epochs[place] = partition.leader_epoch
        return partition.leader, partition.leader_epoch

    async def ask(self, node: int, api: Any, version: int, request: Any, timeout_s: float | None = None) -> Any:
        timeout_s = timeout_s or self.world.swarm.request_timeout_ms / 1000
        connection = self._connections.get(node)
        if connection is None or connection.closed:
            network = HostNetwork(self.world.network)
            connection = await Connection.open(
                f"n{node}", KAFKA, client_id=self.name, network=network, timeout_s=timeout_s
            )
            self._connections[node] = connection
        return await connection.request(api, version, request, timeout_s)

    def now_ms(self) -> int:
        return EPOCH_MS + int(self.world.loop.time() * 1000)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


class Batch:
    """Records for one partition, until their fate is known."""

    def __init__(self, place: Place, values: list[bytes], data: bytes) -> None:
        self.place = place
        self.values = values
        self.data = data
        self.unsure = False
        self.since = 0.0
        self.code = ErrorCode.NONE


class Producer(Client):
    """Sends unique values, to several partitions of one leader at once where it can."""

    def __init__(self, world: World, number: int, *, acks: int, idempotent: bool) -> None:
        super().__init__(world, f"p{number}")
        self._acks = acks
        self._idempotent = idempotent
        self._next: dict[TopicPartition, int] = {}
        self._sequences: dict[Place, tuple[int, int]] = {}
        """Producer id and next sequence."""
        self._ids: list[int] = []
        self._id_count = 0
        self._number = number
        self.open: list[Batch] = []
        self.idle = True
        self.run(self._go())

    async def _go(self) -> None:
        while not self.world.quiet:
            await asyncio.sleep(self.rng.expovariate(1.0) * self.world.swarm.produce_s)
            await self._rest()
            if not self.world.quiet:
                self.idle = False
                await self._send_some()
                self.idle = True
        self.close()

    async def _rest(self) -> None:
        """Now and then, where that is soon: for so long that partitions forget this producer, which then goes on."""
        plan = self.world.swarm.expiry
        if plan is not None and self.rng.random() < 0.01:
            await asyncio.sleep((plan.producers_ms + plan.check_ms) / 1000 * (0.5 + self.rng.random()))

    async def _send_some(self) -> None:
        view = self.view()
        if view is None:
            return
        found = [p for p in self.world.places() if not p.topic.startswith("__") and p.topic in self.world.plans]
        led: dict[int, list[Place]] = {}
        for place in found:
            leader = self.leader(place, view)
            if leader is not None:
                led.setdefault(leader[0], []).append(place)
        if not led:
            return
        places = led[self.rng.choice(list(led))]
        some = self.rng.sample(places, min(len(places), self.rng.choice((1, 1, 2, 3))))
        if not await self._has_ids(some):
            return
        self.open = [self.batch(place, self.rng.choice((1, 1, 2, 5))) for place in some]
        if self._acks == -1 and self._idempotent:
            await self._until_acked()
        else:
            await self._once()
        self.open = []

    async def _has_ids(self, places: list[Place]) -> bool:
        """Ask for a producer id for each partition that has none, where the seed has clients do so."""
        if not self._idempotent or not self.world.swarm.asks_ids:
            return True
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        while len(self._ids) < sum(place not in self._sequences for place in places):
            try:
                answer = await self.ask(self.some_node(), INIT_PRODUCER_ID, 4, request)
            except Failed:
                return False
            if answer.error_code:
                return False
            self.world.oracles.given_id(answer.producer_id, answer.producer_epoch)
            self._ids.append(answer.producer_id)
        return True

    def _new_id(self) -> int:
        if self._ids:
            return self._ids.pop()
        self._id_count += 1
        return OWN_IDS + self._number * 1000 + self._id_count

    def batch(self, place: Place, size: int) -> Batch:
        now, named = self.now_ms(), place.named
        records, values = [], []
        for offset in range(size):
            key = f"k{self.rng.randrange(KEYS)}".encode()
            number = self._next.get(named, 0)
            self._next[named] = number + 1
            value = f"{self.name}.{named.topic}.{named.partition}-{number}/".encode() + key
            self.world.oracles.sent[value] = (named, now)
            records.append(Record(offset, now, key, value))
            values.append(value)
        if not self._idempotent:
            data = build_batch(records, producer_id=-1, producer_epoch=-1, base_sequence=-1)
            return Batch(place, values, bytes(data))
        if place not in self._sequences:
            self._sequences[place] = (self._new_id(), 0)
        producer, sequence = self._sequences[place]
        self._sequences[place] = (producer, sequence + size)
        data = build_batch(records, producer_id=producer, producer_epoch=0, base_sequence=sequence)
        return Batch(place, values, bytes(data))

    async def _until_acked(self) -> None:
        """Repeat with the same sequences until acknowledged; give up only what was surely not written."""
        for batch in self.open:
            batch.since = self.world.loop.time()
        while self.open:
            for leader, batches_ in self._by_leader().items():
                await self._send(leader, batches_)
                for batch in batches_:
                    if self._settled(batch):
                        self.open.remove(batch)
            if self.open:
                await asyncio.sleep((0.02 + self.rng.random() * 0.3) * (self.world.swarm.pace / 10 + 0.9))

    def _by_leader(self) -> dict[int, list[Batch]]:
        view, found = self.view(), dict[int, list[Batch]]()
        for batch in list(self.open):
            if self.world.partition(batch.place) is None:
                self.open.remove(batch)  # the topic was deleted
                continue
            leader = self.leader(batch.place, view)
            if leader is not None:
                found.setdefault(leader[0], []).append(batch)
        return found

    def _settled(self, batch: Batch) -> bool:
        code, world = batch.code, self.world
        if code == ErrorCode.NONE:
            return True
        if code == ErrorCode.NOT_ENOUGH_REPLICAS and not batch.unsure and self.rng.random() < 0.3:
            for value in batch.values:
                world.oracles.refused[value] = code.name
            self._sequences.pop(batch.place, None)
            return True
        batch.unsure = batch.unsure or code != ErrorCode.NOT_ENOUGH_REPLICAS
        plan = world.swarm.expiry
        if plan is not None and world.loop.time() - batch.since > plan.delivery_s:
            self._sequences.pop(batch.place, None)  # nobody knows what became of it
            world.oracles.count("given up")
            return True
        if code in FORGOTTEN:
            recreated = len(world.oracles.names.get(batch.place.topic, ())) > 1
            excused = world.oracles.lossy(batch.place) or recreated
            require(excused, "T2", f"{batch.place}: {code.name} for", batch.values[0])
            self._sequences.pop(batch.place, None)
            return True
        return False

    async def _once(self) -> None:
        """Whatever the answer is, the next batch is another."""
        for leader, batches_ in self._by_leader().items():
            await self._send(leader, batches_)

    async def _send(self, leader: int, batches_: list[Batch], timeout_ms: int | None = None) -> None:
        timeout_ms = timeout_ms or self.world.swarm.request_timeout_ms
        by_topic: dict[str, list[Batch]] = {}
        for batch in batches_:
            by_topic.setdefault(batch.place.topic, []).append(batch)
            batch.code = ErrorCode.NETWORK_EXCEPTION
        request = ProduceRequest(
            acks=self._acks,
            timeout_ms=timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=topic,
                    partition_data=[PartitionProduceData(index=b.place.index, records=b.data) for b in inside],
                )
                for topic, inside in by_topic.items()
            ],
        )
        try:
            answer = await self.ask(leader, PRODUCE, 9, request, timeout_ms / 1000 + 1)
        except Failed:
            return
        found = {(t.name, p.index): p for t in answer.responses for p in t.partition_responses}
        for batch in batches_:
            answered = found[batch.place.named]
            batch.code = ErrorCode(answered.error_code)
            if batch.code == ErrorCode.NONE:
                self._acked(batch, answered.base_offset)

    def _acked(self, batch: Batch, offset: int) -> None:
        if self._acks != -1:
            self.world.oracles.count("acks=1")
            return
        place = self.world.oracles.place_of(batch.place.named, batch.data)
        require(place is not None, "phantom", f"{batch.place} acknowledged what was not appended", batch.values[0])
        if place is not None:
            self.world.oracles.acked(place, offset, batch.values)
            self.world.trace("ack", place, offset, batch.values[0])
            batch.place = place


class Consumer(Client):
    """Reads all partitions over and over, each from where it stands, and asks for LATEST now and then."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, f"r{number}")
        self.positions: dict[Place, int] = {}
        self.stopped = False
        self.run(self._go())

    async def _go(self) -> None:
        while not self.stopped:
            await asyncio.sleep(self.rng.random() * 0.4 * self.world.swarm.pace)
            for place in [p for p in self.world.places() if not p.topic.startswith("__")]:
                found = self.leader(place)
                if found is None or self.stopped:
                    continue
                try:
                    if self.rng.random() < 0.2:
                        await self._latest(place, *found)
                    else:
                        await self.read(place, *found)
                except Failed:
                    continue
        self.close()

    async def _latest(self, place: Place, leader: int, epoch: int) -> None:
        asked = ListOffsetsPartition(partition_index=place.index, current_leader_epoch=epoch, timestamp=LATEST)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=place.topic, partitions=[asked])])
        answer = await self.ask(leader, LIST_OFFSETS, 5, request)
        answered = answer.topics[0].partitions[0]
        if answered.error_code == 0 and len(self.world.oracles.names.get(place.topic, ())) == 1:
            self.world.oracles.latest(place, answered.leader_epoch, answered.offset)

    async def read(self, place: Place, leader: int, epoch: int) -> ErrorCode:
        position = self.positions.get(place, 0)
        asked = FetchPartition(
            partition=place.index,
            current_leader_epoch=epoch,
            fetch_offset=position,
            partition_max_bytes=self.rng.choice((200, 100_000)),
        )
        request = FetchRequest(
            max_wait_ms=self.rng.choice((0, 200)),
            min_bytes=1,
            topics=[FetchTopic(topic_id=place.id, partitions=[asked])],
        )
        answer = await self.ask(leader, FETCH, 13, request)
        if not answer.responses:
            return ErrorCode(answer.error_code)
        data = answer.responses[0].partitions[0]
        self._take(place, epoch, position, data)
        return ErrorCode(data.error_code)

    def _take(self, place: Place, epoch: int, position: int, data: Any) -> None:
        oracles = self.world.oracles
        history, lossy = oracles.history(place), oracles.lossy(place)
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            floor = oracles.floor.get(place, 0)
            require(lossy or position < floor, "P5", f"{place}: position {position} is out of range, floor", floor)
            self.positions[place] = floor if position < floor else 0
            return
        if data.error_code:
            return
        oracles.showed(place, epoch, data.high_watermark)
        content = data.records or b""
        for at, header in batches(content):
            if crc_of(content, at, header.size) != header.crc:
                rotten = bool(self.world.disks.rotten(place))
                require(rotten, "S3", f"{place}: a batch with another checksum was served", header)
                oracles.count("refused by its checksum")
                break
            require(header.last_offset < data.high_watermark, "P14", f"{place}: read past the high watermark", header)
            if header.control:
                position = max(position, header.next_offset) if header.base_offset <= position else position
                continue
            for record in read_records(content, at):
                if record.offset >= position:
                    allowed = record.offset == position or history.compact or lossy
                    allowed = allowed or position < oracles.floor.get(place, 0)
                    require(allowed, "poll-skip", f"{place}: from", position, record.offset)
                    oracles.saw(place, record.offset, record.value or b"", "read")
                    oracles.count("read")
                    position = record.offset + 1
            if history.compact:
                position = max(position, header.last_offset + 1)
        self.positions[place] = max(position, self.positions.get(place, 0))


class Probe(Producer):
    """When all is well, every partition takes a record and gives it back, at once."""

    def __init__(self, world: World, number: int, within_s: float, only: list[int] | None = None) -> None:
        self._within_s = within_s
        self._only = only
        self.waiting: dict[Place, str] = {}
        super().__init__(world, number, acks=-1, idempotent=True)

    async def _go(self) -> None:
        """Repeat where leaders move; where nothing moves the first answer must be good."""
        world = self.world
        wanted = [p for p in world.places() if not p.topic.startswith("__") and self._can(p)]
        self.waiting = dict.fromkeys(wanted, "not sent")
        self.idle = False
        while self.waiting:
            by_leader: dict[int, list[Place]] = {}
            for place in list(self.waiting):
                if world.partition(place) is None:
                    del self.waiting[place]
                    continue
                found = self.leader(place)
                if found is not None:
                    by_leader.setdefault(found[0], []).append(place)
            for leader, places in by_leader.items():
                if not await self._has_ids(places):
                    continue
                sent = [self.batch(place, 1) for place in places]
                await self._send(leader, sent, 10_000)
                for place, batch in zip(places, sent, strict=True):
                    if batch.code == ErrorCode.NONE:
                        del self.waiting[place]
                    else:
                        self.waiting[place] = batch.code.name
                        self._sequences.pop(place, None)
                        moving = batch.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NETWORK_EXCEPTION)
                        stuck = batch.code == ErrorCode.REQUEST_TIMED_OUT
                        require(moving or not stuck, "liveness", f"{place}: acks=all, all well:", batch.code.name)
            if self.waiting:
                await asyncio.sleep(0.2)
        self.idle = True
        self.close()

    def _can(self, place: Place) -> bool:
        partition = self.world.partition(place)
        if self._only is None or partition is None:
            return partition is not None
        alive = [n for n in partition.isr if n in self._only]
        return len(alive) >= self.world.oracles.need(place) and partition.leader in self._only
