"""The leader's view of its followers: one rule a test, then random histories against the rules themselves."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rookery.broker.replication.replica_state import (
    NOTHING,
    Committed,
    Decision,
    LeaderState,
    PendingExpand,
    PendingShrink,
    Terms,
)

LAG_MS = 1000
EPOCHS = {1: 10, 2: 20, 3: 30}


def alive(node: int) -> int | None:
    return EPOCHS.get(node)


def leader(**changes: Any) -> LeaderState:
    facts: dict[str, Any] = {
        "me": 1,
        "my_broker_epoch": 10,
        "leader_epoch": 5,
        "partition_epoch": 7,
        "replicas": (1, 2, 3),
        "isr": (1, 2, 3),
        "terms": Terms(min_insync_replicas=2, lag_ms_max=LAG_MS),
        "log_end": 100,
        "high_watermark": 90,
        "now_ms": 0,
    }
    return LeaderState.begin(**{**facts, **changes})


def fetch(state: LeaderState, node: int, offset: int, now_ms: int = 0, **changes: Any) -> Decision:
    epoch = changes.pop("broker_epoch", EPOCHS.get(node, -1))
    may_join = changes.pop("may_join", alive)
    return state.on_follower_fetch(
        node, offset=offset, log_start=0, broker_epoch=epoch, now_ms=now_ms, may_join=may_join
    )


@pytest.mark.row(59, 60, 62)
@pytest.mark.invariant("P2")
def test_the_high_watermark_is_the_least_log_end_of_the_isr() -> None:
    state = leader()
    assert not fetch(state, 2, 100).watermark_moved  # nothing is known of 3 yet
    assert fetch(state, 3, 95).watermark_moved
    assert state.high_watermark == 95
    assert state.lag(3) == 5
    assert fetch(state, 3, 100).watermark_moved
    assert state.high_watermark == 100


@pytest.mark.invariant("P5")
def test_it_never_falls() -> None:
    state = leader()
    fetch(state, 2, 100)
    fetch(state, 3, 100)
    assert not fetch(state, 3, 92).watermark_moved
    assert state.high_watermark == 100


@pytest.mark.row(13)
@pytest.mark.invariant("P3")
def test_it_stands_still_below_min_insync_replicas() -> None:
    state = leader(isr=(1,))
    assert not state.on_append(120, 0, alive)
    assert state.under_min_isr
    assert state.high_watermark == 90


@pytest.mark.invariant("P3")
def test_min_isr_is_never_more_than_there_are_replicas() -> None:
    state = leader(replicas=(1,), isr=(1,))
    assert state.on_append(120, 0, alive)
    assert state.high_watermark == 120


@pytest.mark.row(58)
@pytest.mark.invariant("P10")
def test_a_follower_behind_for_too_long_is_proposed_to_leave_and_counts_until_it_has() -> None:
    state = leader()
    fetch(state, 2, 100)
    fetch(state, 3, 100)
    state.on_append(200, 0, alive)
    fetch(state, 2, 200, LAG_MS)
    assert state.on_tick(LAG_MS, alive).proposal is None
    moved = state.on_tick(LAG_MS + 1, alive)
    assert moved.proposal is not None
    assert (moved.proposal.isr, moved.proposal.broker_epochs) == ((1, 2), (10, 20))
    assert (moved.proposal.leader_epoch, moved.proposal.partition_epoch) == (5, 7)
    assert isinstance(state.isr, PendingShrink)
    assert state.high_watermark == 100
    assert state.on_tick(LAG_MS * 9, alive).proposal is None  # one change at a time
    settled = state.on_committed(
        isr=(1, 2), replicas=(1, 2, 3), partition_epoch=8, now_ms=LAG_MS + 1, may_join=alive
    )
    assert settled
    assert state.high_watermark == 200
    assert state.committed.isr == {1, 2}


@pytest.mark.row(58)
@pytest.mark.invariant("P10")
def test_a_million_records_behind_for_less_than_the_lag_time_stays() -> None:
    state = leader()
    fetch(state, 2, 100)
    fetch(state, 3, 100)
    state.on_append(1_000_100, 1, alive)
    fetch(state, 2, 1_000_100, LAG_MS)
    fetch(state, 3, 150, LAG_MS)
    assert state.on_tick(LAG_MS, alive).proposal is None


def test_a_steady_follower_one_step_behind_is_in_time() -> None:
    """It never has all that the leader has now, but always all that the leader had a moment ago."""
    state = leader(replicas=(1, 2), isr=(1, 2))
    end = 100
    for now in range(0, 10 * LAG_MS, 100):
        fetch(state, 2, end, now)
        end += 50
        state.on_append(end, now + 50, alive)
    assert state.on_tick(10 * LAG_MS, alive).proposal is None


@pytest.mark.invariant("P9")
@pytest.mark.parametrize(
    ("offset", "broker_epoch", "registered", "joins"),
    [
        (100, 30, 30, True),
        (99, 30, 30, False),  # below the start of the leader's epoch
        (100, 29, 30, False),  # another incarnation than the registered one
        (100, 30, None, False),  # fenced or stopping
    ],
)
def test_who_may_join(offset: int, broker_epoch: int, registered: int | None, joins: bool) -> None:
    state = leader(isr=(1, 2))
    fetch(state, 2, 100)
    moved = fetch(state, 3, offset, broker_epoch=broker_epoch, may_join={2: 20, 3: registered}.get)
    assert (moved.proposal is not None) == joins
    assert isinstance(state.isr, PendingExpand if joins else Committed)


@pytest.mark.invariant("P9")
def test_a_replica_below_the_high_watermark_does_not_join() -> None:
    state = leader(isr=(1, 2))
    state.on_append(300, 0, alive)
    fetch(state, 2, 300)
    assert state.high_watermark == 300
    assert fetch(state, 3, 299, now_ms=5).proposal is None
    assert fetch(state, 3, 300, now_ms=6).proposal is not None


@pytest.mark.invariant("P2")
def test_a_proposed_member_counts_at_once() -> None:
    state = leader(isr=(1, 2))
    fetch(state, 2, 100)
    assert fetch(state, 3, 100).proposal is not None
    state.on_append(150, 0, alive)
    fetch(state, 2, 150)
    assert state.high_watermark == 100
    fetch(state, 3, 150)
    assert state.high_watermark == 150


def test_a_refused_proposal_goes_back_to_what_is_committed() -> None:
    state = leader(isr=(1, 2))
    fetch(state, 2, 100)
    proposal = fetch(state, 3, 100).proposal
    assert proposal is not None
    assert state.pending_proposal() == proposal
    state.on_refused(proposal, 0, alive)
    assert state.isr == Committed(frozenset({1, 2}), 7)
    assert state.pending_proposal() is None


@pytest.mark.invariant("P10")
def test_a_proposal_stays_what_was_sent_whatever_its_members_do() -> None:
    """The answer is about the follower's earlier life: it must still be known as the answer to this proposal."""
    state = leader(isr=(1, 2))
    fetch(state, 2, 100)
    proposal = fetch(state, 3, 100).proposal
    assert proposal is not None
    fetch(state, 3, 0, broker_epoch=31)
    assert state.pending_proposal() == proposal
    state.on_refused(proposal, 0, alive)
    assert isinstance(state.isr, Committed)


