"""What brokers send each other about transactions, late: answers about a transaction that has ended meanwhile, and
markers of a coordinator that was replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from rookery.broker.transactions.markers import MarkerSender, _marker
from rookery.broker.transactions.verification import Verification
from rookery.core.errors import ErrorCode
from rookery.core.net.connection import Connection
from rookery.core.testing.control import NO_PROCESS
from rookery.core.testing.hosts import HostNetwork
from rookery.core.wire.apis.write_txn_markers import (
    WRITE_TXN_MARKERS,
    WritableTxnMarker,
    WriteTxnMarkersRequest,
)
from tests.simulation.nodes_clients import Failed
from tests.simulation.nodes_host import KAFKA

if TYPE_CHECKING:
    from tests.simulation.nodes_host import Place
    from tests.simulation.nodes_world import World


class LateBrokers:
    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = Random(f"{world.seed} late brokers")
        self._sent: dict[tuple[str, int, int], WritableTxnMarker] = {}
        """The last marker that a coordinator sent to a partition for a producer, until its successor's is there."""

    def _late_s(self) -> float:
        plan = self._world.swarm.transactions
        return self._rng.random() * (plan.late_s if plan is not None else 0.0)

    # --- answers about transactions --------------------------------------------------------------------------

    @contextmanager
    def slow_answers(self) -> Iterator[None]:
        """Whether a partition is part of a transaction is heard when that may have changed."""
        inner, plan = Verification.ask, self._world.swarm.transactions
        often = plan.slow_answers if plan is not None else 0.0

        async def ask(verification: Any, *args: Any) -> Any:
            answer = await inner(verification, *args)
            if not self._world.calm and self._rng.random() < often:
                self._world.oracles.count("slow answers")
                await asyncio.sleep(self._late_s())
            return answer

        with patch.object(Verification, "ask", ask):
            yield

    # --- markers ---------------------------------------------------------------------------------------------

    def hook(self, around: Callable[..., None]) -> None:
        plan = self._world.swarm.transactions
        if plan is not None and plan.old_markers:
            around(MarkerSender, "_ask", before=lambda sender, leader, lane: self._note(lane))

    def _note(self, lane: Any) -> None:
        for sending, partitions in lane.asked.items():
            for each in partitions:
                marker = _marker(sending.markers, [each])
                key = (each.topic, each.partition, marker.producer_id)
                if self._sent.setdefault(key, marker).coordinator_epoch == marker.coordinator_epoch:
                    self._sent[key] = marker

    def marked(self, place: Place, producer: int, coordinator_epoch: int) -> None:
        """A marker is committed: one of an earlier coordinator may still be on its way. Before its successor has
        written one, no leader could refuse it."""
        plan, key = self._world.swarm.transactions, (place.topic, place.index, producer)
        before = self._sent.get(key)
        if plan is None or not plan.old_markers or before is None or before.coordinator_epoch >= coordinator_epoch:
            return
        del self._sent[key]
        if not self._world.calm and self._rng.random() < plan.old_markers:
            work = self._send(place, before, self._late_s())
            NO_PROCESS.run(self._world.loop.create_task, work, name="late marker")

    async def _send(self, place: Place, marker: WritableTxnMarker, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        partition = self._world.partition(place)
        if partition is None or partition.leader < 0:
            return
        try:
            connection = await Connection.open(
                f"n{partition.leader}",
                KAFKA,
                client_id="late marker",
                network=HostNetwork(self._world.network),
                timeout_s=1.0,
            )
        except Failed:
            return
        try:
            answer = await connection.request(WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest(markers=[marker]), 5.0)
            code = answer.markers[0].topics[0].partitions[0].error_code
            self._world.oracles.count(f"late marker {ErrorCode(code).name}")
        except Failed:
            return
        finally:
            connection.close()
