"""Every row of the coordinator's tables of states and answers."""

from typing import Any

import pytest

from rookery.broker.transactions.transaction import EPOCH_MAX, LAST_EPOCH, Producer, State
from rookery.core.errors import CoordinatorLoadInProgressError, ErrorCode
from tests.unit.broker.transactions.driver import (
    COMPLETE,
    ID,
    NONE,
    PREPARED,
    START,
    TIMEOUT_MS,
    A,
    B,
    C,
    Driver,
    some,
)

E = ErrorCode
S = State
ME = Producer(7, 5)
ONE_BEHIND = Producer(7, 4)
ALL = (S.EMPTY, S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT, S.COMPLETE_COMMIT, S.COMPLETE_ABORT)
IDLE = (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT)
PREPARE = (S.PREPARE_COMMIT, S.PREPARE_ABORT)


def at(state: State, **values: Any) -> Driver:
    driver = Driver()
    open_ = state is S.ONGOING or state in PREPARE
    partitions = some(A) if open_ else some()
    driver.put(**{"state": state, "partitions": partitions, "started_ms": 1, **values})
    return driver


# --- InitProducerId -------------------------------------------------------------------------------------------


def test_a_new_id_gets_a_new_producer_at_epoch_0() -> None:
    driver = Driver()
    assert driver.init() == Producer(1000, 0)
    one = driver.one
    assert (one.state, one.timeout_ms, one.started_ms, one.partitions) == (S.EMPTY, TIMEOUT_MS, -1, some())


def test_a_new_id_takes_over_who_comes_with_a_forgotten_producer() -> None:
    driver = Driver()
    assert driver.init(expected=Producer(55, 3)) == Producer(1000, 0)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_bounds_is_refused(timeout_ms: int) -> None:
    assert Driver().init(timeout_ms=timeout_ms) is E.INVALID_TRANSACTION_TIMEOUT


def test_the_longest_timeout_is_taken() -> None:
    assert Driver().init(timeout_ms=900_000) == Producer(1000, 0)


@pytest.mark.parametrize("ask", ["init", "add", "verify", "end"])
def test_an_empty_id_is_refused(ask: str) -> None:
    driver = Driver()
    answer = {
        "init": lambda: driver.init(name=""),
        "add": lambda: driver.add(ME, A, name=""),
        "verify": lambda: driver.verify(ME, A, name=""),
        "end": lambda: driver.end(ME, True, name=""),
    }[ask]()
    assert answer is E.INVALID_REQUEST


@pytest.mark.parametrize("state", PREPARE)
@pytest.mark.parametrize("expected", [None, ME])
def test_init_waits_while_a_transaction_is_being_ended(state: State, expected: Producer | None) -> None:
    driver = at(state)
    assert driver.init(expected) is E.CONCURRENT_TRANSACTIONS
    assert driver.one.state is state


@pytest.mark.row(134)
@pytest.mark.invariant("T6")
@pytest.mark.parametrize("expected", [None, ME])
def test_init_aborts_what_is_open_and_fences_its_producer(expected: Producer | None) -> None:
    driver = at(S.ONGOING)
    assert driver.init(expected) is E.CONCURRENT_TRANSACTIONS
    assert (driver.one.state, driver.one.epoch) == (S.PREPARE_ABORT, 6)
    (markers,) = driver.markers
    assert (markers.producer, markers.commit, markers.partitions) == (Producer(7, 6), False, some(A))
    assert driver.end(ME, True) is E.INVALID_TXN_STATE
    assert driver.add(ME, B) is E.PRODUCER_FENCED
    driver.finish()
    assert driver.init() == Producer(7, 7)


@pytest.mark.parametrize("state", IDLE)
@pytest.mark.parametrize(
    ("expected", "last_epoch", "answer", "last_after"),
    [
        (None, 4, Producer(7, 6), -1),
        (ME, -1, Producer(7, 6), 5),
        (ONE_BEHIND, 4, Producer(7, 5), 4),
        (ONE_BEHIND, -1, E.PRODUCER_FENCED, None),
        (Producer(7, 3), 4, E.PRODUCER_FENCED, None),
        (Producer(7, 6), 4, E.PRODUCER_FENCED, None),
        (Producer(8, 5), 4, E.PRODUCER_FENCED, None),
    ],
)
def test_init_while_nothing_is_open(
    state: State, expected: Producer | None, last_epoch: int, answer: Any, last_after: int | None
) -> None:
    driver = at(state, last_epoch=last_epoch)
    assert driver.init(expected, timeout_ms=123) == answer
    if last_after is None:
        assert driver.one.state is state
    else:
        one = driver.one
        assert (one.state, one.timeout_ms, one.started_ms, one.last_epoch) == (S.EMPTY, 123, -1, last_after)


