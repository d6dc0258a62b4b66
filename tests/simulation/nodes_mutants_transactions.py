"""Planted bugs of transactions: coordinators that act too early or forget, partitions that let in what is late, readers
that are shown what is undecided. Most were in Kafka or Redpanda once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from rookery.broker.coordination.commit_queue import CommitQueue
from rookery.broker.groups.offsets import NO_PRODUCER, Offsets
from rookery.broker.log import transaction_index
from rookery.broker.log.producer_state import ProducerState
from rookery.broker.transactions.markers import MarkerSender
from rookery.broker.transactions.state import Step, TransactionsState
from rookery.broker.transactions.transaction import Producer, State, Transaction
from rookery.broker.transactions.verification import Verification
from rookery.core.errors import TransactionCoordinatorFencedError
from tests.simulation.nodes_planting import Mutant
from tests.simulation.nodes_swarm import Swarm

TORN = (
    "aborted-read", "early-read", "torn", "lost", "duplicate", "offset-without-record", "record-without-offset",
    "non-monotonic-read", "skipped",
)  # fmt: skip
"""What the checker of histories says, whichever comes first."""
HANGS = ("liveness", "hanging")


def _with(
    *faults: str, plan: dict[str, Any] | None = None, points: dict[str, float] | None = None, **settings: Any
) -> Callable[[Swarm], None]:
    """These faults and no others, for a short time; other settings and the clients as given."""

    def aim(swarm: Swarm) -> None:
        swarm.faults, swarm.points = dict.fromkeys(faults, 1.0), points or {}
        swarm.duration_s, swarm.fault_s = 10.0, 1.0
        swarm.session_ms, swarm.heartbeat_ms, swarm.lag_ms = 1500, 250, 2000
        swarm.split, swarm.brokers_more = False, 0
        for name, value in settings.items():
            setattr(swarm, name, value)
        if swarm.transactions is not None:
            swarm.transactions = replace(swarm.transactions, **{"pause_s": 0.05, **(plan or {})})

    return aim


# --- the coordinator -------------------------------------------------------------------------------------------------

_add = CommitQueue.add


def _sends_at_once(queue: Any, answers: Sequence[Any], effects: Sequence[Any] = ()) -> None:
    for effect in effects:
        queue._carry_out(effect)
    _add(queue, answers)


def _answers_at_once(queue: Any, answers: Sequence[Any], effects: Sequence[Any] = ()) -> None:
    for to, response in answers:
        to.complete(response)
    _add(queue, (), effects)


def _keeps_its_epoch(
    transaction: Transaction, producer: Producer, commit: bool, new_id: Any, now_ms: int
) -> Transaction:
    ended = _end_and_bump(transaction, producer, commit, new_id, now_ms)
    return replace(ended, epoch=transaction.epoch) if ended.state.prepared and not commit else ended


_end_and_bump = Transaction.end_and_bump


def _aborts_without_fencing(transaction: Transaction, new_id: Any, version: int, now_ms: int) -> Transaction:
    return replace(transaction, state=State.PREPARE_ABORT, updated_ms=now_ms, version=version)


def _takes_any_epoch(transaction: Transaction, producer: Producer) -> None:
    if producer.id != transaction.producer_id:
        raise transaction._mapped(producer)
    if transaction.state.prepared:
        raise transaction._busy()


def _forgets_its_prepares(state: Any, now: Any) -> Step:
    return Step()


# --- the partition ---------------------------------------------------------------------------------------------------


async def _asks_nobody(verification: Any, transaction: Any, partitions: Any) -> Any:
    return {}


_UNDECIDED = property(lambda state: state.first_undecided_offset)


def _one_too_few(indexes: Iterable[Sequence[Any]], start: int, end: int) -> list[Any]:
    return _collect(indexes, start + 1, end)


_collect = transaction_index.collect


def _keeps_its_guard(state: Any, entry: Any, batch: Any, marker: Any) -> Any:
    guard = state._guards.get(entry.producer_id) if state._guards else None
    completed = _apply_marker(state, entry, batch, marker)
    if guard is not None:
        state.keep(guard)
    return completed


_apply_marker = ProducerState._apply_marker


def _takes_any_coordinator(state: Any, *args: Any, **more: Any) -> None:
    with suppress(TransactionCoordinatorFencedError):
        _check_marker(state, *args, **more)


_check_marker = ProducerState.check_marker


def _tries_once(sender: Any, sending: Any, then: Any, *args: Any) -> None:
    if then.__name__ != "_route":
        _later(sender, sending, then, *args)


_later = MarkerSender._later


# --- the group -------------------------------------------------------------------------------------------------------

_replay = Offsets.replay
_end_transaction = Offsets.end_transaction


def _commits_at_once(offsets: Any, partition: Any, value: Any, at: int, producer_id: int = NO_PRODUCER) -> None:
    _replay(offsets, partition, value, at)


def _keeps_aborted_offsets(offsets: Any, producer_id: int, committed: bool) -> None:
    _end_transaction(offsets, producer_id, True)


MUTANTS = (
    Mutant(
        "markers before the decision is committed",
        "the coordinator sends markers as soon as it has appended its decision",
        ("T7",),
        ((CommitQueue, "add", _sends_at_once),),
        _with("cut_pair"),
        "transactions",
    ),
    Mutant(
        "partitions added, not committed",
        "a leader is told that its partition is part of the transaction before that is committed",
        ("T7", "T11", *TORN),
        ((CommitQueue, "add", _answers_at_once),),
        _with("cut_pair", plan={"old": 0.0}),
        "transactions",
    ),
    Mutant(
        "an abort keeps the epoch",
        "what is late from an aborted transaction can reach the next one",
        ("T7", "T11", *TORN),
        ((Transaction, "end_and_bump", _keeps_its_epoch),),
        _with("kill", plan={"old": 0.0, "repeats": 0.3}),
        "transactions",
    ),
    Mutant(
        "timeout without fencing",
        "a transaction that took too long is aborted in its own epoch",
        ("T6", "T7", "T11", *TORN),
        ((Transaction, "fence", _aborts_without_fencing),),
        _with("kill"),
        "transactions",
    ),
    Mutant(
        "zombies are let in",
        "the coordinator does not compare the epochs of who adds partitions",
        ("T6", "T11", "T2", *TORN),
        ((Transaction, "check", _takes_any_epoch),),
        _with("kill"),
        "transactions",
    ),
    Mutant(
        "decisions of the coordinator before",
        "a new coordinator does not send the markers that the last one owed",
        HANGS,
        ((TransactionsState, "loaded", _forgets_its_prepares),),
        _with("kill", fault_s=5.0, points={"markers": 0.05}),
        "transactions",
    ),
    Mutant(
        "nobody is asked",
        "the first batch of a transaction is written without a question to its coordinator",
        (*HANGS, *TORN, "T11", "T6"),
        ((Verification, "ask", _asks_nobody),),
        _with("kill"),
        "transactions",
    ),
    Mutant(
        "guard kept over a marker",
        "who asked before a transaction was aborted may write when it is",
        (*HANGS, *TORN, "T11", "T6"),
        ((ProducerState, "_apply_marker", _keeps_its_guard),),
        _with("jump_clock", plan={"old": 1.0, "impatient": 0.5, "slow_answers": 0.3, "late_s": 2.0, "repeats": 0.0}),
        "transactions",
    ),
    Mutant(
        "markers of an old coordinator",
        "a partition takes the marker of a coordinator whose successor has written there",
        ("T8", *TORN),
        ((ProducerState, "check_marker", _takes_any_coordinator),),
        _with("stop", plan={"old": 1.0, "old_markers": 1.0, "late_s": 0.3, "repeats": 0.0, "impatient": 0.0}),
        "transactions",
    ),
    Mutant(
        "marker retry forgotten",
        "a marker that its partition did not get is not sent again",
        HANGS,
        ((MarkerSender, "_later", _tries_once),),
        _with("jump_clock", plan={"state_partitions": 1, "strikes": 0.04}, rebalance_s=1000, work_s=1000.0),
        "transactions",
    ),
    Mutant(
        "stable before its marker is",
        "readers get past a transaction whose marker is not committed",
        ("T9", *TORN),
        ((ProducerState, "first_unstable_offset", _UNDECIDED),),
        _with("kill_leader"),
        "transactions",
    ),
    Mutant(
        "aborted list too short",
        "an aborted transaction that ends where a read begins is not listed",
        ("T9", *TORN),
        ((transaction_index, "collect", _one_too_few),),
        _with("kill"),
        "transactions",
    ),
    Mutant(
        "offsets before their transaction",
        "offsets of a group count as soon as they are written",
        TORN,
        ((Offsets, "replay", _commits_at_once),),
        _with("kill"),
        "transactions",
    ),
    Mutant(
        "offsets of aborted transactions",
        "an abort marker commits the offsets of its transaction",
        TORN,
        ((Offsets, "end_transaction", _keeps_aborted_offsets),),
        _with("kill"),
        "transactions",
    ),
)
