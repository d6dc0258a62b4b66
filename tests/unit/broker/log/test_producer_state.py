"""Idempotent and transactional producers of one partition: what is accepted, what is a duplicate, what is
open."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.broker.log.producer_state import NOT_VERIFIED, Origin, ProducerState
from rookery.core.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaError,
    OutOfOrderSequenceNumberError,
    TransactionCoordinatorFencedError,
)
from rookery.core.wire.markers import EndMarker
from tests.unit.broker.log.headers import header, marker_header

COMMIT, ABORT = EndMarker(True, 0), EndMarker(False, 0)
TOP = 2**31 - 1


def produced(
    state: ProducerState, count: int = 1, *, sequence: int, epoch: int = 0, timestamp: int = 1000
) -> int:
    """Append one batch of producer 7 the way a leader does; the offset it lies at."""
    batch = header(
        state.end_offset, count, producer_id=7, sequence=sequence, epoch=epoch, timestamp=timestamp
    )
    if (stored := state.duplicate_of(batch)) is not None:
        return stored.first_offset
    state.check(batch)
    state.apply(batch)
    return batch.base_offset


@pytest.mark.row(15)
@pytest.mark.invariant("T1")
def test_sequences_follow_each_other() -> None:
    state = ProducerState()
    assert produced(state, 3, sequence=0) == 0
    assert produced(state, 2, sequence=3) == 3
    with pytest.raises(OutOfOrderSequenceNumberError, match="expected 5"):
        produced(state, sequence=6)
    with pytest.raises(OutOfOrderSequenceNumberError):
        produced(state, sequence=4)
    assert produced(state, sequence=5) == 5


@pytest.mark.invariant("T1")
def test_sequences_wrap_after_the_largest_int() -> None:
    state = ProducerState()
    produced(state, 2, sequence=TOP - 1)
    assert produced(state, sequence=0) == 2
    inside = ProducerState()
    produced(inside, 4, sequence=TOP - 1)  # uses TOP-1, TOP, 0, 1
    assert produced(inside, sequence=2) == 4
    assert produced(inside, 4, sequence=TOP - 1) == 0, "a batch that wraps inside is known again"


@pytest.mark.invariant("T1")
def test_a_producer_without_state_may_start_anywhere() -> None:
    state = ProducerState()
    assert produced(state, sequence=4711) == 0
    assert produced(state, sequence=4712) == 1


@pytest.mark.row(15)
@pytest.mark.invariant("T1")
def test_epochs_fence_and_start_at_zero() -> None:
    state = ProducerState()
    produced(state, epoch=3, sequence=8)
    with pytest.raises(InvalidProducerEpochError):
        produced(state, epoch=2, sequence=9)
    with pytest.raises(OutOfOrderSequenceNumberError):
        produced(state, epoch=4, sequence=9)
    assert produced(state, epoch=4, sequence=0) == 1
    with pytest.raises(InvalidProducerEpochError):
        produced(state, epoch=3, sequence=8)


@pytest.mark.row(14, 15)
@pytest.mark.invariant("T1")
def test_the_last_five_batches_are_answered_with_their_offset() -> None:
    state = ProducerState()
    for n in range(7):
        produced(state, 2, sequence=2 * n, timestamp=1000 + n)
    end = state.end_offset
    for n in range(2, 7):
        stored = state.duplicate_of(header(99, 2, producer_id=7, sequence=2 * n))
        assert stored is not None
        assert (stored.first_offset, stored.last_offset, stored.timestamp) == (2 * n, 2 * n + 1, 1000 + n)
    assert state.end_offset == end
    with pytest.raises(OutOfOrderSequenceNumberError):
        produced(state, 2, sequence=2)  # the sixth last is no longer known
    with pytest.raises(OutOfOrderSequenceNumberError):
        produced(state, 1, sequence=12)  # overlaps the last batch without being equal to it


@pytest.mark.invariant("T5")
def test_11_a_sequence_used_by_an_aborted_batch_is_not_answered_as_stored() -> None:
    state = ProducerState()
    state.apply(header(0, producer_id=7, sequence=0, transactional=True))
    state.apply(marker_header(1, producer_id=7), COMMIT)
    state.apply(header(2, producer_id=7, sequence=1, transactional=True))
    state.apply(marker_header(3, producer_id=7), ABORT)
    assert state.duplicate_of(header(4, producer_id=7, sequence=0, transactional=True)) is not None
    again = header(4, producer_id=7, sequence=1, transactional=True)
    assert state.duplicate_of(again) is None
    with pytest.raises(OutOfOrderSequenceNumberError):
        state.check(again, guard=NOT_VERIFIED)
    state.check(header(4, producer_id=7, sequence=2, transactional=True), guard=NOT_VERIFIED)


def test_a_coordinator_writes_without_sequences() -> None:
    state = ProducerState()
    for _ in range(3):
        batch = header(state.end_offset, producer_id=7, sequence=-1, transactional=True)
        assert state.duplicate_of(batch) is None
        state.check(batch, Origin.COORDINATOR, state.guard_for(7, 0))
        state.apply(batch)
    state.check(header(3, producer_id=7, sequence=0, transactional=True))


def test_nothing_is_written_outside_an_open_transaction() -> None:
    state = ProducerState()
    state.apply(header(0, producer_id=7, sequence=0, transactional=True))
    with pytest.raises(InvalidTxnStateError):
        state.check(header(1, producer_id=7, sequence=1))
    state.apply(marker_header(1, producer_id=7), COMMIT)
    state.check(header(2, producer_id=7, sequence=1))


def test_old_coordinators_and_late_markers_are_refused() -> None:
    state = ProducerState()
    state.apply(header(0, producer_id=7, epoch=2, sequence=0, transactional=True))
    with pytest.raises(InvalidProducerEpochError):
        state.check_marker(7, 1, COMMIT)
    with pytest.raises(InvalidProducerEpochError):
        state.check_marker(7, 2, COMMIT, transaction_version=2)
    state.check_marker(7, 3, EndMarker(True, 5), transaction_version=2)
    state.apply(marker_header(1, producer_id=7, epoch=3), EndMarker(True, 5))
    state.check_marker(7, 3, EndMarker(True, 5), transaction_version=2)  # the same marker once more
    with pytest.raises(TransactionCoordinatorFencedError):
        state.check_marker(7, 4, EndMarker(True, 4), transaction_version=2)


def test_the_first_unstable_offset_waits_for_the_marker_to_be_replicated() -> None:
    state = ProducerState()
    state.apply(header(0, producer_id=1, sequence=0, transactional=True))
    state.apply(header(1, producer_id=2, sequence=0, transactional=True))
    assert state.first_unstable_offset == state.first_undecided_offset == 0
    done = state.apply(marker_header(2, producer_id=1), ABORT)
    assert done is not None
    assert (done.first_offset, done.last_offset, done.aborted, done.last_stable_offset) == (0, 2, True, 1)
    assert (state.first_unstable_offset, state.first_undecided_offset) == (0, 1)
    state.high_watermark_moved(3)
    assert state.first_unstable_offset == 1
    done = state.apply(marker_header(3, producer_id=2), COMMIT)
    assert done is not None
    assert (done.aborted, done.last_stable_offset) == (False, 4)
    state.high_watermark_moved(4)
    assert state.first_unstable_offset is None


@pytest.mark.invariant("T9")
def test_a_replica_that_nobody_reads_remembers_no_ended_transactions() -> None:
    """A follower hears of the high watermark, and nobody asks it for the last stable offset."""
    state = ProducerState()
    for number in range(1000):
        state.apply(header(2 * number, producer_id=number % 7, transactional=True))
        state.apply(marker_header(2 * number + 1, producer_id=number % 7), EndMarker(True, 0))
        state.high_watermark_moved(state.end_offset - 2)
    kept = len(state.ended) + len(state._ended_firsts) + len(state._replicated or ())
    assert kept < 10
    assert state.first_unstable_offset == 1998
    state.high_watermark_moved(state.end_offset)
    assert state.first_unstable_offset is None



def test_a_marker_without_data_moves_nothing() -> None:
    state = ProducerState()
    assert state.apply(marker_header(0, producer_id=7, epoch=4), COMMIT) is None
    assert state.first_unstable_offset is None
    assert state.entries[7].epoch == 4
    assert state.end_offset == 1


def test_silent_producers_expire_but_open_transactions_keep_theirs() -> None:
    state = ProducerState()
    state.apply(header(0, producer_id=1, sequence=0, timestamp=1), now_ms=1000)
    state.apply(header(1, producer_id=2, sequence=0, timestamp=9999), now_ms=2000)
    state.apply(header(2, producer_id=3, sequence=0, transactional=True), now_ms=1000)
    assert state.expire(2500, 1500) == [1]
    assert set(state.entries) == {2, 3}


def test_the_number_of_producers_is_bounded() -> None:
    state = ProducerState(producers_max=3)
    state.apply(header(0, producer_id=100, sequence=0, transactional=True))
    for n in range(10):
        state.apply(header(n + 1, producer_id=n, sequence=0))
    assert set(state.entries) == {100, 8, 9}


class Oracle:
    """The rules of acceptance over the whole history of every producer, without any of the state's
    shortcuts."""

    def __init__(self) -> None:
        self.history: dict[int, list[tuple[int, int, int, int]]] = {}  # (epoch, first, last, offset)

    def offer(self, producer: int, epoch: int, first: int, count: int, offset: int) -> str | int:
        past = self.history.setdefault(producer, [])
        last = (first + count - 1) % 2**31
        if past:
            newest_epoch = past[-1][0]
            mine = [batch for batch in past if batch[0] == epoch][-5:]
            if epoch < newest_epoch:
                return "INVALID_PRODUCER_EPOCH"
            if epoch > newest_epoch and first != 0:
                return "OUT_OF_ORDER_SEQUENCE_NUMBER"
            if epoch == newest_epoch:
                for _, known_first, known_last, known_offset in mine:
                    if (known_first, known_last) == (first, last):
                        return known_offset
                if first != (past[-1][2] + 1) % 2**31:
                    return "OUT_OF_ORDER_SEQUENCE_NUMBER"
        past.append((epoch, first, last, offset))
        return offset


def _offer(state: ProducerState, producer: int, epoch: int, first: int, count: int) -> str | int:
    batch = header(state.end_offset, count, producer_id=producer, epoch=epoch, sequence=first)
    try:
        stored = state.duplicate_of(batch)
        if stored is not None:
            return stored.first_offset
        state.check(batch)
    except KafkaError as error:
        return error.code.name
    state.apply(batch)
    return batch.base_offset


@pytest.mark.row(14, 15)
@pytest.mark.invariant("T1")
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_acceptance_equals_the_oracle(data: st.DataObject) -> None:
    state, oracle = ProducerState(), Oracle()
    for _ in range(data.draw(st.integers(1, 40))):
        producer = data.draw(st.integers(0, 1))
        entry = state.entries.get(producer)
        expected = 0 if entry is None else (entry.last_sequence + 1) % 2**31
        first = data.draw(
            st.sampled_from(
                [expected, expected, expected, 0, TOP, TOP - 1, max(0, expected - 2), expected // 2]
            )
        )
        epoch = data.draw(st.sampled_from([0, 0, 0, 1, 2]))
        count = data.draw(st.integers(1, 3))
        offset = state.end_offset
        assert _offer(state, producer, epoch, first, count) == oracle.offer(
            producer, epoch, first, count, offset
        )
