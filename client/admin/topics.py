"""Topics, partitions, records and replicas."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from rookery.client.admin.calls import Calls
from rookery.client.admin.plain import NewTopic
from rookery.client.admin.types import (
    ListedOffset,
    LogDirDescription,
    PartitionDescription,
    Reassignment,
    RecordDescription,
    ReplicaSize,
    TopicDescription,
)
from rookery.client.types import TopicPartition
from rookery.core.errors import ElectionNotNeededError, KafkaError, UnknownTopicOrPartitionError, error_for
from rookery.core.net.cluster import Node, TopicView, check
from rookery.core.wire.apis.alter_partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from rookery.core.wire.apis.create_partitions import (
    CREATE_PARTITIONS,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from rookery.core.wire.apis.create_topics import (
    CREATE_TOPICS,
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from rookery.core.wire.apis.delete_records import (
    DELETE_RECORDS,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from rookery.core.wire.apis.delete_topics import DELETE_TOPICS, DeleteTopicsRequest, DeleteTopicState
from rookery.core.wire.apis.describe_log_dirs import (
    DESCRIBE_LOG_DIRS,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from rookery.core.wire.apis.elect_leaders import ELECT_LEADERS, ElectLeadersRequest, TopicPartitions
from rookery.core.wire.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from rookery.core.wire.apis.list_partition_reassignments import (
    LIST_PARTITION_REASSIGNMENTS,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from rookery.core.wire.primitives import NO_UUID

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
PREFERRED = 0
UNCLEAN = 1
MAX_TIMESTAMP_VERSION = 7
CLIENT_REPLICA = -1


def by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in places:
        topics[topic].append(partition)
    return topics


class TopicCalls(Calls):
    async def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        config: Mapping[str, str] | None = None,
        *,
        assignment: Mapping[int, Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Create a topic; -1 leaves a number to the cluster. `assignment` maps partition to replicas."""
        await self.create_topics(
            [NewTopic(name, partitions, replication_factor, config, assignment)], validate_only=validate_only
        )

    async def create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> None:
        """Create topics; raises the first refusal after all were tried."""
        wanted = [
            CreatableTopic(
                name=topic.name,
                num_partitions=-1 if topic.assignment else topic.partitions,
                replication_factor=-1 if topic.assignment else topic.replication_factor,
                assignments=[
                    CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
                    for index, replicas in (topic.assignment or {}).items()
                ],
                configs=[
                    CreatableTopicConfig(name=key, value=str(value))
                    for key, value in (topic.configs or {}).items()
                ],
            )
            for topic in topics
        ]
        request = CreateTopicsRequest(topics=wanted, timeout_ms=self._timeout_ms, validate_only=validate_only)

        async def attempt() -> None:
            for result in (await self._cluster.ask_any(CREATE_TOPICS, request)).topics:
                check(result.error_code, f"topic {result.name!r}", result.error_message)

        await self._retrying(attempt)

    async def delete_topic(self, name: str) -> None:
        await self.delete_topics([name])

    async def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics; raises the first refusal after all were tried."""
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name, topic_id=NO_UUID) for name in names],
            topic_names=list(names),
            timeout_ms=self._timeout_ms,
        )

        async def attempt() -> None:
            for result in (await self._cluster.ask_any(DELETE_TOPICS, request)).responses:
                check(result.error_code, f"topic {result.name!r}", result.error_message)

        await self._retrying(attempt)
        for name in names:
            self._cluster.forget(name)

    async def create_partitions(
        self,
        name: str,
        total: int,
        *,
        assignment: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Grow a topic to `total` partitions; `assignment` has the replicas of each new one."""
        new = (
            None
            if assignment is None
            else [CreatePartitionsAssignment(broker_ids=list(each)) for each in assignment]
        )
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=total, assignments=new)],
            timeout_ms=self._timeout_ms,
            validate_only=validate_only,
        )

        async def attempt() -> None:
            for result in (await self._cluster.ask_any(CREATE_PARTITIONS, request)).results:
                check(result.error_code, f"topic {name!r}", result.error_message)

        await self._retrying(attempt)
        self._cluster.forget(name)

    async def list_topics(self, *, internal: bool = False) -> list[str]:
        """Names of the topics, in order."""

        async def attempt() -> Mapping[str, TopicView]:
            return (await self._cluster.refresh(None)).topics

        topics = await self._retrying(attempt)
        return sorted(name for name, topic in topics.items() if internal or not topic.internal)

    async def describe_topic(self, name: str) -> TopicDescription:
        return (await self.describe_topics([name]))[name]

    async def describe_topics(self, names: Sequence[str]) -> dict[str, TopicDescription]:
        """Topics with their partitions; raises for one that does not exist."""

        async def attempt() -> dict[str, TopicDescription]:
            view = await self._cluster.refresh(names)
            for name in names:
                if name in view.errors:
                    raise error_for(view.errors[name], f"topic {name!r}")
            missing = [name for name in names if name not in view.topics]
            if missing:
                raise UnknownTopicOrPartitionError(f"topic {missing[0]!r}")
            return {name: _described(view.topics[name]) for name in names}

        return await self._retrying(attempt)

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records below an offset (-1: all); returns the first offset of each partition afterwards."""

        async def ask(node: Node, topics: dict[str, list[int]]) -> dict[TopicPartition, int]:
            request = DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=topic,
                        partitions=[
                            DeleteRecordsPartition(
                                partition_index=index, offset=before[TopicPartition(topic, index)]
                            )
                            for index in indexes
                        ],
                    )
                    for topic, indexes in topics.items()
                ],
                timeout_ms=self._timeout_ms,
            )
            found: dict[TopicPartition, int] = {}
            for topic in (await self._cluster.ask(node, DELETE_RECORDS, request)).topics:
                for each in topic.partitions:
                    check(each.error_code, f"{topic.name}-{each.partition_index}")
                    found[TopicPartition(topic.name, each.partition_index)] = each.low_watermark
            return found

        return await self._by_leader(before, ask)

    async def list_offsets(
        self, times: Mapping[TopicPartition, int | str], *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset]:
        """The offset at a time (ms), or at "earliest", "latest" or "max_timestamp"; -1 where no record is that new."""
        words = {"latest": LATEST, "earliest": EARLIEST, "max_timestamp": MAX_TIMESTAMP}
        wanted = {TopicPartition(*place): words[t] if isinstance(t, str) else t for place, t in times.items()}

        async def ask(node: Node, topics: dict[str, list[int]]) -> dict[TopicPartition, ListedOffset]:
            request = ListOffsetsRequest(
                replica_id=CLIENT_REPLICA,
                isolation_level=int(read_committed),
                topics=[
                    ListOffsetsTopic(
                        name=topic,
                        partitions=[
                            ListOffsetsPartition(
                                partition_index=index, timestamp=wanted[TopicPartition(topic, index)]
                            )
                            for index in indexes
                        ],
                    )
                    for topic, indexes in topics.items()
                ],
            )
            found: dict[TopicPartition, ListedOffset] = {}
            answer = await self._cluster.ask(node, LIST_OFFSETS, request, at_most=MAX_TIMESTAMP_VERSION)
            for topic in answer.topics:
                for each in topic.partitions:
                    check(each.error_code, f"{topic.name}-{each.partition_index}")
                    place = TopicPartition(topic.name, each.partition_index)
                    found[place] = ListedOffset(each.offset, each.timestamp, each.leader_epoch)
            return found

        return await self._by_leader(wanted, ask)

    async def timestamp_at(self, place: TopicPartition, offset: int) -> int:
        """The time (ms) of the first record at or after an offset; -1 if there is none."""
        from rookery.client.admin.records import timestamp_at

        return await self._retrying(lambda: timestamp_at(self._cluster, place, offset))

    async def describe_record(self, place: TopicPartition, offset: int) -> RecordDescription | None:
        """The record at an offset; None if there is none any more (compaction), or none yet that is committed."""
        from rookery.client.admin.records import record_at

        return await self._retrying(lambda: record_at(self._cluster, place, offset))

    async def alter_reassignments(self, replicas: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Give partitions other replicas; None cancels what is under way."""
        topics: dict[str, list[ReassignablePartition]] = defaultdict(list)
        for (topic, partition), nodes in replicas.items():
            wanted = None if nodes is None else list(nodes)
            topics[topic].append(ReassignablePartition(partition_index=partition, replicas=wanted))
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=self._timeout_ms,
            topics=[ReassignableTopic(name=name, partitions=each) for name, each in topics.items()],
        )
        for result in (await self._ask_any(ALTER_PARTITION_REASSIGNMENTS, request)).responses:
            for each in result.partitions:
                check(each.error_code, f"{result.name}-{each.partition_index}", each.error_message)

    async def list_reassignments(
        self, places: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Changes of replicas under way."""
        wanted = None
        if places is not None:
            wanted = [
                ListPartitionReassignmentsTopics(name=name, partition_indexes=each)
                for name, each in by_topic(places).items()
            ]
        request = ListPartitionReassignmentsRequest(timeout_ms=self._timeout_ms, topics=wanted)
        return {
            TopicPartition(topic.name, each.partition_index): Reassignment(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in (await self._ask_any(LIST_PARTITION_REASSIGNMENTS, request)).topics
            for each in topic.partitions
        }

    async def elect_leaders(
        self, places: Iterable[TopicPartition] | None = None, *, unclean: bool = False
    ) -> dict[TopicPartition, KafkaError | None]:
        """Make the first replica the leader, or with `unclean` any that is alive. Without partitions: all of them.
        The outcome of each; ELECTION_NOT_NEEDED counts as success."""
        wanted = None
        if places is not None:
            wanted = [TopicPartitions(topic=name, partitions=each) for name, each in by_topic(places).items()]
        request = ElectLeadersRequest(
            election_type=UNCLEAN if unclean else PREFERRED,
            topic_partitions=wanted,
            timeout_ms=self._timeout_ms,
        )
        outcomes: dict[TopicPartition, KafkaError | None] = {}
        for topic in (await self._ask_any(ELECT_LEADERS, request)).replica_election_results:
            for each in topic.partition_result:
                fine = each.error_code in (0, ElectionNotNeededError.code)
                error = None if fine else error_for(each.error_code, each.error_message)
                outcomes[TopicPartition(topic.topic, each.partition_id)] = error
        return outcomes

    async def describe_log_dirs(
        self, brokers: Iterable[int] | None = None, topics: Iterable[TopicPartition] | None = None
    ) -> dict[int, list[LogDirDescription]]:
        """The folders of each broker, with the size of each replica there."""
        wanted = None
        if topics is not None:
            wanted = [
                DescribableLogDirTopic(topic=name, partitions=each) for name, each in by_topic(topics).items()
            ]
        request = DescribeLogDirsRequest(topics=wanted)
        nodes = await self._nodes() if brokers is None else list(brokers)
        return {node: _log_dirs(await self._ask_node(node, DESCRIBE_LOG_DIRS, request)) for node in nodes}


def _described(view: TopicView) -> TopicDescription:
    partitions = [
        PartitionDescription(
            each.index, each.leader, each.leader_epoch, each.replicas, each.isr, each.offline
        )
        for _, each in sorted(view.partitions.items())
    ]
    return TopicDescription(view.name, view.id, view.internal, partitions)


def _log_dirs(answer: DescribeLogDirsResponse) -> list[LogDirDescription]:
    return [
        LogDirDescription(
            folder.log_dir,
            folder.total_bytes,
            folder.usable_bytes,
            {
                TopicPartition(topic.name, each.partition_index): ReplicaSize(
                    each.partition_size, each.offset_lag, each.is_future_key
                )
                for topic in folder.topics
                for each in topic.partitions
            },
            error_for(folder.error_code) if folder.error_code else None,
        )
        for folder in answer.results
    ]
