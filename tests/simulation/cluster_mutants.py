"""Planted bugs: each breaks one rule of replication in the real code, and the simulated cluster must notice.

A mutant replaces functions while it is planted; nothing of it is in the product. Those that name a real bug repeat
it. `tests/soak/soak_cluster.py` searches for seeds that kill each; CI replays the recorded ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

from rookery.broker.lifecycle import Lifecycle
from rookery.broker.log.partition_log import Isolation, PartitionLog
from rookery.broker.metadata.replicas import Replicas
from rookery.broker.replication import isr
from rookery.broker.replication.partition import ACKS_ALL, Partition
from rookery.broker.replication.replica_fetcher import ReplicaFetcher
from rookery.broker.replication.replica_state import LeaderState, PendingExpand, PendingShrink, Proposal
from rookery.controller.state import alter_partition, brokers, defaults, partitions
from rookery.core.errors import ErrorCode, NotLeaderOrFollowerError
from rookery.core.metadata.records import BrokerRegistrationChangeRecord
from tests.simulation.cluster_oracles import Violation
from tests.simulation.cluster_run import Result, Simulation
from tests.simulation.cluster_swarm import Swarm, draw

NEVER_S = 100_000.0
LOSS = ("P2", "P4", "P1", "P7", "inconsistent-offsets", "T2", "P5", "duplicate", "order", "poll-skip", "phantom")
"""Once a copy lacks records, chance decides which of these notices first."""


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    bug: str
    invariants: tuple[str, ...]
    """Which of them may notice it first."""
    patches: tuple[tuple[Any, str, Any], ...]
    aim: Callable[[Swarm], None] = lambda swarm: None
    """Changes what a seed drew, towards the faults that the bug needs."""

    @contextmanager
    def planted(self) -> Iterator[None]:
        with ExitStack() as stack:
            for owner, name, replacement in self.patches:
                stack.enter_context(patch.object(owner, name, replacement))
            yield

    def run(self, seed: int) -> Result:
        swarm = draw(Random(f"{seed} swarm"))
        self.aim(swarm)
        with self.planted():
            return Simulation(seed, swarm).run()

    def noticed_by(self, seed: int) -> str | None:
        """The invariant that a seed finds broken, if it does."""
        try:
            self.run(seed)
        except Violation as violation:
            return str(violation).partition(" s: ")[2].partition(":")[0].split(" ")[0]
        return None


# --- where faults should fall ------------------------------------------------------------------------------------


def _with(*actions: str, **settings: Any) -> Callable[[Swarm], None]:
    """These faults for sure, often; other settings as given; no topic that may lose records."""

    def aim(swarm: Swarm) -> None:
        swarm.weights.update(dict.fromkeys(actions, 4.0))
        swarm.duration_s, swarm.fault_s = 15.0, min(swarm.fault_s, 1.0)
        swarm.topics = [
            replace(plan, unclean=False, min_insync=max(plan.min_insync, min(2, plan.replication_factor)))
            for plan in swarm.topics
        ]
        for name, value in settings.items():
            setattr(swarm, name, value)

    return aim


def _only(*actions: str, min_insync: int = 2, partitions: int = 0, **settings: Any) -> Callable[[Swarm], None]:
    """These faults and no others, so that a chain of them comes to its end."""

    def aim(swarm: Swarm) -> None:
        _with(*actions, **{"points": {}, "fault_s": 3.0, **settings})(swarm)
        swarm.weights = dict.fromkeys(actions, 1.0)
        swarm.topics = [
            replace(
                plan,
                sync=False,
                min_insync=min_insync,
                replication_factor=3,
                partitions=partitions or plan.partitions,
            )
            for plan in swarm.topics
        ]
        swarm.duration_s = 30.0

    return aim


# --- the high watermark ------------------------------------------------------------------------------------------


def _advance_without_joining(state: LeaderState, now_ms: int, may_join: Any) -> bool:
    if state.under_min_isr:
        return False
    members = state.committed.isr
    reached = min([state.log_end, *(f.log_end for node, f in state.followers.items() if node in members)])
    if reached <= state.high_watermark:
        return False
    state.high_watermark = reached
    return True


def _fetch_counts_what_is_sent(partition: Partition, node_id: int, *, offset: int, **more: Any) -> None:
    _on_follower_fetch(partition, node_id, offset=max(offset, partition.log.end_offset), **more)


_on_follower_fetch = Partition.on_follower_fetch
_append_as_leader = Partition.append_as_leader
_apply = Partition.apply
_begin_to_lead = Partition._begin_to_lead
_bound = PartitionLog.bound
_publish = Replicas.publish
_out_of_service = brokers._out_of_service
_completed = partitions._completed


def _bound_at_end(log: PartitionLog, isolation: Isolation) -> int:
    return log.end_offset


def _append_then_check(partition: Partition, batch: Any, acks: int, now_ms: int) -> Any:
    appended = _append_as_leader(partition, batch, 1, now_ms)
    if acks == ACKS_ALL and partition.below_min_isr:
        raise partition._too_few_replicas()
    return appended


# --- truncation --------------------------------------------------------------------------------------------------


def _apply_and_truncate_to_watermark(partition: Partition, state: Any) -> None:
    """KIP-101: what a follower does not know to be committed goes when the leader changes."""
    changed = state.leader_epoch != partition.state.leader_epoch
    _apply(partition, state)
    if changed and not partition.is_leader and state.leader >= 0 and partition.cut is None:
        partition.log.truncate_to(partition.log.high_watermark)


def _lead_from_watermark(partition: Partition, state: Any) -> None:
    partition.log.truncate_to(partition.log.high_watermark)
    _begin_to_lead(partition, state)


def _diverges_by_length(partition: Partition, offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
    """KIP-279: only where the leader's log is shorter."""
    end = partition.log.end_offset
    return (last_fetched_epoch, end) if offset > end else None