@pytest.mark.parametrize("state", IDLE)
@pytest.mark.parametrize("epoch", [LAST_EPOCH, EPOCH_MAX])
def test_init_takes_a_new_producer_id_when_the_epochs_are_used_up(state: State, epoch: int) -> None:
    driver = at(state, epoch=epoch)
    assert driver.init() == Producer(1000, 0)
    assert driver.init(Producer(7, epoch)) is E.PRODUCER_FENCED, "another producer has started since"


@pytest.mark.parametrize("state", IDLE)
def test_a_repeated_init_after_the_epochs_were_used_up(state: State) -> None:
    driver = at(state, epoch=LAST_EPOCH)
    assert driver.init(Producer(7, LAST_EPOCH)) == Producer(1000, 0)
    assert driver.init(Producer(7, LAST_EPOCH)) == Producer(1000, 0)
    assert driver.init(Producer(7, LAST_EPOCH)) == Producer(1000, 0)
    assert driver.init(Producer(7, LAST_EPOCH - 1)) is E.PRODUCER_FENCED


def test_init_with_used_up_epochs_and_another_epoch_is_fenced() -> None:
    assert at(S.EMPTY, epoch=LAST_EPOCH).init(Producer(7, 3)) is E.PRODUCER_FENCED


def test_a_repeated_init_is_refused_by_the_next_coordinator() -> None:
    """The last epoch is not stored."""
    driver = at(S.EMPTY)
    assert driver.init(ME) == Producer(7, 6)
    driver.fail_over()
    assert driver.init(ME) is E.PRODUCER_FENCED


def test_no_producer_id_is_at_hand() -> None:
    driver = Driver()

    def none() -> int:
        raise CoordinatorLoadInProgressError("no block")

    driver.state._new_id = none
    assert driver.init() is E.COORDINATOR_LOAD_IN_PROGRESS
    assert driver.state.transactions == {}


# --- AddPartitionsToTxn and its verification ------------------------------------------------------------------


@pytest.mark.parametrize("state", ALL)
@pytest.mark.parametrize(
    ("producer", "code"),
    [
        (Producer(8, 5), E.INVALID_PRODUCER_ID_MAPPING),
        (Producer(7, 4), E.PRODUCER_FENCED),
        (Producer(7, 6), E.PRODUCER_FENCED),
    ],
)
def test_only_the_producer_adds_and_verifies(state: State, producer: Producer, code: ErrorCode) -> None:
    driver = at(state)
    before = driver.one
    assert driver.add(producer, A) is code
    assert driver.verify(producer, A) is code
    assert driver.one is before


def test_an_unknown_id_adds_verifies_and_ends_nothing() -> None:
    driver = Driver()
    assert driver.add(ME, A) is E.INVALID_PRODUCER_ID_MAPPING
    assert driver.verify(ME, A) is E.INVALID_PRODUCER_ID_MAPPING
    for version in (0, 2):
        assert driver.end(ME, True, version) is E.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("state", PREPARE)
def test_nothing_is_added_or_verified_while_a_transaction_is_being_ended(state: State) -> None:
    driver = at(state)
    assert driver.add(ME, B) is E.CONCURRENT_TRANSACTIONS
    assert driver.verify(ME, A) is E.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("state", IDLE)
@pytest.mark.parametrize("version", [0, 2])
def test_the_first_partition_opens_a_transaction(state: State, version: int) -> None:
    driver = at(state)
    assert driver.add(ME, A, B, version=version) is NONE
    one = driver.one
    assert (one.state, one.partitions, one.version) == (S.ONGOING, some(A, B), version)
    assert one.started_ms == one.updated_ms == START.wall_ms


def test_more_partitions_join_and_known_ones_write_nothing() -> None:
    driver = at(S.ONGOING)
    written = len(driver.log)
    assert driver.add(ME, A) is NONE
    assert len(driver.log) == written
    assert driver.add(ME, A, B) is NONE
    assert (driver.one.partitions, driver.one.started_ms) == (some(A, B), 1)


@pytest.mark.invariant("T11")
@pytest.mark.parametrize("state", IDLE)
def test_verification_finds_nothing_where_nothing_is_open(state: State) -> None:
    assert at(state).verify(ME, A) == {A: E.TRANSACTION_ABORTABLE}


@pytest.mark.invariant("T11")
def test_verification_adds_nothing() -> None:
    driver = at(S.ONGOING)
    assert driver.verify(ME, A, B) == {A: NONE, B: E.TRANSACTION_ABORTABLE}
    assert driver.one.partitions == some(A)


# --- EndTxn ---------------------------------------------------------------------------------------------------

