"""What a Raft replica keeps: the metadata log, its snapshots and the quorum-state, in one folder.

Appends go to the page cache on the event loop; everything that waits for the device (fsync, the quorum-state,
snapshots) is meant for a thread. The log is only trusted as far as it agrees with the other two: storage that
lost something it had promised does not open.

The file ``quorum-state`` is JSON with Kafka's field names. It is replaced as a whole and durable before anything that
follows from it leaves the node. A voter whose log holds records but whose state is missing or damaged does not start:
it may have voted in an epoch that it no longer knows, and a second vote in that epoch could elect a second leader.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from rookery.controller.raft.batches import encode, voters_of
from rookery.controller.raft.errors import CorruptStateError, MetadataDamagedError
from rookery.controller.raft.log import LogSummary
from rookery.controller.raft.ready import LogWrite, QuorumState
from rookery.controller.raft.snapshot import Snapshots
from rookery.controller.raft.voters import ReplicaKey, VoterSet
from rookery.core.disk import Disk, replace_file
from rookery.core.errors import CorruptMessageError
from rookery.core.ids import id_text
from rookery.core.log import FlushJob, Log, LogConfig, LogCorrupt, LogRead
from rookery.core.log.checkpoints import HIGH_WATERMARKS, CheckpointDamaged, read_offsets, write_offsets
from rookery.core.log.names import DELETED, LOG, segment_file
from rookery.core.log.ownership import id_from
from rookery.core.log.scan import check_stored
from rookery.core.metadata_log import METADATA_LOG, Control, SnapshotId, read_control
from rookery.core.types import TopicPartition

QUORUM_STATE = "quorum-state"
STATE_VERSION = 1
CHECKED_AT_ONCE = 1 << 20
_PARTITION = TopicPartition("__cluster_metadata", 0)
_VOTE_FORGOTTEN = "this voter may have promised a vote that it no longer knows of"


@dataclass(frozen=True, slots=True)
class Recovered:
    """What the core must know to start."""

    state: QuorumState
    log: LogSummary


class RaftStorage:
    """The open files of one replica. One writer: the node's event loop."""

    def __init__(self, disk: Disk, log: Log, snapshots: Snapshots, recovered: Recovered) -> None:
        self._disk = disk
        self._log = log
        self.snapshots = snapshots
        self.recovered = recovered
        self.latest_snapshot = recovered.log.snapshot

    @staticmethod
    def open(disk: Disk, folder: str, config: LogConfig, now_ms: int) -> "RaftStorage":
        """Recover what is in `folder`. Blocks; for a thread. Raises MetadataDamagedError."""
        path = f"{folder}/{METADATA_LOG}"
        try:
            return RaftStorage._open(disk, folder, path, config, now_ms)
        except LogCorrupt as error:
            raise _damaged(path, error) from error
        except (CorruptStateError, CheckpointDamaged, CorruptMessageError) as error:
            raise MetadataDamagedError(path, str(error)) from error

    @staticmethod
    def _open(disk: Disk, folder: str, path: str, config: LogConfig, now_ms: int) -> "RaftStorage":
        disk.mkdir(path)
        disk.sync_dir(folder)  # or a power cut could take the folder, and with it every promise in it
        snapshots = Snapshots(disk, path)
        snapshots.remove_unfinished()
        committed = read_offsets(disk, f"{path}/{HIGH_WATERMARKS}").get(_PARTITION)
        log = Log.open(disk, path, config, recovery_point=committed, now_ms=now_ms)
        try:
            if log.damage is not None:
                raise log.damage
            recovered = _recover(disk, log, snapshots, committed or 0, now_ms)
            _make_durable(disk, log)
        except BaseException:
            log.abandon()
            raise
        return RaftStorage(disk, log, snapshots, recovered)

    @property
    def start_offset(self) -> int:
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def flushed_offset(self) -> int:
        """Everything below is on the device."""
        return self._log.recovery_point

    @property
    def size(self) -> int:
        """Bytes of the log."""
        return self._log.size

    def epoch_before(self, offset: int) -> int:
        """The epoch of the record before `offset`."""
        snapshot = self.latest_snapshot
        if snapshot is not None and offset == snapshot.end_offset:
            return snapshot.epoch
        return self._log.epochs.epoch_at(offset - 1)

    def write(self, write: LogWrite, leader_id: int, now_ms: int) -> None:
        """Cut and append as the core says; not yet durable."""
        if write.truncate_to is not None:
            self._log.truncate_to(write.truncate_to)
        if write.batches:
            data = bytearray().join(encode(batch, leader_id, now_ms) for batch in write.batches)
            self._expect_end(write.batches[0].base_offset)
            self._log.append_as_follower(data, now_ms)
            self._expect_end(write.batches[-1].end_offset)

    def _expect_end(self, offset: int) -> None:
        if self._log.end_offset != offset:
            raise CorruptStateError(f"{self._log.path} ends at {self._log.end_offset}, the core says at {offset}")

    def read(self, offset: int, upper: int, max_bytes: int) -> tuple[bytes, int]:
        """Whole batches from `offset` on, below `upper`, at least one, and the offset after them. Raises
        MetadataDamagedError where they are not what was once written."""
        try:
            found = self._log.read(offset, max_bytes, upper)
            _check(self._log, found)
        except LogCorrupt as error:
            raise _damaged(self._log.path, error) from error
        return bytes(found.data), found.next_offset

    def check_snapshot(self, snapshot: SnapshotId) -> None:
        """Raises MetadataDamagedError if it is not what was once written. Blocks; for a thread."""
        try:
            self.snapshots.check(snapshot)
        except FileNotFoundError:
            return  # a newer one took its place
        except CorruptMessageError as error:
            raise MetadataDamagedError(self._log.path, str(error)) from error

    def begin_flush(self) -> FlushJob:
        return self._log.begin_flush()

    def flushed(self, job: FlushJob) -> None:
        self._log.flushed(job)

    def install(self, snapshot: SnapshotId) -> VoterSet:
        """Make a download a snapshot; `restart_at` must follow. Blocks; for a thread."""
        voters = self.snapshots.install(snapshot)
        self.save_committed(0)  # the log is about to go: from here on the snapshot holds all below its end
        return voters

    def restart_at(self, snapshot: SnapshotId, now_ms: int) -> None:
        """The installed snapshot takes the place of the whole log; note it with `save_committed` afterwards."""
        self._log.truncate_fully_and_start_at(snapshot.end_offset, now_ms)
        self.latest_snapshot = snapshot

    def delete_before(self, offset: int, now_ms: int) -> None:
        """Delete the log below `offset`, where a snapshot ends, and the snapshots before that one."""
        self._log.advance_start(offset)
        for segment in self._log.take_old(offset, lambda _segment, _end: True, now_ms):
            segment.remove_files(DELETED)
        for snapshot in self.snapshots.all():
            if snapshot.end_offset < offset:
                self.snapshots.remove(snapshot)

    def roll(self, now_ms: int) -> None:
        """Begin a new segment, so that the one before it can be deleted some day."""
        self._log.roll(now_ms)

    def save_state(self, state: QuorumState) -> None:
        """Durable when it returns. Blocks; for a thread."""
        replace_file(self._disk, f"{self._log.path}/{QUORUM_STATE}", encode_state(state))

    def save_committed(self, offset: int) -> None:
        """Note that everything below `offset` is committed and on this disk: a log found shorter or damaged
        below it has lost something. Blocks; for a thread."""
        write_offsets(self._disk, f"{self._log.path}/{HIGH_WATERMARKS}", {_PARTITION: offset})

    def close(self) -> None:
        self.snapshots.close()
        self._log.close()


