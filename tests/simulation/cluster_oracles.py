"""What must hold in a simulated cluster: checked while it runs, and once more when all faults have ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rookery.broker.log.partition_log import Isolation, PartitionLog
from rookery.core.types import TopicPartition
from rookery.core.wire.records import batches, read_records
from tests.simulation.controller_rules import Violation, require

if TYPE_CHECKING:
    from tests.simulation.cluster_broker import SimBroker
    from tests.simulation.cluster_world import World

__all__ = ["Oracles", "Violation", "require"]


class Oracles:
    """Keeps what clients were promised and what they saw."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.values: dict[TopicPartition, dict[int, bytes]] = {}
        """What is known to be at an offset: acknowledged with acks=all, or read."""
        self.acknowledged: dict[TopicPartition, dict[int, bytes]] = {}
        self.acked_end: dict[TopicPartition, int] = {}
        self.sent: dict[bytes, TopicPartition] = {}
        self.refused: dict[bytes, str] = {}
        """Values of which a broker said that they were not written."""
        self.shown: dict[TopicPartition, dict[int, int]] = {}
        """The highest watermark that readers saw, by leader epoch."""
        self.starts: dict[PartitionLog, int] = {}
        self.counts: dict[str, int] = {}

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    # --- what clients saw ------------------------------------------------------------------------------------

    def saw(self, place: TopicPartition, offset: int, value: bytes, how: str) -> None:
        """One offset has one value, for everybody and for ever."""
        if self._world.lossy(place):
            return
        known = self.values.setdefault(place, {}).setdefault(offset, value)
        require(known == value, "inconsistent-offsets", f"{place}@{offset} {how}", value, "but known as", known)
        require(self.sent.get(value) == place, "phantom", f"{place}@{offset}", value)

    def acked(self, place: TopicPartition, base_offset: int, values: list[bytes]) -> None:
        for offset, value in enumerate(values, base_offset):
            self.saw(place, offset, value, "acknowledged")
            self.acknowledged.setdefault(place, {})[offset] = value
        self.acked_end[place] = max(self.acked_end.get(place, 0), base_offset + len(values))
        self.count("acked")
        self.check_copies(place)

    def showed(self, place: TopicPartition, leader_epoch: int, high_watermark: int) -> None:
        """A reader was shown a high watermark."""
        shown = self.shown.setdefault(place, {})
        shown[leader_epoch] = max(shown.get(leader_epoch, 0), high_watermark)

    def latest(self, place: TopicPartition, leader_epoch: int, offset: int) -> None:
        """P5: what LATEST says never lies below what leaders before this one showed."""
        if self._world.lossy(place):
            return
        for epoch, high_watermark in self.shown.get(place, {}).items():
            if epoch < leader_epoch:
                require(offset >= high_watermark, "P5", f"{place} LATEST went back", offset, "<", high_watermark)
        self.showed(place, leader_epoch, offset)

    # --- continuously ----------------------------------------------------------------------------------------

    def check_copies(self, place: TopicPartition) -> None:
        """P4: who may be elected cleanly has everything acknowledged, unless it lost its disk's memory."""
        end = self.acked_end.get(place, 0)
        partition = self._world.image_partition(place)
        if not end or partition is None or self._world.lossy(place):
            return
        for node in (*partition.isr, *partition.elr):
            broker = self._world.brokers[node]
            if place in broker.lost_for:
                continue
            log = broker.log(place)
            have = log.end_offset if log is not None else 0
            what = f"{place}: broker {node} may be elected with {have}, acknowledged {end};"
            require(have >= end, "P4", what, partition)

    def check_all(self) -> None:
        for place in self._world.places:
            self.check_copies(place)
            for broker in self._world.brokers.values():
                self._check_bounds(broker, place)

    def _check_bounds(self, broker: SimBroker, place: TopicPartition) -> None:
        """P15: the log's start goes only forward while it is open, and not past the high watermark."""
        log = broker.log(place)
        found = broker.role.partitions.named(*place) if broker.role is not None else None
        if log is None or found is None or found.log is not log or found.cut is not None or self._world.lossy(place):
            return
        start = log.start_offset
        require(self.starts.get(log, 0) <= start, "P15", f"{place} on {broker.id}: log start went back", start)
        in_order = start <= log.high_watermark <= log.end_offset
        require(in_order, "P15", f"{place} on {broker.id}", start, log.high_watermark, log.end_offset)
        self.starts[log] = start

    def watermark_moved(self, log: PartitionLog, offset: int) -> None:
        """P2, P3: whoever leads raises the high watermark only to what all it counts on have."""
        broker, partition = self._world.partition_of(log)
        if broker is None or partition is None or partition.leading is None or offset <= log.high_watermark:
            return
        place, leading = log.partition, partition.leading
        plan = self._world.plan(place)
        committed = set(partition.state.isr)
        need = min(plan.min_insync, len(partition.state.replicas))
        what = f"{place} on {broker.id}: committed with ISR {sorted(committed)}, need {need}"
        require(len(committed) >= need, "P3", what)
        for node in sorted(committed | set(leading.isr.maximal)):
            peer = self._world.brokers.get(node)
            if peer is None or place in peer.lost_for or self._world.lossy(place):
                continue
            other = peer.log(place)
            have = other.end_offset if other is not None else 0
            require(have >= offset, "P2", f"{place}: leader {broker.id} commits {offset}, broker {node} has", have)

    def truncates(self, log: PartitionLog, offset: int) -> None:
        """P7: nothing committed is cut off."""
        self.count("truncations")
        allowed = offset >= log.high_watermark or self._world.lossy(log.partition)
        require(allowed, "P7", f"{log.partition}: cut to {offset}, committed", log.high_watermark)

    def begins_anew(self, log: PartitionLog, offset: int, *_: object) -> None:
        self.starts.pop(log, None)

    def recovered(self, broker: SimBroker, damaged: Mapping[TopicPartition, Exception]) -> None:
        """No disk rots here: what was said to be durable is whole after every crash."""
        for place, error in damaged.items():
            raise Violation(f"S4: {place} on {broker.id} is damaged: {error}")

    def stopped(self, broker: SimBroker, partition: Any, error: Exception) -> None:
        place = partition.topic_partition
        require(self._world.lossy(place), "P7", f"{place} on {broker.id} stopped:", error)

    # --- in the end ------------------------------------------------------------------------------------------

    def check_end(self) -> None:
        for place in self._world.places:
            self._check_place(place)

    def _check_place(self, place: TopicPartition) -> None:
        partition = self._world.image_partition(place)
        if partition is None:
            raise Violation(f"{place} is gone")
        logs = {node: self._world.brokers[node].log(place) for node in partition.replicas}
        start = max(log.start_offset for log in logs.values() if log is not None)
        contents = {node: b"".join(_content(log, start)) for node, log in logs.items() if log is not None}
        first = contents[partition.leader]
        for node, content in contents.items():
            require(content == first, "P1", f"{place}: brokers {partition.leader} and {node} differ", _ends(logs))
        found = _values(first)
        if not self._world.lossy(place):
            self._check_found(place, start, found)
        self._check_order(place, found)

    def _check_found(self, place: TopicPartition, start: int, found: dict[int, bytes]) -> None:
        for offset, value in self.values.get(place, {}).items():
            if offset >= start:
                require(found.get(offset) == value, "P4", f"{place}@{offset}: lost", value, "found", found.get(offset))
        for offset, value in found.items():
            require(value not in self.refused, "P12", f"{place}@{offset}: refused but written", value)

    def _check_order(self, place: TopicPartition, found: dict[int, bytes]) -> None:
        """No phantoms, no duplicates, each producer's values in order."""
        seen: dict[bytes, int] = {}
        last: dict[bytes, int] = {}
        for offset, value in sorted(found.items()):
            require(self.sent.get(value) == place, "phantom", f"{place}@{offset}", value)
            require(value not in seen, "duplicate", f"{place}: {value!r} at {seen.get(value)} and {offset}")
            seen[value] = offset
            producer, _, number = value.rpartition(b"-")
            if not self._world.lossy(place):
                require(last.get(producer, -1) < int(number), "order", f"{place}@{offset}", value)
            last[producer] = int(number)


def _content(log: PartitionLog, start: int) -> Iterator[bytes]:
    offset = start
    while offset < log.end_offset:
        read = log.read(offset, 1 << 20, Isolation.LOG_END)
        if not read.data:
            return
        yield bytes(read.data)
        offset = read.next_offset


def _values(content: bytes) -> dict[int, bytes]:
    found = {}
    for position, header in batches(content):
        if not header.control:
            for record in read_records(content, position):
                found[record.offset] = record.value or b""
    return found


def _ends(logs: dict[int, PartitionLog | None]) -> dict[int, tuple[int, int] | None]:
    return {node: (log.high_watermark, log.end_offset) if log is not None else None for node, log in logs.items()}

