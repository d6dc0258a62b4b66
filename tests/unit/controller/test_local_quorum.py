"""The in-memory quorum behaves as the port says."""

import asyncio
from collections.abc import Sequence

import pytest

from rookery.core.errors import NotControllerError
from rookery.core.metadata_log import CommittedBatch, SnapshotId
from rookery.core.testing.clock import ManualClock
from tests.unit.controller.local_quorum import LocalQuorum


class Recorder:
    """A listener that keeps what it was told."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.leaders: list[tuple[int, int]] = []

    def on_commit(self, batch: CommittedBatch) -> None:
        self.values.extend(batch.values)

    def on_snapshot(self, snapshot: SnapshotId, values: Sequence[bytes]) -> None:
        self.values = list(values)

    def on_leader(self, leader_id: int, epoch: int) -> None:
        self.leaders.append((leader_id, epoch))


def started() -> tuple[LocalQuorum, Recorder]:
    quorum, listener = LocalQuorum(7, clock=ManualClock()), Recorder()
    quorum.start(listener)
    return quorum, listener


def test_values_are_delivered_when_committed_and_not_before() -> None:
    quorum, listener = started()
    epoch = quorum.lead()
    first = quorum.propose(epoch, [b"a", b"b"])
    second = quorum.propose(epoch, [b"c"])
    assert (first, second, listener.values) == (2, 3, [])
    quorum.commit(batches=1)
    assert listener.values == [b"a", b"b"]
    quorum.commit()
    assert listener.values == [b"a", b"b", b"c"]
    assert [batch.last_offset for batch in quorum.committed] == [first, second]


def test_only_the_leader_of_the_epoch_may_propose() -> None:
    quorum, _ = started()
    with pytest.raises(NotControllerError):
        quorum.propose(0, [b"a"])
    old = quorum.lead()
    quorum.lead()
    with pytest.raises(NotControllerError):
        quorum.propose(old, [b"a"])


def test_losing_leadership_loses_what_is_not_committed() -> None:
    quorum, listener = started()
    epoch = quorum.lead()
    quorum.propose(epoch, [b"kept"])
    quorum.commit()
    quorum.propose(epoch, [b"lost"])
    quorum.resign()
    assert quorum.leader == (-1, epoch)
    after = quorum.propose(quorum.lead(), [b"next"])
    quorum.commit()
    assert listener.values == [b"kept", b"next"]
    assert after == 3  # the lost value's offset went to the new epoch's control record
    assert listener.leaders == [(7, 1), (-1, 1), (7, 2)]


def test_a_restart_gives_the_snapshot_and_what_came_after() -> None:
    quorum, _ = started()
    epoch = quorum.lead()
    last = quorum.propose(epoch, [b"a", b"b"])
    quorum.commit()
    quorum.write_snapshot(SnapshotId(last + 1, epoch), [b"ab"])
    quorum.propose(epoch, [b"c"])
    quorum.commit()
    again = Recorder()
    quorum.start(again)
    assert again.values == [b"ab", b"c"]
    with pytest.raises(ValueError, match="past the committed"):
        quorum.write_snapshot(SnapshotId(100, epoch), [])


async def test_commits_follow_by_themselves_when_given_a_scheduler() -> None:
    quorum, listener = LocalQuorum(soon=asyncio.get_running_loop().call_soon), Recorder()
    quorum.start(listener)
    quorum.propose(quorum.lead(), [b"a"])
    assert listener.values == []
    await asyncio.sleep(0)
    assert listener.values == [b"a"]
