"""The transaction index: its bytes, its checks, and the aborted transactions of a range."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.broker.log.producer_state import ProducerState
from rookery.broker.log.transaction_index import (
    ENTRY_BYTES,
    AbortedTxn,
    TransactionIndexCorruptError,
    collect,
    decode,
    encode,
)
from rookery.core.wire.markers import EndMarker
from tests.unit.broker.log.headers import header, marker_header


def test_entries_have_kafkas_layout() -> None:
    data = encode([AbortedTxn(7, 10, 20, 15)])
    assert len(data) == ENTRY_BYTES == 34
    assert data.hex() == "0000" + f"{7:016x}" + f"{10:016x}" + f"{20:016x}" + f"{15:016x}"
    assert decode(data, 0) == [AbortedTxn(7, 10, 20, 15)]


@pytest.mark.parametrize(
    "data",
    [
        encode([AbortedTxn(7, 10, 20, 15)])[:-1],
        b"\x00\x01" + encode([AbortedTxn(7, 10, 20, 15)])[2:],
        encode([AbortedTxn(7, 10, 20, 15), AbortedTxn(8, 10, 20, 15)]),
        encode([AbortedTxn(7, 10, 4, 15)]),
        encode([AbortedTxn(7, 21, 20, 15)]),
    ],
    ids=["torn", "version", "order", "before the segment", "inverted"],
)
def test_damage_is_noticed(data: bytes) -> None:
    with pytest.raises(TransactionIndexCorruptError):
        decode(data, 5)


def test_the_search_goes_on_until_nothing_can_reach_back() -> None:
    first, second, third = AbortedTxn(1, 0, 5, 2), AbortedTxn(2, 2, 9, 10), AbortedTxn(3, 4, 20, 21)
    assert collect([[first], [second], [third]], 0, 10) == [first, second]
    assert collect([[first, second, third]], 0, 11) == [first, second, third]
    assert collect([[first], [second]], 6, 10) == [second]


class Counted(list[AbortedTxn]):
    """Counts the entries that were looked at."""

    looked_at = 0

    def __iter__(self) -> Iterator[AbortedTxn]:
        for at in range(len(self)):
            yield self[at]

    def __getitem__(self, at: Any) -> Any:
        self.looked_at += 1
        return super().__getitem__(at)


def test_a_reader_at_the_end_does_not_look_at_all_that_was_aborted_before() -> None:
    index = Counted(AbortedTxn(1, 2 * n, 2 * n + 1, 2 * n + 2) for n in range(10_000))
    assert collect([index], 19_990, 20_000) == index[-5:]
    assert index.looked_at < 50


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["data", "commit", "abort"])), max_size=40),
    st.data(),
)
def test_a_range_gets_exactly_its_aborted_transactions(
    steps: list[tuple[int, str]], data: st.DataObject
) -> None:
    state = ProducerState()
    segments: dict[int, list[AbortedTxn]] = {0: []}
    by_hand: list[tuple[int, list[int], int]] = []  # producer, its data offsets, marker
    pending: dict[int, list[int]] = {}
    for offset, (producer, what) in enumerate(steps):
        if offset and data.draw(st.integers(0, 4)) == 0:
            segments[offset] = []
        if what == "data":
            state.apply(header(offset, producer_id=producer, transactional=True))
            pending.setdefault(producer, []).append(offset)
            continue
        done = state.apply(marker_header(offset, producer_id=producer), EndMarker(what == "commit", 0))
        offsets = pending.pop(producer, [])
        if done is not None and done.aborted:
            entry = AbortedTxn(done.producer_id, done.first_offset, done.last_offset, done.last_stable_offset)
            segments[max(segments)].append(entry)
            by_hand.append((producer, offsets, offset))
    start = data.draw(st.integers(0, len(steps)))
    stable = state.first_unstable_offset
    end = data.draw(st.integers(start, max(start, len(steps) if stable is None else stable)))
    first_segment = max(base for base in segments if base <= start)
    found = collect((segments[base] for base in sorted(segments) if base >= first_segment), start, end)
    needed = {
        (producer, marker) for producer, offsets, marker in by_hand if any(start <= o < end for o in offsets)
    }
    assert needed <= {(entry.producer_id, entry.last_offset) for entry in found}
    aborted = {(producer, marker): offsets for producer, offsets, marker in by_hand}
    for entry in found:  # none that touches nothing of the range
        offsets = aborted[entry.producer_id, entry.last_offset]
        assert offsets[0] == entry.first_offset < end
        assert entry.last_offset >= start
