"""Replay: what records do to an image, what stays shared, and what is reported."""

from uuid import UUID

import pytest

from rookery.core.metadata import records as r
from rookery.core.metadata.delta import Delta, ReplayError
from rookery.core.metadata.image import EMPTY, Changes, Image, LeaderRecoveryState, ResourceType

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
