"""Proposals of in-sync sets on their way to the controller."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from uuid import UUID

import pytest
from immutables import Map

from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.metadata.cluster_view import ClusterView
from rookery.broker.replication import isr
from rookery.broker.replication.isr import InSyncSets
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.partitions import Partitions
from rookery.broker.replication.topic_settings import TopicSettings
from rookery.core.errors import ErrorCode, error_for
from rookery.core.metadata import image as im
from rookery.core.metadata.requests import IsrChange
from rookery.core.testing.clock import ManualClock
from rookery.core.testing.disk import MemoryDisk
from rookery.core.types import TopicPartition
from tests.simulation.loop import Process, SimLoop
from tests.unit.broker.log.batches import NOW, batch
from tests.unit.broker.waiting import until

ME = 1
SESSION_MS = 9_000
PAUSES = {"RETRY_S": isr.RETRY_S, "REPEAT_S": isr.REPEAT_S}


class SlowController:
    """Answers when told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[IsrChange, asyncio.Future[ErrorCode]]] = []

    async def alter_partition(self, change: IsrChange) -> ErrorCode:
        answer: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self.asked.append((change, answer))
        return await answer


def led(partition_epoch: int, isr: tuple[int, ...] = (ME,)) -> im.Partition:
    return im.Partition(
        replicas=(ME, 2, 3), isr=isr, leader=ME, leader_epoch=1, partition_epoch=partition_epoch
    )


class Leader:
    """A leader of one partition, and the metadata log and the controller as it sees them."""

    def __init__(self, isr: tuple[int, ...] = (ME,)) -> None:
        self.controller = SlowController()
        self.view = ClusterView(node_id=ME, cluster_id="c")
        self._epochs = {ME: 10, 2: 20, 3: 30}
        self._tell_brokers()
        self.partitions = Partitions()
        self.clock = ManualClock()
        self.sets = InSyncSets(
            self.view, self.partitions, self.controller, self.clock, lag_ms_max=60_000, session_ms=SESSION_MS
        )
        name = TopicPartition("orders", 0)
        log = PartitionLog.open(MemoryDisk(Random(1)), "data/orders-0", name, TopicLogConfig())
        self.partition = Partition(
            UUID(int=1), log, TopicSettings(), node_id=ME, wake=lambda _: None, brokers=self.sets
        )
        self.partitions.add(self.partition)
        self.partition.apply(led(1, isr))

    def _tell_brokers(self) -> None:
        brokers = {
            node: im.BrokerRegistration(node, epoch, UUID(int=node), fenced=False)
            for node, epoch in self._epochs.items()
        }
        self.view._fold.image = replace(self.view.image, brokers=Map(brokers))

    def restart(self, node: int) -> None:
        """A broker has registered anew."""
        self._epochs[node] += 1
        self._tell_brokers()

    def die(self, node: int) -> None:
        del self._epochs[node]
        self._tell_brokers()

    def fetch(self, node: int, offset: int) -> None:
        epoch = self._epochs[node]
        proposal = self.partition.on_follower_fetch(node, offset=offset, log_start=0, broker_epoch=epoch)
        if proposal is not None:
            self.sets.propose(self.partition, proposal)

    def append(self) -> int:
        """The offset at which acks=all is answered."""
        return self.partition.append_as_leader(batch(), 1, NOW).last_offset + 1

    @property
    def pending(self) -> bool:
        return self.partition.pending_proposal() is not None

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        task = asyncio.get_running_loop().create_task(self.sets.serve())
        await asyncio.sleep(0)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def asked(self, times: int) -> IsrChange:
        await until(lambda: len(self.controller.asked) == times)
        return self.controller.asked[-1][0]

    def answer(self, code: ErrorCode) -> None:
        self.controller.asked[-1][1].set_result(code)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isr, "REPEAT_S", 0.0)
    monkeypatch.setattr(isr, "RETRY_S", 0.0)


