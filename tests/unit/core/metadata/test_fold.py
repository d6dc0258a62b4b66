"""State = fold(log), for random histories: however they are cut, and from wherever a node starts."""

from collections.abc import Sequence
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.core.metadata import records as r
from rookery.core.metadata.codec import encode
from rookery.core.metadata.delta import Delta
from rookery.core.metadata.fold import Fold
from rookery.core.metadata.image import EMPTY, Image
from rookery.core.metadata.snapshot import snapshot, state_hash
from rookery.core.metadata_log import CommittedBatch, SnapshotId
from tests.unit.core.metadata.histories import history

SEEDS = st.integers(min_value=0, max_value=2**32)


def batches(records: Sequence[r.Record], cuts: Sequence[int]) -> list[CommittedBatch]:
    """The records as batches that end at `cuts`."""
    ends = sorted({cut for cut in cuts if 0 < cut < len(records)} | {len(records)})
    starts = [0, *ends[:-1]]
    return [
        CommittedBatch(start, 1, tuple(encode(record) for record in records[start:end]), 0)
        for start, end in zip(starts, ends, strict=True)
        if end > start
    ]


def folded(records: Sequence[r.Record], cuts: Sequence[int] = ()) -> Image:
    fold = Fold()
    for batch in batches(records, cuts):
        fold.on_commit(batch)
    return fold.image


CUTS = st.lists(st.integers(min_value=0, max_value=40), max_size=10)


@pytest.mark.invariant("M1")
@settings(deadline=None)
@given(seed=SEEDS, cuts=CUTS)
def test_the_state_does_not_depend_on_how_the_log_was_cut(seed: int, cuts: list[int]) -> None:
    records = history(seed)
    one, other = folded(records), folded(records, cuts)
    assert one == other
    assert state_hash(one) == state_hash(other)


@pytest.mark.invariant("M1")
@settings(deadline=None)
@given(seed=SEEDS, cut=st.integers(min_value=0, max_value=40))
def test_snapshot_and_tail_give_what_full_replay_gives(seed: int, cut: int) -> None:
    records = history(seed)
    cut = min(cut, len(records))
    early = folded(records[:cut])
    fold = Fold()
    fold.on_snapshot(SnapshotId(cut, 1), [encode(record) for record in snapshot(early)])
    assert state_hash(fold.image) == state_hash(early)
    for batch in batches(records, [cut]):
        fold.on_commit(batch)  # what the snapshot holds is passed over
    full = folded(records)
    assert state_hash(fold.image) == state_hash(full)
    if records[cut:]:
        assert fold.image == full


@pytest.mark.invariant("M12")
@settings(deadline=None)
@given(seed=SEEDS, behind=st.integers(min_value=0, max_value=40))
def test_a_snapshot_arrives_as_the_difference_from_what_was_known(seed: int, behind: int) -> None:
    """One code path: applying the reported differences leads from the old view to the new one."""
    records = history(seed)
    old, new = folded(records[:behind]), folded(records)
    delta = Delta.from_snapshot(old)
    for record in snapshot(new):
        delta.replay(record, new.offset)
    changes = delta.apply(offset=new.offset, epoch=new.epoch)
    assert changes.after == new
    before = {(topic.id, index): partition for topic, index, partition in old.partitions()}
    for change in changes.partitions:
        key = (change.topic_id, change.partition)
        assert before.get(key) == change.before
        if change.after is None:
            del before[key]
        else:
            before[key] = change.after
    assert before == {(topic.id, index): partition for topic, index, partition in new.partitions()}
    known = (set(old.topics) | {t.id for t in changes.topics_created}) - {t.id for t in changes.topics_removed}
    assert known == set(new.topics)
    assert set(changes.brokers) == {
        i for i in {*old.brokers, *new.brokers} if old.brokers.get(i) != new.brokers.get(i)
    }


@pytest.mark.invariant("M12")
def test_a_view_only_moves_forward() -> None:
    records = [r.TopicRecord("a", UUID(int=1)), r.TopicRecord("b", UUID(int=2))]
    fold = Fold()
    for batch in batches(records, [1]):
        fold.on_commit(batch)
    newest = fold.image
    assert fold.on_commit(batches(records, [1])[0]) is None
    assert fold.on_snapshot(SnapshotId(1, 1), [encode(records[0])]) is None
    assert fold.image is newest


@settings(deadline=None)
@given(one=SEEDS, other=SEEDS)
def test_different_states_have_different_hashes(one: int, other: int) -> None:
    first, second = folded(history(one)), folded(history(other))
    same = list(snapshot(first)) == list(snapshot(second))
    assert (state_hash(first) == state_hash(second)) == same


def test_the_empty_state_has_a_hash() -> None:
    assert state_hash(EMPTY) == state_hash(Image(offset=9, epoch=3))
