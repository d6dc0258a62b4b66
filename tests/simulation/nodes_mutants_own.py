"""Planted bugs of the Python client, which programs that use it meet among nodes that fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rookery.client.aborted import Aborted
from rookery.client.consumer.consumer import Consumer
from rookery.client.consumer.fetches import Fetches
from rookery.client.consumer.partition import Partition
from rookery.client.producer.batch import NO_STAMP, Batch
from rookery.client.producer.partition_queue import PartitionQueue
from rookery.client.producer.transactions import Transactions
from tests.simulation.nodes_planting import BROKEN, Mutant
from tests.simulation.nodes_swarm import Swarm


def _with(*faults: str, **plan: Any) -> Callable[[Swarm], None]:
    """These faults and no others; the programs as given."""

    def aim(swarm: Swarm) -> None:
        swarm.faults, swarm.points = dict.fromkeys(faults, 1.0), {}
        swarm.duration_s, swarm.fault_s = 10.0, 2.0
        swarm.session_ms, swarm.heartbeat_ms, swarm.lag_ms = 1500, 250, 2000
        swarm.split, swarm.brokers_more = False, 0
        if swarm.own is not None:
            swarm.own = replace(swarm.own, **plan)

    return aim


def _what_was_fetched(fetches: Fetches) -> Any:
    """Positions behind all that was fetched, handed out or not."""
    return {
        tp: (partition.fetch_offset, partition.fetch_epoch)
        for tp, partition in fetches.partitions.items()
        if partition.position is not None
    }


_back = PartitionQueue.back


def _numbers_again(queue: PartitionQueue, batch: Batch, *, uncertain: bool) -> None:
    batch.stamp = NO_STAMP
    _back(queue, batch, uncertain=uncertain)


_end = Transactions.end


async def _always_commits(transactions: Transactions, commit: bool) -> None:
    await _end(transactions, True)


def _hides_nothing(aborted: Aborted, *_: Any) -> bool:
    return False


def _keeps_what_was_fetched(partition: Partition) -> None:
    """A seek leaves the buffers as they are."""
    partition.problem = None


def _waits_for_the_next_record(consumer: Consumer) -> None:
    """Auto-commit is due, and whoever waits in an iteration is not woken."""


MUTANTS = (
    Mutant(
        "commits what was only fetched",
        "offsets of records that no program has seen are committed",
        ("own-skip", "liveness"),
        ((Fetches, "positions", _what_was_fetched),),
        _with("kill", members=2, processors=0, crash_s=1.0, pause_s=0.1),
        "clients",
    ),
    Mutant(
        "a retry has another number",
        "a batch whose answer was lost is sent again as a new one",
        ("duplicate", "own-order", "order", *BROKEN),
        ((PartitionQueue, "back", _numbers_again),),
        _with("kill_leader", "pause_leader", processors=0, pause_s=0.1),
        "clients",
    ),
    Mutant(
        "an abort commits",
        "what a program wanted to abort becomes visible",
        ("own-duplicate", *BROKEN),
        ((Transactions, "end", _always_commits),),
        _with("kill", processors=1, members=1),
        "clients",
    ),
    Mutant(
        "aborted records are read",
        "a consumer with read_committed does not look which transactions were aborted",
        ("own-duplicate", *BROKEN),
        ((Aborted, "covers", _hides_nothing),),
        _with("kill", processors=2, members=1),
        "clients",
    ),
    Mutant(
        "a seek drops nothing",
        "what was fetched before a seek is handed out after it",
        ("own-order", "own-skip", "own-duplicate", *BROKEN),
        ((Partition, "_drop", _keeps_what_was_fetched),),
        _with("kill", processors=2, members=1, pause_s=0.1),
        "clients",
    ),
    Mutant(
        "an idle iteration does not commit",
        "what an iteration handed out is committed when the next record comes, which may be never",
        ("liveness",),
        ((Consumer, "_commit_now", _waits_for_the_next_record),),
        _with("kill", members=3, processors=0),
        "clients",
    ),
)