def _damaged(folder: str, error: LogCorrupt) -> MetadataDamagedError:
    return MetadataDamagedError(folder, f"{error.path} is damaged at byte {error.position}: {error.why}")


def _recover(disk: Disk, log: Log, snapshots: Snapshots, committed: int, now_ms: int) -> Recovered:
    kept, path = snapshots.all(), f"{log.path}/{QUORUM_STATE}"
    empty = log.end_offset == 0 and not kept
    state = QuorumState()
    if disk.exists(path):
        try:
            state = decode_state(path, disk.read(path))
        except ValueError as error:
            raise CorruptStateError(f"{path}: {error}; {_VOTE_FORGOTTEN}") from error
    elif not empty:
        raise CorruptStateError(f"{path} is missing beside a log that is not empty; {_VOTE_FORGOTTEN}")
    for snapshot in kept:
        snapshots.check(snapshot)
    latest = kept[-1] if kept else None
    known_end = log.end_offset if latest is None else max(log.end_offset, latest.end_offset)
    if known_end < committed:
        raise CorruptStateError(
            f"{log.path} ends at {known_end}, but records up to {committed} were committed on this disk: they are "
            "lost here"
        )
    if latest is not None and not _continues(log, latest):
        log.truncate_fully_and_start_at(latest.end_offset, now_ms)  # a crash amid an installation
    _check_rest(log, 0 if latest is None else latest.end_offset)
    return Recovered(state, _summary(log, snapshots, kept))


