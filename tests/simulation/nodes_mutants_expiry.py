"""Planted bugs of what is forgotten when nobody uses it: too early, or never."""

from __future__ import annotations

from typing import Any

from rookery.broker.groups import deleting
from rookery.broker.groups.offsets import Offsets
from rookery.broker.log.housekeeper import Housekeeper
from rookery.broker.log.producer_state import ProducerState
from rookery.broker.transactions.coordinator import TransactionCoordinator
from rookery.broker.transactions.transaction import Transaction
from tests.simulation.nodes_planting import Mutant
from tests.simulation.nodes_swarm import DISK_FAULTS, ExpiryPlan, Swarm

SOON = 10
_expire = ProducerState.expire


def _expires(swarm: Swarm) -> None:
    """What nobody uses is forgotten soon, in a short run with few faults."""
    swarm.expiry = ExpiryPlan(producers_ms=12_000, ids_ms=4000, offsets_ms=0, check_ms=300)
    swarm.siege, swarm.duration_s, swarm.heal_s, swarm.skews_ms = False, 15.0, 1.0, 0
    swarm.faults = {each: often for each, often in swarm.faults.items() if each not in (*DISK_FAULTS, "jump_clock")}
    swarm.faults = swarm.faults or {"kill": 1.0}


def _groups_expire(swarm: Swarm) -> None:
    """Members commit, and rest in between."""
    _expires(swarm)
    swarm.expiry = ExpiryPlan(producers_ms=12_000, ids_ms=4000, offsets_ms=5000, check_ms=300)
    swarm.groups, swarm.members, swarm.duration_s = 1, 2, 25.0


def _repeats(swarm: Swarm) -> None:
    """Producers repeat what was not acknowledged, since leaders go."""
    _expires(swarm)
    swarm.faults |= {"kill_leader": 4.0, "isolate": 2.0, "pause_leader": 2.0}
    swarm.fault_s = 1.0


def _forgets_soon(state: Any, now_ms: int, expiration_ms: int) -> list[int]:
    return _expire(state, now_ms, expiration_ms // (100 * SOON))


def _by_commit(group: Any) -> Any:
    return (lambda value: value.commit_timestamp), frozenset()


async def _forgets_nobody(housekeeper: Any) -> None:
    return


MUTANTS = (
    Mutant(
        "producers forgotten early",
        "a partition forgets a producer that is about to repeat its last batch",
        ("duplicate", "order", "T2", "P1"),
        ((ProducerState, "expire", _forgets_soon),),
        _repeats,
    ),
    Mutant(
        "producers remembered for ever",
        "nobody looks whether producers are gone",
        ("liveness",),
        ((Housekeeper, "expire_producers", _forgets_nobody),),
        _expires,
    ),
    Mutant(
        "offsets of members expire",
        "offsets expire by the time of their commit, though the group has members",
        ("G1",),
        ((deleting, "_retention_of", _by_commit),),
        _groups_expire,
    ),
    Mutant(
        "offsets kept for ever",
        "offsets of a group that nobody is a member of never expire",
        ("liveness",),
        ((Offsets, "expired", lambda *_: []),),
        _groups_expire,
    ),
    Mutant(
        "forgotten in a transaction",
        "a transactional id expires though its transaction is open",
        ("expired",),
        ((Transaction, "has_expired", lambda one, after_ms, now_ms: one.updated_ms <= now_ms - after_ms // SOON),),
        _expires,
        kind="transactions",
    ),
    Mutant(
        "transactional ids kept for ever",
        "nobody looks for ids that have expired",
        ("liveness",),
        ((TransactionCoordinator, "expire_in", lambda *_: None),),
        _expires,
        kind="transactions",
    ),
)
