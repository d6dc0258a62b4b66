"""The group coordinator of a broker: its shards, and how a request reaches one of them."""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from random import Random
from uuid import UUID

from rookery.broker.coordination.commit_queue import CommitQueue
from rookery.broker.coordination.shard import ProducerTransaction, instant
from rookery.broker.coordination.shards import Shards
from rookery.broker.coordination.step import Receiver
from rookery.broker.groups.consumer.target import TopicInfo
from rookery.broker.groups.deleting import drop_stale, drop_topics, expire
from rookery.broker.groups.group_state import ConsumerOptions
from rookery.broker.groups.records import GroupsRecord, decode
from rookery.broker.groups.settings import consumer_options, group_options, offsets_topic
from rookery.broker.groups.shard import GroupShard
from rookery.broker.groups.state import GroupsState
from rookery.broker.groups.step import Instant, Step
from rookery.broker.handlers.ports import ClusterPort
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.partitions import Partitions
from rookery.broker.replication.waiters import Waiters
from rookery.core.clock import Clock, Scheduler, Timer
from rookery.core.config import node
from rookery.core.config.options import Settings
from rookery.core.errors import InvalidGroupIdError, KafkaError, NotCoordinatorError, UnsupportedVersionError
from rookery.core.metadata.features import GROUP_VERSION
from rookery.core.metadata.image import Changes, ResourceType
from rookery.core.metadata.topic_names import is_internal
from rookery.core.metrics import Metrics
from rookery.core.service import Service

EXPIRY_PORTION = 100
"""Groups looked through for expired offsets before others get their turn."""

Decide = Callable[[GroupsState, Instant], Step]


class ClusterTopics:
    """The topics of the image, as targets need them."""

    def __init__(self, cluster: ClusterPort) -> None:
        self._cluster = cluster

    def topic(self, name: str) -> TopicInfo | None:
        known = self._cluster.image.topic(name)
        return None if known is None else TopicInfo(known.id, len(known.partitions))

    def name_of(self, topic_id: UUID) -> str | None:
        known = self._cluster.image.topics.get(topic_id)
        return None if known is None else known.name

    def names(self) -> Iterable[str]:
        """Patterns never match internal topics."""
        return [name for name in self._cluster.image.topic_ids if not is_internal(name)]