@pytest.mark.invariant("P10")
@pytest.mark.parametrize("code", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
async def test_a_refused_proposal_is_dropped_and_the_follower_proposed_as_it_is_then(code: ErrorCode) -> None:
    leader = Leader()
    async with leader.serving():
        leader.fetch(2, 0)
        first = await leader.asked(1)
        leader.answer(code)
        await until(lambda: not leader.pending)
        leader.fetch(2, 0)
        assert await leader.asked(2) == first


STANDING = [
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.STALE_BROKER_EPOCH,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.UNKNOWN_SERVER_ERROR,
]


@pytest.mark.invariant("P10")
@pytest.mark.parametrize("code", STANDING, ids=[code.name for code in STANDING])
@pytest.mark.parametrize("raised", [False, True], ids=["answered", "raised"])
async def test_after_any_other_answer_the_same_proposal_is_made_until_the_metadata_shows_it(
    code: ErrorCode, raised: bool
) -> None:
    """It may have been taken: nobody else would make it again, and what it was must not change meanwhile."""
    leader = Leader()
    async with leader.serving():
        leader.fetch(2, 0)
        first = await leader.asked(1)
        for times in (2, 3):
            leader.restart(2)
            leader.fetch(2, 0)
            if raised:
                leader.controller.asked[-1][1].set_exception(error_for(code, "no"))
            else:
                leader.answer(code)
            assert await leader.asked(times) == first
            assert leader.pending
        leader.partition.apply(led(2, (ME, 2)))
        assert not leader.pending
        leader.answer(code)
        await until(lambda: all(answer.done() for _, answer in leader.controller.asked))
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(leader.controller.asked) == 3


@pytest.mark.invariant("P10")
@pytest.mark.parametrize("code", STANDING, ids=[code.name for code in STANDING])
def test_the_pause_before_a_proposal_is_made_again_is_short(
    code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that looks final may come from a controller that was mistaken (KAFKA-14154): until the proposal is made
    again, writes wait for the follower that it is about."""
    for name, pause_s in PAUSES.items():
        monkeypatch.setattr(isr, name, pause_s)
    loop, process = SimLoop(lambda: 0.0), Process("leader")  # type: ignore[abstract]
    leader = Leader()
    serving = process.context.run(loop.create_task, leader.sets.serve())
    loop.run_until(0.0)
    process.context.run(leader.fetch, 2, 0)
    loop.run_until(0.0)
    for times in (1, 2, 3):
        assert len(leader.controller.asked) == times
        process.context.run(leader.answer, code)
        loop.run_until(loop.time() + 1.0)
    serving.cancel()
    loop.run_until(loop.time())
    assert serving.done()


@pytest.mark.invariant("P10")
async def test_a_proposal_that_was_taken_waits_for_the_metadata() -> None:
    leader = Leader()
    async with leader.serving():
        leader.fetch(2, 0)
        await leader.asked(1)
        leader.answer(ErrorCode.NONE)
        for _ in range(5):
            await asyncio.sleep(0)
        assert leader.pending
        assert len(leader.controller.asked) == 1
        leader.partition.apply(led(2, (ME, 2)))
        assert not leader.pending


@pytest.mark.invariant("P10", "P2")
async def test_a_follower_that_was_proposed_and_came_back_as_another_does_not_hold_up_writes() -> None:
    """It rejoins, is killed and returns while the leader cannot reach the controller; then it is gone."""
    leader = Leader((ME, 3))
    async with leader.serving():
        leader.fetch(3, 0)
        leader.fetch(2, 0)
        change = await leader.asked(1)
        assert [member.broker_epoch for member in change.new_isr] == [-1, 20, 30]
        leader.restart(2)
        leader.fetch(2, 0)
        leader.answer(ErrorCode.INELIGIBLE_REPLICA)
        await until(lambda: not leader.pending)
        leader.die(2)
        end = leader.append()
        leader.fetch(3, end)
        leader.sets._clock.advance(120)  # type: ignore[attr-defined]
        leader.fetch(3, end)
        assert leader.partition.log.high_watermark == end


@pytest.mark.invariant("P2", "P10")
async def test_a_refusal_ends_only_the_proposal_it_belongs_to() -> None:
    """A later one may yet be taken, and until its fate is known its member counts."""
    leader = Leader()
    async with leader.serving():
        leader.fetch(2, 0)
        await leader.asked(1)
        leader.partition.apply(led(2))
        leader.fetch(3, 0)
        later = await leader.asked(2)
        leader.controller.asked[0][1].set_result(ErrorCode.INELIGIBLE_REPLICA)
        for _ in range(5):
            await asyncio.sleep(0)
        assert [member.broker_id for member in later.new_isr] == [ME, 3]
        assert leader.pending