# --- who is in sync ----------------------------------------------------------------------------------------------


def _propose_at_watermark(state: LeaderState, node: int, may_join: Any) -> Proposal | None:
    """KAFKA-7128: the high watermark of a new leader may be old."""
    in_sync = isinstance(state.isr, (PendingExpand, PendingShrink)) or node in state.committed.isr
    if in_sync or not state._eligible(node, may_join) or state.followers[node].log_end < state.high_watermark:
        return None
    proposal = state._proposal(state.committed, state.committed.isr | {node})
    state.isr = PendingExpand(state.committed, node, proposal)
    return proposal


def _eligible_by_name(state: LeaderState, node: int, may_join: Any) -> bool:
    return may_join(node) is not None


def _fetch_of_any_life(partition: Partition, node_id: int, *, offset: int, log_start: int, broker_epoch: int) -> None:
    leading = partition.leading
    if leading is None or node_id not in leading.followers:
        raise NotLeaderOrFollowerError("not here")
    peers = partition._peers
    partition._moved(
        leading.on_follower_fetch(
            node_id,
            offset=offset,
            log_start=log_start,
            broker_epoch=peers.may_join(node_id) or broker_epoch,
            now_ms=peers.now_ms(),
            may_join=peers.may_join,
        )
    )


def _member_by_name(image: Any, partition: Any, member: Any) -> bool:
    return member.broker_id in image.brokers and bool(image.can_serve(partition, member.broker_id))


def _fence_alone(image: Any, broker_id: int, given: Any) -> list[Any]:
    broker = image.brokers.get(broker_id)
    if broker is None or broker.fenced:
        return []
    return [BrokerRegistrationChangeRecord(broker.id, broker.epoch, fenced=True)]


def _nothing_is_lost(image: Any, broker_id: int, given: Any, *, lost: bool) -> Any:
    return _out_of_service(image, broker_id, given, lost=False)


def _completed_with_all(draft: Any, rules: Any) -> Any:
    """KAFKA-9672: replicas leave, but stay in sync."""
    after = _completed(draft, rules)
    return after if after is draft else after._replace(isr=draft.isr)


def _stale_controller_refuses(partition: Any, broker_id: int, wanted: Any) -> ErrorCode:
    """KAFKA-14154: a controller that is behind takes the leader's newer epoch for a mistake."""
    if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
        return ErrorCode.INVALID_REQUEST
    return _check_epochs(partition, broker_id, wanted)


_check_epochs = alter_partition._check_epochs
_rules_of = defaults.rules_of


def _rules_without_elr(image: Any, topic: str, given: Any) -> Any:
    return replace(_rules_of(image, topic, given), elr=False)


# --- leaders and requests ----------------------------------------------------------------------------------------


