"""What must hold for whole nodes: checked while they run, and once more when all faults have ended.

Nothing acknowledged is lost, but for what somebody may delete: retention within the options that a topic ever had,
compaction of keys that were written again, DeleteRecords that somebody asked for, and topics that were deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from rookery.broker.log.partition_log import Isolation, PartitionLog
from rookery.core.errors import KafkaError, KafkaStorageError
from rookery.core.metadata import image as im
from rookery.core.metadata_log import CommittedBatch
from rookery.core.types import TopicPartition
from rookery.core.wire.records import batches, read_records
from tests.simulation.controller_rules import require
from tests.simulation.loop import PROCESS, Process, SimTask
from tests.simulation.nodes_host import Place

if TYPE_CHECKING:
    from rookery.broker.replication.partition import Partition
    from tests.simulation.nodes_host import SimNode
    from tests.simulation.nodes_world import World

FOREVER = float("inf")
CRC_AT = 17


@dataclass(slots=True)
class History:
    """What a topic's options ever allowed."""

    unclean: bool = False
    sync: bool = True
    compact: bool = False
    deletes: bool = False
    min_insync: int = 1 << 30
    min_insync_max: int = 1
    retention_ms: float = FOREVER
    retention_bytes: float = FOREVER
    created_at: float = 0.0

    def take(self, config: Mapping[str, str]) -> None:
        policy = config.get("cleanup.policy", "delete")
        self.unclean |= config.get("unclean.leader.election.enable") == "true"
        self.sync &= config.get("flush.messages") == "1"
        self.compact |= "compact" in policy
        self.min_insync = min(self.min_insync, int(config.get("min.insync.replicas", "1")))
        self.min_insync_max = max(self.min_insync_max, int(config.get("min.insync.replicas", "1")))
        if "delete" in policy:
            self.deletes = True
            self.retention_ms = min(self.retention_ms, _limit(config.get("retention.ms", "604800000")))
            self.retention_bytes = min(self.retention_bytes, _limit(config.get("retention.bytes", "-1")))


def _limit(text: str) -> float:
    return FOREVER if int(text) < 0 else int(text)