@pytest.mark.invariant("P2")
def test_the_high_watermark_moves_on_when_whom_it_waited_for_is_refused() -> None:
    state = leader(isr=(1, 2))
    fetch(state, 2, 100)
    proposal = fetch(state, 3, 100).proposal
    assert proposal is not None
    state.on_append(150, 0, alive)
    fetch(state, 2, 150)
    assert state.high_watermark == 100
    assert state.on_refused(proposal, 0, lambda node: None if node == 3 else EPOCHS[node])
    assert state.high_watermark == 150


@pytest.mark.invariant("P2", "P5")
@pytest.mark.parametrize("replicas", [(1,), (1, 2, 3)])
def test_a_late_word_about_what_the_device_has_takes_nothing_back(replicas: tuple[int, ...]) -> None:
    state = leader(replicas=replicas, isr=(1,), terms=Terms(1, LAG_MS))
    append = state.on_append_alone if len(replicas) == 1 else lambda end: state.on_append(end, 0, lambda node: None)
    append(200)
    append(150)
    assert (state.log_end, state.high_watermark) == (200, 200)


def test_old_news_changes_nothing() -> None:
    state = leader()
    state.on_committed(isr=(1,), replicas=(1, 2, 3), partition_epoch=7, now_ms=0, may_join=alive)
    assert state.committed.isr == {1, 2, 3}


