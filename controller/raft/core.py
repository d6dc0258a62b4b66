"""KRaft-style Raft as a pure state machine: messages, ticks and completions in, `Ready` out.

The driver calls one method at a time; each returns a `Ready` (see `ready.py` for the order in which it must
be carried out). The core reads no clock, draws no random number, opens nothing: time comes with every call
(`now_ms`, monotonic, any origin, never going back) and randomness as a function. After each call the driver
arms one timer for `next_deadline_ms()` and calls `tick` when it fires; early or late ticks are harmless.

A replica that is not in the voter set is an observer: a controller that has no vote yet, or none any more. It
fetches, never stands for election, and finds the leader through the bootstrap servers. (A broker reads the log with
`broker.metadata.follower`.)

Where things are: `replica` (state and transitions), `roles` (what each role holds), `election`, `leading`,
`following`, `membership` (the decisions), `log`, `progress`, `voters` (the values they decide
on).
"""

from collections.abc import Callable

from rookery.controller.raft import election, following, leading, membership
from rookery.controller.raft.describe import QuorumDescription, describe
from rookery.controller.raft.errors import (
    CorruptStateError,
    NotLeaderError,
    NotReadyError,
)
from rookery.controller.raft.log import LogSummary as LogSummary
from rookery.controller.raft.messages import (
    NO_LEADER,
    Batch,
    BeginEpochRequest,
    EndEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Message,
    SnapshotId,
    VoteRequest,
    VoteResponse,
)
from rookery.controller.raft.ready import QuorumState, Ready
from rookery.controller.raft.replica import Replica
from rookery.controller.raft.roles import Candidate, Follower, Leader, Prospective, Role, Unattached
from rookery.controller.raft.settings import RaftConfig
from rookery.controller.raft.voters import ReplicaKey, Voter, VoterSet


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
        empty on an observer. `state` is what was last persisted (storage refuses to start with a log but no
        state). `random` returns floats in [0, 1). Call `tick` right after construction."""
        self.replica = Replica(me, bootstrap_voters, log, state, now_ms, random, config)

    # -- what happens ----------------------------------------------------------------------------------------

    def step(self, message: Message, now_ms: float) -> Ready:
        """A request or a response has arrived."""
        replica, before = self.replica, self.replica.role
        if not (isinstance(message, VoteRequest) and message.pre_vote):
            replica.learn(message.epoch, _leader_named_by(message), _endpoint_named_by(message), now_ms)
        self._dispatch(message, now_ms)
        return self._settle(before, now_ms)

    def _dispatch(self, message: Message, now_ms: float) -> None:
        replica = self.replica
        match message:
            case FetchRequest():
                leading.on_fetch(replica, message, now_ms)
            case FetchResponse():
                following.on_fetch_response(replica, message, now_ms)
            case VoteRequest():
                election.on_vote_request(replica, message, now_ms)
            case VoteResponse():
                election.on_vote_response(replica, message, now_ms)
            case BeginEpochRequest():
                election.on_begin_epoch(replica, message)
            case EndEpochRequest():
                election.on_end_epoch(replica, message, now_ms)
            case FetchSnapshotRequest():
                leading.on_fetch_snapshot(replica, message, now_ms)
            case FetchSnapshotResponse():
                following.on_fetch_snapshot_response(replica, message, now_ms)

    def tick(self, now_ms: float, *, held_up: bool = False) -> Ready:
        """Time has passed. `held_up`: this process did not run meanwhile (see `RaftConfig.standstill_ms`), so what the
        others sent is yet to be read and their silence proves nothing."""
        replica, before = self.replica, self.replica.role
        match before:
            case Leader():
                leading.tick(replica, before, held_up, now_ms)
            case Follower():
                following.tick(replica, before, held_up, now_ms)
            case Unattached():
                following.tick_unattached(replica, before, now_ms)
            case Prospective(ballot=ballot) | Candidate(ballot=ballot):
                election.tick_ballot(replica, ballot, now_ms)
        return self._settle(before, now_ms)

    def next_deadline_ms(self) -> float:
        """When `tick` has something to do."""
        return self.replica.next_deadline_ms()

    def flushed(self, number: int, now_ms: float) -> Ready:
        """All log writes up to `number` are fsynced."""
        replica = self.replica
        replica.log.flushed(number)
        if isinstance(replica.role, Follower):
            following.follow_high_watermark(replica, replica.role)
        return self._settle(replica.role, now_ms)

    def request_failed(self, to: int, correlation: int, now_ms: float) -> Ready:
        """A request got no answer and will get none (connection refused, deadline exceeded)."""
        replica = self.replica
        match replica.role:
            case Prospective(ballot=ballot) | Candidate(ballot=ballot):
                election.on_request_failed(replica, ballot, to, correlation, now_ms)
            case Follower(request=request) as role if request and request.correlation == correlation:
                following.on_request_failed(replica, role, now_ms)
            case Unattached(search=search) as role if search and search.correlation == correlation:
                role.search = None
        return self._settle(replica.role, now_ms)

    def leader_connection_closed(self, leader_id: int, now_ms: float) -> Ready:
        """The connection to the leader closed: it probably died, so look for a new one now instead of
        waiting for the fetch timeout. If it is alive, the others report it, and this replica continues to
        follow it."""
        replica, before = self.replica, self.replica.role
        if isinstance(before, Follower) and before.leader_id == leader_id:
            election.leader_left(replica, election.short_wait_ms(replica), now_ms)
        return self._settle(before, now_ms)

    def snapshot_installed(self, snapshot: SnapshotId, voters: VoterSet, now_ms: float) -> Ready:
        """`Ready.snapshot_install` is done and durable; `voters` is the voter set the snapshot holds."""
        replica = self.replica
        if snapshot != replica.installing:
            raise CorruptStateError(f"{snapshot} was installed, but {replica.installing} was asked for")
        replica.installing = None
        replica.log.restart_at(snapshot, voters)
        replica.advance_high_watermark(snapshot.end_offset)
        return self._settle(replica.role, now_ms)

    def snapshot_damaged(self, snapshot: SnapshotId, now_ms: float) -> Ready:
        """What `Ready.snapshot_install` asked for cannot be done: the download is damaged. Nothing has changed; ask the
        leader again after a while, it may have another one by then."""
        replica = self.replica
        if snapshot != replica.installing:
            raise CorruptStateError(f"{snapshot} is damaged, but {replica.installing} was asked for")
        replica.installing = None
        if isinstance(replica.role, Follower):
            following.pause(replica, replica.role, now_ms)
        return self._settle(replica.role, now_ms)

    def snapshot_written(self, snapshot: SnapshotId, log_start_offset: int, now_ms: float) -> Ready:
        """The application wrote a snapshot, it is durable. The log below `log_start_offset` (the old start,
        or the end of a snapshot that is kept) may be deleted after this call; keeping the log since the
        snapshot before this one spares slightly lagging followers a download."""
        replica, log = self.replica, self.replica.log
        newest = log.snapshot.end_offset if log.snapshot else 0
        in_log = newest <= snapshot.end_offset <= replica.high_watermark
        if not in_log or log.epoch_before(snapshot.end_offset) != snapshot.epoch:
            raise CorruptStateError(f"{snapshot} is not within the committed log [{newest}, {replica.high_watermark}]")
        if not log.start_offset <= log_start_offset <= snapshot.end_offset:
            raise CorruptStateError(f"log start {log_start_offset} not in [{log.start_offset}, {snapshot.end_offset}]")
        log.snapshot = snapshot
        log.advance_start(log_start_offset)
        return self._settle(replica.role, now_ms)

    # -- what is asked for: refused with a RaftRefusedError --------------------------------------------------

    def propose(self, epoch: int, count: int, payload: object, now_ms: float) -> tuple[int, Ready]:
        """Append one batch of `count` records as leader of `epoch`; returns the last offset. It is
        committed when the high watermark passes it. If this replica ceases to lead before, it may be lost
        or may survive."""
        replica = self.replica
        role = membership.require_leader(replica)
        if epoch != replica.epoch:
            raise NotLeaderError(f"epoch {epoch} is over, this is {replica.epoch}", replica.leader_id, replica.epoch)
        if role.transfer:
            raise NotReadyError("leadership is being handed over; ask the next leader")
        replica.append(Batch(replica.log.end_offset, replica.epoch, count=count, payload=payload))
        return replica.log.end_offset - 1, self._settle(role, now_ms)

    def add_voter(self, voter: Voter, now_ms: float) -> tuple[int, Ready]:
        """Make an observer that is caught up a voter; returns the offset of the VOTERS record: wait for its
        commit."""
        role = self.replica.role
        offset = membership.add_voter(self.replica, voter, now_ms)
        return offset, self._settle(role, now_ms)

    def remove_voter(self, key: ReplicaKey, now_ms: float) -> tuple[int, Ready]:
        """Remove a voter; a leader that removes itself resigns when the record is committed."""
        role = self.replica.role
        offset = membership.remove_voter(self.replica, key, now_ms)
        return offset, self._settle(role, now_ms)

    def transfer_leadership(self, now_ms: float, *, for_good: bool) -> Ready:
        """Hand over: take no more proposals, wait (at most an election timeout) until another voter has the
        whole log, then resign in its favour. If none gets there in time, go on leading, or with `for_good`
        (shutdown) resign all the same. No error on a replica that does not lead."""
        role = self.replica.role
        if isinstance(role, Leader):
            leading.begin_transfer(self.replica, role, for_good, now_ms)
        return self._settle(role, now_ms)

    # -- views -----------------------------------------------------------------------------------------------

    @property
    def voters(self) -> VoterSet:
        """The voter set in force here."""
        return self.replica.voters

    def voters_at(self, offset: int) -> VoterSet:
        """The voter set in force after the records below `offset`: what a snapshot with that end must
        hold."""
        return self.replica.log.voters_before(offset) or self.replica.bootstrap_voters

    def describe(self, now_ms: float) -> QuorumDescription:
        return describe(self.replica, now_ms)

    # -- consequences ----------------------------------------------------------------------------------------

    def _settle(self, before: Role, now_ms: float) -> Ready:
        """Apply the consequences of any input, then return what is to be done."""
        replica = self.replica
        if isinstance(replica.role, Leader):
            leading.settle(replica, replica.role, now_ms)
        if isinstance(replica.role, Leader):
            membership.pin_directories(replica, replica.role, now_ms)
        if isinstance(before, Leader) and replica.role is not before:
            leading.release(replica, before)
        if isinstance(replica.role, Follower):
            following.fetch_on(replica, replica.role, now_ms)
        return replica.take_ready()


def _leader_named_by(message: Message) -> int:
    match message:
        case BeginEpochRequest():
            return message.leader.id
        case VoteRequest() | FetchRequest() | FetchSnapshotRequest() | EndEpochRequest():
            return NO_LEADER
    return message.leader_id


def _endpoint_named_by(message: Message) -> str:
    match message:
        case VoteRequest() | FetchRequest() | FetchSnapshotRequest() | EndEpochRequest():
            return ""
    return message.leader_endpoint
