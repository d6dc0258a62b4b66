"""Changes of in-sync sets: the regular check for followers that fell behind, and proposals to the controller.

The caller that makes a partition decide sends the decision: the check below, and the fetch handler for a follower that
has caught up. The controller's answer only says whether the proposal was accepted; the new ISR comes with the metadata
log.
"""

import asyncio
from typing import Protocol

from rookery.broker.metadata.cluster_view import ClusterView
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.partitions import Partitions
from rookery.broker.replication.replica_state import Proposal
from rookery.core.clock import Clock
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.event_logging import get_logger
from rookery.core.metadata.requests import IsrChange, IsrMember
from rookery.core.service import Service

_log = get_logger("broker.replication.isr")
SLICE = 64
"""Partitions looked over between two turns of the event loop."""
RETRY_S = 0.1
REPEAT_S = 1.0
"""Pause after an answer that is final, unless it came from a controller that was mistaken."""
_REFUSED = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""Answers after which the proposal is dropped; any other failure is settled by the metadata log."""


class IsrController(Protocol):
    """The active controller, which decides changes of in-sync sets."""

    async def alter_partition(self, change: IsrChange) -> ErrorCode: ...


class InSyncSets(Service):
    """What the partitions of this broker know of other brokers (`BrokerFacts`), and its proposals to the controller."""

    name = "in-sync sets"

    def __init__(
        self,
        view: ClusterView,
        partitions: Partitions,
        controller: IsrController,
        clock: Clock,
        *,
        lag_ms_max: int,
        session_ms: int,
    ) -> None:
        self._view = view
        self._partitions = partitions
        self._controller = controller
        self._clock = clock
        self._group: asyncio.TaskGroup | None = None
        self.lag_ms_max = lag_ms_max
        self.session_ms = session_ms
        self.session_lasts = True
        self.broker_epoch = -1
        self.shrinks = 0
        self.expands = 0
        self.failed_updates = 0

    def now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    def may_join(self, node_id: int) -> int | None:
        broker = self._view.image.brokers.get(node_id)
        return broker.epoch if broker is not None and broker.active else None

    def set_session(self, lasts: bool) -> None:
        self.session_lasts = lasts

    def propose(self, partition: Partition, proposal: Proposal) -> None:
        """Ask the controller for the ISR that the partition decided on, until it answers."""
        before = len(partition.state.isr)
        shrinks = len(proposal.isr) < before
        self.shrinks += shrinks
        self.expands += not shrinks
        _log.info(
            "isr.shrink" if shrinks else "isr.expand", partition=str(partition.topic_partition),
            isr=list(partition.state.isr), proposed=list(proposal.isr), leader_epoch=proposal.leader_epoch,
            high_watermark=partition.log.high_watermark, log_end=partition.log.end_offset,
        )  # fmt: skip
        if self._group is not None:
            self._group.create_task(self._send(partition, proposal), name=f"isr {partition.topic_partition}")

    async def serve(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            for partition in self._partitions:
                self._send_pending(partition)
            try:
                while True:
                    await asyncio.sleep(self.lag_ms_max / 2000)
                    await self._look_over()
            finally:
                self._group = None  # the metadata log may go on: nothing is proposed any more

    def _send_pending(self, partition: Partition) -> None:
        """What was proposed before this service ran."""
        proposal = partition.pending_proposal()
        if proposal is not None and self._group is not None:
            self._group.create_task(self._send(partition, proposal))

    async def _look_over(self) -> None:
        """Find followers that have been behind for too long, some partitions at a time."""
        for number, partition in enumerate(list(self._partitions)):
            proposal = partition.tick()
            if proposal is not None:
                self.propose(partition, proposal)
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)

    async def _send(self, partition: Partition, proposal: Proposal) -> None:
        """Ask until the controller answers, as long as the proposal still stands."""
        change = IsrChange(
            topic_id=partition.topic_id,
            partition=partition.index,
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch,
            new_isr=tuple(IsrMember(*pair) for pair in zip(proposal.isr, proposal.broker_epochs, strict=True)),
        )
        while partition.pending_proposal() == proposal:
            try:
                code = await self._controller.alter_partition(change)
            except KafkaError as error:
                code = error.code
            if code == ErrorCode.NONE:
                return
            self.failed_updates += 1
            _log.warning("isr.refused", partition=str(partition.topic_partition), error=code.name)
            if code in _REFUSED:
                partition.on_refused(proposal)
                return
            # whatever the reason: while the metadata log brings nothing newer, the proposal stands and nobody
            # else will make another
            await asyncio.sleep(RETRY_S if code.retriable else REPEAT_S)
