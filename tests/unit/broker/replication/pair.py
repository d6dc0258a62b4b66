"""A leader and its follower: a real broker, and the real fetcher with log dirs of its own, joined in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

from rookery.broker.log.cleaner import Cleaner, CleanerOptions
from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.housekeeper import Housekeeper, HousekeepingOptions
from rookery.broker.log.log_dirs import LogDirs
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.replica_fetcher import FetcherSettings, Followed, Leader, ReplicaFetcher
from rookery.broker.replication.topic_settings import TopicSettings
from rookery.core.clock import SystemClock
from rookery.core.disk import FileDisk
from rookery.core.metadata import image as im
from rookery.core.metadata.requests import CreateTopicsRequest, NewTopic
from rookery.core.net.peers import Peers
from rookery.core.testing.clock import ManualClock
from rookery.core.testing.network import MemoryNetwork
from rookery.core.types import TopicPartition
from tests.unit.broker.log.batches import batch
from tests.unit.broker.log.nodes import log_dirs
from tests.unit.broker.one_broker import NODE_ID, OneBroker, running_broker
from tests.unit.broker.waiting import until

LEADER, FOLLOWER = NODE_ID, 2
TOPIC = "orders"


def led(*, isr: tuple[int, ...] = (LEADER, FOLLOWER), epoch: int = 1) -> im.Partition:
    return im.Partition(
        replicas=(LEADER, FOLLOWER), isr=isr, leader=LEADER, leader_epoch=epoch, partition_epoch=epoch
    )


class Pair:
    """What happens to the follower's log happens through the services that do it on a broker."""

    def __init__(self, broker: OneBroker, dirs: LogDirs, network: MemoryNetwork, clock: ManualClock) -> None:
        self.dirs = dirs
        self.clock = clock
        """The wall clock of the follower's retention."""
        self.broker = broker
        self.failed: list[Exception] = []
        self.keeper = Housekeeper(dirs, clock, HousekeepingOptions())
        self.cleaner = Cleaner(dirs, self.keeper, clock, CleanerOptions(5, 1 << 20, 1e12))
        self.fetcher = ReplicaFetcher(
            Leader(LEADER, "127.0.0.1", broker.port),
            node_id=FOLLOWER,
            broker_epoch=lambda: 1,
            settings=FetcherSettings(wait_ms_max=20),
            clock=SystemClock(),
            peers=Peers("follower", network=network),
            on_failed=self._failed,
        )

    def _failed(self, partition: Followed, error: Exception) -> None:
        self.failed.append(error)

    def leader(self, index: int = 0) -> Partition:
        return self.broker.partition(TOPIC, index)

    async def follow(self, index: int = 0, state: im.Partition | None = None) -> Partition:
        """Make the follower's replica and let it fetch."""
        leader = self.leader(index)
        state = state or led()
        leader.apply(state)
        log = await self.dirs.create(TopicPartition(TOPIC, index), leader.topic_id)
        made = Partition(
            leader.topic_id, log, TopicSettings(), node_id=FOLLOWER, wake=lambda _: None, storage=self.dirs
        )
        made.apply(state)
        self.fetcher.follow(made)
        return made

    def produce(self, count: int, *, index: int = 0, keys: int = 47) -> None:
        """Batches of one record each, of which some fill a segment."""
        now_ms = self.clock.wall_ms()
        for number in range(count):
            one = batch(1, keys=[b"%d" % (number % keys)], values=[b"v" * 50], timestamp=now_ms)
            self.leader(index).append_as_leader(one, -1, now_ms)

    def told_start(self, index: int = 0) -> int:
        """Where the follower's log starts, as the leader knows it."""
        leading = self.leader(index).leading
        assert leading is not None
        return leading.followers[FOLLOWER].log_start

    async def replicated(self, index: int = 0) -> None:
        """All that the leader has is committed: acks=all would be answered."""
        log = self.leader(index).log
        await until(lambda: log.high_watermark == log.end_offset)


@asynccontextmanager
async def running_pair(path: Path, config: TopicLogConfig, partitions: int = 1) -> AsyncIterator[Pair]:
    network, clock = MemoryNetwork(), ManualClock()
    dirs = log_dirs(FileDisk(), [str(path)], config=config, clock=clock)
    await dirs.start()
    async with running_broker(network=network) as broker:
        await broker.cluster.ask(CreateTopicsRequest((NewTopic(TOPIC, partitions, 1),)))
        for partition in broker.partitions:
            partition.log.config = config
        pair = Pair(broker, dirs, network, clock)
        fetching = asyncio.get_running_loop().create_task(pair.fetcher.run())
        try:
            yield pair
        finally:
            fetching.cancel()
            await asyncio.wait([fetching])
            await dirs.stop(1)


def key_of(partition: Partition) -> tuple[UUID, int]:
    return partition.topic_id, partition.index
