"""When a follower tries again what its leader did not know yet."""

from random import Random
from uuid import UUID

from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.replication.follower import FIRST_PAUSE_S, FollowerSettings, Leader, LeaderFollower
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.topic_settings import TopicSettings
from rookery.core.clock import ManualClock
from rookery.core.disk import MemoryDisk
from rookery.core.net.network import MemoryNetwork
from rookery.core.types import TopicPartition


async def test_a_pause_that_is_over_is_not_waited_for_without_end() -> None:
    """It may end between the look for what to send and the look for how long to wait."""
    clock = ManualClock()
    follower = LeaderFollower(
        Leader(2, "b2", 9092),
        node_id=1,
        broker_epoch=lambda: 1,
        settings=FollowerSettings(),
        clock=clock,
        network=MemoryNetwork(),
        on_failed=lambda partition, error: None,
    )
    log = PartitionLog.open(MemoryDisk(Random(1)), "data/orders-0", TopicPartition("orders", 0), TopicLogConfig())
    partition = Partition(UUID(int=1), log, TopicSettings(), node_id=1, wake=lambda _: None)
    follower.follow(partition)
    follower._step_aside((partition.topic_id, partition.index), partition, "UNKNOWN_TOPIC_ID")
    assert follower._next_retry_s() == FIRST_PAUSE_S
    clock.advance(FIRST_PAUSE_S)
    assert follower._next_retry_s() == 0
