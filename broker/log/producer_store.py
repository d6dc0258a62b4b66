"""The producer state of one partition together with its files: snapshots and transaction indexes.

All files are caches of what the batches say. A snapshot lies at the end of every closed segment and, after
a clean shutdown, at the end of the log. It is believed if its checksum holds and the leader epoch in its
seal is that of the batch before it; a segment's transaction index is believed if the seal of the snapshot
at its end fits. Whatever is missing or not believed is built again from the batches, so that losing any of
the files changes nothing.
"""

from collections.abc import Iterator
from itertools import pairwise

from rookery.broker.log import producer_snapshot, transaction_index
from rookery.broker.log.producer_state import NONE, CompletedTxn, ProducerState
from rookery.broker.log.transaction_index import AbortedTxn
from rookery.core.disk import Disk, replace_file, write_whole
from rookery.core.errors import KafkaError
from rookery.core.log import Log, LogCorrupt, LogDirFailed, names
from rookery.core.log.segment import Segment
from rookery.core.wire.batch import BatchHeader, Buffer
from rookery.core.wire.markers import EndMarker, read_marker
from rookery.core.wire.primitives import WireError

WAYPOINT_BATCHES = 4096
"""After so many batches the state is kept in memory, so that a truncation replays no more than that."""
WAYPOINTS = 4


