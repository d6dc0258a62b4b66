"""Planted bugs of the shells around the pure cores; most were in the product once. `MUTANTS` are all that are planted
in whole nodes, those of replication, transactions and groups among them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rookery.broker.coordination.alarms import Alarms
from rookery.broker.lifecycle import Lifecycle
from rookery.broker.log.housekeeper import Housekeeper
from rookery.broker.log.offset_checkpoints import OffsetCheckpoints
from rookery.broker.log.partition_files import PartitionFiles
from rookery.broker.log.scrubber import Scrubber
from rookery.broker.replication.replica_fetcher import ReplicaFetcher
from rookery.broker.replication.replica_state import Committed, LeaderState
from rookery.broker.replication.waiters import Waiters
from rookery.broker.server.server import Server
from rookery.broker.server.settings import ConnectionLimits
from rookery.controller.raft import storage as raft_storage
from rookery.core.errors import KafkaError
from rookery.core.log import LogDirFailed, Segment, recovery
from rookery.core.log.checkpoints import save_offsets
from rookery.core.log.epochs import LeaderEpochs, note_epoch
from rookery.core.log.flush import FlushJob
from rookery.core.log.names import LEADER_EPOCHS
from rookery.core.testing.disk import MemoryDisk
from tests.simulation import (
    nodes_mutants_consumers,
    nodes_mutants_expiry,
    nodes_mutants_own,
    nodes_mutants_replication,
    nodes_mutants_transactions,
    nodes_mutants_voters,
)
from tests.simulation.nodes_disks import DiskFaults
from tests.simulation.nodes_planting import BROKEN, LOSS, QUORUM, Mutant
from tests.simulation.nodes_swarm import DISK_FAULTS, MORE_WORK, Swarm

NEVER_S = 1_000_000.0


# --- where faults should fall ------------------------------------------------------------------------------------


def _with(
    *faults: str, work: tuple[str, ...] = (), policy: str = "", **settings: Any
) -> Callable[[Swarm], None]:
    """These faults and this work for sure, often; other settings as given; no topic that may lose records."""

    def aim(swarm: Swarm) -> None:
        swarm.faults = {each: often for each, often in swarm.faults.items() if each not in DISK_FAULTS}
        swarm.work = {each: often for each, often in swarm.work.items() if each not in MORE_WORK}
        swarm.asks_ids = False
        swarm.faults.update(dict.fromkeys(faults, 4.0))
        swarm.work.update(dict.fromkeys(work, 4.0))
        swarm.siege, swarm.duration_s, swarm.fault_s = False, 12.0, min(swarm.fault_s, 1.5)
        swarm.producers = min(swarm.producers, 2)
        swarm.session_ms, swarm.heartbeat_ms = 1500, 250
        swarm.work_s = min(swarm.work_s, 1.5) if work else swarm.work_s
        swarm.topics = [replace(plan, unclean=False, policy=policy or plan.policy) for plan in swarm.topics[:2]]
        for name, value in settings.items():
            setattr(swarm, name, value)

    return aim


def _only(fault: str, **settings: Any) -> Callable[[Swarm], None]:
    """This fault and no other, so that it comes to its end."""

    def aim(swarm: Swarm) -> None:
        _with(**settings)(swarm)
        swarm.faults, swarm.points = {fault: 1.0}, {}
        swarm.split, swarm.brokers_more = False, 0

    return aim


def _in_the_dark(swarm: Swarm) -> None:
    """Only where every partition stands a power cut does one happen: with groups, their topic does not."""
    _only("acknowledged_in_the_dark", thread_s=0.02, pauses=0.3, fault_s=8.0, duration_s=40.0, raft_ms=2000)(swarm)
    swarm.groups, swarm.work = 0, {"delete_records": 1.0, "reassign": 1.0}
    swarm.topics = [replace(plan, min_insync=2, replication_factor=3) for plan in swarm.topics]


# --- replication -------------------------------------------------------------------------------------------------

_apply_partition = ReplicaFetcher._apply_partition


def _drops_answers(follower: Any, key: Any, data: Any, now_ms: int) -> None:
    partition, sent = follower._partitions.get(key), follower._session.sent(key)
    if partition is not None and sent is not None and sent.log_start != partition.position().log_start:
        return
    _apply_partition(follower, key, data, now_ms)


def _rebuilt_proposal(state: Any) -> Any:
    if isinstance(state.isr, Committed):
        return None
    sent = state.isr.sent
    return replace(sent, broker_epochs=tuple(state._broker_epoch(node) for node in sent.isr))


# --- storage -----------------------------------------------------------------------------------------------------


class _NoLock:
    def release(self) -> None: ...


async def _forgets_nothing(checkpoints: Any, partition: Any, current: Any) -> None:
    """The checkpoints speak of the topic before until they are written the next time."""


async def _save_at_once(checkpoints: Any, name: str, current: Any) -> None:
    """Two writers share one temporary file."""
    checkpoints.written[name] = offsets = current(name)
    path = checkpoints._path(name)
    try:
        await save_offsets(checkpoints._disk, path, offsets)
    except OSError as error:
        raise LogDirFailed("writing", path, error) from error


async def _close_at_once(files: Any) -> None:
    """Whoever works on the files is not waited for."""
    files.closed = True


def _leaves_descriptors(job: Any) -> None:
    job.files = [(path, file.dup()) for path, file in job.files]
    _run_flush(job)


_run_flush = FlushJob.run


def _deletes_nothing(housekeeper: Any) -> None:
    housekeeper._dirs.leftovers = []


_TRUSTED = property(lambda segment: True, lambda segment, sparse: None)
"""Offsets may be missing wherever it is."""


async def _scrubs_nothing(scrubber: Any, partition: Any) -> None:
    """No background checks."""


def _rotten(swarm: Swarm) -> None:
    """Small segments, of which some are durable soon, and restarts after they rot."""
    _only("rot", policy="keep", checkpoint_ms=500, fault_s=1.0, groups=0)(swarm)
    swarm.faults, swarm.work = {"rot": 4.0, "stop": 1.0}, {"elect_preferred": 1.0}
    swarm.topics = [
        replace(plan, segment_bytes=600, min_insync=2, replication_factor=3, sync=False) for plan in swarm.topics
    ]


_recovered = recovery._recovered
_small_files = DiskFaults._small_files


def _forgets_epochs(disk: Any, folder: str, segments: Any, first: int, *more: Any) -> Any:
    """Only those of the segments that are read after a crash are known, unless the checkpoint has the others."""
    epochs, gaps = _recovered(disk, folder, segments, first, *more)
    if epochs is None:
        epochs = LeaderEpochs()
        for segment in segments[first:]:
            for _, header in segment.headers(0):
                note_epoch(epochs, header)
    return epochs, gaps


def _rotten_epochs(swarm: Swarm) -> None:
    """Leaders change, segments are small and soon durable, and nodes start after a crash without their epochs."""
    _with("rot_checkpoint", "kill_leader", "isolate", "cut_data", policy="keep", checkpoint_ms=500, groups=0)(swarm)
    swarm.fault_s, swarm.duration_s = 0.7, 15.0
    swarm.topics = [replace(plan, segment_bytes=600, min_insync=2, replication_factor=3) for plan in swarm.topics]


# --- requests and groups -----------------------------------------------------------------------------------------


def _keeps_alarms(alarms: Any) -> None:
    alarms._set.clear()


async def _keeps_listening(server: Any) -> None:
    server._listening.clear()
    await _stop_server(server)


_stop_server = Server.stop


# --- metadata and quorum -----------------------------------------------------------------------------------------


def _trusts_the_cache(disk: Any, log: Any) -> None:
    log.recovery_point = log.end_offset


_heartbeat = Lifecycle._heartbeat


async def _beats_until_it_fails(lifecycle: Any) -> None:
    before = lifecycle._controller

    class Once:
        hold_session = before.hold_session
        broker_epoch = before.broker_epoch

        async def ask(self, request: Any, **more: Any) -> Any:
            try:
                return await before.ask(request, **more)
            except KafkaError:
                await asyncio.sleep(NEVER_S)

    lifecycle._controller = Once()
    try:
        await _heartbeat(lifecycle)
    finally:
        lifecycle._controller = before


MUTANTS = (
    Mutant(
        "own deletions stop fetching",
        "a follower drops every answer once its own retention moved its log start",
        ("liveness",),
        ((ReplicaFetcher, "_apply_partition", _drops_answers), (ReplicaFetcher, "_look_at_starts", lambda _: None)),
        _with(policy="time"),
    ),
    Mutant(
        "proposal of the moment",
        "what was proposed is rebuilt from live broker epochs, and a refusal is not recognised",
        ("liveness",),
        ((LeaderState, "pending_proposal", _rebuilt_proposal),),
        _only("rejoin_cut", grace_ms=0, lag_ms=5000, session_ms=6000, heartbeat_ms=1000, fault_s=5.0, duration_s=30.0),
    ),
    Mutant(
        "no lock on the metadata log",
        "a second process opens the folder of a running voter",
        (*QUORUM, "left-over"),
        ((MemoryDisk, "lock", lambda *_: _NoLock()),),
        _with("start_twice"),
    ),
    Mutant(
        "hole in a closed segment",
        "closed segments are trusted: nobody misses records of them at a start, at a read or in the background",
        (*LOSS, "S3", "liveness"),
        (
            (Segment, "sparse", _TRUSTED),
            (recovery, "check_closed", lambda *_: None),
            (Scrubber, "_scrub", _scrubs_nothing),
        ),
        _rotten,
    ),
    Mutant(
        "epochs lost with their checkpoint",
        "after a crash the epochs of durable segments are forgotten if their checkpoint is gone or damaged",
        (*LOSS, *BROKEN, "P15"),
        (
            (recovery, "_recovered", _forgets_epochs),
            (DiskFaults, "_small_files", lambda *_: [e for e in _small_files(*_) if e.endswith(LEADER_EPOCHS)]),
        ),
        _rotten_epochs,
    ),
    Mutant(
        "checkpoints of the topic before",
        "a topic made again under its name is opened by the offsets of the one before",
        (*LOSS, *BROKEN, "P15"),
        ((OffsetCheckpoints, "forget", _forgets_nothing),),
        _with("kill", "kill_leader", work=("recreate_topic",), policy="keep", checkpoint_ms=3000),
    ),
    Mutant(
        "one temporary file for two",
        "checkpoints are saved by several at once under one temporary name",
        (*BROKEN, *LOSS, "left-over"),
        ((OffsetCheckpoints, "save", _save_at_once),),
        _with("cut_pair", "isolate", checkpoint_ms=200, pauses=0.7, thread_s=0.03),
    ),
    Mutant(
        "deleted during its cut",
        "a replica is taken away while a thread cuts its log",
        (*BROKEN, *LOSS, "left-over", "P15"),
        ((PartitionFiles, "close", _close_at_once),),
        _with(
            "kill_leader", "isolate", "cut_data", "isolate_controller", work=("recreate_topic", "delete_topic"),
            pauses=0.7, thread_s=0.1, work_s=0.3, fault_s=0.5, groups=0, raft_ms=4000, session_ms=6000,
            heartbeat_ms=1000,
        ),
    ),
    Mutant(
        "parked without a look",
        "a request that parks does not ask again whether what it waits for has happened",
        ("liveness",),
        ((Waiters, "_try_all", lambda *_: False),),
        _with(thread_s=0.05, pauses=0.7, policy="compact"),
    ),
    Mutant(
        "acknowledged, never synced",
        "a voter counts what a killed process left in the page cache as durable",
        QUORUM,
        ((raft_storage, "_make_durable", _trusts_the_cache),),
        _in_the_dark,
    ),
    Mutant(
        "heartbeats end",
        "a broker whose heartbeat found no controller sends no more",
        ("liveness", "node-failed"),
        ((Lifecycle, "_heartbeat", _beats_until_it_fails),),
        _with("isolate", "kill_controller", "pause_controller"),
    ),
    Mutant(
        "descriptors stay open",
        "a flush leaves the files it synced open",
        ("left-over",),
        ((FlushJob, "run", _leaves_descriptors),),
        _with(),
    ),
    Mutant(
        "listener stays open",
        "a broker that stops goes on listening",
        ("left-over",),
        ((Server, "stop", _keeps_listening),),
        _with(),
    ),
    Mutant(
        "slots of closed connections",
        "a client that has left counts as connected until its broker stops",
        ("liveness",),
        ((ConnectionLimits, "release", lambda *_: None),),
        _with(),
    ),
    Mutant(
        "alarms ring on",
        "timers of groups outlive their coordinator",
        ("left-over", "unhandled", "node-failed"),
        ((Alarms, "clear", _keeps_alarms),),
        _with(groups=1, members=2),
    ),
    Mutant(
        "deleted folders stay",
        "folders of deleted replicas are never removed",
        ("liveness",),
        ((Housekeeper, "_take_leftovers", _deletes_nothing),),
        _with(work=("recreate_topic", "reassign"), split=False, brokers_more=1),
    ),
    *nodes_mutants_replication.MUTANTS,
    *nodes_mutants_voters.MUTANTS,
    *nodes_mutants_transactions.MUTANTS,
    *nodes_mutants_consumers.MUTANTS,
    *nodes_mutants_expiry.MUTANTS,
    *nodes_mutants_own.MUTANTS,
)
BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