WRITES = "writes"


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        (S.ONGOING, WRITES, WRITES),
        (S.EMPTY, E.INVALID_TXN_STATE, E.INVALID_TXN_STATE),
        (S.COMPLETE_COMMIT, NONE, E.INVALID_TXN_STATE),
        (S.COMPLETE_ABORT, E.INVALID_TXN_STATE, NONE),
        (S.PREPARE_COMMIT, E.CONCURRENT_TRANSACTIONS, E.INVALID_TXN_STATE),
        (S.PREPARE_ABORT, E.INVALID_TXN_STATE, E.CONCURRENT_TRANSACTIONS),
    ],
)
def test_end_by_the_rules_before_version_2(state: State, commit: Any, abort: Any) -> None:
    for decision, expected in ((True, commit), (False, abort)):
        driver = at(state)
        before = driver.one
        answer = driver.end(ME, decision, version=0)
        if expected is WRITES:
            assert answer == ME
            assert (driver.one.state, driver.one.epoch) == (PREPARED[decision], 5)
            (markers,) = driver.markers
            assert (markers.producer, markers.commit, markers.version) == (ME, decision, 0)
            driver.finish()
            assert (driver.one.state, driver.one.partitions, driver.one.producer) == (COMPLETE[decision], some(), ME)
        else:
            assert answer == (ME if expected is NONE else expected)
            assert (driver.one, driver.markers) == (before, [])


@pytest.mark.parametrize("state", ALL)
@pytest.mark.parametrize("commit", [True, False])
def test_end_by_the_rules_before_version_2_is_for_the_producer_alone(state: State, commit: bool) -> None:
    assert at(state).end(Producer(8, 5), commit, version=0) is E.INVALID_PRODUCER_ID_MAPPING
    for epoch in (4, 6):
        assert at(state).end(Producer(7, epoch), commit, version=0) is E.PRODUCER_FENCED


@pytest.mark.invariant("T11")
@pytest.mark.parametrize(
    ("state", "commit", "commit_again", "abort", "abort_again"),
    [
        (S.ONGOING, WRITES, E.PRODUCER_FENCED, WRITES, E.PRODUCER_FENCED),
        (S.EMPTY, E.INVALID_TXN_STATE, E.PRODUCER_FENCED, WRITES, E.PRODUCER_FENCED),
        (S.COMPLETE_COMMIT, E.INVALID_TXN_STATE, NONE, WRITES, E.INVALID_TXN_STATE),
        (S.COMPLETE_ABORT, E.INVALID_TXN_STATE, E.INVALID_TXN_STATE, WRITES, NONE),
        (S.PREPARE_COMMIT, E.PRODUCER_FENCED, E.CONCURRENT_TRANSACTIONS, E.PRODUCER_FENCED, E.INVALID_TXN_STATE),
        (S.PREPARE_ABORT, E.PRODUCER_FENCED, E.INVALID_TXN_STATE, E.PRODUCER_FENCED, E.CONCURRENT_TRANSACTIONS),
    ],
)
def test_end_by_the_rules_of_version_2(
    state: State, commit: Any, commit_again: Any, abort: Any, abort_again: Any
) -> None:
    for decision, producer, expected in (
        (True, ME, commit),
        (True, ONE_BEHIND, commit_again),
        (False, ME, abort),
        (False, ONE_BEHIND, abort_again),
    ):
        driver = at(state, version=2)
        before = driver.one
        answer = driver.end(producer, decision)
        if expected is WRITES:
            next_ = Producer(7, 6)
            assert answer == next_
            assert (driver.one.state, driver.one.producer) == (PREPARED[decision], next_)
            (markers,) = driver.markers
            assert (markers.producer, markers.commit, markers.version) == (next_, decision, 2)
            assert markers.partitions == before.partitions
            driver.finish()
            done = driver.one
            assert (done.state, done.producer, done.partitions) == (COMPLETE[decision], next_, some())
        else:
            assert answer == (ME if expected is NONE else expected)
            assert (driver.one, driver.markers) == (before, [])


@pytest.mark.parametrize("state", ALL)
@pytest.mark.parametrize("commit", [True, False])
def test_end_by_the_rules_of_version_2_is_for_the_producer_alone(state: State, commit: bool) -> None:
    assert at(state).end(Producer(8, 5), commit) is E.INVALID_PRODUCER_ID_MAPPING
    for epoch in (3, 6):
        assert at(state).end(Producer(7, epoch), commit) is E.PRODUCER_FENCED


