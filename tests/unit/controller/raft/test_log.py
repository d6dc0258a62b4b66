"""The structure of the log against a plain list of records."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rookery.controller.raft.errors import CorruptStateError
from rookery.controller.raft.log import LogIndex, LogSummary
from rookery.controller.raft.messages import Batch, BatchKind, EpochEnd, SnapshotId
from rookery.controller.raft.ready import LogWrite
from rookery.controller.raft.voters import VoterSet
from tests.unit.controller.raft.one import data, voter_set


class LogAgainstList(RuleBasedStateMachine):
    """The list holds (epoch, voter set or None) of every record since offset 0, also of those that are
    deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.log = LogIndex(LogSummary())
        self.records: list[tuple[int, VoterSet | None]] = []
        self.start = 0
        self.pending: list[tuple[int, int]] = []
        self.flushed = 0
        self.sets = 0

    def written(self, write: LogWrite) -> None:
        self.pending.append((write.number, len(self.records)))

    @property
    def last_epoch(self) -> int:
        return self.records[-1][0] if self.records else 0

    @rule(count=st.integers(1, 3), raise_epoch=st.integers(0, 2))
    def append(self, count: int, raise_epoch: int) -> None:
        batch = data(len(self.records), max(1, self.last_epoch + raise_epoch), count)
        self.records += [(batch.epoch, None)] * count
        self.written(self.log.append([batch]))

    @rule()
    def append_voters(self) -> None:
        self.sets += 1
        voters = voter_set(self.sets)
        epoch = max(1, self.last_epoch)
        batch = Batch(len(self.records), epoch, BatchKind.VOTERS, voters=voters)
        self.records.append((epoch, voters))
        self.written(self.log.append([batch]))

    @precondition(lambda self: len(self.records) > self.start)
    @rule(choice=st.data())
    def truncate(self, choice: st.DataObject) -> None:
        end = choice.draw(st.integers(self.start, len(self.records) - 1))
        del self.records[end:]
        self.flushed = min(self.flushed, end)
        self.pending = [(number, min(reached, end)) for number, reached in self.pending]
        self.written(self.log.truncate(end))

    @precondition(lambda self: self.pending)
    @rule(choice=st.data())
    def flush(self, choice: st.DataObject) -> None:
        index = choice.draw(st.integers(0, len(self.pending) - 1))
        number, self.flushed = self.pending[index]
        del self.pending[: index + 1]
        self.log.flushed(number)

    @rule(choice=st.data())
    def advance_start(self, choice: st.DataObject) -> None:
        self.start = choice.draw(st.integers(self.start, len(self.records)))
        self.log.advance_start(self.start)

    @rule(gap=st.integers(1, 3))
    def restart(self, gap: int) -> None:
        epoch = max(1, self.last_epoch)
        self.records += [(epoch, None)] * gap
        voters = voter_set(999)
        self.records[-1] = (epoch, voters)
        self.start = self.flushed = len(self.records)
        self.pending.clear()
        self.log.restart_at(SnapshotId(self.start, epoch), voters)

    @invariant()
    def tells_the_same(self) -> None:
        log = self.log
        assert (log.start_offset, log.end_offset) == (self.start, len(self.records))
        assert (log.flushed_offset, log.is_flushed) == (self.flushed, not self.pending)
        assert log.last_epoch == self.last_epoch
        sets = [voters for _, voters in self.records if voters]
        assert log.voters == (sets[-1] if sets else None)
        for offset in range(self.start, len(self.records) + 1):
            assert log.epoch_before(offset) == (self.records[offset - 1][0] if offset else 0)
            known = [voters for _, voters in self.records[:offset] if voters]
            assert log.voters_before(offset) == (known[-1] if known else None)

    @invariant()
    def finds_where_epochs_end(self) -> None:
        start_epoch = self.records[self.start - 1][0] if self.start else 0
        for epoch in range(self.last_epoch + 2):
            below = [offset for offset in range(self.start, len(self.records)) if self.records[offset][0] <= epoch]
            expected = EpochEnd(self.records[below[-1]][0], below[-1] + 1) if below else None
            if expected is None and epoch >= start_epoch:
                expected = EpochEnd(start_epoch, self.start)
            assert self.log.end_of_epoch(epoch) == expected


TestLogAgainstList = LogAgainstList.TestCase
TestLogAgainstList.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


@pytest.mark.invariant("R12")
def test_a_cut_brings_the_voter_set_before_back() -> None:
    log = LogIndex(LogSummary())
    log.append([Batch(0, 1, BatchKind.VOTERS, voters=voter_set(1, 2))])
    log.append([Batch(1, 1, BatchKind.VOTERS, voters=voter_set(1, 2, 3))])
    log.truncate(1)
    assert log.voters == voter_set(1, 2)


@pytest.mark.parametrize(
    "summary",
    [
        LogSummary(end_offset=3),
        LogSummary(end_offset=3, epochs=((2, 0), (1, 2))),
        LogSummary(end_offset=3, epochs=((1, 0), (2, 5))),
        LogSummary(start_offset=2, end_offset=3, epochs=((1, 2),)),
        LogSummary(end_offset=3, epochs=((1, 0),), snapshot=SnapshotId(7, 1)),
    ],
    ids=["no epochs", "epochs fall", "epoch beyond the end", "start without snapshot", "snapshot beyond the end"],
)
def test_a_log_that_contradicts_itself_is_refused(summary: LogSummary) -> None:
    with pytest.raises(CorruptStateError, match="contradicts itself"):
        LogIndex(summary)


def test_a_batch_must_follow_the_last() -> None:
    log = LogIndex(LogSummary())
    log.append([data(0, 2)])
    for batch in (data(2, 2), data(1, 1), data(1, 2, count=0)):
        with pytest.raises(CorruptStateError, match="does not follow"):
            log.append([batch])