async def _do_not_wait(*_: Any) -> None:
    """No restart gate: what was heard so far is good enough."""


def _publish_always(replicas: Replicas, changes: Any) -> None:
    if not replicas._active:
        replicas.activate()
    _publish(replicas, changes)


def _append_without_producers(log: PartitionLog, records: Any, now_ms: int) -> Any:
    return log.segment_log.append_as_follower(records, now_ms)


def _apply_whatever_comes(follower: ReplicaFetcher, key: Any, data: Any, now_ms: int) -> None:
    """P8 ignored: no look at what was asked for."""
    left: dict[Any, Any] = _left.setdefault(follower, {})
    partition = follower._partitions.get(key) or left.pop(key, None)
    if partition is None or data.error_code or data.diverging_epoch is not None:
        _apply_partition(follower, key, data, now_ms)
    elif data.records and int.from_bytes(data.records[:8], "big") >= partition.position().offset:
        if key in follower._partitions:
            follower._moved[key] = None
        partition.apply_fetched(
            data.records,
            high_watermark=data.high_watermark,
            leader_log_start=data.log_start_offset,
            now_ms=now_ms,
        )
    else:
        _apply_partition(follower, key, data, now_ms)


def _unfollow_but_remember(follower: ReplicaFetcher, topic_id: Any, index: int) -> None:
    partition = follower._partitions.get((topic_id, index))
    if partition is not None:
        _left.setdefault(follower, {})[topic_id, index] = partition
    _unfollow(follower, topic_id, index)


_left: WeakKeyDictionary[ReplicaFetcher, dict[Any, Any]] = WeakKeyDictionary()
_apply_partition = ReplicaFetcher._apply_partition
_unfollow = ReplicaFetcher.unfollow


