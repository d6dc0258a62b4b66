"""The shards of one coordinator on this broker: one for each partition of its internal topic that this broker leads.

The metadata log says which those are. A partition that begins to be led here, or goes on in a new epoch, is loaded:
between two epochs another broker may have written. Requests in the meantime get
COORDINATOR_LOAD_IN_PROGRESS. Leading begins when the log has been truncated to where the last leader left it, and so
does loading; a load that fails, for whatever reason, is retried and affects only its own partition.
"""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

from rookery.broker.coordination.internal_topic import InternalTopic
from rookery.broker.coordination.loader import load
from rookery.broker.coordination.shard import Shard, instant
from rookery.broker.handlers.ports import ClusterPort
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.partitions import Partitions
from rookery.core.clock import Clock
from rookery.core.errors import CoordinatorLoadInProgressError, KafkaError, NotCoordinatorError
from rookery.core.event_logging import get_logger
from rookery.core.metadata.image import Image
from rookery.core.metrics import Metrics
from rookery.core.service import Service
from rookery.core.window import Window

_log = get_logger("broker.coordination")

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S", bound=Shard[Any])
OPENING_PAUSE_S = (0.005, 0.1)
"""First and longest pause until a replica that is being opened is looked for again."""
RETRY_PAUSE_S = 1.0
"""Pause before a log that could not be read is tried again."""


class Term(NamedTuple):
    """The time between two elections. A topic that is deleted and recreated begins to count anew."""

    topic_id: UUID
    leader_epoch: int


class Kind(Protocol[R_co, S]):
    """What differs between the coordinators."""

    @property
    def topic(self) -> InternalTopic: ...

    def decode(self, key: bytes | None, value: bytes | None) -> R_co | None:
        """A record of the topic; None for one that means nothing here."""

    def shard(self, partition: Partition, epoch: int) -> S:
        """A new shard, to be loaded."""

    def activated(self, shard: S) -> None:
        """The shard is loaded and serves from now on."""


class Shards(Service, Generic[R, S]):
    def __init__(
        self,
        kind: Kind[R, S],
        cluster: ClusterPort,
        partitions: Partitions,
        clock: Clock,
        executor: Executor,
        *,
        slice_bytes: int,
    ) -> None:
        self.name = f"shards of {kind.topic.name}"
        self._kind = kind
        self._cluster = cluster
        self._partitions = partitions
        self._clock = clock
        self._executor = executor
        self._slice_bytes = slice_bytes
        self._led: dict[int, Term] = {}
        """The partitions that are led here."""
        self._active: dict[int, S] = {}
        self._to_load: asyncio.Queue[tuple[int, Term]] = asyncio.Queue()
        self.loaded = 0
        """How many times a shard was loaded."""
        self._load_ms = Window(clock)

    def publish_metrics(self, metrics: Metrics, prefix: str) -> None:
        text = "Milliseconds it took to load a partition of the coordinator, in the last 30 to 60 s"
        name, window = f"{prefix}partition_load_time", self._load_ms
        metrics.read_value(f"{name}_avg", f"{text}: average.", lambda: window.mean)
        metrics.read_value(f"{name}_max", f"{text}: maximum.", lambda: window.maximum)

    # --- who is in charge -------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[S]:
        return iter(list(self._active.values()))

    @property
    def loading(self) -> bool:
        return len(self._active) < len(self._led)

    def shard_of(self, key: str) -> S:
        """The shard in charge of `key`. Raises the error for the client where it is not this broker's."""
        index = self._kind.topic.index_of(key, self._cluster.image)
        return self.shard_at(-1 if index is None else index)

    def shard_at(self, index: int) -> S:
        """The shard of one partition. Raises where it is not this broker's, or not loaded yet."""
        shard = self._active.get(index)
        if shard is not None:
            return shard
        if index in self._led:
            raise CoordinatorLoadInProgressError(f"{self._kind.topic.name}-{index} is being loaded")
        raise NotCoordinatorError(f"{self._kind.topic.name}-{index} is not led by broker {self._cluster.node_id}")

    def follow(self, image: Image) -> None:
        """Lead and load what the image says."""
        topic = image.topic(self._kind.topic.name)
        led = {}
        if topic is not None:
            led = {
                index: Term(topic.id, partition.leader_epoch)
                for index, partition in topic.partitions.items()
                if partition.leader == self._cluster.node_id
            }
        if led == self._led:
            return
        for index, term in list(self._led.items()):
            if led.get(index) != term:
                self._drop(index)
        for index, term in sorted(led.items()):
            if index not in self._led:
                self._lead(index, term)

    def _lead(self, index: int, term: Term) -> None:
        self._led[index] = term
        self._to_load.put_nowait((index, term))

    def _drop(self, index: int) -> None:
        del self._led[index]
        shard = self._active.pop(index, None)
        if shard is not None:
            shard.close()

    def lost(self, shard: Shard[Any]) -> None:
        """A write found that the partition is led elsewhere, or its disk failed. It is loaded again if the metadata log
        does not say otherwise by then."""
        index = shard.partition.index
        if self._active.get(index) is shard:
            term = self._led[index]
            self._drop(index)
            self._lead(index, term)

    # --- loading ----------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                index, term = await self._to_load.get()
                group.create_task(self._take_over(index, term), name=f"load {self._kind.topic.name}-{index}")

    async def stop(self) -> None:
        for index in list(self._led):
            self._drop(index)

    def _still(self, index: int, term: Term) -> bool:
        return self._led.get(index) == term and index not in self._active

    async def _take_over(self, index: int, term: Term) -> None:
        """The supervisor of one load."""
        began = self._clock.monotonic()
        while self._still(index, term):
            try:
                partition = await self._opened(index, term)
                if partition is not None:
                    await self._load(partition, term, began)
                return
            except Exception as error:
                if not self._still(index, term):
                    return
                place = f"{self._kind.topic.name}-{index}"
                if isinstance(error, KafkaError):
                    _log.error("coordinator.load.failed", partition=place, reason=str(error))
                else:
                    _log.exception("coordinator.load.failed", error, partition=place)
                await asyncio.sleep(RETRY_PAUSE_S)

    async def _opened(self, index: int, term: Term) -> Partition | None:
        """The replica, once it leads. Opening it, and truncating its log, waits for the disk and may end after
        the metadata has arrived; a replica whose disk has failed never leads."""
        pause_s = OPENING_PAUSE_S[0]
        while self._still(index, term):
            partition = self._partitions.of(term.topic_id, index)
            leads = partition is not None and partition.leading is not None
            if partition is not None and leads and partition.state.leader_epoch == term.leader_epoch:
                return partition
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, OPENING_PAUSE_S[1])
        return None

    async def _load(self, partition: Partition, term: Term, began: float) -> None:
        epoch = term.leader_epoch
        shard = self._kind.shard(partition, epoch)
        count = await load(
            partition,
            epoch,
            self._kind.decode,
            shard.state.replay,
            shard.state.end_transaction,
            slice_bytes=self._slice_bytes,
            executor=self._executor,
        )
        if not self._still(partition.index, term):
            return
        self._active[partition.index] = shard
        self.loaded += 1
        took_ms = round((self._clock.monotonic() - began) * 1000)
        self._load_ms.add(took_ms)
        _log.info(
            "coordinator.loaded", partition=str(partition.topic_partition), leader_epoch=epoch, records=count,
            took_ms=took_ms,
        )  # fmt: skip
        shard.run(shard.state.loaded(instant(self._clock)))
        self._kind.activated(shard)
