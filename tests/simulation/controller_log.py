"""A quorum as the controller sees it, without Raft: one log, leaders that come and go, and suffixes that are lost.

Nodes hear of commits late. A leader that is replaced may not know it for a while and go on proposing into the
void. What a replaced leader had proposed survives up to a random point, as it may in Raft.
"""

from collections.abc import Callable, Iterable, Sequence
from random import Random

from rookery.core.errors import NotControllerError
from rookery.core.metadata_log import CommittedBatch, MetadataListener, SnapshotId

NO_PROCESS = -1


class Seat:
    """One node's place at the quorum: what its controller gets as `Quorum`."""

    def __init__(self, log: "SharedLog", node_id: int) -> None:
        self._log = log
        self.node_id = node_id
        self.listener: MetadataListener | None = None
        self.delivered = 0
        self.told = (NO_PROCESS, 0)
        self._void = 0

    @property
    def leader(self) -> tuple[int, int]:
        return self.told

    def propose(self, epoch: int, values: Sequence[bytes]) -> int:
        if self.told != (self.node_id, epoch):
            raise NotControllerError(f"node {self.node_id} does not lead epoch {epoch}")
        if epoch != self._log.epoch:  # replaced without knowing: appended, and never committed
            self._void = max(self._void, self._log.end) + len(values)
            return self._void - 1
        return self._log.append(values)

    def write_snapshot(self, snapshot: SnapshotId, values: Iterable[bytes]) -> None:
        self._log.snapshots.append((snapshot, tuple(values), self.delivered))

    def voter_features(self) -> dict[int, None]:
        return {}

    def tell(self, leader: tuple[int, int]) -> None:
        self.told = leader
        if self.listener is not None:
            self.listener.on_leader(*leader)


class SharedLog:
    """Batches in order; those before `committed` can never be lost."""

    def __init__(self, rng: Random, now_ms: Callable[[], int]) -> None:
        self._rng = rng
        self._now_ms = now_ms
        self.batches: list[CommittedBatch] = []
        self.committed = 0
        self.end = 0
        self.epoch = 0
        self.leader = NO_PROCESS
        self.snapshots: list[tuple[SnapshotId, tuple[bytes, ...], int]] = []

    def append(self, values: Sequence[bytes]) -> int:
        self.batches.append(CommittedBatch(self.end, self.epoch, tuple(values), self._now_ms()))
        self.end += len(values)
        return self.end - 1

    def commit(self, count: int) -> list[CommittedBatch]:
        """Up to `count` more batches are safe now."""
        fresh = self.batches[self.committed : self.committed + count]
        self.committed += len(fresh)
        return fresh

    def replace_leader(self, seat: Seat) -> list[CommittedBatch]:
        """`seat` wins an election; returns what became committed by it."""
        survivors = self._rng.randint(self.committed, len(self.batches))
        del self.batches[survivors:]
        fresh = self.commit(len(self.batches))
        self.end = self.batches[-1].last_offset + 1 if self.batches else 0
        self.epoch += 1
        self.end += 1 + self.epoch  # the epoch's own record, and no offset is ever used twice
        self.leader = seat.node_id
        self.deliver(seat)
        seat.tell((seat.node_id, self.epoch))
        return fresh

    def deliver(self, seat: Seat, count: int | None = None) -> None:
        """Bring the node up to date, or closer to it: by a snapshot where that is shorter, else by batches."""
        if seat.listener is None:
            return
        usable = [one for one in self.snapshots if seat.delivered + 3 < one[2] <= self.committed]
        if usable and self._rng.random() < 0.5:
            snapshot, values, seat.delivered = usable[-1]
            if snapshot.epoch > seat.told[1]:
                seat.tell((NO_PROCESS, snapshot.epoch))
            seat.listener.on_snapshot(snapshot, values)
        upto = self.committed if count is None else min(self.committed, seat.delivered + count)
        while seat.delivered < upto:
            batch = self.batches[seat.delivered]
            if batch.epoch > seat.told[1]:  # nobody hears of an epoch's records before he hears of the epoch
                seat.tell((NO_PROCESS, batch.epoch))
            seat.delivered += 1
            seat.listener.on_commit(batch)
