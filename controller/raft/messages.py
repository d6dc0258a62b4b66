"""The messages between Raft peers, and the batches of a log.

Values only: no behaviour, no bytes on a wire. Records are opaque; Raft looks at a batch's offset, epoch and
count, and inside only at VOTERS batches. Every request carries `sender` and a `correlation` that the reply
repeats. Every reply names the leader its sender knows (`leader_id`, -1 for none) and that leader's `epoch`.

Offsets that end something (`end_offset`, `log_end`, `high_watermark`) are exclusive.
"""

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple
from uuid import UUID

from rookery.controller.raft.voters import UNKNOWN_DIRECTORY, ReplicaKey, VoterSet
from rookery.core.metadata_log import SnapshotId as SnapshotId

NO_LEADER = -1
ANY_BOOTSTRAP = -2
"""As a destination: any bootstrap server will do; the driver takes them in turn."""


class Refusal(IntEnum):
    """Why a request was refused; Kafka's error codes of the same names."""

    NONE = 0
    NOT_LEADER_OR_FOLLOWER = 6
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    INVALID_VOTER_KEY = 125


class BatchKind(Enum):
    DATA = "data"
    LEADER_CHANGE = "leader-change"
    """Opens an epoch. Until it is committed, nothing in the epoch is."""
    VOTERS = "voters"


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that are appended, sent and kept together. `payload` is the driver's (None for control batches,
    whose content is `kind`, `epoch` and `voters`)."""

    base_offset: int
    epoch: int
    kind: BatchKind = BatchKind.DATA
    count: int = 1
    payload: object = None
    voters: VoterSet | None = None
    """The new voter set, if kind is VOTERS."""

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.count


class EpochEnd(NamedTuple):
    """The log's records of `epoch` (and before) end at `end_offset`."""

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """Asks for a vote. With `pre_vote` it only asks whether a vote would be given: `epoch` is then the epoch the sender
    is in (not the next one) and no state changes."""

    sender: int
    correlation: int
    epoch: int
    candidate: ReplicaKey
    voter: ReplicaKey
    """Whose vote is wanted. A node on another disk must refuse."""
    last_epoch: int
    """Epoch of the sender's last record."""
    log_end: int
    pre_vote: bool


@dataclass(frozen=True, slots=True)
class VoteResponse:
    sender: int
    correlation: int
    epoch: int
    leader_id: int
    granted: bool
    pre_vote: bool
    refusal: Refusal = Refusal.NONE
    leader_endpoint: str = ""
    directory_id: UUID = UNKNOWN_DIRECTORY
    """The disk of the replica that answers."""


@dataclass(frozen=True, slots=True)
class BeginEpochRequest:
    """The leader of `epoch` makes itself known; sent again to voters that do not fetch."""

    sender: int
    correlation: int
    epoch: int
    leader: ReplicaKey
    voter: ReplicaKey
    leader_endpoint: str = ""


@dataclass(frozen=True, slots=True)
class BeginEpochResponse:
    sender: int
    correlation: int
    epoch: int
    leader_id: int
    refusal: Refusal = Refusal.NONE
    leader_endpoint: str = ""


@dataclass(frozen=True, slots=True)
class EndEpochRequest:
    """The leader of `epoch` has resigned. The first of `successors` (voters, most caught up first) may
    stand at once, the others a little later, so that they do not split the vote."""

    sender: int
    correlation: int
    epoch: int
    leader_id: int
    successors: tuple[ReplicaKey, ...]


@dataclass(frozen=True, slots=True)
class EndEpochResponse:
    sender: int
    correlation: int
    epoch: int
    leader_id: int
    refusal: Refusal = Refusal.NONE
    leader_endpoint: str = ""


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """Asks for records from `fetch_offset` on and says that everything below it is on the sender's disk,
    fsynced: this is the acknowledgement that commits records."""

    sender: int
    correlation: int
    epoch: int
    replica: ReplicaKey
    fetch_offset: int
    last_fetched_epoch: int
    """Epoch of the record before `fetch_offset`; 0 if there is none."""
    high_watermark: int
    """The sender's; the leader answers at once when its own is higher."""
    max_wait_ms: int
    """How long the leader may hold the answer back for lack of news."""


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """One of: a refusal; `diverging` (cut your log, then ask again); `snapshot` (what you want is gone,
    take this); or records of [fetch_offset, read_until), possibly none.

    The core of the leader leaves `batches` empty: the driver reads them, whole batches, as many as fit its
    size limit, not beyond `read_until`."""

    sender: int
    correlation: int
    epoch: int
    leader_id: int
    fetch_offset: int
    last_fetched_epoch: int
    high_watermark: int
    read_until: int
    batches: tuple[Batch, ...] = ()
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None
    refusal: Refusal = Refusal.NONE
    leader_endpoint: str = ""


@dataclass(frozen=True, slots=True)
class FetchSnapshotRequest:
    """Asks for the bytes of a snapshot from `position` on; counts as a sign of life, not as an
    acknowledgement."""

    sender: int
    correlation: int
    epoch: int
    replica: ReplicaKey
    snapshot: SnapshotId
    position: int


@dataclass(frozen=True, slots=True)
class FetchSnapshotResponse:
    """A piece of a snapshot. The core of the leader leaves `size` and `chunk` to the driver, which reads
    the file (and answers SNAPSHOT_NOT_FOUND if it is gone, POSITION_OUT_OF_RANGE if `position` is past its
    end)."""

    sender: int
    correlation: int
    epoch: int
    leader_id: int
    snapshot: SnapshotId
    position: int
    size: int = 0
    chunk: bytes = b""
    refusal: Refusal = Refusal.NONE
    leader_endpoint: str = ""


Request = VoteRequest | BeginEpochRequest | EndEpochRequest | FetchRequest | FetchSnapshotRequest
Response = VoteResponse | BeginEpochResponse | EndEpochResponse | FetchResponse | FetchSnapshotResponse
Message = Request | Response