def _check_rest(log: Log, offset: int) -> None:
    """Raises LogCorrupt unless all is sound that is to be read after the latest snapshot: closed segments, too."""
    offset = max(offset, log.start_offset)
    while offset < log.end_offset:
        found = log.read(offset, CHECKED_AT_ONCE)
        _check(log, found)
        offset = found.next_offset


def _check(log: Log, found: LogRead) -> None:
    check_stored(found.data, segment_file(log.path, found.segment_base, LOG), found.position)


def _make_durable(disk: Disk, log: Log) -> None:
    """A process that was killed may have left records, a vote or a snapshot that never reached the device. This one
    acts on them, so they must not vanish at a later power cut."""
    job = log.begin_flush()
    job.run()
    log.flushed(job)
    disk.sync_dir(log.path)


def _continues(log: Log, snapshot: SnapshotId) -> bool:
    """Whether the log holds, or directly follows, the records that the snapshot stands for. A log that was let go up to
    a snapshot's end has forgotten the epochs before: it follows that snapshot."""
    first, end = log.segments[0].base_offset, snapshot.end_offset
    if not first <= end <= log.end_offset:
        return False
    known = log.epochs.entries
    return end <= (known[0].start_offset if known else first) or log.epochs.epoch_at(end - 1) == snapshot.epoch


def _summary(log: Log, snapshots: Snapshots, kept: list[SnapshotId]) -> LogSummary:
    first = log.segments[0].base_offset
    start = SnapshotId(0, 0)
    if first > 0:
        ends = [snapshot for snapshot in kept if snapshot.end_offset >= first and _continues(log, snapshot)]
        if not ends:
            raise CorruptStateError(
                f"{log.path} starts at {first}, but no snapshot (*.checkpoint) holds what came before"
            )
        start = ends[0]
        log.advance_start(start.end_offset)
    return LogSummary(
        start_offset=start.end_offset,
        end_offset=log.end_offset,
        start_epoch=start.epoch,
        start_voters=snapshots.load(start)[0] if start.end_offset else None,
        epochs=tuple((epoch, at) for epoch, at in log.epochs.entries if at < log.end_offset),
        voters=tuple(_voters(log)),
        snapshot=kept[-1] if kept else None,
    )


def _voters(log: Log) -> Iterator[tuple[int, VoterSet]]:
    for header in log.headers(log.start_offset):
        if header.control and header.base_offset >= log.start_offset:
            kind, content = read_control(log.read(header.base_offset, header.size, header.next_offset).data)
            if kind == Control.VOTERS:
                yield header.base_offset, voters_of(content)


def encode_state(state: QuorumState) -> bytes:
    voted = state.voted_for
    return json.dumps(
        {
            "leaderId": state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": -1 if voted is None else voted.id,
            "votedDirectoryId": None if voted is None else id_text(voted.directory_id),
            "data_version": STATE_VERSION,
        }
    ).encode()


def decode_state(path: str, content: bytes) -> QuorumState:
    """Raises ValueError with the reason unless every field is there and makes sense."""
    try:
        found = json.loads(content)
        if found["data_version"] != STATE_VERSION:
            raise ValueError(f"its data_version {found['data_version']} is not known to this release")
        voted = None
        if found["votedId"] != -1:
            voted = ReplicaKey(int(found["votedId"]), id_from(path, found["votedDirectoryId"]))
        epoch, leader_id = int(found["leaderEpoch"]), int(found["leaderId"])
    except (KeyError, TypeError, CheckpointDamaged, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"it cannot be read ({error})") from error
    if epoch < 0 or leader_id < -1:
        raise ValueError(f"epoch {epoch} or leader {leader_id} is impossible")
    return QuorumState(epoch, voted, leader_id)
