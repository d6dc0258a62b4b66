"""What the core wants done: the one output of `RaftCore`.

The driver's duties, in order, for each `Ready` and for Readies one after the other (never two at once, none
skipped):

1. `quorum_state`: write and fsync. Nothing below may happen before it is durable.
2. `snapshot_chunk`, `snapshot_install`, `log_writes`: do them. Appending may return before fsync.
3. `sends`: send. Losing a message is allowed, sending it before step 1 is not. Fill `FetchResponse.batches`
   and `FetchSnapshotResponse.chunk` by reading now; records that are appended but not yet fsynced may be
   sent.
4. `log_writes`: once one is fsynced, call `RaftCore.flushed(write.number)`. It may come any time later,
   several writes may share one fsync (the highest number speaks for all below it). A follower does not
   fetch on, and a leader does not count itself, before that call: this is what makes a fetch offset an
   acknowledgement.
5. `high_watermark`: records below it are committed: apply them, in order.
6. `role`: report it to the application.
"""

from dataclasses import dataclass

from rookery.controller.raft.messages import NO_LEADER, Batch, Message, SnapshotId
from rookery.controller.raft.voters import ReplicaKey, VoterSet


@dataclass(frozen=True, slots=True)
class QuorumState:
    """What must survive every restart: the `quorum-state` file."""

    epoch: int = 0
    voted_for: ReplicaKey | None = None
    """Given in `epoch`."""
    leader_id: int = NO_LEADER
    """The leader of `epoch`, if it was known when the rest was written."""


@dataclass(frozen=True, slots=True)
class LogWrite:
    """One change of the log: first cut it to `truncate_to`, if given, then append `batches`."""

    number: int
    batches: tuple[Batch, ...] = ()
    truncate_to: int | None = None
    """The new end offset: records at and above it go."""


@dataclass(frozen=True, slots=True)
class Send:
    to: int
    """Node id, or ANY_BOOTSTRAP."""
    message: Message
    endpoint: str = ""
    """Where that node listens, from the voter set or reported by a peer; "" if only the id is known."""


@dataclass(frozen=True, slots=True)
class SnapshotChunk:
    """Write `chunk` at `position` of the snapshot's temporary file; position 0 starts it anew."""

    snapshot: SnapshotId
    position: int
    chunk: bytes


@dataclass(frozen=True, slots=True)
class RoleChange:
    """What this replica now is: "unattached", "prospective", "candidate", "follower", "leader" or
    "resigned"; an observer is a follower (or unattached) that is not in `voters`."""

    role: str
    epoch: int
    leader_id: int
    leader_endpoint: str
    voters: VoterSet
    epoch_start_offset: int = -1
    """As leader: the offset of the record that opens the epoch. Once the high watermark is above it and
    everything below it is applied, the application may act as leader."""


@dataclass(frozen=True, slots=True)
class Ready:
    quorum_state: QuorumState | None = None
    snapshot_chunk: SnapshotChunk | None = None
    snapshot_install: SnapshotId | None = None
    """The download is complete: fsync the file, rename it, fsync the directory, drop the whole log and
    start it anew at the snapshot's end, then call `RaftCore.snapshot_installed`. Nothing is fetched until
    then."""
    log_writes: tuple[LogWrite, ...] = ()
    sends: tuple[Send, ...] = ()
    high_watermark: int | None = None
    role: RoleChange | None = None


NOTHING = Ready()
