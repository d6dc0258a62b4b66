"""The topics' share of a delta. Changes are gathered per topic: it is rebuilt once, however many come."""

from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

from immutables import Map, MapMutation

from rookery.core.metadata import records as r
from rookery.core.metadata.changes import PartitionChange
from rookery.core.metadata.image import Image, LeaderRecoveryState, Partition, Topic, metric_name
from rookery.core.metadata.values import ReplayError, without

Topics = Map[UUID, Topic]


class _Draft:
    """A topic that is being changed."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.partitions: MapMutation[int, Partition] = topic.partitions.mutate()

    def finish(self) -> Topic:
        return replace(self.topic, partitions=self.partitions.finish())


class TopicsDelta:
    """Changes to topics and partitions on top of `image`."""

    def __init__(self, image: Image) -> None:
        self._base = image.topics
        self.ids = image.topic_ids
        self.metric_names = image.metric_names
        self._drafts: dict[UUID, _Draft | None] = {}  # None: removed
        self._touched: dict[UUID, set[int]] = {}

    def add(self, record: r.TopicRecord) -> None:
        known = record.topic_id in self._base or record.topic_id in self._drafts
        if known or record.name in self.ids:
            raise ReplayError(f"topic {record.name!r} ({record.topic_id}) exists")
        self.ids = self.ids.set(record.name, record.topic_id)
        self.metric_names = self.metric_names.set(metric_name(record.name), record.name)
        self._drafts[record.topic_id] = _Draft(Topic(record.name, record.topic_id))

    def remove(self, record: r.RemoveTopicRecord) -> str:
        """The name of the topic that is gone."""
        draft = self._draft(record.topic_id)
        self.touch(record.topic_id, draft.topic.partitions)
        self.ids = self.ids.delete(draft.topic.name)
        self.metric_names = without(self.metric_names, draft.topic.metric_name)
        self._drafts[record.topic_id] = None
        return draft.topic.name

    def add_partition(self, record: r.PartitionRecord) -> None:
        partitions = self._draft(record.topic_id).partitions
        if record.partition in partitions:
            raise ReplayError(f"partition {record.partition} of topic {record.topic_id} exists")
        partitions[record.partition] = Partition(
            replicas=record.replicas,
            isr=_shared(record.isr, record.replicas),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            directories=record.directories,
            leader_recovery_state=LeaderRecoveryState(record.leader_recovery_state),
            removing_replicas=record.removing_replicas,
            adding_replicas=record.adding_replicas,
            elr=record.elr,
            last_known_elr=record.last_known_elr,
        )
        self.touch(record.topic_id, (record.partition,))

    def change_partition(self, record: r.PartitionChangeRecord) -> None:
        partitions = self._draft(record.topic_id).partitions
        old = partitions.get(record.partition)
        if old is None:
            raise ReplayError(f"topic {record.topic_id} has no partition {record.partition}")
        partitions[record.partition] = changed(old, record)
        self.touch(record.topic_id, (record.partition,))

    def touch(self, topic_id: UUID, partitions: "tuple[int, ...] | Map[int, Partition]") -> None:
        touched = self._touched.get(topic_id)
        if touched is None:
            touched = self._touched[topic_id] = set()
        touched.update(partitions)

    def finish(self) -> Topics:
        if not self._drafts:
            return self._base
        topics = self._base.mutate()
        for topic_id, draft in self._drafts.items():
            if draft is not None:
                topics[topic_id] = draft.finish()
            elif topic_id in topics:
                del topics[topic_id]
        return topics.finish()

    def topics_touched(self) -> Iterator[UUID]:
        yield from self._drafts
        yield from (topic_id for topic_id in self._touched if topic_id not in self._drafts)

    def partition_changes(self, before: Topics, after: Topics) -> list[PartitionChange]:
        """The partitions that differ, sorted; what came and went in between is not mentioned."""
        changes = []
        for topic_id, touched in self._touched.items():
            old, new = before.get(topic_id), after.get(topic_id)
            topic = new or old
            if topic is None:
                continue
            for index in touched:
                was = None if old is None else old.partitions.get(index)
                now = None if new is None else new.partitions.get(index)
                if was != now:
                    changes.append(PartitionChange(topic.name, topic_id, index, was, now))
        changes.sort(key=lambda change: (change.topic, change.topic_id, change.partition))
        return changes

    def _draft(self, topic_id: UUID) -> _Draft:
        draft = self._drafts.get(topic_id)
        if draft is None:
            topic = None if topic_id in self._drafts else self._base.get(topic_id)
            if topic is None:
                raise ReplayError(f"there is no topic with id {topic_id}")
            draft = self._drafts[topic_id] = _Draft(topic)
        return draft


def changed(old: Partition, record: r.PartitionChangeRecord) -> Partition:
    """`old` after `record`: the partition epoch rises always, the leader epoch when a leader is named."""
    replicas = old.replicas if record.replicas is None else record.replicas
    isr = old.isr if record.isr is None else record.isr
    recovery = record.leader_recovery_state
    removing, adding = record.removing_replicas, record.adding_replicas
    elr, last = record.elr, record.last_known_elr
    return Partition(
        replicas,
        replicas if isr == replicas else isr,
        old.leader if record.leader is None else record.leader,
        old.leader_epoch + (record.leader is not None),
        old.partition_epoch + 1,
        old.directories_of(replicas) if record.directories is None else record.directories,
        old.leader_recovery_state if recovery is None else LeaderRecoveryState(recovery),
        old.removing_replicas if removing is None else removing,
        old.adding_replicas if adding is None else adding,
        old.elr if elr is None else elr,
        old.last_known_elr if last is None else last,
    )


def _shared(value: tuple[int, ...], like: tuple[int, ...]) -> tuple[int, ...]:
    """`like` itself where it is equal: most partitions have all replicas in sync, so this saves memory."""
    return like if value == like else value
