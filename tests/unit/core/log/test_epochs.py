"""Leader epochs: where each ended, and the failovers that truncation by high watermark got wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.disk import replace_file
from rookery.core.log import EpochEnd, EpochStart, LeaderEpochs, Log, LogConfig, names
from rookery.core.log.epochs import UNKNOWN, encode_epochs
from rookery.core.testing.disk import MemoryDisk
from tests.unit.core.log.sample import batch, disk, everything, opened

KNOWN = LeaderEpochs([EpochStart(2, 0), EpochStart(4, 10), EpochStart(5, 20)])


@pytest.mark.row(64)
@pytest.mark.parametrize(
    ("asked", "answer"),
    [(-1, UNKNOWN), (0, (0, 0)), (2, (2, 10)), (3, (2, 10)), (4, (4, 20)), (5, (5, 33)), (6, UNKNOWN)],
)
def test_the_end_of_an_epoch_is_where_the_next_one_starts(asked: int, answer: tuple[int, int]) -> None:
    assert KNOWN.end_offset_for(asked, 33) == answer


def test_an_empty_history_knows_no_epoch() -> None:
    assert LeaderEpochs().end_offset_for(3, 10) == UNKNOWN
    assert LeaderEpochs().epoch_at(3) == -1
    assert LeaderEpochs().latest is None


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=12),
    st.integers(0, 30),
    st.integers(0, 30),
)
def test_truncation_from_both_ends_equals_forgetting_the_records(
    runs: list[tuple[int, int]], start: int, end: int
) -> None:
    epochs, epoch = LeaderEpochs(), 0
    of_offset: list[int] = []
    for step, count in runs:
        epoch += step
        epochs.assign(epoch, len(of_offset))
        of_offset += [epoch] * count
    end = min(end, len(of_offset))
    epochs.truncate_from_end(end)
    epochs.truncate_from_start(start := min(start, end))
    assert [epochs.epoch_at(o) for o in range(start, end)] == of_offset[start:end]
    assert all(entry.start_offset >= start for entry in epochs.entries)
    for asked in set(of_offset[start:end]):
        last = max(o for o in range(start, end) if of_offset[o] == asked)
        assert epochs.end_offset_for(asked, end) == EpochEnd(asked, last + 1)


def test_a_contradicting_assignment_drops_what_it_contradicts() -> None:
    epochs = LeaderEpochs([EpochStart(1, 0), EpochStart(2, 5), EpochStart(3, 9)])
    epochs.assign(4, 6)
    assert epochs.entries == [(1, 0), (2, 5), (4, 6)]
    epochs.assign(4, 8)
    assert epochs.entries == [(1, 0), (2, 5), (4, 6)]


def test_a_checkpoint_that_no_batch_confirms_does_not_count() -> None:
    """It was written before the records came which retention has deleted: an epoch that the last record never had would
    have this replica cut to where its leader saw that epoch end."""
    device = disk()
    log = opened(device)
    for value in (b"m1", b"m2", b"m3"):
        log.append_as_leader(batch([value]), 1, 0)
    replace_file(device, f"{log.path}/{names.LEADER_EPOCHS}", encode_epochs([EpochStart(0, 0)]))
    log.take_old(log.end_offset, lambda segment, end: True)
    log.abandon()
    again = opened(device, log_start_offset=3)
    assert (again.start_offset, again.end_offset) == (3, 3)
    assert again.epochs.entries == []


class Replica:
    """A log that follows another one by epochs, as a follower does after a failover."""

    def __init__(self) -> None:
        self.disk: MemoryDisk = disk()
        self.log: Log = opened(self.disk, LogConfig(segment_bytes=150))

    def lead(self, epoch: int, *values: bytes) -> None:
        for value in values:
            self.log.append_as_leader(batch([value]), epoch, 0)

    def follow(self, leader: "Replica", upto: int | None = None) -> None:
        """Truncate where the histories part, then copy."""
        while (latest := self.log.epochs.latest) is not None:
            epoch, end = leader.log.epochs.end_offset_for(latest.epoch, leader.log.end_offset)
            if epoch == latest.epoch:
                self.log.truncate_to(min(end, self.log.end_offset))
                break
            mine = self.log.epochs.end_offset_for(epoch, self.log.end_offset).end_offset
            self.log.truncate_to(min(end, mine) if epoch >= 0 else self.log.start_offset)
        stop = leader.log.end_offset if upto is None else upto
        while self.log.end_offset < stop:
            self.log.append_as_follower(leader.log.read(self.log.end_offset, 1).data, 0)

    def restart(self) -> None:
        self.log.close()
        self.log = opened(self.disk, LogConfig(segment_bytes=150), clean=True)

    def values(self) -> list[bytes]:
        return [record.value or b"" for record in everything(self.log)]

    def files(self) -> dict[str, bytes]:
        folder = self.log.path
        return {n: self.disk.read(f"{folder}/{n}") for n in self.disk.list(folder) if n.endswith(names.LOG)}


@pytest.mark.row(63, 64)
@pytest.mark.invariant("P6")
def test_a_follower_that_restarts_keeps_what_it_has_and_may_lead_with_it() -> None:
    """Both have m1 and m2; the follower restarts, and then the leader fails before it answers."""
    a, b = Replica(), Replica()
    a.lead(0, b"m1", b"m2")
    b.follow(a)
    b.restart()
    b.lead(1, b"m3")
    a.follow(b)
    assert a.values() == b.values() == [b"m1", b"m2", b"m3"]
    assert a.files() == b.files()


@pytest.mark.row(63, 64)
@pytest.mark.invariant("P6")
def test_replicas_that_both_wrote_at_one_offset_do_not_diverge() -> None:
    """The follower lost m2 in a crash, led with m3 at the same offset, and the old leader comes back."""
    a, b = Replica(), Replica()
    a.lead(0, b"m1", b"m2")
    b.follow(a, upto=1)
    b.lead(1, b"m3", b"m4")
    a.restart()
    a.follow(b)
    assert a.values() == b.values() == [b"m1", b"m3", b"m4"]
    assert a.log.epochs.entries == b.log.epochs.entries == [(0, 0), (1, 1)]
    for replica in (a, b):
        replica.restart()
    assert a.files() == b.files()


@pytest.mark.row(64)
@pytest.mark.invariant("P6")
def test_fast_failovers_are_followed_back_epoch_by_epoch() -> None:
    """Each replica led alone for a while, so the latest epoch of one is unknown to the other."""
    a, b, c = Replica(), Replica(), Replica()
    a.lead(0, b"x0", b"x1")
    b.follow(a)
    c.follow(a)
    a.lead(1, b"a1", b"a2")
    b.lead(2, b"b1")
    a.lead(3, b"a3")
    b.lead(4, b"b2", b"b3", b"b4")
    c.lead(5, b"c1")
    for replica in (a, b):
        replica.follow(c)
        assert replica.values() == [b"x0", b"x1", b"c1"]
    for replica in (a, b, c):
        replica.restart()
    assert a.files() == b.files() == c.files()
