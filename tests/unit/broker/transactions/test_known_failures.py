"""Failures that others have had with transactions, each by its number. Here are those of the coordinator's state.

| number | failure | tests beside these |
|---|---|---|
| 1 | the end of one transaction arrives in the next | `log/test_guards.py` (a marker) |
| 2 | a late batch opens a transaction that nobody ends | `log/test_guards.py`, `handlers/test_transaction_lines.py` |
| 3 | the guard of a batch is lost, or kept, at a marker | `log/test_guards.py`, `handlers/test_transaction_lines.py` |
| 4 | a repeated abort of nothing is fenced | |
| 5 | the epochs run out | |
| 6 | InitProducerId raises the epoch twice | |
| 7 | a repeated marker is refused for ever | `log/test_guards.py` |
| 8 | a marker is answered before the group has its offsets | `handlers/test_transaction_lines.py` |
| 9 | the end of an old epoch stops a newer load | `test_coordinator.py` |
| 10 | an open transaction is lost with its coordinator | `test_coordinator.py` |
| 11 | a sequence that was used in an aborted transaction | `log/test_guards.py`, `log/test_producer_state.py` |
| 12 | a commit that was refused for good is seen | |
| 13 | a topic, a leader or a group is gone | `test_coordinator.py`, `test_markers.py`, `groups/test_offsets.py` |
"""

import pytest

from rookery.broker.transactions.transaction import EPOCH_MAX, LAST_EPOCH, Producer, State
from rookery.core.errors import ErrorCode
from tests.unit.broker.transactions.driver import COMPLETE, ID, NONE, PREPARED, TIMEOUT_MS, A, B, Driver, some

E = ErrorCode
S = State


def opened(version: int = 2, **values: int) -> tuple[Driver, Producer]:
    driver = Driver()
    driver.put(epoch=0, **values)
    producer = driver.one.producer
    assert driver.add(producer, A, version=version) is NONE
    return driver, producer


@pytest.mark.invariant("T11")
@pytest.mark.parametrize("commit", [True, False])
def test_1_the_end_of_one_transaction_arrives_in_the_next(commit: bool) -> None:
    """Late requests of transaction N, with the new rules, do nothing to N+1."""
    driver, first = opened()
    second = driver.end(first, commit)
    driver.finish()
    assert driver.add(second, B, version=2) is NONE
    before = driver.one
    assert driver.end(first, commit) is E.PRODUCER_FENCED
    assert driver.end(first, not commit) is E.PRODUCER_FENCED
    assert driver.add(first, A, version=2) is E.PRODUCER_FENCED
    assert driver.one is before
    assert driver.end(second, True) == Producer(7, 2)


def test_1_the_old_rules_cannot_distinguish_a_late_end_from_the_next_one() -> None:
    """This is what the epoch of the new rules is for: the same request ends a transaction that it does not mean."""
    driver, producer = opened(version=0)
    assert driver.end(producer, True, version=0) == producer
    driver.finish()
    driver.add(producer, B)
    assert driver.end(producer, True, version=0) == producer, "a copy of the request from before"
    assert driver.one.state is S.PREPARE_COMMIT
    assert driver.one.partitions == some(B)


def test_4_a_repeated_abort_of_nothing_is_not_fenced() -> None:
    driver = Driver()
    producer = driver.init()
    after = driver.end(producer, False)
    assert after == Producer(producer.id, 1)
    assert driver.end(producer, False) is E.CONCURRENT_TRANSACTIONS
    driver.finish()
    assert driver.end(producer, False) == after
    driver.fail_over()
    assert driver.end(producer, False) == after
    assert driver.add(after, A, version=2) is NONE


@pytest.mark.parametrize("how", ["end", "init", "timeout"])
@pytest.mark.parametrize("fails_over", [False, True])
def test_5_the_epochs_run_out(how: str, fails_over: bool) -> None:
    """In EndTxn, in a fence and in a timeout; the next coordinator knows of it."""
    driver, _ = opened()
    driver.put(epoch=LAST_EPOCH, state=S.ONGOING, partitions=some(A), started_ms=driver.now.wall_ms, version=2)
    last = Producer(7, LAST_EPOCH)
    if how == "end":
        assert driver.end(last, False) == Producer(1000, 0)
    elif how == "init":
        assert driver.init() is E.CONCURRENT_TRANSACTIONS
    else:
        driver.wait(TIMEOUT_MS + 1)
        assert driver.time_out() == [ID]
    if fails_over:
        driver.markers.clear()
        driver.fail_over()
    assert [markers.producer for markers in driver.markers] == [Producer(7, EPOCH_MAX)]
    driver.finish()
    assert driver.one.producer == Producer(1000, 0)
    assert driver.end(last, False) == Producer(1000, 0)
    assert driver.end(last, True) is E.INVALID_TXN_STATE
    assert driver.init() == Producer(1000, 1)


def test_6_init_in_an_open_transaction_raises_the_epoch_once() -> None:
    driver, producer = opened()
    for _ in range(3):
        assert driver.init() is E.CONCURRENT_TRANSACTIONS
    assert driver.one.epoch == producer.epoch + 1
    driver.finish()
    assert driver.one.epoch == producer.epoch + 1
    assert driver.init() == Producer(7, producer.epoch + 2)


@pytest.mark.invariant("T8")
@pytest.mark.parametrize("commit", [True, False])
def test_7_markers_that_are_sent_again_are_the_same(commit: bool) -> None:
    """A partition that has the marker already gets one of the same epoch, which it has to accept."""
    driver, producer = opened()
    driver.end(producer, commit)
    for _ in range(3):
        driver.fail_over()
    epochs = [markers.coordinator_epoch for markers in driver.markers]
    assert epochs == [1, 2, 3, 4]
    assert len({markers._replace(coordinator_epoch=0) for markers in driver.markers}) == 1
    driver.finish()
    assert driver.one.state is COMPLETE[commit]
    driver.fail_over()
    assert driver.markers == [], "what is complete is not sent again"


@pytest.mark.invariant("T7")
@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_10_coordinators_change_between_every_two_steps(version: int, commit: bool) -> None:
    driver = Driver(version=version)
    producer = driver.init()
    driver.fail_over()
    assert driver.add(producer, A, version=version) is NONE
    driver.fail_over()
    assert driver.add(producer, B, version=version) is NONE
    driver.fail_over()
    assert driver.one.partitions == some(A, B)
    go_on = driver.end(producer, commit, version)
    driver.fail_over()
    assert driver.one.state is PREPARED[commit]
    assert {markers.partitions for markers in driver.markers} == {some(A, B)}
    driver.finish()
    driver.fail_over()
    assert driver.one.state is COMPLETE[commit]
    assert driver.end(producer, commit, version) == go_on, "a repeated request is answered the same way"
    assert driver.add(go_on, A, version=version) is NONE


@pytest.mark.parametrize("version", [0, 2])
def test_12_a_decided_commit_is_never_refused_for_good(version: int) -> None:
    """Its producer may ask again at any time, through any coordinator."""
    driver, producer = opened(version)
    go_on = driver.end(producer, True, version)
    for _ in range(2):
        assert driver.end(producer, True, version) is E.CONCURRENT_TRANSACTIONS
        driver.fail_over()
    driver.finish()
    for _ in range(2):
        assert driver.end(producer, True, version) == go_on
        driver.fail_over()