def test_replicas_come_and_go() -> None:
    state = leader()
    state.on_committed(isr=(1, 2), replicas=(1, 2, 4), partition_epoch=8, now_ms=0, may_join=alive)
    assert set(state.followers) == {2, 4}
    assert fetch(state, 3, 100) == NOTHING


def test_the_latest_offset_is_reported_only_when_the_epoch_has_begun() -> None:
    state = leader()
    assert not state.readable_latest
    fetch(state, 2, 100)
    fetch(state, 3, 100)
    assert state.readable_latest


class Histories(RuleBasedStateMachine):
    """Random appends, fetches, pauses, restarts and commits; the followers' true logs are known here."""

    @initialize(isr=st.sets(st.sampled_from([2, 3])))
    def begin(self, isr: set[int]) -> None:
        self.now = 0
        self.committed_isr = {1, *isr}
        self.partition_epoch = 7
        self.on_disk = {1: 100, 2: 80, 3: 80}
        self.registered: dict[int, int | None] = dict(EPOCHS)
        self.state = leader(isr=tuple(self.committed_isr), high_watermark=60)
        self.highest = 60

    def may_join(self, node: int) -> int | None:
        return self.registered.get(node)

    @rule(count=st.integers(1, 50))
    def append(self, count: int) -> None:
        self.on_disk[1] += count
        self.state.on_append(self.on_disk[1], self.now, self.may_join)

    @rule(node=st.sampled_from([2, 3]), share=st.floats(0, 1))
    def follow(self, node: int, share: float) -> None:
        """The follower writes some of what it lacks, then fetches on: that acknowledges it."""
        epoch = self.registered[node]
        self.on_disk[node] += round((self.on_disk[1] - self.on_disk[node]) * share)
        self.state.on_follower_fetch(
            node,
            offset=self.on_disk[node],
            log_start=0,
            broker_epoch=epoch if epoch is not None else -1,
            now_ms=self.now,
            may_join=self.may_join,
        )

    @rule(ms=st.integers(1, LAG_MS))
    def pass_time(self, ms: int) -> None:
        self.now += ms
        self.state.on_tick(self.now, self.may_join)

    @precondition(lambda self: not isinstance(self.state.isr, Committed))
    @rule(accept=st.booleans())
    def controller_decides(self, accept: bool) -> None:
        proposal = self.state.pending_proposal()
        assert proposal is not None
        if not accept:
            self.state.on_refused(proposal, self.now, self.may_join)
            return
        self.partition_epoch += 1
        self.committed_isr = set(proposal.isr)
        self._tell()

    @rule(node=st.sampled_from([2, 3]))
    def fence(self, node: int) -> None:
        """The controller takes a dead broker out of the ISR in the same breath."""
        self.registered[node] = None
        self.partition_epoch += 1
        self.committed_isr.discard(node)
        self._tell()

    @rule(node=st.sampled_from([2, 3]))
    def revive(self, node: int) -> None:
        self.registered[node] = (self.registered[node] or EPOCHS[node]) + 1

    def _tell(self) -> None:
        self.state.on_committed(
            isr=sorted(self.committed_isr),
            replicas=(1, 2, 3),
            partition_epoch=self.partition_epoch,
            now_ms=self.now,
            may_join=self.may_join,
        )

    @invariant()
    def the_high_watermark_never_falls_and_never_passes_the_log(self) -> None:
        if hasattr(self, "state"):
            assert self.highest <= self.state.high_watermark <= self.on_disk[1]
            self.highest = self.state.high_watermark

    @invariant()
    def all_below_it_is_on_every_member_that_could_be_elected(self) -> None:
        """Members of the committed ISR, and one whose entry is proposed, have what was exposed in this
        epoch."""
        if hasattr(self, "state") and self.state.high_watermark > 60:
            for node in self.state.isr.maximal:
                assert self.on_disk[node] >= self.state.high_watermark

    @invariant()
    def the_isr_is_within_the_replicas_and_has_the_leader(self) -> None:
        if hasattr(self, "state"):
            assert {1} <= self.state.isr.maximal <= set(self.state.replicas)


Histories.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestHistories = pytest.mark.invariant("P2", "P3", "P5", "P9", "P10")(
    pytest.mark.row(57, 60)(Histories.TestCase)
)
