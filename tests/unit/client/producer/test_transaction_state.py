"""Which calls of a transaction are allowed, and what errors mean for it."""

import pytest

from rookery.client.errors import IllegalStateError, TransactionAbortedError
from rookery.client.producer.transaction_state import Phase, TransactionState
from rookery.core.errors import InvalidProducerEpochError, MessageTooLargeError, ProducerFencedError


def ready() -> TransactionState:
    state = TransactionState("id")
    state.initialized()
    return state


def test_the_usual_course() -> None:
    state = ready()
    with pytest.raises(IllegalStateError, match="within a transaction"):
        state.check_open()
    for commit in (True, False):
        state.begin()
        state.check_open()
        with pytest.raises(IllegalStateError, match="cannot begin"):
            state.begin()
        state.end(commit)
        state.ended()
    with pytest.raises(IllegalStateError, match="no transaction"):
        state.end(True)


def test_after_a_failed_record_only_abort_is_left() -> None:
    state = ready()
    state.begin()
    state.failed(MessageTooLargeError("x"), from_coordinator=False)
    with pytest.raises(TransactionAbortedError):
        state.check_open()
    with pytest.raises(TransactionAbortedError):
        state.end(commit=True)
    state.end(commit=False)
    state.failed(TransactionAbortedError("dropped"), from_coordinator=False)
    state.ended()
    state.begin()


def test_an_old_epoch_is_fencing_if_the_coordinator_says_so() -> None:
    state = ready()
    state.begin()
    assert isinstance(state.failed(InvalidProducerEpochError("x"), from_coordinator=False), InvalidProducerEpochError)
    assert state.phase is Phase.ABORTABLE
    state.end(commit=False)
    assert isinstance(state.failed(InvalidProducerEpochError("x")), ProducerFencedError)
    for call in (state.begin, state.check_open, lambda: state.end(True), lambda: state.end(False)):
        with pytest.raises(ProducerFencedError):
            call()


def test_an_end_without_an_answer_can_be_repeated() -> None:
    state = ready()
    state.begin()
    state.end(commit=False)
    state.failed(TransactionAbortedError("no answer"))
    state.end(commit=False)
    state.ended()
    state.begin()


def test_a_record_that_waited_does_not_get_into_the_next_transaction() -> None:
    state = ready()
    state.begin()
    number = state.check_open()
    assert state.check_open(number) == number
    state.end(commit=False)
    state.ended()
    state.begin()
    with pytest.raises(TransactionAbortedError, match="ended before"):
        state.check_open(number)


def test_an_end_that_was_cancelled_can_be_aborted() -> None:
    state = ready()
    state.begin()
    state.end(commit=True)
    state.interrupted()
    state.end(commit=False)
    state.ended()
    state.begin()


def test_a_transaction_that_was_left_is_not_ended_here() -> None:
    state = ready()
    state.begin()
    state.leave()
    assert state.phase is Phase.LEFT
    for call in (state.begin, state.check_open, lambda: state.end(commit=True), lambda: state.end(commit=False)):
        with pytest.raises(IllegalStateError):
            call()
