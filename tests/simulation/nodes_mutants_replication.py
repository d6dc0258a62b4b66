"""Planted bugs of replication: each breaks one rule of copies, in-sync sets or elections in the real code.

Those that name a real bug repeat it. They are planted like those of the shells (`nodes_mutants.py`), and have their
seeds in the same file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from rookery.broker.lifecycle import Lifecycle
from rookery.broker.log.partition_log import Isolation, PartitionLog
from rookery.broker.metadata.replicas import Replicas
from rookery.broker.replication.partition import ACKS_ALL, Partition
from rookery.broker.replication.replica_fetcher import ReplicaFetcher
from rookery.broker.replication.replica_state import LeaderState, PendingExpand, PendingShrink, Proposal
from rookery.controller.state import alter_partition, brokers, defaults, partitions
from rookery.core.errors import NotLeaderOrFollowerError
from rookery.core.metadata.records import BrokerRegistrationChangeRecord
from tests.simulation.nodes_planting import LOSS, Mutant
from tests.simulation.nodes_swarm import DISK_FAULTS, Swarm

NEVER_S = 1_000_000.0


# --- where faults should fall ------------------------------------------------------------------------------------


def _with(
    *faults: str,
    work: tuple[str, ...] = (),
    replicas: int = 3,
    min_insync: int = 2,
    partitions: int = 0,
    **settings: Any,
) -> Callable[[Swarm], None]:
    """These faults for sure, often, on three nodes with one topic that keeps everything; other settings as given."""

    def aim(swarm: Swarm) -> None:
        plan = swarm.topics[0]
        swarm.topics = [
            replace(
                plan,
                policy="keep",
                unclean=False,
                min_insync=min_insync,
                replication_factor=replicas,
                partitions=partitions or plan.partitions,
            )
        ]
        swarm.faults = {each: often for each, often in swarm.faults.items() if each not in DISK_FAULTS}
        swarm.faults.update(dict.fromkeys(faults, 4.0))
        swarm.work = dict.fromkeys(work or ("elect_preferred",), 1.0)
        swarm.work_s = min(swarm.work_s, 1.5) if work else NEVER_S
        swarm.split, swarm.brokers_more, swarm.late_nodes, swarm.groups = False, 0, 0, 0
        swarm.session_ms, swarm.heartbeat_ms = 1500, 250
        swarm.siege, swarm.asks_ids = False, False
        swarm.duration_s, swarm.fault_s = 15.0, min(swarm.fault_s, 1.0)
        for name, value in settings.items():
            setattr(swarm, name, value)

    return aim


def _only(*faults: str, **settings: Any) -> Callable[[Swarm], None]:
    """These faults and no others, so that a chain of them comes to its end."""

    def aim(swarm: Swarm) -> None:
        _with(*faults, **{"fault_s": 3.0, "duration_s": 30.0, **settings})(swarm)
        swarm.faults, swarm.points = dict.fromkeys(faults, 1.0), {}
        swarm.topics = [replace(plan, sync=False) for plan in swarm.topics]

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


def _fetch_counts_what_is_sent(partition: Partition, node_id: int, *, offset: int, **more: Any) -> Any:
    return _on_follower_fetch(partition, node_id, offset=max(offset, partition.log.end_offset), **more)


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


def _append_then_check(partition: Partition, batch: Any, acks: int, *more: Any) -> Any:
    appended = _append_as_leader(partition, batch, 1, *more)
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


def _fetch_of_any_life(partition: Partition, node_id: int, *, offset: int, log_start: int, broker_epoch: int) -> Any:
    leading = partition.leading
    if leading is None or node_id not in leading.followers:
        raise NotLeaderOrFollowerError("not here")
    brokers = partition._brokers
    moved, proposal = leading.on_follower_fetch(
        node_id,
        offset=offset,
        log_start=log_start,
        broker_epoch=brokers.may_join(node_id) or broker_epoch,
        now_ms=brokers.now_ms(),
        may_join=brokers.may_join,
    )
    if moved:
        partition._watermark_moved(leading)
    return proposal


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
        _with("kill_leader", "pause_leader", work=("elect_preferred",)),
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
        _with("cut_control", "pause", "cut_pair", lag_ms=500),
    ),
    Mutant(
        "joining replica ignored",
        "the high watermark does not wait for a replica whose entry is proposed",
        LOSS,
        ((LeaderState, "_advance", _advance_without_joining),),
        _with("pause", "kill", "cut_control", lag_ms=500, produce_s=0.05),
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
        _with("kill", "pause", replicas=2),
    ),
    Mutant(
        "entry below the epoch's start",
        "KAFKA-7128: a replica joins at the new leader's old high watermark",
        LOSS,
        ((LeaderState, "_propose_entry", _propose_at_watermark),),
        _with(
            "kill_leader",
            "kill",
            work=("elect_preferred",),
            lag_ms=500,
            response_bytes=300,
            produce_s=0.05,
            producers=3,
        ),
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
        _only(
            "entry_of_an_earlier_life",
            split=True,
            brokers_more=3,
            session_ms=6000,
            heartbeat_ms=1000,
            grace_ms=500,
            lag_ms=500,
            produce_s=0.05,
        ),
    ),
    Mutant(
        "rebooted follower",
        "KAFKA-15221: a fetch of the life before is counted for the one that is registered now",
        LOSS,
        (
            (LeaderState, "_eligible", _eligible_by_name),
            (Partition, "on_follower_fetch", _fetch_of_any_life),
        ),
        _only(
            "fetch_of_an_earlier_life",
            split=True,
            brokers_more=3,
            session_ms=6000,
            heartbeat_ms=1000,
            grace_ms=500,
            lag_ms=500,
            produce_s=1.0,
            producers=1,
        ),
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
        _with("kill", work=("reassign",), brokers_more=1),
    ),
    Mutant(
        "no restart gate",
        "a restarted broker serves by what it knew before its own registration",
        ("P13", *LOSS, "M5", "P3"),
        ((Lifecycle, "_until", _do_not_wait), (Replicas, "publish", _publish_always)),
        _only("late_return", "pause", min_insync=1, lag_ms=500, snapshot_bytes=500, produce_s=0.05),
    ),
    Mutant(
        "stale answer applied",
        "an answer is appended although its leader has been replaced since it was asked for",
        ("P8", "P3", *LOSS, "unhandled", "node-failed", "liveness"),
        (
            (ReplicaFetcher, "_apply_partition", _apply_whatever_comes),
            (ReplicaFetcher, "unfollow", _unfollow_but_remember),
        ),
        _only(
            "answer_of_the_leader_before",
            work=("elect_preferred",),
            work_s=0.5,
            split=True,
            brokers_more=3,
            partitions=3,
            lag_ms=5000,
            produce_s=0.05,
            producers=3,
            fault_s=6.0,
        ),
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
        _with("kill_leader"),
    ),
    Mutant(
        "LATEST goes back",
        "KIP-207: a new leader tells its high watermark before it has reached its own epoch",
        ("P5",),
        ((LeaderState, "readable_latest", property(lambda state: True)),),
        _with("kill_leader", "pause_leader", work=("elect_preferred",)),
    ),
)
