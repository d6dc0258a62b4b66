"""From one image to the next: replay records, then apply.

    delta = Delta(image)
    for offset, record in enumerate(records, base_offset):
        delta.replay(record, offset)
    changes = delta.apply(epoch=epoch)
    image = changes.after

Replay is the only way state changes, on the active controller, on its followers, on brokers and in recovery.
A snapshot goes the same way: `Delta.from_snapshot(image)` replays it onto nothing and reports the difference
from the image held so far. Records that contradict the state raise `ReplayError`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar
from uuid import UUID

from immutables import Map, MapMutation

from rookery.core.metadata import records as r
from rookery.core.metadata.codec import decode
from rookery.core.metadata.features import RELEASE, Release
from rookery.core.metadata.image import (
    EMPTY,
    AccessControlEntry,
    BrokerRegistration,
    Changes,
    ConfigResource,
    Image,
    LeaderRecoveryState,
    Partition,
    PartitionChange,
    ResourceType,
    ScramCredential,
    Topic,
    metric_name,
)
from rookery.core.metadata_log import CommittedBatch, SnapshotId

K = TypeVar("K")
V = TypeVar("V")


class ReplayError(Exception):
    """A record cannot follow the state before it: a bug, or a damaged log."""


def either(value: V | None, otherwise: V) -> V:
    return otherwise if value is None else value


def with_value(values: Map[K, V], key: K, value: V | None) -> Map[K, V]:
    """`values` with `key` set, or without it where the value is None."""
    return without(values, key) if value is None else values.set(key, value)


def without(values: Map[K, V], key: K) -> Map[K, V]:
    return values.delete(key) if key in values else values


def nested(values: Map[K, Map[str, V]], outer: K, inner: str, value: V | None) -> Map[K, Map[str, V]]:
    """`values` with one inner value set or removed; an outer key without inner values goes too."""
    empty: Map[str, V] = Map()
    changed = with_value(values.get(outer, empty), inner, value)
    return with_value(values, outer, changed or None)


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


class Delta:
    """Records on their way into the next image. Belongs to one task; use it once."""

    def __init__(self, image: Image, *, onto: Image | None = None) -> None:
        self._before = image
        self._base = base = image if onto is None else onto
        self._topics = TopicsDelta(base)
        self._brokers = base.brokers
        self._configs = base.configs
        self._features = base.features
        self._next_producer_id = base.next_producer_id
        self._acls = base.acls
        self._quotas = base.quotas
        self._credentials = base.credentials
        self._touched_brokers: set[int] = set()
        self._touched_configs: set[ConfigResource] = set()
        self._touched_acls: set[UUID] = set()
        self._offset = base.offset

    @classmethod
    def from_snapshot(cls, image: Image) -> "Delta":
        """Replays a whole state; the changes are reported against `image`."""
        return cls(image, onto=EMPTY)

    def replay(self, record: r.Record, offset: int) -> None:
        """Fold in `record`, which stands at `offset`."""
        replay = self._REPLAY.get(type(record))
        self._offset = offset
        try:
            if replay is None:
                raise ReplayError("nothing replays it")
            replay(self, record)
        except ReplayError as error:
            raise ReplayError(f"offset {offset}, {type(record).__name__}: {error}") from error

    def apply(self, *, offset: int | None = None, epoch: int | None = None) -> Changes:
        """The next image and what is different in it. `offset` is given where it is not that of the last
        record replayed: for a snapshot, or when the log moved on without records."""
        after = Image(
            offset=either(offset, self._offset),
            epoch=either(epoch, self._base.epoch),
            brokers=self._brokers,
            topics=self._topics.finish(),
            topic_ids=self._topics.ids,
            metric_names=self._topics.metric_names,
            configs=self._configs,
            features=self._features,
            next_producer_id=self._next_producer_id,
            acls=self._acls,
            quotas=self._quotas,
            credentials=self._credentials,
        )
        if self._base is not self._before:
            self._touch_all_before()
        return self._changes(after)

    def _touch_all_before(self) -> None:
        for topic in self._before.topics.values():
            self._topics.touch(topic.id, topic.partitions)
        self._touched_brokers.update(self._before.brokers)
        self._touched_configs.update(self._before.configs)
        self._touched_acls.update(self._before.acls)

    def _changes(self, after: Image) -> Changes:
        before = self._before
        ids = tuple(self._topics.topics_touched())
        created = [after.topics[i] for i in ids if i in after.topics and i not in before.topics]
        removed = [before.topics[i] for i in ids if i in before.topics and i not in after.topics]
        brokers = [i for i in self._touched_brokers if before.brokers.get(i) != after.brokers.get(i)]
        configs = [c for c in self._touched_configs if before.configs.get(c) != after.configs.get(c)]
        acls = [i for i in self._touched_acls if before.acls.get(i) != after.acls.get(i)]
        return Changes(
            before=before,
            after=after,
            brokers=tuple(sorted(brokers)),
            topics_created=tuple(sorted(created, key=lambda topic: topic.name)),
            topics_removed=tuple(sorted(removed, key=lambda topic: topic.name)),
            partitions=tuple(self._topics.partition_changes(before.topics, after.topics)),
            configs=tuple(sorted(configs)),
            acls=tuple(sorted(acls)),
        )

    # -- one method per record

    def _no_op(self, record: r.NoOpRecord) -> None:
        """Nothing but the offset moves."""

    def _register_broker(self, record: r.RegisterBrokerRecord) -> None:
        epoch = self._offset if record.broker_epoch == r.OFFSET_IS_EPOCH else record.broker_epoch
        broker = BrokerRegistration(
            id=record.broker_id,
            epoch=epoch,
            incarnation_id=record.incarnation_id,
            endpoints=record.endpoints,
            rack=record.rack,
            features=record.features,
            directories=record.log_dirs,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
        )
        self._set_broker(broker)

    def _unregister_broker(self, record: r.UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id, record.broker_epoch)
        self._brokers = self._brokers.delete(record.broker_id)
        self._touched_brokers.add(record.broker_id)

    def _change_broker(self, record: r.BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        changed = replace(
            broker,
            fenced=either(record.fenced, broker.fenced),
            in_controlled_shutdown=either(record.in_controlled_shutdown, broker.in_controlled_shutdown),
            directories=either(record.log_dirs, broker.directories),
        )
        self._set_broker(changed)

    def _broker(self, broker_id: int, epoch: int) -> BrokerRegistration:
        broker = self._brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            raise ReplayError(f"broker {broker_id} with epoch {epoch} is not registered")
        return broker

    def _set_broker(self, broker: BrokerRegistration) -> None:
        self._brokers = self._brokers.set(broker.id, broker)
        self._touched_brokers.add(broker.id)

    def _topic(self, record: r.TopicRecord) -> None:
        self._topics.add(record)

    def _remove_topic(self, record: r.RemoveTopicRecord) -> None:
        name = self._topics.remove(record)
        resource = ConfigResource(ResourceType.TOPIC, name)
        self._configs = without(self._configs, resource)
        self._touched_configs.add(resource)

    def _partition(self, record: r.PartitionRecord) -> None:
        self._topics.add_partition(record)

    def _change_partition(self, record: r.PartitionChangeRecord) -> None:
        self._topics.change_partition(record)

    def _config(self, record: r.ConfigRecord) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        self._configs = nested(self._configs, resource, record.name, record.value)
        self._touched_configs.add(resource)

    def _producer_ids(self, record: r.ProducerIdsRecord) -> None:
        if record.next_producer_id < self._next_producer_id:
            raise ReplayError(f"producer ids from {record.next_producer_id} on were given away before")
        self._next_producer_id = record.next_producer_id

    def _feature_level(self, record: r.FeatureLevelRecord) -> None:
        self._features = with_value(self._features, record.name, record.level or None)

    def _add_acl(self, record: r.AccessControlEntryRecord) -> None:
        entry = AccessControlEntry(
            resource_type=record.resource_type,
            resource_name=record.resource_name,
            pattern_type=record.pattern_type,
            principal=record.principal,
            host=record.host,
            operation=record.operation,
            permission_type=record.permission_type,
        )
        self._acls = self._acls.set(record.id, entry)
        self._touched_acls.add(record.id)

    def _remove_acl(self, record: r.RemoveAccessControlEntryRecord) -> None:
        self._acls = without(self._acls, record.id)
        self._touched_acls.add(record.id)

    def _quota(self, record: r.ClientQuotaRecord) -> None:
        self._quotas = nested(self._quotas, record.entity, record.key, record.value)

    def _add_credential(self, record: r.UserScramCredentialRecord) -> None:
        credential = ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)
        self._credentials = self._credentials.set((record.name, record.mechanism), credential)

    def _remove_credential(self, record: r.RemoveUserScramCredentialRecord) -> None:
        self._credentials = without(self._credentials, (record.name, record.mechanism))

    _REPLAY: ClassVar[dict[type[r.Record], Callable[["Delta", Any], None]]] = {
        r.NoOpRecord: _no_op,
        r.RegisterBrokerRecord: _register_broker,
        r.UnregisterBrokerRecord: _unregister_broker,
        r.BrokerRegistrationChangeRecord: _change_broker,
        r.TopicRecord: _topic,
        r.PartitionRecord: _partition,
        r.PartitionChangeRecord: _change_partition,
        r.RemoveTopicRecord: _remove_topic,
        r.ConfigRecord: _config,
        r.ProducerIdsRecord: _producer_ids,
        r.FeatureLevelRecord: _feature_level,
        r.AccessControlEntryRecord: _add_acl,
        r.RemoveAccessControlEntryRecord: _remove_acl,
        r.ClientQuotaRecord: _quota,
        r.UserScramCredentialRecord: _add_credential,
        r.RemoveUserScramCredentialRecord: _remove_credential,
    }


class LatestImage:
    """Holds the newest image and moves only forward: what it contains already is skipped. Raises RecordError or
    UnsupportedLevelError where the cluster has moved on to what `release` does not understand."""

    def __init__(self, image: Image = EMPTY, release: Release = RELEASE) -> None:
        self.image = image
        self._release = release

    def on_commit(self, batch: CommittedBatch) -> Changes | None:
        """What `batch` changed; None where the image holds it already."""
        if batch.last_offset <= self.image.offset:
            return None
        delta = Delta(self.image)
        for offset, value in enumerate(batch.values, batch.base_offset):
            if offset > self.image.offset:
                delta.replay(decode(value, self._release), offset)
        return self.move(delta.apply(offset=batch.last_offset, epoch=batch.epoch))

    def on_snapshot(self, snapshot: SnapshotId, values: Sequence[bytes]) -> Changes | None:
        """What is different in the snapshot; None where the image is as new."""
        if snapshot.end_offset - 1 <= self.image.offset:
            return None
        delta = Delta.from_snapshot(self.image)
        for value in values:
            delta.replay(decode(value, self._release), snapshot.end_offset - 1)
        return self.move(delta.apply(offset=snapshot.end_offset - 1, epoch=snapshot.epoch))

    def move(self, changes: Changes) -> Changes:
        """Take over what was replayed already; it must start from the image held."""
        if changes.before is not self.image:
            raise ReplayError(f"changes to {changes.before.offset} do not follow {self.image.offset}")
        if changes.after.features != self.image.features:
            self._release.check_understood(changes.after)
        self.image = changes.after
        return changes