MUTANTS = (
    Mutant(
        "watermark truncation",
        "KIP-101, KAFKA-1211: a follower cuts its log to the high watermark it knows",
        LOSS,
        ((Partition, "apply", _apply_and_truncate_to_watermark),),
        _with("kill_leader", "pause_leader"),
    ),
    Mutant(
        "fast failover",
        "KIP-279, KAFKA-6361: logs are compared by length and not by leader epoch",
        (*LOSS, "liveness"),
        ((Partition, "divergence", _diverges_by_length),),
        _with("kill_leader", "pause_leader", "elect_preferred"),
    ),
    Mutant(
        "leader cuts to its watermark",
        "a new leader drops what it does not know to be committed",
        LOSS,
        ((Partition, "_begin_to_lead", _lead_from_watermark),),
        _with("kill_leader"),
    ),
    Mutant(
        "pending shrink counted",
        "the high watermark no longer waits for replicas whose removal is only proposed",
        LOSS,
        ((PendingShrink, "maximal", property(lambda pending: frozenset(pending.sent.isr))),),
        _with("cut_leader_from_controller", "pause", "cut_pair", lag_ms=500),
    ),
    Mutant(
        "joining replica ignored",
        "the high watermark does not wait for a replica whose entry is proposed",
        LOSS,
        ((LeaderState, "_advance", _advance_without_joining),),
        _with("pause", "kill", "cut_leader_from_controller", lag_ms=500, produce_s=0.05),
    ),
    Mutant(
        "committed below min ISR",
        "KIP-966: the high watermark moves while fewer than min.insync.replicas are in sync",
        ("P3", *LOSS),
        ((LeaderState, "under_min_isr", property(lambda state: False)),),
        _with("kill", "pause"),
    ),
    Mutant(
        "acknowledged before append",
        "what is sent to a follower counts as if it were on its disk",
        LOSS,
        ((Partition, "on_follower_fetch", _fetch_counts_what_is_sent),),
        _with("kill_leader"),
    ),
    Mutant(
        "acknowledged at once",
        "acks=all is answered when the leader has the batch",
        LOSS,
        ((Partition, "is_acknowledged", lambda partition, appended, acks: True),),
        _with("kill_leader"),
    ),
    Mutant(
        "appended and refused",
        "NOT_ENOUGH_REPLICAS is answered after the batch was written",
        ("P12", *LOSS),
        ((Partition, "append_as_leader", _append_then_check),),
        _with("kill", "pause"),
    ),
    Mutant(
        "entry below the epoch's start",
        "KAFKA-7128: a replica joins at the new leader's old high watermark",
        LOSS,
        ((LeaderState, "_propose_entry", _propose_at_watermark),),
        _with("kill_leader", "kill", "elect_preferred", lag_ms=500, response_bytes=300, produce_s=0.05, producers=3),
    ),
    Mutant(
        "entry of an earlier life",
        "KIP-903, KAFKA-14139: a replica that lost its disk joins by what its earlier life had fetched",
        LOSS,
        (
            (LeaderState, "_eligible", _eligible_by_name),
            (Partition, "on_follower_fetch", _fetch_of_any_life),
            (alter_partition, "_eligible", _member_by_name),
        ),
        _only("entry_of_an_earlier_life", session_ms=6000, grace_ms=500, lag_ms=500, produce_s=0.05),
    ),
    Mutant(
        "rebooted follower",
        "KAFKA-15221: a fetch of the life before is counted for the one that is registered now",
        LOSS,
        (
            (LeaderState, "_eligible", _eligible_by_name),
            (Partition, "on_follower_fetch", _fetch_of_any_life),
        ),
        _only("fetch_of_an_earlier_life", session_ms=6000, grace_ms=500, lag_ms=500, produce_s=1.0, producers=1),
    ),
    Mutant(
        "refused by mistake",
        "KAFKA-14154: a stale controller's refusal is final for a proposal that the active one would take",
        ("liveness", *LOSS),
        ((alter_partition, "_check_epochs", _stale_controller_refuses), (isr, "REPEAT_S", NEVER_S)),
        _only("asked_the_wrong_controller", zombie_s=5.0, session_ms=6000, lag_ms=500, fault_s=8.0),
    ),
    Mutant(
        "fenced but in sync",
        "KIP-841: fencing a broker leaves it in its ISRs",
        ("M5", "M4"),
        ((brokers, "fence", _fence_alone),),
        _with("pause", "kill"),
    ),
    Mutant(
        "unclean restart trusted",
        "a broker that was killed stays eligible with what it may have lost",
        ("M8",),
        ((brokers, "_out_of_service", _nothing_is_lost),),
        _with("kill", "power_cut"),
    ),
    Mutant(
        "last replica standing",
        "KIP-966: without ELR the last in-sync replica is trusted whatever happened to its disk",
        ("M8", "M5", *LOSS),
        ((partitions, "rules_of", _rules_without_elr),),
        _with("power_cut", "last_in_sync", "kill"),
    ),
    Mutant(
        "ISR beyond the replicas",
        "KAFKA-9672: a reassignment ends and leaves removed replicas in sync",
        ("M4",),
        ((partitions, "_completed", _completed_with_all),),
        _with("reassign", brokers=4),
    ),
    Mutant(
        "no restart gate",
        "a restarted broker serves by what it knew before its own registration",
        (*LOSS, "M5", "P3"),
        ((Lifecycle, "_until", _do_not_wait), (Replicas, "publish", _publish_always)),
        _only("late_return", "pause", min_insync=1, lag_ms=500, snapshots=0.0, produce_s=0.05),
    ),
    Mutant(
        "stale answer applied",
        "an answer is appended although its leader has been replaced since it was asked for",
        ("P3", *LOSS, "unhandled", "broker", "liveness"),
        (
            (ReplicaFetcher, "_apply_partition", _apply_whatever_comes),
            (ReplicaFetcher, "unfollow", _unfollow_but_remember),
        ),
        _only("slow_link", "elect_preferred", "pause_leader", partitions=3, fault_s=0.3, produce_s=0.05, delay_s=0.02),
    ),
    Mutant(
        "duplicates after failover",
        "followers do not note what producers sent: a new leader takes a repeated batch for a new one",
        ("duplicate", "inconsistent-offsets", "T2", "order"),
        ((PartitionLog, "append_as_follower", _append_without_producers),),
        _with("kill_leader", "pause_leader", request_timeout_ms=1000),
    ),
    Mutant(
        "dirty reads",
        "consumers are given records above the high watermark",
        ("P14", *LOSS),
        ((PartitionLog, "bound", _bound_at_end),),
    ),
    Mutant(
        "LATEST goes back",
        "KIP-207: a new leader tells its high watermark before it has reached its own epoch",
        ("P5",),
        ((LeaderState, "readable_latest", property(lambda state: True)),),
        _with("kill_leader", "pause_leader", "elect_preferred"),
    ),
)
BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
