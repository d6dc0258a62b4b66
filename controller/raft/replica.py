"""One replica's state and the transitions between its roles.

The rules of this file:
- the epoch never falls, and `voted_for` is set at most once per epoch;
- a role changes only through `_enter`, and only along NEXT_IN_EPOCH or with a higher epoch;
- the high watermark never falls;
- what must be reported to the driver is found by comparing with the last report (`take_ready`), so no
  caller can forget to mark something as changed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from rookery.controller.raft.errors import CorruptStateError, RaftFatalError, TwoLeadersError
from rookery.controller.raft.log import LogIndex, LogSummary
from rookery.controller.raft.messages import ANY_BOOTSTRAP, NO_LEADER, Batch, Message, SnapshotId
from rookery.controller.raft.ready import (
    NOTHING,
    LogWrite,
    QuorumState,
    Ready,
    RoleChange,
    Send,
    SnapshotChunk,
)
from rookery.controller.raft.roles import (
    NEXT_IN_EPOCH,
    Candidate,
    Download,
    Follower,
    Leader,
    Prospective,
    Role,
    Unattached,
)
from rookery.controller.raft.settings import RaftConfig
from rookery.controller.raft.voters import ReplicaKey, VoterSet


@dataclass(slots=True)
class Outbox:
    """What has been decided since the last Ready."""

    log_writes: list[LogWrite]
    sends: list[Send]
    snapshot_chunk: SnapshotChunk | None = None
    snapshot_install: SnapshotId | None = None

    @classmethod
    def empty(cls) -> "Outbox":
        return cls([], [])


class Replica:
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
        self.me = me
        self.config = config
        self.random = random
        self.log = LogIndex(log)
        self.bootstrap_voters = bootstrap_voters
        self.epoch = state.epoch
        self.voted_for = state.voted_for
        self.epoch_leader = state.leader_id
        self.epoch_ended = False
        """The leader of this epoch has left for good: who still names it is behind."""
        self.high_watermark = self.log.snapshot.end_offset if self.log.snapshot else 0
        self.installing: SnapshotId | None = None
        self.download: Download | None = None
        """What has arrived of a snapshot; gone on with if its leader is found again."""
        self.elections_lost = 0
        self.out = Outbox.empty()
        self._correlation = int(random() * 2**32)
        self._reported_state = (state.epoch, state.voted_for)
        self._reported_role: tuple[object, ...] = ()
        self._reported_high_watermark = self.high_watermark
        if self.epoch < self.log.last_epoch:
            raise CorruptStateError(
                f"quorum-state says epoch {self.epoch}, but the log has records of epoch {self.log.last_epoch}: "
                "votes may be forgotten"
            )
        # A short first wait: if there is a leader it says so at once, and a fresh quorum need not wait for
        # anybody.
        self.role: Role = Unattached(now_ms + random() * config.election_timeout_ms / 10)

    # -- who is who ------------------------------------------------------------------------------------------

    @property
    def voters(self) -> VoterSet:
        """The voter set in force here: the last in the log, committed or not."""
        return self.log.voters or self.bootstrap_voters

    @property
    def is_voter(self) -> bool:
        return self.me in self.voters

    @property
    def may_stand(self) -> bool:
        """Voters stand for election. So does a replica whose removal is not known to be committed: if its log is the
        only one to hold the removal, no other one could be elected. A replica does not stand while a snapshot replaces
        its log."""
        if self.installing:
            return False
        if self.is_voter:
            return True
        pending = self.log.voters_offset
        before = self.log.voters_before(pending) or self.bootstrap_voters
        return pending >= max(self.high_watermark, self.log.start_offset) and self.me in before

    @property
    def leader_id(self) -> int:
        """The current leader, as far as known; NO_LEADER also when it is known to have resigned."""
        match self.role:
            case Follower(leader_id=leader_id):
                return leader_id
            case Leader():
                return self.me.id
        return NO_LEADER

    @property
    def leader_endpoint(self) -> str:
        if isinstance(self.role, Follower) and self.role.leader_endpoint:
            return self.role.leader_endpoint
        return self.endpoint_of(self.leader_id)

    def endpoint_of(self, node_id: int) -> str:
        voter = self.voters.get(node_id)
        return voter.endpoint if voter else ""

    # -- transitions -----------------------------------------------------------------------------------------

    def _enter(self, role: Role, epoch: int) -> None:
        old = self.role
        if epoch < self.epoch or (epoch == self.epoch and type(role) not in NEXT_IN_EPOCH[type(old)]):
            raise RaftFatalError(f"{old.name} in epoch {self.epoch} cannot become {role.name} in epoch {epoch}")
        if epoch > self.epoch:
            self.epoch, self.voted_for, self.epoch_leader, self.epoch_ended = epoch, None, NO_LEADER, False
        self.role = role

    def become_unattached(self, epoch: int, wait_ms: float, now_ms: float) -> None:
        self._enter(Unattached(now_ms + wait_ms), epoch)

    def become_follower(self, epoch: int, leader_id: int, endpoint: str, now_ms: float) -> None:
        self._enter(Follower(leader_id, endpoint, now_ms + self.config.fetch_timeout_ms), epoch)
        self.epoch_leader = leader_id

    def become_prospective(self, role: Prospective) -> None:
        self._enter(role, self.epoch)

    def become_candidate(self, role: Candidate) -> None:
        self._enter(role, self.epoch + 1)
        self.voted_for = self.me

    def become_leader(self, role: Leader) -> None:
        self._enter(role, self.epoch)
        self.epoch_leader = self.me.id

    def election_wait_ms(self) -> float:
        """How long a voter waits for a leader: jittered, so that one of them is first."""
        return self.config.election_timeout_ms * (1 + self.random())

    def learn(self, epoch: int, leader_id: int, endpoint: str, now_ms: float) -> None:
        """A peer has reported that `leader_id` leads `epoch`, or that it knows no leader."""
        known = leader_id not in (NO_LEADER, self.me.id)
        if epoch > self.epoch:
            if known:
                self.become_follower(epoch, leader_id, endpoint, now_ms)
            else:
                self.become_unattached(epoch, self.election_wait_ms(), now_ms)
        elif epoch == self.epoch and known:
            if self.epoch_leader not in (NO_LEADER, leader_id):
                raise TwoLeadersError(f"nodes {self.epoch_leader} and {leader_id} both claim to lead epoch {epoch}")
            if not isinstance(self.role, Follower) and not self.epoch_ended:
                self.become_follower(epoch, leader_id, endpoint, now_ms)

    def vote_for(self, candidate: ReplicaKey) -> None:
        if self.voted_for not in (None, candidate):
            raise RaftFatalError(f"a second vote in epoch {self.epoch}: {self.voted_for}, now {candidate}")
        self.voted_for = candidate

    # -- doing -----------------------------------------------------------------------------------------------

    def next_correlation(self) -> int:
        self._correlation += 1
        return self._correlation

    def send(self, to: int, message: Message) -> None:
        known_leader = to == self.leader_id and to != ANY_BOOTSTRAP
        endpoint = self.leader_endpoint if known_leader else self.endpoint_of(to)
        self.out.sends.append(Send(to, message, endpoint))

    def append(self, *batches: Batch) -> None:
        self.out.log_writes.append(self.log.append(batches))

    def truncate(self, end_offset: int) -> None:
        self.out.log_writes.append(self.log.truncate(end_offset))

    def advance_high_watermark(self, offset: int) -> bool:
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    # -- reports to the driver ---------------------------------------------------------------------------

    def take_ready(self) -> Ready:
        """Everything decided since the last call."""
        out = self.out
        state = self._changed_state()
        role = self._changed_role()
        high_watermark = None
        if self.high_watermark != self._reported_high_watermark:
            high_watermark = self._reported_high_watermark = self.high_watermark
        if not (out.sends or out.log_writes or state or role or high_watermark) and out == Outbox.empty():
            return NOTHING
        self.out = Outbox.empty()
        return Ready(
            quorum_state=state,
            snapshot_chunk=out.snapshot_chunk,
            snapshot_install=out.snapshot_install,
            log_writes=tuple(out.log_writes),
            sends=tuple(out.sends),
            high_watermark=high_watermark,
            role=role,
        )

    def _changed_state(self) -> QuorumState | None:
        """Who leads is not worth an fsync of its own: it would delay the first fetch from a new leader."""
        state = (self.epoch, self.voted_for)
        if state == self._reported_state:
            return None
        self._reported_state = state
        return QuorumState(*state, self.epoch_leader)

    def _changed_role(self) -> RoleChange | None:
        role = (self.role.name, self.epoch, self.leader_id, self.voters)
        if role == self._reported_role:
            return None
        self._reported_role = role
        start = self.role.epoch_start_offset if isinstance(self.role, Leader) else -1
        return RoleChange(self.role.name, self.epoch, self.leader_id, self.leader_endpoint, self.voters, start)

    def next_deadline_ms(self) -> float:
        return min(self.role.deadlines(), default=math.inf)
