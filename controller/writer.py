"""Proposed and committed: the two images of the active controller, and the replies between them.

Decisions are made on the proposed image, which runs ahead of the committed one by what is proposed and not yet
committed. A reply waits until everything its decision saw is committed, also when it is an error or when there
was nothing to write: no answer may rest on a state that can still be lost. When leadership is lost, `drop`
forgets what was proposed.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rookery.controller.quorum import Quorum
from rookery.core.metadata.codec import encode
from rookery.core.metadata.delta import Delta, LatestImage
from rookery.core.metadata.features import RELEASE, Release
from rookery.core.metadata.image import Changes, Image
from rookery.core.metadata.records import Record
from rookery.core.metadata_log import CommittedBatch, SnapshotId

Answered = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Records that fit onto an image, with all that is costly done: replayed and encoded."""

    records: Sequence[Record]
    values: list[bytes]
    changes: Changes


@dataclass(frozen=True, slots=True)
class _Proposal:
    epoch: int
    last_offset: int
    changes: Changes


class Writer:
    """Turns records into proposals, commits into images, and lets replies go in order."""

    def __init__(self, quorum: Quorum, release: Release = RELEASE) -> None:
        self._quorum = quorum
        self._fold = LatestImage(release=release)
        self._proposals: deque[_Proposal] = deque()
        self._parked: deque[tuple[int, Answered]] = deque()

    @property
    def committed(self) -> Image:
        return self._fold.image

    @property
    def proposed(self) -> Image:
        return self._proposals[-1].changes.after if self._proposals else self.committed

    @property
    def parked(self) -> int:
        return len(self._parked)

    def propose(self, epoch: int, prepared: Prepared) -> Image:
        """Propose the records as one batch; the image they lead to is the proposed one from now on. Raises
        NotControllerError, and proposes nothing, unless this node leads `epoch`."""
        changes = prepared.changes
        if changes.before is not self.proposed:
            raise RuntimeError("the records were prepared for another image")
        last = self._quorum.propose(epoch, prepared.values)
        if last != changes.after.offset:  # the quorum's own records lie in between
            changes = _replay(changes.before, prepared.records, last - len(prepared.records) + 1, epoch)
        if last > self.committed.offset:
            self._proposals.append(_Proposal(epoch, last, changes))
        return changes.after

    def park(self, release: Answered) -> None:
        """Call `release` as soon as all that is proposed now is committed."""
        offset = self.proposed.offset
        if offset <= self.committed.offset:
            release()
        else:
            self._parked.append((offset, release))

    def commit(self, batch: CommittedBatch) -> Changes | None:
        """What the batch changed; None where it was known."""
        head = self._proposals[0] if self._proposals else None
        if head is None:
            return self._fold.on_commit(batch)
        if (head.epoch, head.last_offset) != (batch.epoch, batch.last_offset):
            raise RuntimeError(f"proposed {head.epoch}:{head.last_offset}, committed {batch.epoch}:{batch.last_offset}")
        self._proposals.popleft()
        return self._fold.move(head.changes)

    def install(self, snapshot: SnapshotId, values: Sequence[bytes]) -> Changes | None:
        return self._fold.on_snapshot(snapshot, values)

    def release(self) -> None:
        """Let the replies go that waited for what is committed."""
        while self._parked and self._parked[0][0] <= self.committed.offset:
            self._parked.popleft()[1]()

    def drop(self) -> list[Answered]:
        """Leadership is lost: forget what was proposed. The parked replies do not hold any more."""
        dropped = [release for _, release in self._parked]
        self._proposals.clear()
        self._parked.clear()
        return dropped


def prepare(before: Image, records: Sequence[Record], epoch: int, release: Release = RELEASE) -> Prepared:
    """Replay and encode before anything is written: what does not fit must not get into the log. Pure. Raises
    UNSUPPORTED_VERSION where a record cannot be written at the level the cluster has agreed on."""
    level = release.level(before)
    values = [encode(record, level, release) for record in records]
    return Prepared(records, values, _replay(before, records, before.offset + 1, epoch))


def _replay(before: Image, records: Sequence[Record], first: int, epoch: int) -> Changes:
    delta = Delta(before)
    for offset, record in enumerate(records, first):
        delta.replay(record, offset)
    return delta.apply(epoch=epoch)