class GroupCoordinator(Service):
    name = "group coordinator"

    def __init__(
        self,
        settings: Settings,
        cluster: ClusterPort,
        partitions: Partitions,
        waiters: Waiters[Partition],
        clock: Clock,
        scheduler: Scheduler,
        random: Random,
        executor: Executor,
    ) -> None:
        self.topic = offsets_topic(settings)
        self._settings = settings
        self._options = group_options(settings)
        self._consumer_options: dict[str, ConsumerOptions] = {}
        self.rebalances = 0
        """How often the epoch of a group of the consumer protocol rose while this broker coordinated it."""
        self._commit_timeout_s = settings[node.OFFSETS_COMMIT_TIMEOUT_MS] / 1000
        self._expiry_interval_s = settings[node.OFFSETS_RETENTION_CHECK_INTERVAL_MS] / 1000
        self._codec = settings[node.OFFSETS_TOPIC_COMPRESSION_CODEC]
        self._cluster = cluster
        self._waiters = waiters
        self._clock = clock
        self._scheduler = scheduler
        self._random = random
        self._shards: Shards[GroupsRecord, GroupShard] = Shards(
            self, cluster, partitions, clock, executor, slice_bytes=settings[node.OFFSETS_LOAD_BUFFER_SIZE]
        )

    # --- requests ---------------------------------------------------------------------------------------------

    def run(self, group_id: str, reply: Receiver, decide: Decide, *, named: bool = False) -> None:
        """Decide a request about one group and carry it out; `reply` gets the answer, or the reason why there is
        none. With `named` the group must have a name."""
        try:
            if named and not group_id:
                raise InvalidGroupIdError("the group id is empty")
            shard = self.shard_of(group_id)
            step = decide(shard.groups, self.now())
        except KafkaError as error:
            reply.refuse(error)
            return
        shard.run_for(group_id, step)

    def run_within(
        self, group_id: str, shard: GroupShard, within: ProducerTransaction, reply: Receiver, decide: Decide
    ) -> None:
        """Decide a request whose records are part of a transaction, in the shard for which it was verified."""
        try:
            if self.shard_of(group_id) is not shard:
                raise NotCoordinatorError(f"{group_id!r} was loaded again while its transaction was verified")
            step = decide(shard.groups, self.now())
        except KafkaError as error:
            reply.refuse(error)
            return
        shard.run_for(group_id, step, within)

    def shard_at(self, index: int) -> GroupShard:
        """The shard of one partition. Raises where it is not led here, or not loaded yet."""
        return self._shards.shard_at(index)

    def shard_of(self, group_id: str) -> GroupShard:
        """Raises where this broker does not coordinate the group, or not yet."""
        return self._shards.shard_of(group_id)

    @property
    def shards(self) -> list[GroupShard]:
        """Those that serve now."""
        return list(self._shards)

    @property
    def loading(self) -> bool:
        """Whether some of this broker's shards do not serve yet."""
        return self._shards.loading

    @property
    def times_loaded(self) -> int:
        return self._shards.loaded

    def topic_id_of(self, topic: str, partition: int) -> UUID | None:
        """The id of the topic that has this partition; None where there is no such partition."""
        known = self._cluster.image.topic(topic)
        return known.id if known is not None and partition in known.partitions else None

    def check_consumer_protocol(self) -> None:
        """Raises while the cluster has not agreed on serving groups of the consumer protocol."""
        if self._cluster.image.features.get(GROUP_VERSION, 0) < 1:
            raise UnsupportedVersionError(
                f"the consumer protocol needs {GROUP_VERSION} 1: raise it with kafka-features upgrade --feature "
                f"{GROUP_VERSION}=1, or let clients set group.protocol=classic"
            )

    def topic_name_of(self, topic_id: UUID) -> str:
        """The name of the topic with this id; empty where there is none."""
        known = self._cluster.image.topics.get(topic_id)
        return "" if known is None else known.name

    def now(self) -> Instant:
        return instant(self._clock)

    def call_later(self, delay_s: float, then: Callable[[], None]) -> Timer:
        return self._scheduler.call_later(delay_s, then)

    def publish_metrics(self, metrics: Metrics, prefix: str) -> None:
        self._shards.publish_metrics(metrics, prefix)

    # --- the metadata log -------------------------------------------------------------------------------------

    def publish(self, changes: Changes) -> None:
        """Lead what the image says, forget what it forgot."""
        self._shards.follow(changes.after)
        gone = {topic.name for topic in changes.topics_removed}
        if gone:
            for shard in self.shards:
                shard.run_for_each(lambda group: drop_topics(group, gone.__contains__))
        changed = gone | {topic.name for topic in changes.topics_created}
        changed |= {each.topic for each in changes.partitions if each.before is None}
        if changed:
            for shard in self.shards:
                shard.groups.topics_changed(changed)
        if changes.acls:
            for shard in self.shards:
                shard.groups.rights_changed()
        for resource in changes.configs:
            if resource.type == ResourceType.GROUP:
                self._consumer_options.pop(resource.name, None)

    def consumer_options(self, group_id: str) -> ConsumerOptions:
        """The settings of a group of the consumer protocol; kept for groups that have options of their own."""
        given = self._cluster.image.config(ResourceType.GROUP, group_id)
        if not given:
            return self._options.consumer
        known = self._consumer_options.get(group_id)
        if known is None:
            known = self._consumer_options[group_id] = consumer_options(self._settings, given)
        return known

    # --- what makes these shards those of groups --------------------------------------------------------------

    def decode(self, key: bytes | None, value: bytes | None) -> GroupsRecord | None:
        return decode(key, value)

    def shard(self, partition: Partition, epoch: int) -> GroupShard:
        return GroupShard(
            partition,
            epoch,
            GroupsState(self._options, self._new_id, ClusterTopics(self._cluster), self.consumer_options),
            CommitQueue(self._waiters, partition, self._commit_timeout_s, self._scheduler.time),
            self._clock,
            self._scheduler,
            codec=self._codec,
            on_lost=self._shards.lost,
            on_rebalances=self._count_rebalances,
        )

    def _count_rebalances(self, count: int) -> None:
        self.rebalances += count

    def _new_id(self) -> str:
        return str(UUID(int=self._random.getrandbits(128), version=4))

    def activated(self, shard: GroupShard) -> None:
        """A topic may have been deleted while no coordinator was active."""
        shard.arm_all()
        shard.run_for_each(lambda group: drop_stale(group, self.topic_id_of))

    # --- the service ------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._shards.serve(), name=self._shards.name)
            group.create_task(self._expire_offsets(), name="offset expiry")

    async def stop(self) -> None:
        await self._shards.stop()

    async def _expire_offsets(self) -> None:
        while True:
            await asyncio.sleep(self._expiry_interval_s)
            for shard in self.shards:
                await self.expire_in(shard)

    async def expire_in(self, shard: GroupShard) -> None:
        """Drop what has expired in one shard, and what could not be dropped when its topic was, in portions."""
        for number, group_id in enumerate(list(shard.groups.groups)):
            group = shard.groups.groups.get(group_id)
            if group is not None and not shard.closed:
                step = expire(shard.groups, group, self.now(), self.topic_id_of)
                if step.records:
                    shard.run_for(group_id, step)
            if number % EXPIRY_PORTION == EXPIRY_PORTION - 1:
                await asyncio.sleep(0)

