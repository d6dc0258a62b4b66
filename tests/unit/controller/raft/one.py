"""One real core among peers that exist only as the messages they send."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from rookery.controller.raft.core import LogSummary, RaftCore
from rookery.controller.raft.messages import (
    Batch,
    BatchKind,
    BeginEpochRequest,
    FetchRequest,
    FetchResponse,
    Message,
    VoteRequest,
    VoteResponse,
)
from rookery.controller.raft.ready import QuorumState, Ready
from rookery.controller.raft.settings import RaftConfig
from rookery.controller.raft.voters import ReplicaKey, Voter, VoterSet

M = TypeVar("M", bound=Message)


def key(id: int) -> ReplicaKey:
    return ReplicaKey(id, UUID(int=id))


def voter_set(*ids: int) -> VoterSet:
    return VoterSet(Voter(key(id), f"node{id}:9093") for id in ids)


def sent(ready: Ready, kind: type[M]) -> list[tuple[int, M]]:
    """(to, message) of the messages of one kind."""
    return [(send.to, send.message) for send in ready.sends if isinstance(send.message, kind)]


def only(ready: Ready, kind: type[M]) -> M:
    ((_, message),) = sent(ready, kind)
    return message


class One:
    """Fsyncs complete at once unless `holds_fsync` is set."""

    def __init__(
        self,
        voters: VoterSet | None = None,
        me: ReplicaKey | None = None,
        log: LogSummary | None = None,
        state: QuorumState | None = None,
        config: RaftConfig | None = None,
        random: Callable[[], float] = lambda: 0.5,
    ) -> None:
        self.now_ms = 0.0
        self.holds_fsync = False
        self.writes: list[int] = []
        self.history: list[Ready] = []
        self.me = me or key(1)
        voters = voter_set(1, 2, 3) if voters is None else voters
        arguments = (log or LogSummary(), state or QuorumState(), self.now_ms, random, config or RaftConfig())
        self.core = RaftCore(self.me, voters, *arguments)

    @property
    def role(self) -> str:
        return self.core.describe(self.now_ms).role

    @property
    def epoch(self) -> int:
        return self.core.describe(self.now_ms).epoch

    @property
    def leader_id(self) -> int:
        return self.core.describe(self.now_ms).leader_id

    @property
    def high_watermark(self) -> int:
        return self.core.describe(self.now_ms).high_watermark

    @property
    def log_end(self) -> int:
        return self.core.describe(self.now_ms).log_end_offset

    def took(self, ready: Ready) -> Ready:
        """Carry out what is to be written and return everything that followed as one."""
        self.history.append(ready)
        self.writes += [write.number for write in ready.log_writes]
        return ready if self.holds_fsync else joined(ready, self.flush())

    def flush(self) -> Ready:
        if not self.writes:
            return Ready()
        number, self.writes = self.writes[-1], []
        return self.took(self.core.flushed(number, self.now_ms))

    def step(self, message: Message) -> Ready:
        return self.took(self.core.step(message, self.now_ms))

    def wait(self, ms: float) -> Ready:
        self.now_ms += ms
        return self.took(self.core.tick(self.now_ms))

    def stand_still(self, ms: float) -> Ready:
        """The process does not run for so long; then its timer fires before anything that arrived meanwhile is read."""
        self.now_ms += ms
        return self.took(self.core.tick(self.now_ms, held_up=True))

    def timeout(self) -> Ready:
        """Wait until the core has something to do."""
        self.now_ms = max(self.now_ms, self.core.next_deadline_ms())
        return self.took(self.core.tick(self.now_ms))

    def propose(self, payload: str = "record") -> Ready:
        _, ready = self.core.propose(self.epoch, 1, payload, self.now_ms)
        return self.took(ready)

    # -- ways into a role ------------------------------------------------------------------------------------

    def stand(self) -> Ready:
        ready = self.timeout()
        while self.role in ("unattached", "follower"):
            ready = self.timeout()
        return ready

    def run(self) -> Ready:
        """Become a candidate with the promises of all."""
        ready = self.stand()
        for to, request in sent(ready, VoteRequest):
            ready = self.step(granted(to, request))
            if self.role != "prospective":
                break
        return ready

    def lead(self) -> Ready:
        """Become leader with the votes of all."""
        ready = self.run()
        for to, request in sent(ready, VoteRequest):
            if self.role == "leader":
                break
            ready = self.step(granted(to, request))
        return ready

    def follow(self, leader: int = 2, epoch: int = 1) -> FetchRequest:
        ready = self.step(begin_epoch(leader, epoch, self.me))
        return only(ready, FetchRequest)

    def fetched(self, by: int, offset: int | None = None, **changes: object) -> Ready:
        """Another replica fetches in this epoch, with everything up to `offset` (or the end)."""
        offset = self.log_end if offset is None else offset
        request = FetchRequest(
            sender=by,
            correlation=1,
            epoch=self.epoch,
            replica=key(by),
            fetch_offset=offset,
            last_fetched_epoch=self.core.replica.log.epoch_before(offset),
            high_watermark=self.high_watermark,
            max_wait_ms=500,
        )
        return self.step(replace(request, **changes))  # type: ignore[arg-type]


def joined(first: Ready, then: Ready) -> Ready:
    return Ready(
        quorum_state=then.quorum_state or first.quorum_state,
        snapshot_chunk=then.snapshot_chunk or first.snapshot_chunk,
        snapshot_install=then.snapshot_install or first.snapshot_install,
        log_writes=first.log_writes + then.log_writes,
        sends=first.sends + then.sends,
        high_watermark=then.high_watermark if then.high_watermark is not None else first.high_watermark,
        role=then.role or first.role,
    )


def granted(by: int, request: VoteRequest, epoch: int | None = None) -> VoteResponse:
    epoch = request.epoch if epoch is None else epoch
    disk = key(by).directory_id
    return VoteResponse(
        by, request.correlation, epoch, -1, granted=True, pre_vote=request.pre_vote, directory_id=disk
    )


def refused(by: int, request: VoteRequest, epoch: int | None = None, leader_id: int = -1) -> VoteResponse:
    epoch = request.epoch if epoch is None else epoch
    return VoteResponse(by, request.correlation, epoch, leader_id, granted=False, pre_vote=request.pre_vote)


def vote_request(by: int, epoch: int, **changes: object) -> VoteRequest:
    """Of a candidate with an empty log, to node 1."""
    request = VoteRequest(by, 99, epoch, key(by), key(1), last_epoch=0, log_end=0, pre_vote=False)
    return replace(request, **changes)  # type: ignore[arg-type]


def begin_epoch(leader: int, epoch: int, voter: ReplicaKey) -> BeginEpochRequest:
    return BeginEpochRequest(leader, 98, epoch, key(leader), voter, f"node{leader}:9093")


def answer(request: FetchRequest, leader: int = 2, **changes: object) -> FetchResponse:
    """An answer without news."""
    response = FetchResponse(
        sender=leader,
        correlation=request.correlation,
        epoch=request.epoch,
        leader_id=leader,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
        high_watermark=0,
        read_until=request.fetch_offset,
    )
    return replace(response, **changes)  # type: ignore[arg-type]


def opening(offset: int, epoch: int) -> Batch:
    return Batch(offset, epoch, BatchKind.LEADER_CHANGE)


def data(offset: int, epoch: int, count: int = 1) -> Batch:
    return Batch(offset, epoch, count=count, payload="record")