# --- epochs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("fails_over", [False, True])
def test_the_last_epoch_ends_in_a_new_producer_id(commit: bool, fails_over: bool) -> None:
    driver = at(S.ONGOING, epoch=LAST_EPOCH)
    last = Producer(7, LAST_EPOCH)
    assert driver.end(last, commit) == Producer(1000, 0)
    assert driver.markers[-1].producer == Producer(7, EPOCH_MAX)
    if fails_over:
        driver.markers.clear()
        driver.fail_over()
        assert driver.markers[-1].producer == Producer(7, EPOCH_MAX)
    assert driver.end(last, commit) is E.CONCURRENT_TRANSACTIONS
    driver.finish()
    assert (driver.one.producer, driver.one.previous_producer_id) == (Producer(1000, 0), 7)
    assert driver.end(last, commit) == Producer(1000, 0), "a repeated request gets the same answer"
    assert driver.end(last, not commit) is E.INVALID_TXN_STATE
    assert driver.add(last, A) is E.INVALID_PRODUCER_ID_MAPPING
    assert driver.add(Producer(1000, 0), A, version=2) is NONE
    assert driver.end(last, commit) is E.PRODUCER_FENCED, "too late: the next transaction is open"


def test_the_fencing_epoch_goes_through_without_another() -> None:
    driver = at(S.COMPLETE_ABORT, epoch=EPOCH_MAX)
    assert driver.end(Producer(7, EPOCH_MAX), False) == Producer(1000, 0)
    driver.finish()
    assert driver.one.producer == Producer(1000, 0)


def test_a_fence_before_version_2_leaves_the_new_id_to_init() -> None:
    driver = at(S.ONGOING, epoch=LAST_EPOCH)
    driver.version = 1
    assert driver.init() is E.CONCURRENT_TRANSACTIONS
    assert driver.one.producer == Producer(7, EPOCH_MAX)
    driver.finish()
    assert driver.one.producer == Producer(7, EPOCH_MAX)
    assert driver.init() == Producer(1000, 0)


# --- time -----------------------------------------------------------------------------------------------------


@pytest.mark.invariant("T12")
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(version: int) -> None:
    driver = Driver(version=version)
    producer = driver.init()
    driver.add(producer, A)
    driver.wait(TIMEOUT_MS)
    assert driver.time_out() == []
    driver.wait(1)
    assert driver.time_out() == [ID]
    assert (driver.one.state, driver.one.epoch, driver.markers[-1].version) == (S.PREPARE_ABORT, 1, version)
    assert driver.time_out() == []
    assert driver.add(producer, B) is E.PRODUCER_FENCED
    assert driver.end(producer, True, version=0) is E.PRODUCER_FENCED
    driver.finish()
    assert driver.one.state is S.COMPLETE_ABORT
    assert driver.end(producer, True) is E.INVALID_TXN_STATE


def test_the_time_of_a_transaction_goes_on_over_a_change_of_coordinators() -> None:
    driver = Driver()
    driver.add(driver.init(), A)
    driver.wait(TIMEOUT_MS - 10)
    driver.fail_over()
    driver.wait(11)
    assert driver.time_out() == [ID]


def test_no_transaction_times_out_twice() -> None:
    driver = at(S.PREPARE_ABORT)
    driver.run(driver.state.time_out(ID, driver.now))
    assert driver.markers == []


@pytest.mark.parametrize("state", ALL)
def test_only_idle_ids_expire(state: State) -> None:
    driver = at(state, updated_ms=START.wall_ms)
    driver.wait(driver.options.expiration_ms - 1)
    assert driver.state.expire(driver.now).records == []
    driver.wait(1)
    driver.run(driver.state.expire(driver.now))
    assert (ID in driver.state.transactions) is (state not in IDLE)
    if state in IDLE:
        driver.fail_over()
        assert driver.add(ME, A) is E.INVALID_PRODUCER_ID_MAPPING
        assert driver.init() == Producer(1000, 0)


# --- markers --------------------------------------------------------------------------------------------------


def test_markers_carry_the_epoch_of_their_coordinator() -> None:
    driver = at(S.ONGOING)
    driver.end(ME, True)
    driver.fail_over()
    first, again = driver.markers
    assert (first.coordinator_epoch, again.coordinator_epoch) == (1, 2)
    assert first._replace(coordinator_epoch=2) == again
    driver.finish()
    assert driver.one.state is S.COMPLETE_COMMIT


def test_late_news_of_markers_ends_nothing_else() -> None:
    driver = at(S.ONGOING)
    driver.end(ME, True, version=0)
    (markers,) = driver.markers
    driver.finish()
    driver.add(ME, C)
    opened = driver.one
    driver.run(driver.state.markers_written(markers, driver.now))
    assert driver.one is opened
    driver.end(ME, False, version=0)
    ended = driver.one
    driver.run(driver.state.markers_written(markers, driver.now))
    assert driver.one is ended
    (of_this_one,) = driver.markers
    old_coordinator = of_this_one._replace(coordinator_epoch=0)
    driver.run(driver.state.markers_written(old_coordinator, driver.now))
    assert driver.one is ended
