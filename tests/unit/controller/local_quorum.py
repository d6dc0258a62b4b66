"""A quorum of one in memory, in place of Raft."""

from collections.abc import Callable, Iterable, Sequence

from rookery.controller.quorum import VoterFeatures
from rookery.core.clock import Clock, SystemClock
from rookery.core.errors import NotControllerError
from rookery.core.metadata_log import CommittedBatch, MetadataListener, SnapshotId


class LocalQuorum:
    """With `soon` (for example ``loop.call_soon``) each proposal commits by itself a moment later, as in a
    healthy quorum; without it values stay uncommitted until `commit` is called, and `resign` loses them.
    As in Raft each epoch starts with one control record, which takes an offset and is not delivered.
    """

    def __init__(
        self,
        node_id: int = 1,
        *,
        clock: Clock | None = None,
        soon: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        self.node_id = node_id
        self.committed: list[CommittedBatch] = []
        self.uncommitted: list[CommittedBatch] = []
        self.snapshot: tuple[SnapshotId, tuple[bytes, ...]] | None = None
        self._clock = clock or SystemClock()
        self._soon = soon
        self._listener: MetadataListener | None = None
        self._epoch = 0
        self._leads = False
        self._end_offset = 0
        self.others: VoterFeatures = {}

    @property
    def leader(self) -> tuple[int, int]:
        return (self.node_id if self._leads else -1), self._epoch

    def voter_features(self) -> VoterFeatures:
        return self.others

    def start(self, listener: MetadataListener) -> None:
        """(Re)start with `listener`: it is given the snapshot and all committed since; nobody leads yet."""
        self.resign()
        self._listener = listener
        if self.snapshot is not None:
            listener.on_snapshot(*self.snapshot)
        for batch in self.committed:
            listener.on_commit(batch)

    def lead(self) -> int:
        """Win an election and return the new epoch."""
        self.resign()
        self._epoch += 1
        self._end_offset += 1
        self._leads = True
        self._told().on_leader(self.node_id, self._epoch)
        return self._epoch

    def resign(self) -> None:
        """Lose leadership, and with it everything that is not committed."""
        if self._leads:
            self._leads = False
            if self.uncommitted:
                self._end_offset = self.uncommitted[0].base_offset
                self.uncommitted.clear()
            self._told().on_leader(-1, self._epoch)

    def propose(self, epoch: int, values: Sequence[bytes]) -> int:
        if not self._leads or epoch != self._epoch:
            raise NotControllerError(
                f"node {self.node_id} does not lead epoch {epoch}; it knows (leader, epoch) as {self.leader}"
            )
        if not values:
            raise ValueError("a proposal holds at least one value")
        batch = CommittedBatch(self._end_offset, epoch, tuple(values), self._clock.wall_ms())
        self.uncommitted.append(batch)
        self._end_offset = batch.last_offset + 1
        if self._soon is not None:
            self._soon(self.commit)
        return batch.last_offset

    def commit(self, batches: int | None = None) -> None:
        """Commit the oldest `batches` proposals (all of them unless told) and deliver them."""
        chosen = self.uncommitted[:batches]
        del self.uncommitted[:batches]
        for batch in chosen:
            self.committed.append(batch)
            self._told().on_commit(batch)

    def write_snapshot(self, snapshot: SnapshotId, values: Iterable[bytes]) -> None:
        committed_end = self.uncommitted[0].base_offset if self.uncommitted else self._end_offset
        if snapshot.end_offset > committed_end:
            raise ValueError(f"snapshot end {snapshot.end_offset} is past the committed {committed_end}")
        self.snapshot = (snapshot, tuple(values))
        self.committed = [batch for batch in self.committed if batch.last_offset >= snapshot.end_offset]

    def _told(self) -> MetadataListener:
        if self._listener is None:
            raise RuntimeError("call start(listener) first")
        return self._listener
