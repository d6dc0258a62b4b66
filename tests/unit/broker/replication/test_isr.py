"""Proposals of in-sync sets on their way to the controller."""

import asyncio
from random import Random
from uuid import UUID

import pytest

from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.metadata.cluster_view import ClusterView
from rookery.broker.replication import isr
from rookery.broker.replication.isr import InSyncSets
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.partitions import Partitions
from rookery.broker.replication.replica_state import Committed, PendingExpand
from rookery.broker.replication.topic_settings import TopicSettings
from rookery.core.clock import ManualClock
from rookery.core.disk import MemoryDisk
from rookery.core.errors import ErrorCode
from rookery.core.metadata import image as im
from rookery.core.metadata.requests import IsrChange
from rookery.core.types import TopicPartition

ME = 1


class SlowController:
    """Answers when told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[IsrChange, asyncio.Future[ErrorCode]]] = []

    async def alter_partition(self, change: IsrChange) -> ErrorCode:
        answer: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self.asked.append((change, answer))
        return await answer


def led(partition_epoch: int) -> im.Partition:
    return im.Partition(
        replicas=(ME, 2, 3), isr=(ME,), leader=ME, leader_epoch=1, partition_epoch=partition_epoch
    )


def a_leader(controller: SlowController) -> tuple[InSyncSets, Partition]:
    view = ClusterView(node_id=ME, cluster_id="c")
    sets = InSyncSets(view, Partitions(), controller, ManualClock(), lag_ms_max=1000)
    log = PartitionLog.open(MemoryDisk(Random(1)), "data/orders-0", TopicPartition("orders", 0), TopicLogConfig())
    partition = Partition(UUID(int=1), log, TopicSettings(), node_id=ME, wake=lambda _: None, peers=sets)
    partition.apply(led(1))
    return sets, partition


@pytest.mark.invariant("P10")
async def test_a_proposal_that_stands_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else would: the ISR would stay as it is until the leader changes."""
    monkeypatch.setattr(isr, "REPEAT_S", 0.0)
    controller = SlowController()
    sets, partition = a_leader(controller)
    leading = partition.leading
    assert leading is not None
    leading.isr = PendingExpand(Committed(frozenset({ME}), 1), 2)
    proposal = leading.pending_proposal()
    assert proposal is not None
    sending = asyncio.get_running_loop().create_task(sets._send(partition, proposal))
    await asyncio.sleep(0)
    controller.asked[0][1].set_result(ErrorCode.INVALID_REQUEST)
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(controller.asked) == 2
    controller.asked[1][1].set_result(ErrorCode.NONE)
    await sending


@pytest.mark.invariant("P2", "P10")
async def test_a_refusal_ends_only_the_proposal_it_belongs_to() -> None:
    """A later one may yet be taken, and until its fate is known its member counts."""
    controller = SlowController()
    sets, partition = a_leader(controller)
    leading = partition.leading
    assert leading is not None
    leading.isr = PendingExpand(Committed(frozenset({ME}), 1), 2)
    first = leading.pending_proposal()
    assert first is not None
    sending = asyncio.get_running_loop().create_task(sets._send(partition, first))
    await asyncio.sleep(0)
    partition.apply(led(2))
    later = leading.isr = PendingExpand(Committed(frozenset({ME}), 2), 3)
    controller.asked[0][1].set_result(ErrorCode.INELIGIBLE_REPLICA)
    await sending
    assert leading.isr is later
