"""KRaft-style Raft as a pure state machine: messages, ticks and completions in, `Ready` out.

The driver calls one method at a time; each returns a `Ready` (see `ready.py` for the order in which it must
be carried out). The core reads no clock, draws no random number, opens nothing: time comes with every call
(`now_ms`, monotonic, any origin, never going back) and randomness as a function. After each call the driver
arms one timer for `next_deadline_ms()` and calls `tick` when it fires; early or late ticks are harmless.

A broker runs the same core: a replica that is not in the voter set is an observer. It fetches, never votes
itself a leader, and finds the leader through the bootstrap servers.
"""

from collections.abc import Callable
from dataclasses import dataclass

from rookery.controller.raft.config import RaftConfig
from rookery.controller.raft.messages import Message, SnapshotId
from rookery.controller.raft.ready import NOTHING, QuorumState, Ready
from rookery.controller.raft.voters import ReplicaKey, Voter, VoterSet


@dataclass(frozen=True, slots=True)
class LogSummary:
    """What the core must know of the log on disk when it starts; storage builds it while it recovers the
    log."""

    start_offset: int = 0
    """0, or the end of a snapshot that is kept."""
    end_offset: int = 0
    epochs: tuple[tuple[int, int], ...] = ()
    """(epoch, offset of its first record), ascending, of the records in the log."""
    voters: tuple[tuple[int, VoterSet], ...] = ()
    """(offset, voter set) of the VOTERS records in the log, ascending."""
    snapshot: SnapshotId | None = None
    """The latest snapshot on disk, start_offset <= end_offset of it <= end_offset of the log."""
    snapshot_voters: VoterSet | None = None
    """The voter set in that snapshot."""
    start_epoch: int = 0
    """Epoch of the last record before start_offset: the epoch of the snapshot that ends there."""
    start_voters: VoterSet | None = None
    """The voter set in the snapshot that ends at start_offset."""


class RaftCore:
    def __init__(
        self,
        me: ReplicaKey,
        bootstrap_voters: VoterSet,
        log: LogSummary,
        state: QuorumState,
        now_ms: float,
        random: Callable[[], float],
        config: RaftConfig,
    ) -> None:
        """`bootstrap_voters` (from configuration) count only until the log or a snapshot holds a voter set;
        empty on a broker. `state` is what was last persisted (S10: storage refuses to start with a log but
        no state). `random` returns floats in [0, 1). Call `tick` right after construction."""

    # -- inputs that happen ----------------------------------------------------------------------------------

    def step(self, message: Message, now_ms: float) -> Ready:
        """A request or a response has arrived."""
        return NOTHING

    def tick(self, now_ms: float) -> Ready:
        """Time has passed."""
        return NOTHING

    def next_deadline_ms(self) -> float:
        """When `tick` has something to do (math.inf: never)."""
        return 0.0

    def flushed(self, number: int, now_ms: float) -> Ready:
        """All log writes up to `number` are fsynced."""
        return NOTHING

    def request_failed(self, to: int, correlation: int, now_ms: float) -> Ready:
        """A request got no answer and will get none (connection refused, deadline exceeded)."""
        return NOTHING

    def leader_connection_closed(self, leader_id: int, now_ms: float) -> Ready:
        """The connection to the leader closed: it probably died, so look for a new one now instead of
        waiting for the fetch timeout. If it lives, the others say so and this replica goes on following
        it."""
        return NOTHING

    def snapshot_installed(self, snapshot: SnapshotId, voters: VoterSet, now_ms: float) -> Ready:
        """`Ready.snapshot_install` is done and durable; `voters` is the voter set the snapshot holds."""
        return NOTHING

    def snapshot_written(self, snapshot: SnapshotId, log_start_offset: int, now_ms: float) -> Ready:
        """The application wrote a snapshot, it is durable. The log below `log_start_offset` (the old start,
        or the end of a snapshot that is kept) may be deleted after this call; keeping the log since the
        snapshot before this one spares slightly lagging followers a download."""
        return NOTHING

    # -- wishes: they raise RaftRefusedError when they cannot be granted -------------------------------------

    def propose(self, epoch: int, count: int, payload: object, now_ms: float) -> tuple[int, Ready]:
        """Append one batch of `count` records as leader of `epoch`; returns the last offset. It is
        committed when the high watermark passes it; it is lost if this replica ceases to lead first (or may
        survive: ask the log)."""
        return 0, NOTHING

    def add_voter(self, voter: Voter, now_ms: float) -> tuple[int, Ready]:
        """Make an observer that is caught up a voter; returns the offset of the VOTERS record (wait for its
        commit)."""
        return 0, NOTHING

    def remove_voter(self, key: ReplicaKey, now_ms: float) -> tuple[int, Ready]:
        """Remove a voter; a leader that removes itself resigns when the record is committed."""
        return 0, NOTHING

    def transfer_leadership(self, now_ms: float, *, for_good: bool) -> Ready:
        """Hand over: take no more proposals, wait (at most an election timeout) until another voter has the
        whole log, then resign in its favour. If none gets there in time, go on leading, or with `for_good`
        (shutdown) resign all the same. Not an error on a replica that does not lead."""
        return NOTHING

    def read_index(self, token: int, now_ms: float) -> Ready:
        """Ask whether state up to here is fresh: `Ready.reads` returns the token with an offset once a
        majority has confirmed, after this call, that this replica still leads."""
        return NOTHING

    # -- views -----------------------------------------------------------------------------------------------

    @property
    def voters(self) -> VoterSet:
        """The voter set in force here."""
        return VoterSet()

    def voters_at(self, offset: int) -> VoterSet:
        """The voter set in force after the records below `offset`: what a snapshot with that end must
        hold."""
        return VoterSet()
