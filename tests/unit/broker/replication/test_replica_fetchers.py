"""Who follows whom, while a broker starts and stops."""

import asyncio
from random import Random
from uuid import UUID

from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.replica_fetcher import FetcherSettings, Leader
from rookery.broker.replication.replica_fetchers import ReplicaFetchers
from rookery.broker.replication.topic_settings import TopicSettings
from rookery.core.clock import SystemClock
from rookery.core.net.peers import Peers
from rookery.core.testing.disk import MemoryDisk
from rookery.core.testing.network import MemoryNetwork
from rookery.core.types import TopicPartition


async def test_leaders_that_change_while_the_broker_stops_are_followed_no_more() -> None:
    """On a node in both roles the metadata log goes on after the broker's parts have stopped."""
    followers = ReplicaFetchers(
        node_id=1,
        broker_epoch=lambda: 1,
        settings=FetcherSettings(),
        clock=SystemClock(),
        peers=Peers("follower", network=MemoryNetwork()),
        on_failed=lambda partition, error: None,
    )
    log = PartitionLog.open(MemoryDisk(Random(1)), "data/orders-0", TopicPartition("orders", 0), TopicLogConfig())
    partition = Partition(UUID(int=1), log, TopicSettings(), node_id=1, wake=lambda _: None)
    serving = asyncio.get_running_loop().create_task(followers.serve())
    await asyncio.sleep(0)
    followers.follow(partition, Leader(2, "b2", 9092))
    await asyncio.sleep(0)
    serving.cancel()
    await asyncio.sleep(0)
    followers.follow(partition, Leader(3, "b3", 9092))
    await asyncio.wait([serving])
    followers.follow(partition, Leader(2, "b2", 9092))
    assert serving.cancelled()
