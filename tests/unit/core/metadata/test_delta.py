"""Replay: what records do to an image, what stays shared, and what is reported."""

from collections.abc import Sequence
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.core.metadata import records as r
from rookery.core.metadata.codec import encode
from rookery.core.metadata.delta import Delta, LatestImage, ReplayError
from rookery.core.metadata.image import EMPTY, Changes, Image, LeaderRecoveryState, ResourceType
from rookery.core.metadata.snapshot import snapshot, state_hash
from rookery.core.metadata_log import CommittedBatch, SnapshotId
from tests.unit.core.metadata.histories import history

T1, T2, D1, D2 = (UUID(int=number) for number in (11, 12, 21, 22))


def apply(image: Image, *records: r.Record, first: int | None = None) -> Changes:
    delta = Delta(image)
    for offset, record in enumerate(records, image.offset + 1 if first is None else first):
        delta.replay(record, offset)
    return delta.apply(epoch=1)


def cluster() -> Image:
    return apply(
        EMPTY,
        r.RegisterBrokerRecord(1, UUID(int=1), fenced=False),
        r.TopicRecord("a", T1),
        r.PartitionRecord(T1, 0, (1, 2), (1, 2), leader=1),
        r.PartitionRecord(T1, 1, (2, 1), (2, 1), leader=2),
        r.TopicRecord("b", T2),
        r.PartitionRecord(T2, 0, (1,), (1,), leader=1),
        r.ConfigRecord(ResourceType.TOPIC, "a", "retention.ms", "5"),
    ).after


@pytest.mark.invariant("M7")
def test_the_broker_epoch_is_the_offset_of_the_registration() -> None:
    image = apply(EMPTY, r.NoOpRecord(), r.RegisterBrokerRecord(7, UUID(int=7)), first=40).after
    assert image.brokers[7].epoch == 41
    again = apply(image, r.RegisterBrokerRecord(7, UUID(int=8)), first=90).after
    assert again.brokers[7].epoch == 90


@pytest.mark.invariant("M3")
def test_every_change_raises_the_partition_epoch_and_a_named_leader_the_leader_epoch() -> None:
    image = apply(cluster(), r.PartitionChangeRecord(T1, 0, isr=(1,))).after
    assert image.topics[T1].partitions[0].partition_epoch == 1
    assert image.topics[T1].partitions[0].leader_epoch == 0
    image = apply(image, r.PartitionChangeRecord(T1, 0, leader=1, leader_recovery_state=1)).after
    partition = image.topics[T1].partitions[0]
    assert (partition.partition_epoch, partition.leader_epoch, partition.isr) == (2, 1, (1,))
    assert partition.leader_recovery_state is LeaderRecoveryState.RECOVERING


def test_a_change_copies_its_own_path_and_shares_the_rest() -> None:
    before = cluster()
    after = apply(before, r.PartitionChangeRecord(T1, 0, isr=(1,))).after
    assert after.topics[T2] is before.topics[T2]
    assert after.topics[T1].partitions[1] is before.topics[T1].partitions[1]
    assert after.brokers is before.brokers
    assert after.configs is before.configs
    assert before.topics[T1].partitions[0].isr == (1, 2)


def test_changes_name_what_is_different_and_nothing_else() -> None:
    changes = apply(
        cluster(),
        r.PartitionChangeRecord(T1, 1, isr=(2,)),
        r.PartitionChangeRecord(T1, 0, leader=2),
        r.BrokerRegistrationChangeRecord(1, 0, fenced=True),
        r.ConfigRecord(ResourceType.BROKER, "", "x", "1"),
    )
    assert [(change.topic, change.partition) for change in changes.partitions] == [("a", 0), ("a", 1)]
    assert [change.leader_changed for change in changes.partitions] == [True, False]
    assert changes.brokers == (1,)
    assert [resource.name for resource in changes.configs] == [""]
    assert changes.topics_created == changes.topics_removed == ()


def test_what_is_changed_and_changed_back_is_no_change() -> None:
    changes = apply(
        cluster(),
        r.BrokerRegistrationChangeRecord(1, 0, fenced=True),
        r.BrokerRegistrationChangeRecord(1, 0, fenced=False),
        r.TopicRecord("c", UUID(int=13)),
        r.PartitionRecord(UUID(int=13), 0, (1,), (1,), leader=1),
        r.RemoveTopicRecord(UUID(int=13)),
    )
    assert (changes.brokers, changes.partitions, changes.topics_created) == ((), (), ())


@pytest.mark.invariant("M12")
def test_a_topic_deleted_and_created_anew_is_another_topic() -> None:
    new = UUID(int=99)
    changes = apply(
        cluster(),
        r.RemoveTopicRecord(T1),
        r.TopicRecord("a", new),
        r.PartitionRecord(new, 0, (1, 2), (1, 2), leader=1),
    )
    assert [topic.id for topic in changes.topics_removed] == [T1]
    assert [topic.id for topic in changes.topics_created] == [new]
    gone = [change for change in changes.partitions if change.after is None]
    assert [(change.topic_id, change.partition) for change in gone] == [(T1, 0), (T1, 1)]
    assert not changes.after.topic_config("a")
    assert changes.after.topic_ids["a"] == new


def test_directories_follow_their_replicas() -> None:
    image = apply(cluster(), r.PartitionChangeRecord(T1, 0, directories=(D1, D2))).after
    image = apply(image, r.PartitionChangeRecord(T1, 0, replicas=(3, 2))).after
    partition = image.topics[T1].partitions[0]
    assert partition.directory(2) == D2
    assert partition.directories == (UUID(int=0), D2)


@pytest.mark.parametrize(
    "record",
    [
        r.PartitionChangeRecord(T1, 9, isr=(1,)),
        r.PartitionChangeRecord(UUID(int=98), 0, isr=(1,)),
        r.PartitionRecord(T1, 0, (1,), (1,), leader=1),
        r.TopicRecord("a", UUID(int=97)),
        r.TopicRecord("z", T1),
        r.RemoveTopicRecord(UUID(int=98)),
        r.BrokerRegistrationChangeRecord(1, 77, fenced=True),
        r.UnregisterBrokerRecord(5, 0),
        r.Record(),
    ],
)
def test_a_record_that_cannot_follow_stops_replay_and_says_where(record: r.Record) -> None:
    with pytest.raises(ReplayError, match=rf"offset 50, {type(record).__name__}"):
        apply(cluster(), record, first=50)


@pytest.mark.invariant("M11")
def test_producer_ids_never_go_back() -> None:
    image = apply(EMPTY, r.ProducerIdsRecord(1, 1, 2000)).after
    with pytest.raises(ReplayError, match="given away before"):
        apply(image, r.ProducerIdsRecord(1, 1, 1999))


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
    fold = LatestImage()
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
    fold = LatestImage()
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
    fold = LatestImage()
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
