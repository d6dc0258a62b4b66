"""Kinds of seeds: what whole nodes are given to do. Each kind draws from a stream of its own, so that none changes what
a seed of another means."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from tests.simulation.nodes_swarm import (
    DISK_FAULTS,
    ConsumerPlan,
    OwnPlan,
    Swarm,
    TopicPlan,
    TransactionPlan,
    draw,
    draw_expiry,
    draw_more,
)

QUIET_WORK = ("reassign", "reassign_again", "elect_preferred", "drain", "leave_and_join")
"""What leaves records where they are."""
TRANSACTION_POINTS = ("own append", "markers", "completion")
"""A coordinator has written, is about to send markers, or to note that all are written."""
EPOCHS = 32766


def draw_nodes(seed: int, *, minutes: bool = False) -> Swarm:
    swarm = draw(Random(f"{seed} nodes"), minutes=minutes)
    draw_more(Random(f"{seed} more"), swarm)
    draw_expiry(Random(f"{seed} expiry"), swarm, offsets=True)
    return swarm


def draw_transactions(seed: int) -> Swarm:
    """Writers and processors with transactions, and no other producer."""
    rng = Random(f"{seed} transactions")
    swarm = _of_clients(rng)
    processors = rng.choice((1, 1, 2))
    swarm.transactions = TransactionPlan(
        writers=rng.choice((1, 1, 2)),
        processors=processors,
        partitions=rng.choice((2, 3)),
        old=rng.choice((0.0, 0.3, 0.5, 1.0)),
        repeats=rng.choice((0.0, 0.1, 0.3)),
        late_s=rng.choice((0.2, 1.0, 4.0)),
        impatient=rng.choice((0.0, 0.1, 0.3)),
        pause_s=rng.choice((0.02, 0.1, 0.4)),
        timeout_ms=rng.choice((2000, 5000)),
        state_partitions=rng.choice((1, 2)),
        last_epoch=rng.choice((EPOCHS, EPOCHS, 4)),
    )
    swarm.points |= {each: rng.choice((0.003, 0.01, 0.03)) for each in TRANSACTION_POINTS if rng.random() < 0.4}
    return swarm


def draw_all_transactions(seed: int) -> Swarm:
    """With all that came later, by a stream of its own: planted bugs have their seeds without it."""
    swarm = draw_transactions(seed)
    rng = Random(f"{seed} more transactions")
    draw_more(rng, swarm)
    swarm.faults |= {each: rng.choice((0.3, 1.0)) for each in DISK_FAULTS if rng.random() < 0.3}
    if swarm.transactions is not None:
        swarm.transactions = replace(
            swarm.transactions,
            scratch=rng.choice((0, 1, 2)),
            strikes=rng.choice((0.0, 0.01, 0.03)),
            slow_answers=rng.choice((0.0, 0.03, 0.1)),
            old_markers=rng.choice((0.0, 0.5)),
        )
        if swarm.transactions.scratch:
            swarm.work["renew_scratch"] = rng.choice((1.0, 3.0))
    draw_expiry(Random(f"{seed} expiring transactions"), swarm, offsets=False)
    return swarm


def draw_consumers(seed: int) -> Swarm:
    """One group, whose members speak the consumer protocol, or both."""
    rng = Random(f"{seed} consumers")
    swarm = _of_clients(rng)
    if rng.random() < 0.4:
        swarm.work["grow_topic"] = 1.0
    session_ms = rng.choice((2000, 4000))
    swarm.consumers = ConsumerPlan(
        members=rng.choice((2, 3, 4)),
        static=rng.choice((0, 0, 1)),
        classic=rng.choice((0.0, 0.0, 0.3, 0.6)),
        topics=rng.choice((1, 2)),
        partitions=rng.choice((2, 3)),
        session_ms=session_ms,
        heartbeat_ms=rng.choice((200, 400)),
        assignment_ms=rng.choice((0, 0, 500)),
        repeats=rng.choice((0.0, 0.1, 0.3)),
    )
    return swarm


def draw_own(seed: int) -> Swarm:
    """Programs that use the Python client."""
    rng = Random(f"{seed} own clients")
    swarm = _of_clients(rng)
    swarm.duration_s = rng.choice((10.0, 15.0))
    swarm.own = OwnPlan(
        writers=rng.choice((1, 2)),
        members=rng.choice((1, 2, 3)),
        processors=rng.choice((0, 1, 2)),
        partitions=rng.choice((1, 2, 3)),
        protocol=rng.choice(("consumer", "consumer", "range", "cooperative-sticky")),
        session_ms=rng.choice((3000, 6000)),
        heartbeat_ms=rng.choice((200, 500)),
        pause_s=rng.choice((0.1, 0.2, 0.5)),
        crash_s=rng.choice((2.0, 6.0, 60.0)),
        transaction_timeout_ms=rng.choice((5000, 15_000)),
    )
    return swarm


def _of_clients(rng: Random) -> Swarm:
    """A cluster with topics that keep what they get, and nobody who writes to it yet."""
    swarm = draw(rng, minutes=True)
    swarm.siege = False
    swarm.late_nodes = 0
    swarm.duration_s = rng.choice((10.0, 15.0, 25.0))
    swarm.topics = []
    swarm.producers = swarm.groups = 0
    swarm.faults = {each: often for each, often in swarm.faults.items() if each not in DISK_FAULTS} or {"kill": 1.0}
    swarm.work = {each: often for each, often in swarm.work.items() if each in QUIET_WORK} or {"elect_preferred": 1.0}
    return swarm


def kept_topic(swarm: Swarm, partitions: int, segment_bytes: int) -> TopicPlan:
    """A topic that loses nothing."""
    return TopicPlan(
        partitions=partitions,
        replication_factor=min(3, len(swarm.brokers)),
        min_insync=2,
        policy="keep",
        sync=False,
        unclean=False,
        segment_bytes=segment_bytes,
        retention_ms=0,
    )


KINDS: dict[str, Callable[[int], Swarm]] = {
    "nodes": draw_nodes,
    "transactions": draw_all_transactions,
    "consumers": draw_consumers,
    "clients": draw_own,
}
PLAIN: dict[str, Callable[[int], Swarm]] = {
    "nodes": lambda seed: draw(Random(f"{seed} nodes"), minutes=True),
    "transactions": draw_transactions,
    "consumers": draw_consumers,
    "clients": draw_own,
}
"""What planted bugs begin with; each adds what it needs."""