class Oracles:
    """Keeps what clients were promised and what they saw."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.values: dict[Place, dict[int, bytes]] = {}
        """What is known to be at an offset: acknowledged with acks=all, or read."""
        self.acked_end: dict[Place, int] = {}
        self.sent: dict[bytes, tuple[TopicPartition, int]] = {}
        """Values that were sent, where to, and with which timestamp."""
        self.refused: dict[bytes, str] = {}
        self.shown: dict[Place, dict[int, int]] = {}
        """The highest watermark that readers saw, by leader epoch."""
        self.floor: dict[Place, int] = {}
        """Below it records may be gone."""
        self.delete_asked: dict[TopicPartition, int] = {}
        self.starts: dict[PartitionLog, int] = {}
        self.counts: dict[str, int] = {}
        self._histories: dict[UUID, History] = {}
        self.names: dict[str, list[UUID]] = {}
        self._landed: dict[tuple[TopicPartition, int], UUID] = {}
        self._batches: dict[int, tuple[int, int]] = {}
        self._leaders: dict[int, int] = {}
        self._given: set[int] = set()

    def count(self, what: str, by: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + by

    # --- the metadata log ------------------------------------------------------------------------------------

    def is_news(self, batch: CommittedBatch) -> bool:
        """R3: what is committed at an offset is the same on every node, for ever."""
        content = (batch.epoch, hash_of(batch.values))
        known = self._batches.get(batch.base_offset)
        if known is None:
            require(batch.base_offset > self._world.image.offset, "R3", "committed late", batch.base_offset)
            self._batches[batch.base_offset] = content
            return True
        require(known == content, "R3", f"another batch committed at {batch.base_offset}", batch.epoch)
        return False

    def leads(self, node: int, epoch: int) -> None:
        """R1: one leader in each epoch."""
        known = self._leaders.setdefault(epoch, node)
        require(known == node, "R1", f"two leaders in epoch {epoch}", known, node)

    def topics_changed(self, before: im.Image) -> None:
        world = self._world
        for topic_id, topic in world.image.topics.items():
            history = self._histories.get(topic_id)
            if history is None:
                history = self._histories[topic_id] = History(created_at=world.loop.time())
                self.names.setdefault(topic.name, []).append(topic_id)
                world.trace("topic", topic.name, topic_id.int & 0xFFFF)
            history.take(world.image.topic_config(topic.name))
        for topic_id, topic in before.topics.items():
            if topic_id not in world.image.topics:
                world.trace("topic gone", topic.name, topic_id.int & 0xFFFF)
                for index in topic.partitions:
                    for node in world.nodes.values():
                        node.forget(Place(topic.name, topic_id, index))

    def history(self, place: Place) -> History:
        return self._histories.get(place.id) or History()

    def need(self, place: Place) -> int:
        """Replicas that must be in sync for a write to be taken, whichever option holds at the moment."""
        return self.history(place).min_insync_max

    def lossy(self, place: Place) -> bool:
        """Whether acknowledged records of a partition may be lost by what was configured."""
        return self.history(place).unclean

    # --- what clients saw ------------------------------------------------------------------------------------

    def landed(self, partition: Partition, batch: Any) -> None:
        """A leader took a batch: only it knows for which topic of that name."""
        crc = int.from_bytes(batch[CRC_AT : CRC_AT + 4], "big")
        self._landed[partition.topic_partition, crc] = partition.topic_id

    def place_of(self, named: TopicPartition, batch: bytes) -> Place | None:
        """Where an acknowledged batch went."""
        topic_id = self._landed.get((named, int.from_bytes(batch[CRC_AT : CRC_AT + 4], "big")))
        return Place(named.topic, topic_id, named.partition) if topic_id is not None else None

    def saw(self, place: Place, offset: int, value: bytes, how: str) -> None:
        """One offset has one value, for everybody and for ever."""
        if self.lossy(place):
            return
        known = self.values.setdefault(place, {}).setdefault(offset, value)
        require(known == value, "inconsistent-offsets", f"{place}@{offset} {how}", value, "but known as", known)
        sent = self.sent.get(value)
        require(sent is not None and sent[0] == place.named, "phantom", f"{place}@{offset}", value)

    def acked(self, place: Place, base_offset: int, values: list[bytes]) -> None:
        for offset, value in enumerate(values, base_offset):
            self.saw(place, offset, value, "acknowledged")
        self.acked_end[place] = max(self.acked_end.get(place, 0), base_offset + len(values))
        self.count("acked")
        self.check_copies(place)

    def given_id(self, producer_id: int, epoch: int) -> None:
        """Nobody is given a producer id that somebody has."""
        fresh = producer_id not in self._given and producer_id >= 0 and epoch == 0
        require(fresh, "T1", f"producer id {producer_id}, epoch {epoch}, was given before")
        self._given.add(producer_id)
        self.count("ids")

    def showed(self, place: Place, leader_epoch: int, high_watermark: int) -> None:
        """A reader was shown a high watermark."""
        shown = self.shown.setdefault(place, {})
        shown[leader_epoch] = max(shown.get(leader_epoch, 0), high_watermark)

    def latest(self, place: Place, leader_epoch: int, offset: int) -> None:
        """P5: what LATEST says never lies below what leaders before this one showed."""
        if self.lossy(place):
            return
        for epoch, high_watermark in self.shown.get(place, {}).items():
            if epoch < leader_epoch:
                require(offset >= high_watermark, "P5", f"{place} LATEST went back", offset, "<", high_watermark)
        self.showed(place, leader_epoch, offset)

    # --- continuously ----------------------------------------------------------------------------------------

    def check_copies(self, place: Place) -> None:
        """P4: who may be elected cleanly has everything acknowledged, unless it lost its disk's memory."""
        end = self.acked_end.get(place, 0)
        partition = self._world.partition(place)
        if not end or partition is None or self.lossy(place):
            return
        for number in (*partition.isr, *partition.elr):
            node = self._world.nodes[number]
            if place in node.lost_for:
                continue
            log = node.log(place)
            have = log.end_offset if log is not None else 0
            what = f"{place}: node {number} may be elected with {have}, acknowledged {end};"
            require(have >= end, "P4", what, partition)

    def check_all(self) -> None:
        for place in self._world.places():
            self.check_copies(place)
            for node in self._world.nodes.values():
                self._check_bounds(node, place)

    def _check_bounds(self, node: SimNode, place: Place) -> None:
        """P15: the log's start goes only forward while it is open, and not past the high watermark."""
        log = node.open_log(place)
        found = node.role.partitions.of(place.id, place.index) if node.role is not None else None
        if log is None or found is None or found.log is not log or found.cut is not None or self.lossy(place):
            return
        start = log.start_offset
        require(self.starts.get(log, 0) <= start, "P15", f"{place} on {node.id}: log start went back", start)
        in_order = start <= log.high_watermark <= log.end_offset
        require(in_order, "P15", f"{place} on {node.id}", start, log.high_watermark, log.end_offset)
        allowed = start <= self.floor.get(place, 0)
        require(allowed, "deleted", f"{place} on {node.id} starts at {start}, may start at", self.floor.get(place, 0))
        self.starts[log] = start

    def watermark_moved(self, log: PartitionLog, offset: int) -> None:
        """P2, P3: whoever leads raises the high watermark only to what all it counts on have."""
        node = self._world.here()
        role = node.role if node is not None else None
        if node is None or role is None or offset <= log.high_watermark:
            return
        partition = role.partitions.named(*log.partition)
        if partition is None or partition.log is not log or partition.leading is None:
            return
        place, leading = Place(log.partition.topic, partition.topic_id, partition.index), partition.leading
        committed = set(partition.state.isr)
        need = min(self.history(place).min_insync, len(partition.state.replicas))
        what = f"{place} on {node.id}: committed with ISR {sorted(committed)}, need {need}"
        require(len(committed) >= need, "P3", what)
        newest = self._world.partition(place)
        if self.lossy(place) or newest is None:
            return
        for number in sorted(committed | set(leading.isr.maximal)):
            peer = self._world.nodes.get(number)
            if peer is None or place in peer.lost_for:
                continue
            if number not in newest.replicas:  # a reassignment has ended of which this leader has yet to hear
                continue
            other = peer.log(place)
            have = other.end_offset if other is not None else 0
            require(have >= offset, "P2", f"{place}: leader {node.id} commits {offset}, node {number} has", have)

    def applies(self, partition: Partition) -> None:
        """P8: who leads by now does not append what a leader before it answered."""
        require(partition.leading is None, "P8", f"{partition.topic_partition}: an answer to a fetch, and it leads")

    def begins_to_lead(self, partition: Partition, *_: object) -> None:
        """P13: nobody leads by what was decided before its own registration."""
        node = self._world.here()
        role = node.role if node is not None else None
        if node is not None and role is not None:
            what = f"{partition.topic_partition} on {node.id}: leads, and has yet to hear of its registration"
            require(role.lifecycle.caught_up, "P13", what, role.lifecycle.epoch)

    def truncates(self, log: PartitionLog, offset: int) -> None:
        """P7: nothing committed is cut off."""
        self.count("truncations")
        place = self._world.place_of(log)
        allowed = place is None or offset >= log.high_watermark or self.lossy(place)
        require(allowed, "P7", f"{log.partition}: cut to {offset}, committed", log.high_watermark)

    # --- what may be deleted ---------------------------------------------------------------------------------

    def begins_anew(self, log: PartitionLog, offset: int, *_: object) -> None:
        self.starts.pop(log, None)
        self.count("begun anew")
        place = self._world.place_of(log)
        if place is not None and not self.lossy(place):
            known = self.floor.get(place, 0)
            require(offset <= known, "deleted", f"{place}: begun anew at {offset}, may start at", known)

    def before_retention(self, log: PartitionLog, now_ms: int) -> tuple[int, list[bytes]]:
        """Where the log starts; if compaction may have taken records of it, also what it holds."""
        place, node = self._world.place_of(log), self._world.here()
        if place is None or node is None or not self.history(place).compact:
            return log.start_offset, []
        paths = [segment.log_path for segment in log.segment_log.segments]
        return log.start_offset, [node.disk.contents(path) for path in paths if node.disk.exists_now(path)]

    def after_retention(self, before: tuple[int, list[bytes]], log: PartitionLog, now_ms: int) -> None:
        """What retention took was old enough, or too much, or nobody knows it, as its key was written again."""
        (start, contents), place = before, self._world.place_of(log)
        if log.start_offset == start or place is None:
            return
        self.count("retention")
        history, known = self.history(place), self.values.get(place, {})
        require(history.deletes, "deleted", f"{place}: {start} to {log.start_offset} though nothing may be deleted")
        by_size = log.segment_log.size >= history.retention_bytes
        held = {offset: value for content in contents for offset, value in _readable(content).items()}
        last = {key_of(value): offset for offset, value in sorted((known | held).items())} if history.compact else {}
        for offset in range(start, log.start_offset):
            value = known.get(offset)
            if value is not None and not by_size and last.get(key_of(value), offset) == offset:
                old = self.sent[value][1] < now_ms - history.retention_ms
                require(old, "deleted", f"{place}@{offset} is not older than {history.retention_ms} ms", value)
        require(log.start_offset <= log.high_watermark, "P15", f"{place}: retention beyond what is committed")
        self.floor[place] = max(self.floor.get(place, 0), log.start_offset)

    def records_deleted(self, _: None, log: PartitionLog, offset: int) -> None:
        place = self._world.place_of(log)
        if place is not None:
            asked = max(self.delete_asked.get(log.partition, 0), self.floor.get(place, 0))
            require(log.start_offset <= asked, "deleted", f"{place}: nobody asked for", offset)
            self.floor[place] = max(self.floor.get(place, 0), log.start_offset)

    def log_start_followed(self, _: None, log: PartitionLog, leader_start: int) -> None:
        place = self._world.place_of(log)
        if place is not None and not self.lossy(place):
            floor = self.floor.get(place, 0)
            require(log.start_offset <= floor, "deleted", f"{place}: starts at {log.start_offset}, may start at", floor)

    # --- life of a node --------------------------------------------------------------------------------------

    def recovered(self, node: SimNode, damaged: Mapping[TopicPartition, Exception]) -> None:
        """What was said to be durable is whole after every crash, but for what rotted or cannot be read."""
        rotten = {rot.place.named for rot in self._world.disks.rots if rot.node is node}
        for named, error in damaged.items():
            excused = named in rotten or node.disk.hits
            require(excused, "S4", f"{named} on {node.id} is damaged: {error}")

    def stopped(self, node: SimNode, partition: Any, error: Exception) -> None:
        place = Place(partition.topic_partition.topic, partition.topic_id, partition.index)
        wanted = self._world.partition(place)
        gone = wanted is None or node.id not in wanted.replicas
        failed = isinstance(error, KafkaStorageError) and node.disk.hits
        require(gone or failed or self.lossy(place), "P7", f"{place} on {node.id} stopped:", error)

    def left_over(self, node: SimNode, process: Process) -> None:
        """A node that stopped in order leaves nothing behind."""
        world = self._world
        main = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks(world.loop) if isinstance(task, SimTask) and task is not main]
        names = sorted(task.get_name() for task in tasks if task.process is process and not task.done())
        require(not names, "left-over", f"node {node.id}: tasks", names)
        timers = [
            handle.callback
            for handle in world.loop.timers()
            if handle.callback is not None
            and handle.context.get(PROCESS) is process
            and not str(handle.callback.__module__).startswith(("tests.", "rookery.core.testing."))
        ]
        require(not timers, "left-over", f"node {node.id}: timers", timers[:3])
        ends = [end for end in world.network._ends if end.process is process and not end.ended]
        require(not ends, "left-over", f"node {node.id}: connections", len(ends))
        listeners = [address for address, (_, owner) in world.network.listeners.items() if owner is process]
        require(not listeners, "left-over", f"node {node.id}: listeners", listeners)
        links = [link for link in world.control.links if process in link.ends and link.open[link.ends.index(process)]]
        require(not links, "left-over", f"node {node.id}: control connections", len(links))
        offline = tuple(node.role.log_dirs.offline) if node.role is not None else ()
        files = sorted(path for path in world.open_files.get(process, {}).values() if not path.startswith(offline))
        require(not files, "left-over", f"node {node.id}: open files", files)

    def deleted_files(self) -> dict[str, Any]:
        """What was deleted and still lies on a disk: names, and the very files."""
        found = ((node, path) for node in self._world.nodes.values() for path in node.disk.paths())
        gone = ((node, path) for node, path in found if _is_deleted(path))
        return {f"{node.id}:{path}": node.disk._inode(path) for node, path in gone}

    # --- in the end ------------------------------------------------------------------------------------------

    def check_end(self) -> None:
        for place in self._world.places():
            self._check_place(place)

    def _check_place(self, place: Place) -> None:
        partition = self._world.partition(place)
        if partition is None:
            return
        logs = {number: self._world.nodes[number].log(place) for number in partition.replicas}
        for number, log in logs.items():
            require(log is not None, "P1", f"{place}: node {number} has no log")
        held = {number: log for number, log in logs.items() if log is not None}
        start = max(log.start_offset for log in held.values())
        contents = {number: b"".join(_content(log, start)) for number, log in held.items()}
        if self.history(place).compact:
            self._check_compacted(place, start, contents)
            return
        first = contents[partition.leader]
        for number, content in contents.items():
            require(content == first, "P1", f"{place}: nodes {partition.leader} and {number} differ")
        if place.topic.startswith("__"):
            return
        found = {offset: value for offset, (_, value) in _records(first).items()}
        if not self.lossy(place):
            self._check_found(place, start, found)
        self._check_order(place, found)

    def _check_compacted(self, place: Place, start: int, contents: Mapping[int, bytes]) -> None:
        """Each replica keeps, of every key, the last value that is known, and nothing that was not written."""
        known = self.values.get(place, {})
        for number, content in contents.items():
            found = _records(content)
            last: dict[bytes | None, int] = {}
            for offset, (key, value) in found.items():
                last[key] = max(last.get(key, -1), offset)
                expected = known.get(offset, value)
                require(expected == value, "P1", f"{place}@{offset} on {number}: {value!r}, known as", expected)
            if place.topic.startswith("__") or self.lossy(place):
                continue
            wanted: dict[bytes, int] = {}
            for offset, value in known.items():
                key = key_of(value)
                wanted[key] = max(wanted.get(key, -1), offset)
            for key, offset in wanted.items():
                have = last.get(key, -1)
                gone = offset < max(start, self.floor.get(place, 0))
                require(gone or have >= offset, "compacted", f"{place} on {number}: {key!r}@{offset} lost, has", have)
            self._check_order(place, {offset: value for offset, (_, value) in found.items()})

    def _check_found(self, place: Place, start: int, found: dict[int, bytes]) -> None:
        require(start <= self.floor.get(place, 0), "deleted", f"{place} starts at {start}")
        for offset, value in self.values.get(place, {}).items():
            if offset >= start:
                require(found.get(offset) == value, "P4", f"{place}@{offset}: lost", value, "found", found.get(offset))
        for offset, value in found.items():
            require(value not in self.refused, "P12", f"{place}@{offset}: refused but written", value)

    def _check_order(self, place: Place, found: dict[int, bytes]) -> None:
        """No phantoms, no duplicates, each producer's values in order."""
        seen: dict[bytes, int] = {}
        last: dict[bytes, int] = {}
        for offset, value in sorted(found.items()):
            sent = self.sent.get(value)
            require(sent is not None and sent[0] == place.named, "phantom", f"{place}@{offset}", value)
            require(value not in seen, "duplicate", f"{place}: {value!r} at {seen.get(value)} and {offset}")
            seen[value] = offset
            producer, _, number = value.partition(b"/")[0].rpartition(b"-")
            if not self.lossy(place):
                require(last.get(producer, -1) < int(number), "order", f"{place}@{offset}", value)
            last[producer] = int(number)


def _is_deleted(path: str) -> bool:
    """What is set aside stays as it was."""
    return (path.endswith(".deleted") or "-delete/" in path) and "-stray/" not in path


def hash_of(values: tuple[bytes, ...]) -> int:
    return hash(values)


def key_of(value: bytes) -> bytes:
    """Values end with the key that they were sent with."""
    return value.partition(b"/")[2]


def _content(log: PartitionLog, start: int) -> Iterator[bytes]:
    offset = start
    while offset < log.end_offset:
        read = log.read(offset, 1 << 20, Isolation.LOG_END)
        if not read.data:
            return
        yield bytes(read.data)
        offset = read.next_offset


def _readable(content: bytes) -> dict[int, bytes]:
    """Values by offset, up to where a segment is damaged."""
    found: dict[int, bytes] = {}
    with suppress(KafkaError, ValueError):
        for position, header in batches(content):
            if not header.control:
                found |= {record.offset: record.value or b"" for record in read_records(content, position)}
    return found


def _records(content: bytes) -> dict[int, tuple[bytes | None, bytes]]:
    found = {}
    for position, header in batches(content):
        if not header.control:
            for record in read_records(content, position):
                found[record.offset] = (record.key, record.value or b"")
    return found
