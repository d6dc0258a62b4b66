"""Guards of transactional producers and the markers that take them away (KIP-890): the partition's half of "no late
request of one transaction touches the next"."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.broker.log.producer_state import (
    LAST_EPOCH,
    NOT_VERIFIED,
    Guard,
    Origin,
    ProducerState,
    is_later,
)
from rookery.core.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaError,
    OutOfOrderSequenceNumberError,
    TransactionCoordinatorFencedError,
)
from rookery.core.wire.batch import BatchHeader
from rookery.core.wire.markers import EndMarker
from tests.unit.broker.log.headers import header, marker_header

PRODUCER = 7
COMMIT, ABORT = EndMarker(True, 0), EndMarker(False, 0)
TOP = 2**31 - 1


def first(state: ProducerState, *, epoch: int = 0, sequence: int = 0, count: int = 1) -> BatchHeader:
    return header(
        state.end_offset, count, producer_id=PRODUCER, epoch=epoch, sequence=sequence, transactional=True
    )


def ask(state: ProducerState, *, epoch: int = 0, sequence: int = 0, bumps: bool = False) -> Guard:
    guard = state.guard_for(PRODUCER, epoch, sequence, bumps=bumps)
    assert guard is not None
    return guard


def append(state: ProducerState, guard: Guard | None, *, epoch: int = 0, sequence: int = 0) -> None:
    batch = first(state, epoch=epoch, sequence=sequence)
    if not state.is_next(batch):
        state.check(batch, guard=guard)
    state.apply(batch)


def end(state: ProducerState, marker: EndMarker = COMMIT, *, epoch: int = 0, version: int = 0) -> None:
    """A leader writes a marker."""
    state.check_marker(PRODUCER, epoch, marker, transaction_version=version)
    kept = state.guard_over(PRODUCER, epoch, version)
    state.apply(marker_header(state.end_offset, producer_id=PRODUCER, epoch=epoch), marker)
    if kept is not None:
        state.keep(kept)


# --- the first batch of a transaction ---------------------------------------------------------------------------------


@pytest.mark.invariant("T11")
def test_the_first_batch_needs_the_guard_and_the_next_ones_do_not() -> None:
    state = ProducerState()
    with pytest.raises(InvalidTxnStateError):
        append(state, None)
    append(state, ask(state))
    assert state.guard_for(PRODUCER, 0, 1) is None, "the transaction is open: nothing has to be asked"
    append(state, None, sequence=1)


@pytest.mark.invariant("T11")
def test_a_first_batch_that_follows_its_producers_last_one_is_asked_for_too() -> None:
    state = ProducerState()
    append(state, ask(state))
    end(state)
    follows = first(state, sequence=1)
    assert not state.is_next(follows)
    with pytest.raises(InvalidTxnStateError):
        state.check(follows)
    plain = header(state.end_offset, producer_id=PRODUCER, sequence=1)
    assert state.is_next(plain), "outside of transactions nothing changed"


@pytest.mark.invariant("T11")
def test_an_open_transaction_of_an_older_epoch_is_no_reason_not_to_ask() -> None:
    state = ProducerState()
    append(state, ask(state))
    assert state.guard_for(PRODUCER, 1, 0) is not None
    with pytest.raises(InvalidTxnStateError):
        append(state, None, epoch=1)


@pytest.mark.invariant("T11")
def test_somebody_elses_guard_opens_nothing() -> None:
    state = ProducerState()
    other = state.guard_for(8, 0, 0)
    ask(state)
    with pytest.raises(InvalidTxnStateError):
        append(state, other)
    with pytest.raises(InvalidTxnStateError):
        append(state, Guard(PRODUCER, 0, 0, bumps=False))


def test_who_asks_twice_gets_the_same_guard() -> None:
    state = ProducerState()
    assert ask(state) is ask(state, sequence=3)


def test_without_verification_no_guard_is_needed() -> None:
    state = ProducerState()
    append(state, NOT_VERIFIED)
    assert state.first_undecided_offset == 0


def test_a_duplicate_is_known_before_the_guard_is_asked_for() -> None:
    state = ProducerState()
    append(state, ask(state))
    end(state)
    assert state.duplicate_of(first(state)) is not None


@pytest.mark.invariant("T11")
def test_3_an_old_epoch_is_fenced_before_anything_is_asked() -> None:
    """KAFKA-19690: INVALID_PRODUCER_EPOCH, which the client survives, before INVALID_TXN_STATE."""
    state = ProducerState()
    append(state, ask(state, epoch=3), epoch=3)
    end(state, epoch=3)
    with pytest.raises(InvalidProducerEpochError):
        state.guard_for(PRODUCER, 2, 0)
    with pytest.raises(InvalidProducerEpochError):
        append(state, None, epoch=2)


# --- markers and guards -----------------------------------------------------------------------------------------------


@pytest.mark.invariant("T11")
@pytest.mark.parametrize("marker", [COMMIT, ABORT])
def test_2_a_marker_between_the_answer_and_the_append_takes_the_guard(marker: EndMarker) -> None:
    """KAFKA-14402: a late batch would open a transaction that nobody ends, and hold the last stable offset."""
    state = ProducerState()
    guard = ask(state)
    end(state, marker)
    with pytest.raises(InvalidTxnStateError):
        append(state, guard)
    again = ask(state)
    assert again is not guard, "a new question is another guard: the old answer stays worthless"
    with pytest.raises(InvalidTxnStateError):
        append(state, guard)
    assert state.first_undecided_offset is None


@pytest.mark.invariant("T11")
def test_3_the_marker_of_the_transaction_before_leaves_the_guard_of_the_next() -> None:
    """KAFKA-18575: with version 2 the marker carries the epoch that the next transaction uses already."""
    state = ProducerState()
    append(state, ask(state, bumps=True))
    guard = ask(state, epoch=1, bumps=True)
    end(state, epoch=1, version=2)
    append(state, guard, epoch=1)
    assert state.first_undecided_offset == 2


@pytest.mark.invariant("T11")
@pytest.mark.parametrize(
    ("epoch", "version"),
    [pytest.param(1, 1, id="version 1"), pytest.param(2, 2, id="of a later transaction")],
)
def test_every_other_marker_takes_the_guard(epoch: int, version: int) -> None:
    state = ProducerState()
    guard = ask(state, epoch=1)
    end(state, epoch=epoch, version=version)
    with pytest.raises((InvalidTxnStateError, InvalidProducerEpochError)):
        append(state, guard, epoch=1)


def test_the_append_uses_the_guard_up() -> None:
    state = ProducerState()
    guard = ask(state)
    append(state, guard)
    end(state)
    with pytest.raises(InvalidTxnStateError):
        append(state, guard, sequence=1)


@pytest.mark.invariant("T11")
def test_a_new_leadership_begins_without_guards() -> None:
    state = ProducerState()
    guard = ask(state)
    state.drop_guards()
    with pytest.raises(InvalidTxnStateError):
        append(state, guard)


def test_guards_expire_like_producers_and_are_bounded() -> None:
    state = ProducerState(producers_max=2)
    for producer in range(3):
        state.guard_for(producer, 0, 0, now_ms=1000 * producer)
    kept = state.guard_for(2, 0, 0, now_ms=2000)
    assert state.guard_for(0, 0, 0, now_ms=2000) is not None
    state.expire(3000, 1000)
    assert state.guard_for(2, 0, 0, now_ms=3000) is not kept


@pytest.mark.invariant("T11")
def test_a_coordinators_batch_needs_the_guard_too() -> None:
    state = ProducerState()
    batch = header(0, producer_id=PRODUCER, sequence=-1, transactional=True)
    with pytest.raises(InvalidTxnStateError):
        state.check(batch, Origin.COORDINATOR)
    state.check(batch, Origin.COORDINATOR, state.guard_for(PRODUCER, 0))


# --- sequences --------------------------------------------------------------------------------------------------------


@pytest.mark.invariant("T1")
def test_a_later_batch_waits_for_the_earliest_that_was_asked_for() -> None:
    state = ProducerState()
    guard = ask(state, sequence=4)
    assert ask(state, sequence=0) is guard
    with pytest.raises(OutOfOrderSequenceNumberError):
        append(state, guard, sequence=4)
    append(state, guard, sequence=0)


@pytest.mark.invariant("T1")
def test_the_earliest_sequence_is_known_also_where_they_wrap() -> None:
    state = ProducerState()
    guard = ask(state, sequence=0)
    assert ask(state, sequence=TOP) is guard
    with pytest.raises(OutOfOrderSequenceNumberError):
        append(state, guard, sequence=0)
    append(state, guard, sequence=TOP)
    assert is_later(0, TOP)
    assert not is_later(TOP, 0)
    assert not is_later(5, 5)


@pytest.mark.invariant("T1")
def test_a_new_epoch_forgets_the_sequence_of_the_old_one() -> None:
    state = ProducerState()
    ask(state, sequence=4)
    guard = ask(state, epoch=1, sequence=9)
    assert (guard.epoch, guard.first_sequence) == (1, 9)
    ask(state, epoch=0, sequence=1)
    assert (guard.epoch, guard.first_sequence) == (1, 9), "an old epoch changes nothing"


@pytest.mark.invariant("T1")
def test_with_version_2_an_unknown_producer_begins_with_0() -> None:
    """KAFKA-18202; all others whose state is gone may begin anywhere."""
    state = ProducerState()
    with pytest.raises(OutOfOrderSequenceNumberError):
        append(state, ask(state, sequence=3, bumps=True), sequence=3)
    old = ProducerState()
    append(old, ask(old, sequence=3), sequence=3)


@pytest.mark.invariant("T5")
def test_11_a_sequence_reused_after_an_abort_is_stored() -> None:
    """With version 2 each transaction begins with sequence 0: what was aborted is never taken for the new batch."""
    state = ProducerState()
    append(state, ask(state, bumps=True))
    end(state, ABORT, epoch=1, version=2)
    again = first(state, epoch=1)
    assert state.duplicate_of(again) is None
    append(state, ask(state, epoch=1, bumps=True), epoch=1)
    assert state.entries[PRODUCER].last_data_offset == 2


# --- what a leader asks of a marker -----------------------------------------------------------------------------------


@pytest.mark.invariant("T8")
@pytest.mark.parametrize(
    ("known", "opened", "epoch", "version", "taken"),
    [
        pytest.param(3, True, 3, 0, True, id="v0 same epoch"),
        pytest.param(3, True, 4, 1, True, id="v1 fenced"),
        pytest.param(3, True, 2, 1, False, id="v1 old"),
        pytest.param(3, True, 4, 2, True, id="v2 raised"),
        pytest.param(3, True, 3, 2, False, id="v2 late"),
        pytest.param(3, True, 2, 2, False, id="v2 old"),
        pytest.param(3, False, 3, 2, True, id="v2 repeated, KAFKA-19999"),
        pytest.param(3, False, 2, 2, False, id="v2 repeated much later"),
        pytest.param(LAST_EPOCH, True, LAST_EPOCH, 2, True, id="v2 last epoch"),
        pytest.param(LAST_EPOCH, False, LAST_EPOCH, 2, True, id="v2 last epoch repeated"),
    ],
)
def test_the_epoch_of_a_marker(known: int, opened: bool, epoch: int, version: int, taken: bool) -> None:
    state = ProducerState()
    append(state, ask(state, epoch=known), epoch=known)
    if not opened:
        end(state, epoch=known)
    if taken:
        end(state, epoch=epoch, version=version)
        assert state.first_undecided_offset is None
    else:
        with pytest.raises(InvalidProducerEpochError):
            end(state, epoch=epoch, version=version)


@pytest.mark.invariant("T8")
@pytest.mark.parametrize("version", [0, 2])
def test_the_marker_of_an_old_coordinator_is_refused(version: int) -> None:
    state = ProducerState()
    end(state, EndMarker(True, 5), epoch=0)
    with pytest.raises(TransactionCoordinatorFencedError):
        end(state, EndMarker(True, 4), epoch=1, version=version)
    end(state, EndMarker(True, 5), epoch=1, version=version)


@pytest.mark.invariant("T8")
def test_7_a_marker_repeated_by_the_next_coordinator_is_taken_once_and_again() -> None:
    """KAFKA-19999: refused for ever it would never let the transaction complete."""
    state = ProducerState()
    append(state, ask(state, bumps=True))
    for coordinator in (3, 4, 4, 5):
        end(state, EndMarker(True, coordinator), epoch=1, version=2)
    assert state.entries[PRODUCER].coordinator_epoch == 5


# --- against an oracle ------------------------------------------------------------------------------------------------


@dataclass
class Oracle:
    """One partition as the rules tell it: a list of what was appended, and for each producer when its guard was
    taken. Nothing is remembered that could be read from the list."""

    log: list[tuple[str, int, int]] = field(default_factory=list)  # (data | commit | abort, producer, epoch)
    guards: dict[int, tuple[object, int]] = field(default_factory=dict)

    def epoch(self, producer: int) -> int:
        return max((e for _, p, e in self.log if p == producer), default=-1)

    def opened(self, producer: int) -> int | None:
        """The offset where the open transaction began."""
        begun = None
        for offset, (kind, who, _) in enumerate(self.log):
            if who == producer:
                begun = None if kind != "data" else offset if begun is None else begun
        return begun

    def aborted(self) -> list[tuple[int, int, int]]:
        """(producer, first offset, marker) of those with data."""
        found: list[tuple[int, int, int]] = []
        begun: dict[int, int] = {}
        for offset, (kind, who, _) in enumerate(self.log):
            if kind == "data":
                begun.setdefault(who, offset)
            elif who in begun:
                start = begun.pop(who)
                if kind == "abort":
                    found.append((who, start, offset))
        return found

    def first_unstable(self, high_watermark: int) -> int | None:
        begun: dict[int, int] = {}
        waiting = []
        for offset, (kind, who, _) in enumerate(self.log):
            if kind == "data":
                begun.setdefault(who, offset)
            elif who in begun:
                start = begun.pop(who)
                if offset >= high_watermark:
                    waiting.append(start)
        return min([*begun.values(), *waiting], default=None)


@pytest.mark.invariant("T8", "T9", "T11")
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_history_equals_the_oracle(data: st.DataObject) -> None:
    state, oracle = ProducerState(), Oracle()
    held: dict[int, tuple[Guard, object]] = {}
    aborted: list[tuple[int, int, int]] = []
    high_watermark = 0
    for _ in range(data.draw(st.integers(1, 40))):
        producer = data.draw(st.integers(0, 2))
        epoch = max(0, oracle.epoch(producer)) + data.draw(st.sampled_from([0, 0, 0, 1, -1]))
        if epoch < 0:
            continue
        step = data.draw(st.sampled_from(["ask", "ask", "data", "data", "commit", "abort", "hw", "replay"]))
        if step == "ask":
            _ask_both(state, oracle, held, producer, epoch)
        elif step == "data":
            batch = header(state.end_offset, producer_id=producer, epoch=epoch, sequence=-1, transactional=True)
            guard, token = held.get(producer, (None, None))
            allowed = epoch >= oracle.epoch(producer) and (
                (oracle.opened(producer) is not None and epoch == oracle.epoch(producer))
                or (token is not None and oracle.guards.get(producer, (None, 0))[0] is token)
            )
            assert _taken(state, batch, guard) is allowed
            if allowed:
                if oracle.opened(producer) is None:
                    oracle.guards.pop(producer, None)
                oracle.log.append(("data", producer, epoch))
        elif step in ("commit", "abort"):
            version = data.draw(st.sampled_from([1, 2]))
            aborted += _end_both(state, oracle, producer, epoch, step, version)
        elif step == "hw":
            high_watermark = data.draw(st.integers(high_watermark, state.end_offset))
            state.high_watermark_moved(high_watermark)
        else:
            state = _replayed(oracle, high_watermark)  # failover: the log is all the next leader has
            oracle.guards.clear()
        assert state.first_unstable_offset == oracle.first_unstable(high_watermark)
    assert aborted == oracle.aborted()


def _ask_both(
    state: ProducerState,
    oracle: Oracle,
    held: dict[int, tuple[Guard, object]],
    producer: int,
    epoch: int,
) -> None:
    try:
        guard = state.guard_for(producer, epoch)
    except InvalidProducerEpochError:
        assert epoch < oracle.epoch(producer)
        return
    if guard is None:
        assert oracle.opened(producer) is not None
        assert epoch == oracle.epoch(producer)
        return
    token, newest = oracle.guards.get(producer, (object(), epoch))
    oracle.guards[producer] = (token, max(newest, epoch))
    held[producer] = (guard, token)


def _end_both(
    state: ProducerState, oracle: Oracle, producer: int, epoch: int, how: str, version: int
) -> list[tuple[int, int, int]]:
    """The aborted transaction, if the marker ended one."""
    known = oracle.epoch(producer)
    late = version == 2 and epoch == known and oracle.opened(producer) is not None
    marker = EndMarker(how == "commit", 0)
    try:
        state.check_marker(producer, epoch, marker, transaction_version=version)
    except InvalidProducerEpochError:
        assert epoch < known or late
        return []
    assert epoch >= known
    assert not late
    kept = state.guard_over(producer, epoch, version)
    done = state.apply(marker_header(state.end_offset, producer_id=producer, epoch=epoch), marker)
    if kept is not None:
        state.keep(kept)
    if not (version == 2 and oracle.guards.get(producer, (None, -1))[1] == epoch):
        oracle.guards.pop(producer, None)
    oracle.log.append((how, producer, epoch))
    aborted = done is not None and done.aborted
    return [(done.producer_id, done.first_offset, done.last_offset)] if done is not None and aborted else []


def _taken(state: ProducerState, batch: BatchHeader, guard: Guard | None) -> bool:
    try:
        state.check(batch, Origin.COORDINATOR, guard)
    except KafkaError:
        return False
    state.apply(batch)
    return True


def _replayed(oracle: Oracle, high_watermark: int) -> ProducerState:
    state = ProducerState()
    for offset, (kind, producer, epoch) in enumerate(oracle.log):
        if kind == "data":
            state.apply(header(offset, producer_id=producer, epoch=epoch, transactional=True))
        else:
            marker = EndMarker(kind == "commit", 0)
            state.apply(marker_header(offset, producer_id=producer, epoch=epoch), marker)
    state.high_watermark_moved(high_watermark)
    return state


@pytest.mark.parametrize("version", [1, 2])
def test_1_a_copy_of_a_marker_arrives_in_the_next_transaction(version: int) -> None:
    """The rules before version 2 cannot tell it from the marker of that transaction, and end it."""
    state = ProducerState()
    bump = 1 if version >= 2 else 0
    append(state, ask(state, bumps=version >= 2))
    end(state, epoch=bump, version=version)
    append(state, ask(state, epoch=bump, sequence=1 - bump, bumps=version >= 2), epoch=bump, sequence=1 - bump)
    if version >= 2:
        with pytest.raises(InvalidProducerEpochError):
            end(state, epoch=bump, version=version)
    else:
        end(state, epoch=bump, version=version)
    assert state.is_open(PRODUCER, bump) is (version >= 2)