class ProducerStore:
    """`state` is that of the log's end; the owner says what happened to the log, in order."""

    __slots__ = ("_aborted", "_disk", "_log", "_since_waypoint", "_waypoints", "state", "unsaved")

    def __init__(self, disk: Disk, log: Log) -> None:
        self._disk = disk
        self._log = log
        self._aborted: dict[int, list[AbortedTxn]] = {}  # by base offset of the segment that holds the marker
        self._waypoints: list[tuple[int, bytes]] = []
        self._since_waypoint = 0
        self.state = ProducerState(log.end_offset)
        self.unsaved: dict[int, bytes] = {}
        """Snapshots that wait to be written, by offset."""

    # -- opening

    def restore(
        self, high_watermark: int, now_ms: int, *, clean: bool = False, listing: list[str] | None = None
    ) -> None:
        """Bring back the state of the log's end. Reads the part of the log that no valid file covers.

        After a clean shutdown every snapshot is of this history, so that the leader epochs need not be read.
        """
        there = self._on_disk(listing)
        self._remove_strays(there)
        segments = self._log.segments
        first = segments[0].base_offset
        known = self._load(first, now_ms, trusted=clean) if first in there else None
        state = ProducerState(segments[0].base_offset) if known is None else known.state
        for number, segment in enumerate(segments):
            if not segment.size:
                continue
            snapshot = self._load(self._end_of(number), now_ms, trusted=clean)
            index = None if snapshot is None else self._vouched_index(segment, snapshot)
            if snapshot is None or index is None:
                self._rebuild_from(number, state, high_watermark, now_ms)
                break
            self._remember(segment.base_offset, index)
            state = snapshot.state
        self.state = state
        state.end_offset = self._log.end_offset
        state.high_watermark_moved(high_watermark)
        for segment in segments:
            segment.release()  # an idle partition holds no descriptor

    def _rebuild_from(self, number: int, state: ProducerState, high_watermark: int, now_ms: int) -> None:
        """Replay the segments from `number` on, and write the files that were missing or wrong."""
        segments = self._log.segments
        for entry in state.entries.values():
            entry.seen_ms = self._seen_ms(entry.last_timestamp, now_ms)
        for at in range(number, len(segments)):
            entries: list[AbortedTxn] = []
            for header, completed in self._replayed(state, segments[at], 0, now_ms):
                state.end_offset = header.next_offset
                if completed is not None and completed.aborted:
                    entries.append(_entry(completed))
            state.high_watermark_moved(high_watermark)
            self._remember(segments[at].base_offset, entries)
            self._write_index(segments[at], entries)
            state.end_offset = self._end_of(at)
            if at < len(segments) - 1:
                self.unsaved[state.end_offset] = self._snapshot_of(state, segments[at])

    def _vouched_index(
        self, segment: Segment, snapshot: producer_snapshot.Snapshot
    ) -> list[AbortedTxn] | None:
        content = self._read(segment.path(names.TXN_INDEX)) or b""
        seal = snapshot.seal
        if seal is not None and producer_snapshot.seal(seal.leader_epoch, content) != seal:
            return None
        try:
            return transaction_index.decode(content, segment.base_offset)
        except transaction_index.TransactionIndexCorruptError:
            return None

    def _load(self, offset: int, now_ms: int, *, trusted: bool = False) -> producer_snapshot.Snapshot | None:
        """The snapshot at `offset`, if there is one to be believed."""
        content = self.unsaved.get(offset) or self._read(self._path(offset))
        if content is None:
            return None
        try:
            snapshot = producer_snapshot.decode(content, offset, now_ms=now_ms)
        except producer_snapshot.SnapshotCorruptError:
            return None
        if trusted or snapshot.seal is None or offset <= self._log.start_offset:
            return snapshot  # Kafka wrote it, or no batch is left to compare it with
        return snapshot if snapshot.seal.leader_epoch == self._epoch_before(offset) else None

    def _replayed(
        self, state: ProducerState, segment: Segment, position: int, now_ms: int
    ) -> Iterator[tuple[BatchHeader, CompletedTxn | None]]:
        for at, header in segment.headers(position):
            if header.producer_id == NONE:
                yield header, None
                continue
            marker = self._marker(segment, at, header) if header.control else None
            yield header, state.apply(header, marker, now_ms=self._seen_ms(header.max_timestamp, now_ms))

    def _seen_ms(self, timestamp: int, now_ms: int) -> int:
        """When a producer that is found in the log was last seen. Compaction removes the last batches of a producer
        that has expired. Older ones that are left must not bring it back with an old sequence: in a compacted log they
        are as old as their timestamps say."""
        return min(now_ms, timestamp) if self._log.sparse and timestamp >= 0 else now_ms

    def _marker(self, segment: Segment, position: int, header: BatchHeader) -> EndMarker | None:
        batch = segment.batch(position, header)
        try:
            return read_marker(batch)
        except (KafkaError, WireError) as error:
            raise LogCorrupt(segment.log_path, position, str(error)) from None

    def _remove_strays(self, there: list[int]) -> None:
        """Remove snapshots that lie neither at a segment's start nor at the log's end."""
        wanted = {segment.base_offset for segment in self._log.segments} | {self._log.end_offset}
        for offset in there:
            if offset not in wanted:
                self._remove(offset)

    # -- following the log

    def applied(self, buf: Buffer, batches: list[tuple[int, BatchHeader]], now_ms: int) -> None:
        """Batches were appended."""
        state = self.state
        for pos, header in batches:
            if header.producer_id == NONE:
                continue
            marker = read_marker(buf, pos) if header.control else None
            completed = state.apply(header, marker, now_ms=now_ms)
            if completed is not None and completed.aborted:
                self._append_aborted(_entry(completed))
            self._since_waypoint += 1
        state.end_offset = batches[-1][1].next_offset
        if self._since_waypoint >= WAYPOINT_BATCHES:
            self._since_waypoint = 0
            self._waypoints.append((state.end_offset, producer_snapshot.encode(state, _NO_SEAL)))
            del self._waypoints[:-WAYPOINTS]

    def rolled(self, buf: Buffer, batches: list[tuple[int, BatchHeader]], now_ms: int, since: int) -> None:
        """Batches were appended and segments begun for them, all with bases above `since`: take a snapshot
        where each begins."""
        started = {
            segment.base_offset: before
            for before, segment in pairwise(self._log.segments)
            if segment.base_offset > since
        }
        for pos, header in batches:
            before = started.get(header.base_offset)
            if before is not None:
                self.state.end_offset = header.base_offset
                self.unsaved[header.base_offset] = self._snapshot_of(self.state, before)
            self.applied(buf, [(pos, header)], now_ms)

    def began_segment(self) -> None:
        """The log began a segment at its end and nothing has been appended since: take a snapshot there."""
        base, segments = self._log.active.base_offset, self._log.segments
        index = self._index_of(segments[-2]) if len(segments) > 1 else b""
        seal = producer_snapshot.seal(self._epoch_before(base), index)
        self.unsaved[base] = producer_snapshot.encode(self.state, seal)

    def state_at(self, offset: int, now_ms: int) -> ProducerState | None:
        """The state as of a segment's start, if its snapshot is there."""
        snapshot = self._load(offset, now_ms)
        return None if snapshot is None else snapshot.state

    def truncated(self, now_ms: int) -> None:
        """The log was cut to its present end."""
        end = self._log.end_offset
        self.unsaved = {offset: data for offset, data in self.unsaved.items() if offset <= end}
        self._waypoints = [point for point in self._waypoints if point[0] <= end]
        for offset in self._on_disk():
            if offset > end:
                self._remove(offset)
        self._truncate_aborted(end)
        if self.state.end_offset > end:
            self.state = self._state_at_end(now_ms)

    def _truncate_aborted(self, end: int) -> None:
        for base in [base for base in self._aborted if self._aborted[base][-1].last_offset >= end]:
            entries = [entry for entry in self._aborted[base] if entry.last_offset < end]
            self._remember(base, entries)
            if base == self._log.active.base_offset:
                self._write_index(self._log.active, entries)

    def _state_at_end(self, now_ms: int) -> ProducerState:
        end = self._log.end_offset
        if not self.state.entries:
            return ProducerState(end)
        state = self._nearest(now_ms)
        for segment in self._log.segments:
            if segment.next_offset <= state.end_offset:
                continue
            found = segment.find(state.end_offset)
            if found is not None:
                for header, _ in self._replayed(state, segment, found[0], now_ms):
                    state.end_offset = header.next_offset
        state.end_offset = end
        return state

    def _nearest(self, now_ms: int) -> ProducerState:
        """The latest remembered state; the log has been cut behind all of them."""
        snapshot = None
        for segment in reversed(self._log.segments):
            snapshot = self._load(segment.base_offset, now_ms)
            if snapshot is not None:
                break
        if self._waypoints and (snapshot is None or self._waypoints[-1][0] > snapshot.state.end_offset):
            offset, data = self._waypoints[-1]
            return producer_snapshot.decode(data, offset, now_ms=now_ms).state
        return ProducerState(self._log.segments[0].base_offset) if snapshot is None else snapshot.state

    def restarted(self) -> None:
        """The log was emptied and starts anew at its present end."""
        for offset in self._on_disk():
            self._remove(offset)
        self.unsaved.clear()
        self._waypoints.clear()
        self._aborted.clear()
        self.state = ProducerState(self._log.end_offset)

    def segments_gone(self) -> None:
        """The oldest segments were deleted, their files with them."""
        first = self._log.segments[0].base_offset
        self._aborted = {base: entries for base, entries in self._aborted.items() if base >= first}
        self.unsaved = {offset: data for offset, data in self.unsaved.items() if offset >= first}
        self.state.drop_transactions_below(self._log.start_offset)

    def segments_replaced(self, old: list[int], end: int, entries: list[AbortedTxn], now_ms: int) -> None:
        """Compaction made one segment, which ends at `end`, of those with base offsets `old`."""
        had = any(base in self._aborted for base in old)
        snapshot = self._load(end, now_ms) if had else None
        for base in old:
            self._aborted.pop(base, None)
        for base in old[1:]:
            self.unsaved.pop(base, None)
        self._remember(old[0], entries)
        if snapshot is not None:  # its seal is over the index as it was
            seal = producer_snapshot.seal(self._epoch_before(end), transaction_index.encode(entries))
            self.unsaved[end] = producer_snapshot.encode(snapshot.state, seal)

    # -- aborted transactions

    def aborted(self, segment_base: int, start: int, end: int) -> list[AbortedTxn]:
        """The aborted transactions of [start, end), which begins in the segment at `segment_base`."""
        if not self._aborted:
            return []
        later = sorted(base for base in self._aborted if base >= segment_base)
        return transaction_index.collect((self._aborted[base] for base in later), start, end)

    def _append_aborted(self, entry: AbortedTxn) -> None:
        segment = self._log.segment_of(entry.last_offset)
        entries = self._aborted.setdefault(segment.base_offset, [])
        entries.append(entry)
        self._write(segment.path(names.TXN_INDEX), transaction_index.encode([entry]), len(entries) - 1)

    def _remember(self, base_offset: int, entries: list[AbortedTxn]) -> None:
        if entries:
            self._aborted[base_offset] = entries
        else:
            self._aborted.pop(base_offset, None)

    def _write_index(self, segment: Segment, entries: list[AbortedTxn]) -> None:
        path = segment.path(names.TXN_INDEX)
        if entries or self._disk.exists(path):
            self._write(path, transaction_index.encode(entries), 0)

    # -- files

    def snapshot_end(self) -> None:
        """Take a snapshot at the log's end, for a clean shutdown."""
        if self._log.active.size:
            self.unsaved[self.state.end_offset] = self._snapshot_of(self.state, self._log.active)

    def save(self) -> None:
        """Write the waiting snapshots now, blocking."""
        for offset, data in list(self.unsaved.items()):
            path = self._path(offset)
            try:
                replace_file(self._disk, path, data)
            except OSError as error:
                raise LogDirFailed("writing", path, error) from error
            del self.unsaved[offset]

    async def save_async(self) -> None:
        """Write the waiting snapshots through aiofiles; one that became wrong meanwhile is removed again."""
        for offset, data in list(self.unsaved.items()):
            path = self._path(offset)
            try:
                await self._disk.replace(path, data)
            except OSError as error:
                raise LogDirFailed("writing", path, error) from error
            if self.unsaved.get(offset) is data:
                del self.unsaved[offset]
            elif offset not in self.unsaved:
                self._remove(offset)

    def _snapshot_of(self, state: ProducerState, segment: Segment) -> bytes:
        seal = producer_snapshot.seal(self._epoch_before(state.end_offset), self._index_of(segment))
        return producer_snapshot.encode(state, seal)

    def _index_of(self, segment: Segment) -> bytes:
        return transaction_index.encode(self._aborted.get(segment.base_offset, ()))

    def _epoch_before(self, offset: int) -> int:
        return self._log.epochs.epoch_at(offset - 1)

    def _end_of(self, number: int) -> int:
        segments = self._log.segments
        return segments[number + 1].base_offset if number + 1 < len(segments) else self._log.end_offset

    def _path(self, offset: int) -> str:
        return names.segment_file(self._log.path, offset, names.SNAPSHOT)

    def _on_disk(self, listing: list[str] | None = None) -> list[int]:
        listing = self._disk.list(self._log.path) if listing is None else listing
        found = (names.base_offset_of(name, names.SNAPSHOT) for name in listing)
        return [offset for offset in found if offset is not None]

    def _read(self, path: str) -> bytes | None:
        try:
            return self._disk.read(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LogDirFailed("reading", path, error) from error

    def _remove(self, offset: int) -> None:
        path = self._path(offset)
        try:
            self._disk.remove(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise LogDirFailed("removing", path, error) from error

    def _write(self, path: str, data: bytes, keep_entries: int) -> None:
        """Let the index at `path` be its first entries and then `data`."""
        keep = keep_entries * transaction_index.ENTRY_BYTES
        try:
            file = self._disk.open(path, create=True)
            try:
                if file.size() != keep:
                    file.truncate(keep)
                write_whole(file, data, keep)
            finally:
                file.close()
        except OSError as error:
            raise LogDirFailed("writing", path, error) from error


_NO_SEAL = producer_snapshot.Seal(NONE, 0, 0)


def _entry(completed: CompletedTxn) -> AbortedTxn:
    return AbortedTxn(
        completed.producer_id, completed.first_offset, completed.last_offset, completed.last_stable_offset
    )
