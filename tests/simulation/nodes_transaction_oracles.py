"""What must hold of transactions in whole nodes, seen from outside: appends, high watermarks, and what is committed.

Every partition is read once, as its high watermark rises: the records of `__transaction_state` are folded into what is
decided, those of others into what is open, ended and aborted. What nodes say is compared with that.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from rookery.broker.log.partition_log import Isolation, PartitionLog, PartitionRead
from rookery.broker.replication.partition import Partition
from rookery.broker.transactions.markers import MarkerSender
from rookery.broker.transactions.records import decode
from rookery.broker.transactions.transaction import NO_EPOCH, State, Transaction
from rookery.core.errors import KafkaError
from rookery.core.log import LogCorrupt, LogDirFailed
from rookery.core.types import TopicPartition
from rookery.core.wire.batch import BatchHeader, read_header
from rookery.core.wire.markers import read_marker
from rookery.core.wire.records import batches, read_records
from tests.simulation.controller_rules import require
from tests.simulation.nodes_host import EPOCH_MS, Place
from tests.simulation.nodes_transaction_late import LateBrokers

if TYPE_CHECKING:
    from tests.simulation.nodes_host import SimNode
    from tests.simulation.nodes_world import World

STATE_TOPIC = "__transaction_state"
BUMPING = 2
READ_BYTES = 1 << 20
SMALL_READ = 300
_IDLE = (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
BEFORE = {
    State.EMPTY: _IDLE,
    State.ONGOING: (State.ONGOING, *_IDLE),
    State.PREPARE_COMMIT: (State.ONGOING,),
    State.PREPARE_ABORT: (State.ONGOING, *_IDLE),
    State.COMPLETE_COMMIT: (State.PREPARE_COMMIT,),
    State.COMPLETE_ABORT: (State.PREPARE_ABORT,),
}
"""What a state may follow."""


@dataclass(slots=True)
class Ended:
    """A transaction with records in one partition, and its marker."""

    marker: int
    first: int
    producer_id: int
    commit: bool


@dataclass(slots=True)
class Scan:
    """What is committed in one partition, up to `next`."""

    next: int = 0
    open: dict[int, int] = field(default_factory=dict)
    """First offsets by producer id."""
    ended: list[Ended] = field(default_factory=list)
    epochs: dict[int, int] = field(default_factory=dict)
    coordinators: dict[int, int] = field(default_factory=dict)
    stable: dict[PartitionLog, int] = field(default_factory=dict)

    def last_stable(self, high_watermark: int) -> int:
        """Where readers of committed records must stop if this is the high watermark."""
        waiting = self.ended[bisect_left(self.ended, high_watermark, key=lambda each: each.marker) :]
        firsts = [*self.open.values(), *(each.first for each in waiting)]
        return min([high_watermark, *firsts])

    def aborted(self, start: int, end: int) -> set[tuple[int, int]]:
        """Producer ids and first offsets of what a reader of [start, end) has to leave out."""
        return {
            (each.producer_id, each.first)
            for each in self.ended
            if not each.commit and each.marker >= start and each.first < end
        }


class TransactionOracles:
    def __init__(self, world: World) -> None:
        self._world = world
        self.scans: dict[Place, Scan] = {}
        self._stored: dict[Place, dict[str, Transaction]] = {}
        self._decided: set[tuple[int, int, bool]] = set()
        """Producer id and epoch of markers, and whether they commit."""
        self._added: dict[tuple[int, int], set[TopicPartition]] = {}
        self._owners: dict[int, str] = {}
        self._given: dict[int, int] = {}
        """The highest epoch that a client was given, by producer id."""
        self.late = LateBrokers(world)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Few epochs for each producer id, where the seed says so."""
        plan = self._world.swarm.transactions
        last = plan.last_epoch if plan is not None else 0
        with ExitStack() as stack:
            for target, value in (
                ("rookery.broker.transactions.transaction.LAST_EPOCH", last),
                ("rookery.broker.transactions.transaction.EPOCH_MAX", last + 1),
                ("rookery.broker.log.producer_state.LAST_EPOCH", last + 1),
            ):
                stack.enter_context(patch(target, value))
            if plan is not None and plan.slow_answers:
                stack.enter_context(self.late.slow_answers())
            yield

    def hook(self, around: Callable[..., None]) -> None:
        around(PartitionLog, "advance_high_watermark", after=lambda _, log, *rest: self._committed(log))
        around(Partition, "append_as_leader", before=lambda partition, *_: partition.log.end_offset, after=self._landed)
        around(Partition, "append_own", before=self._appends_own, after=self._landed)
        at = self._world.at
        around(Partition, "append_own", after=lambda *_: at("own append"))
        around(MarkerSender, "send", before=lambda *_: at("markers"))
        around(MarkerSender, "_complete", before=lambda *_: at("completion"))
        self.late.hook(around)

    # --- appends ---------------------------------------------------------------------------------------------

    def _appends_own(self, partition: Partition, batch: Any, *_: Any) -> int:
        header = read_header(batch)
        if header.control and header.producer_id >= 0:
            marker = read_marker(batch)
            key = (header.producer_id, header.producer_epoch, marker is not None and marker.commit)
            require(key in self._decided, "T7", f"{partition.topic_partition}: a marker that nobody decided on", key)
        return partition.log.end_offset

    def _landed(self, end: int, partition: Partition, batch: Any, *_: Any) -> None:
        if partition.log.end_offset == end:
            return
        header = read_header(batch)
        if not header.transactional or header.control:
            return
        producer, place = (header.producer_id, header.producer_epoch), partition.topic_partition
        known = self._added.get(producer, set())
        require(place in known, "T11", f"{place}: records of a transaction that does not include it", producer)
        node = self._world.here()
        newest = self._world.partition(Place(place.topic, partition.topic_id, place.partition))
        leads = newest is not None and node is not None and newest.leader == node.id
        if leads and newest is not None and newest.leader_epoch == partition.state.leader_epoch:
            given = self._given.get(producer[0], -1)
            require(producer[1] >= given, "T6", f"{place}: written by {producer}, though epoch {given} was given")

    # --- what is committed -----------------------------------------------------------------------------------

    def _committed(self, log: PartitionLog) -> None:
        place = self._world.place_of(log)
        if place is None:
            return
        scan = self.scans.setdefault(place, Scan())
        while scan.next < log.high_watermark:
            read = self._read(log, scan.next)
            if read is None or not read.data:
                break
            content = bytes(read.data)
            for at, header in batches(content):
                if header.base_offset >= scan.next:
                    self._take(place, scan, content, at, header)
                    scan.next = header.next_offset
        self._check_stable(place, scan, log)

    def _read(self, log: PartitionLog, offset: int) -> PartitionRead | None:
        """As if the disk worked; None where this replica is damaged: another will do."""
        node = self._world.here()
        if node is None:
            return None
        faults, node.disk.faults = node.disk.faults, []
        try:
            return log.read(offset, READ_BYTES, Isolation.HIGH_WATERMARK)
        except (KafkaError, LogCorrupt, LogDirFailed):
            return None
        finally:
            node.disk.faults = faults

    def _take(self, place: Place, scan: Scan, content: bytes, at: int, header: BatchHeader) -> None:
        if place.topic == STATE_TOPIC:
            for record in read_records(content, at):
                self._store(place, record.key, record.value)
            return
        producer, epoch = header.producer_id, header.producer_epoch
        if not header.transactional:
            return
        known = scan.epochs.get(producer, -1)
        require(epoch >= known, "T2", f"{place}@{header.base_offset}: epoch {epoch} of {producer} after {known}")
        scan.epochs[producer] = epoch
        if not header.control:
            scan.open.setdefault(producer, header.base_offset)
            return
        marker = read_marker(content, at)
        if marker is None:
            return
        before = scan.coordinators.get(producer, -1)
        later = marker.coordinator_epoch >= before
        require(later, "T8", f"{place}@{header.base_offset}: coordinator {marker.coordinator_epoch} after {before}")
        scan.coordinators[producer] = marker.coordinator_epoch
        first = scan.open.pop(producer, None)
        if first is not None:
            scan.ended.append(Ended(header.base_offset, first, producer, marker.commit))
        self.late.marked(place, producer, marker.coordinator_epoch)

    def _store(self, place: Place, key: bytes | None, value: bytes | None) -> None:
        record = decode(key, value)
        if record is None:
            return
        stored, after = self._stored.setdefault(place, {}), record.transaction
        before = stored.get(record.id)
        if after is None:
            self._check_expired(record.id, before)
            del stored[record.id]
            return
        self._check_step(before, after)
        stored[record.id] = after
        if after.state is State.ONGOING:
            self._added.setdefault(after.producer, set()).update(after.partitions)
        if after.state.prepared:
            self._decide(after)

    def _check_expired(self, id: str, before: Transaction | None) -> None:
        """Only what is idle is forgotten, and not before its time."""
        plan = self._world.swarm.expiry
        idle = before is not None and before.state in _IDLE and plan is not None
        require(idle, "expired", f"{id} is forgotten: {before}")
        if before is not None and plan is not None:
            age_ms = EPOCH_MS + self._world.loop.time() * 1000 - before.updated_ms
            require(age_ms > plan.ids_ms - 1000, "expired", f"{id} is forgotten after {age_ms:.0f} ms")
            self._world.oracles.count("ids expired")

    def _check_step(self, before: Transaction | None, after: Transaction) -> None:
        what = f"{after.id}: {before} is followed by {after}"
        owner = self._owners.setdefault(after.producer_id, after.id)
        require(owner == after.id, "T1", f"producer id {after.producer_id} of {owner} is given to {after.id}")
        if before is None:
            require(after.state is State.EMPTY, "T7", what)
            return
        require(before.state in BEFORE[after.state], "T7", what)
        if after.producer_id == before.producer_id:
            begins = after.state is State.EMPTY and before.state is not State.EMPTY  # not a repeated request
            more = begins or (after.state.prepared and after.version >= BUMPING)
            last = self._world.swarm.transactions
            spent = last is not None and before.epoch > last.last_epoch
            require(after.epoch >= before.epoch + (more and not spent), "T11", what)
        if after.state.prepared and before.state is State.ONGOING:
            require(after.partitions == before.partitions, "T7", what)

    def _decide(self, after: Transaction) -> None:
        commit = after.state is State.PREPARE_COMMIT
        plan = self._world.swarm.transactions
        spent = plan is not None and after.epoch > plan.last_epoch
        if after.version >= BUMPING and not spent:
            other = (after.producer_id, after.epoch, not commit)
            require(other not in self._decided, "T7", f"{after.id}: decided both ways in epoch {after.epoch}")
        self._decided.add((after.producer_id, after.epoch, commit))
        self._world.oracles.count("commits" if commit else "aborts")

    # --- what nodes say --------------------------------------------------------------------------------------

    def _check_stable(self, place: Place, scan: Scan, log: PartitionLog) -> None:
        if scan.next < log.high_watermark:
            return
        found, expected = log.last_stable_offset, scan.last_stable(log.high_watermark)
        what = f"{place}: stable up to {found}, high watermark {log.high_watermark}, expected"
        # A replica that restarted may know more than its checkpointed high watermark: that a marker was committed once.
        highest = max(min(log.high_watermark, scan.last_stable(scan.next)), log.start_offset)
        require(expected <= found <= highest, "T9", what, expected, scan.open)
        before = scan.stable.get(log, 0)
        require(found >= before, "T9", f"{place}: the last stable offset went back from {before} to {found}")
        scan.stable[log] = found

    def check_fetched(self, place: Place, start: int, end: int, aborted: set[tuple[int, int]]) -> None:
        """A reader of committed records got what lies in [start, end)."""
        scan = self.scans.get(place)
        if scan is not None and end <= scan.next:
            expected = scan.aborted(start, end)
            require(aborted == expected, "T9", f"{place}: aborted in {start}..{end}: {aborted}, expected {expected}")

    def given(self, producer_id: int, epoch: int) -> None:
        """A client was told who it is: all before it are shut out."""
        self._given[producer_id] = max(self._given.get(producer_id, -1), epoch)

    def highest(self, producer_id: int) -> int:
        return self._given.get(producer_id, -1)

    def check_all(self) -> None:
        """Coordinators know what is stored, where all that is stored is committed."""
        for node in self._world.nodes.values():
            if node.role is None or not node.up:
                continue
            for shard in node.role.transactions.shards:
                self._check_shard(node, shard)

    def _check_shard(self, node: SimNode, shard: Any) -> None:
        partition = shard.partition
        place = Place(partition.topic_partition.topic, partition.topic_id, partition.topic_partition.partition)
        log, scan = partition.log, self.scans.get(place)
        if shard.closed or scan is None or not log.end_offset == log.high_watermark == scan.next:
            return
        live = {id: _as_stored(each) for id, each in shard.transactions.transactions.items()}
        stored = {id: _as_stored(each) for id, each in self._stored.get(place, {}).items()}
        require(live == stored, "T7", f"{place} on {node.id}: the coordinator has {live}, stored is {stored}")

    def unfinished(self) -> list[str]:
        """Transactions that are open or decided and not complete, and partitions that wait for a marker."""
        found = [
            f"{each.id} {each.state.title}"
            for stored in self._stored.values()
            for each in stored.values()
            if each.state is State.ONGOING or each.state.prepared
        ]
        there = {place: scan for place, scan in self.scans.items() if self._world.partition(place) is not None}
        return found + [f"{place} is open from {scan.open}" for place, scan in there.items() if scan.open]

    def check_end(self) -> None:
        """T9: each replica leaves out the same, read in small parts."""
        for place, scan in self.scans.items():
            partition = self._world.partition(place)
            if place.topic.startswith("__") or partition is None:
                continue
            for number in partition.replicas:
                log = self._world.nodes[number].open_log(place)
                if log is not None:
                    self._check_index(place, scan, log)

    def _check_index(self, place: Place, scan: Scan, log: PartitionLog) -> None:
        offset = log.start_offset
        while offset < log.last_stable_offset:
            read = log.read(offset, SMALL_READ, Isolation.LAST_STABLE)
            if not read.data:
                return
            found = {(each.producer_id, each.first_offset) for each in read.aborted or ()}
            self.check_fetched(place, offset, read.next_offset, found)
            offset = read.next_offset


def _as_stored(transaction: Transaction) -> Transaction:
    return replace(transaction, last_epoch=NO_EPOCH)
