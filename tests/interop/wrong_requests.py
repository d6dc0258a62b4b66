"""Requests that cannot be served as they are, and the error that Kafka's clients know for each.

They are asked of one node, 1, which has the topic `there` with two partitions and one record in the first.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

from rookery.core.errors import ErrorCode as E
from rookery.core.wire.api import Api
from rookery.core.wire.apis import alter_partition_reassignments as reassign
from rookery.core.wire.apis import create_partitions as grow
from rookery.core.wire.apis import create_topics as create
from rookery.core.wire.apis import (
    delete_groups,
    delete_records,
    delete_topics,
    describe_configs,
    describe_groups,
    describe_producers,
    describe_quorum,
    describe_user_scram_credentials,
    elect_leaders,
    fetch,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_config_resources,
    list_offsets,
    list_partition_reassignments,
    offset_commit,
    offset_delete,
    produce,
    sync_group,
    unregister_broker,
)
from rookery.core.wire.apis import describe_topic_partitions as pages
from rookery.core.wire.apis import incremental_alter_configs as configs
from rookery.core.wire.apis import offset_for_leader_epoch as epochs
from rookery.core.wire.records import Record, build_batch

THERE = "there"
TOPIC, BROKER = 2, 4
SET, APPEND = 0, 2
WAIT_MS = 10_000


class Case(NamedTuple):
    name: str
    api: Api[Any, Any]
    version: int
    request: Any
    error: E


def cases() -> Iterator[Case]:
    yield from _creations()
    yield from _changes_of_topics()
    yield from _records()
    yield from _offsets()
    yield from _options()
    yield from _replicas()
    yield from _groups()


# --- topics ---------------------------------------------------------------------------------------------------


def _topic(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> create.CreatableTopic:
    given = more.pop("assignment", {})
    assignments = [create.CreatableReplicaAssignment(partition_index=p, broker_ids=b) for p, b in given.items()]
    options = [create.CreatableTopicConfig(name=n.replace("_", "."), value=v) for n, v in more.items()]
    return create.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replicas, assignments=assignments, configs=options
    )


def _creations() -> Iterator[Case]:
    wrong = {
        "no name": (_topic(""), E.INVALID_TOPIC_EXCEPTION),
        "a slash": (_topic("a/b"), E.INVALID_TOPIC_EXCEPTION),
        "a dot alone": (_topic("."), E.INVALID_TOPIC_EXCEPTION),
        "a long name": (_topic("x" * 250), E.INVALID_TOPIC_EXCEPTION),
        "a taken name": (_topic(THERE), E.TOPIC_ALREADY_EXISTS),
        "no partitions": (_topic("new", 0), E.INVALID_PARTITIONS),
        "no replicas": (_topic("new", 1, 0), E.INVALID_REPLICATION_FACTOR),
        "more replicas than brokers": (_topic("new", 1, 7), E.INVALID_REPLICATION_FACTOR),
        "an unknown option": (_topic("new", no_such="1"), E.INVALID_CONFIG),
        "a wrong value": (_topic("new", retention_ms="soon"), E.INVALID_CONFIG),
        "a null value": (_topic("new", retention_ms=None), E.INVALID_CONFIG),
        "an unknown broker": (_topic("new", -1, -1, assignment={0: [9]}), E.INVALID_REPLICA_ASSIGNMENT),
        "a broker twice": (_topic("new", -1, -1, assignment={0: [1, 1]}), E.INVALID_REPLICA_ASSIGNMENT),
        "a missing partition": (_topic("new", -1, -1, assignment={1: [1]}), E.INVALID_REPLICA_ASSIGNMENT),
        "a count beside an assignment": (_topic("new", 1, -1, assignment={0: [1]}), E.INVALID_REQUEST),
    }
    for name, (topic, error) in wrong.items():
        request = create.CreateTopicsRequest(topics=[topic], timeout_ms=WAIT_MS)
        yield Case(f"create, {name}", create.CREATE_TOPICS, 7, request, error)
    twice = create.CreateTopicsRequest(topics=[_topic("new"), _topic("new")], timeout_ms=WAIT_MS)
    yield Case("create, twice in a request", create.CREATE_TOPICS, 7, twice, E.INVALID_REQUEST)
    asked = create.CreateTopicsRequest(topics=[_topic("new")], timeout_ms=WAIT_MS, validate_only=True)
    yield Case("create, only to see", create.CREATE_TOPICS, 7, asked, E.NONE)


def _changes_of_topics() -> Iterator[Case]:
    for name, count, nodes, error in (
        ("there", 2, None, E.INVALID_PARTITIONS),
        ("there", 1, None, E.INVALID_PARTITIONS),
        ("nowhere", 3, None, E.UNKNOWN_TOPIC_OR_PARTITION),
        ("there", 3, [[9]], E.INVALID_REPLICA_ASSIGNMENT),
        ("there", 3, [[1], [1]], E.INVALID_REPLICA_ASSIGNMENT),
    ):
        assignments = None if nodes is None else [grow.CreatePartitionsAssignment(broker_ids=each) for each in nodes]
        topic = grow.CreatePartitionsTopic(name=name, count=count, assignments=assignments)
        request = grow.CreatePartitionsRequest(topics=[topic], timeout_ms=WAIT_MS, validate_only=False)
        yield Case(f"grow {name} to {count} on {nodes}", grow.CREATE_PARTITIONS, 3, request, error)
    by_name = delete_topics.DeleteTopicState(name="nowhere", topic_id=UUID(int=0))
    by_id = delete_topics.DeleteTopicState(name=None, topic_id=UUID(int=99))
    for deleted, error in ((by_name, E.UNKNOWN_TOPIC_OR_PARTITION), (by_id, E.UNKNOWN_TOPIC_ID)):
        gone = delete_topics.DeleteTopicsRequest(topics=[deleted], timeout_ms=WAIT_MS)
        yield Case(f"delete, {error.name}", delete_topics.DELETE_TOPICS, 6, gone, error)
    for name, error in (("nowhere", E.UNKNOWN_TOPIC_OR_PARTITION), ("a/b", E.INVALID_TOPIC_EXCEPTION)):
        look = pages.DescribeTopicPartitionsRequest(topics=[pages.TopicRequest(name=name)])
        yield Case(f"describe {name}", pages.DESCRIBE_TOPIC_PARTITIONS, 0, look, error)


# --- records --------------------------------------------------------------------------------------------------


def _batch(size: int = 1, **options: Any) -> bytearray:
    return build_batch([Record(0, 1_700_000_000_000, b"k", b"v" * size)], **options)


def _broken() -> bytearray:
    batch = _batch()
    batch[-1] ^= 1
    return batch


def _records() -> Iterator[Case]:
    for name, topic, acks, batch, error in (
        ("an unknown topic", "nowhere", 1, _batch(), E.UNKNOWN_TOPIC_OR_PARTITION),
        ("acks of 5", THERE, 5, _batch(), E.INVALID_REQUIRED_ACKS),
        ("a wrong checksum", THERE, 1, _broken(), E.CORRUPT_MESSAGE),
        ("two batches", THERE, 1, _batch() + _batch(), E.INVALID_RECORD),
        ("too large a batch", THERE, 1, _batch(2_000_000), E.MESSAGE_TOO_LARGE),
    ):
        data = produce.PartitionProduceData(index=1, records=bytes(batch))
        topics = [produce.TopicProduceData(name=topic, partition_data=[data])]
        request = produce.ProduceRequest(acks=acks, timeout_ms=WAIT_MS, topic_data=topics)
        yield Case(f"produce, {name}", produce.PRODUCE, 9, request, error)
    yield from _fetches()
    for topic, offset, error in (
        ("nowhere", 0, E.UNKNOWN_TOPIC_OR_PARTITION),
        (THERE, 99, E.OFFSET_OUT_OF_RANGE),
        (THERE, -2, E.OFFSET_OUT_OF_RANGE),
    ):
        partition = delete_records.DeleteRecordsPartition(partition_index=0, offset=offset)
        asked = [delete_records.DeleteRecordsTopic(name=topic, partitions=[partition])]
        gone = delete_records.DeleteRecordsRequest(topics=asked, timeout_ms=WAIT_MS)
        yield Case(f"delete records of {topic} up to {offset}", delete_records.DELETE_RECORDS, 2, gone, error)


def _fetches() -> Iterator[Case]:
    for name, topic, index, offset, epoch, error in (
        ("an unknown topic", "nowhere", 0, 0, -1, E.UNKNOWN_TOPIC_OR_PARTITION),
        ("an unknown partition", THERE, 9, 0, -1, E.UNKNOWN_TOPIC_OR_PARTITION),
        ("behind the end", THERE, 0, 99, -1, E.OFFSET_OUT_OF_RANGE),
        ("before the start", THERE, 0, -5, -1, E.OFFSET_OUT_OF_RANGE),
        ("an epoch to come", THERE, 0, 0, 99, E.UNKNOWN_LEADER_EPOCH),
    ):
        place = fetch.FetchPartition(
            partition=index, fetch_offset=offset, current_leader_epoch=epoch, partition_max_bytes=1000
        )
        yield Case(f"fetch, {name}", fetch.FETCH, 12, _fetch(fetch.FetchTopic(topic=topic, partitions=[place])), error)
    place = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    by_id = fetch.FetchTopic(topic_id=UUID(int=99), partitions=[place])
    yield Case("fetch, an unknown id", fetch.FETCH, 13, _fetch(by_id), E.UNKNOWN_TOPIC_ID)
    no_session = _fetch(session_id=99, session_epoch=5)
    yield Case("fetch, an unknown session", fetch.FETCH, 12, no_session, E.FETCH_SESSION_ID_NOT_FOUND)


def _fetch(*topics: fetch.FetchTopic, session_id: int = 0, session_epoch: int = -1) -> fetch.FetchRequest:
    return fetch.FetchRequest(
        max_wait_ms=0, min_bytes=1, topics=topics, forgotten_topics_data=(),
        session_id=session_id, session_epoch=session_epoch,
    )  # fmt: skip


def _offsets() -> Iterator[Case]:
    for name, topic, timestamp, epoch, error in (
        ("an unknown topic", "nowhere", -1, -1, E.UNKNOWN_TOPIC_OR_PARTITION),
        ("an epoch to come", THERE, -1, 99, E.UNKNOWN_LEADER_EPOCH),
        ("an unknown kind of time", THERE, -20, -1, E.UNSUPPORTED_VERSION),
    ):
        place = list_offsets.ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=timestamp)
        topics = [list_offsets.ListOffsetsTopic(name=topic, partitions=[place])]
        request = list_offsets.ListOffsetsRequest(replica_id=-1, topics=topics)
        yield Case(f"list offsets, {name}", list_offsets.LIST_OFFSETS, 7, request, error)
    for topic, epoch, error in (
        ("nowhere", -1, E.UNKNOWN_TOPIC_OR_PARTITION), (THERE, 99, E.UNKNOWN_LEADER_EPOCH), (THERE, -1, E.NONE)
    ):  # fmt: skip
        asked = epochs.OffsetForLeaderPartition(partition=0, current_leader_epoch=epoch, leader_epoch=99)
        ends = [epochs.OffsetForLeaderTopic(topic=topic, partitions=[asked])]
        end = epochs.OffsetForLeaderEpochRequest(replica_id=-1, topics=ends)
        yield Case(f"end of an epoch, {topic}, {epoch}", epochs.OFFSET_FOR_LEADER_EPOCH, 4, end, error)


# --- options --------------------------------------------------------------------------------------------------


def _options() -> Iterator[Case]:
    for kind, name, error in (
        (TOPIC, "nowhere", E.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", E.INVALID_TOPIC_EXCEPTION),
        (BROKER, "9", E.INVALID_REQUEST),
        (BROKER, "x", E.INVALID_REQUEST),
    ):
        asked = describe_configs.DescribeConfigsResource(resource_type=kind, resource_name=name)
        look = describe_configs.DescribeConfigsRequest(resources=[asked])
        yield Case(f"options of {name}", describe_configs.DESCRIBE_CONFIGS, 4, look, error)
    for kind, name, option, value, how, error in (
        (TOPIC, THERE, "retention.ms", "soon", SET, E.INVALID_CONFIG),
        (TOPIC, THERE, "no.such", "1", SET, E.INVALID_CONFIG),
        (TOPIC, THERE, "retention.ms", "1", APPEND, E.INVALID_CONFIG),
        (TOPIC, THERE, "retention.ms", None, SET, E.INVALID_REQUEST),
        (TOPIC, "nowhere", "retention.ms", "1", SET, E.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "1", "log.dirs", "/elsewhere", SET, E.INVALID_REQUEST),
        (BROKER, "1", "message.max.bytes", "many", SET, E.INVALID_REQUEST),
        (BROKER, "x", "message.max.bytes", "9", SET, E.INVALID_REQUEST),
    ):
        change = configs.AlterableConfig(name=option, config_operation=how, value=value)
        of = configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
        request = configs.IncrementalAlterConfigsRequest(resources=[of], validate_only=False)
        case = f"set {option} of {name} to {value} by {how}"
        yield Case(case, configs.INCREMENTAL_ALTER_CONFIGS, 1, request, error)
    for types, error in (([TOPIC, BROKER], E.NONE), ([TOPIC, 99], E.UNSUPPORTED_VERSION)):
        names = list_config_resources.ListConfigResourcesRequest(resource_types=types)
        yield Case(f"names of types {types}", list_config_resources.LIST_CONFIG_RESOURCES, 1, names, error)
    for users, error in (((), E.NONE), (["ann"], E.RESOURCE_NOT_FOUND), (["ann", "ann"], E.DUPLICATE_RESOURCE)):
        named = [describe_user_scram_credentials.UserName(name=user) for user in users]
        whose = describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=named)
        api = describe_user_scram_credentials.DESCRIBE_USER_SCRAM_CREDENTIALS
        yield Case(f"credentials of {users}", api, 0, whose, error)


# --- replicas -------------------------------------------------------------------------------------------------


def _replicas() -> Iterator[Case]:
    for topic, error in (("nowhere", E.UNKNOWN_TOPIC_OR_PARTITION), (THERE, E.ELECTION_NOT_NEEDED)):
        places = [elect_leaders.TopicPartitions(topic=topic, partitions=[0])]
        election = elect_leaders.ElectLeadersRequest(topic_partitions=places, timeout_ms=WAIT_MS)
        yield Case(f"elect a leader of {topic}", elect_leaders.ELECT_LEADERS, 2, election, error)
    for topic, nodes, error in (
        ("nowhere", [1], E.UNKNOWN_TOPIC_OR_PARTITION),
        (THERE, None, E.NO_REASSIGNMENT_IN_PROGRESS),
        (THERE, [], E.INVALID_REPLICA_ASSIGNMENT),
        (THERE, [9], E.INVALID_REPLICA_ASSIGNMENT),
        (THERE, [1, 1], E.INVALID_REPLICA_ASSIGNMENT),
    ):
        place = reassign.ReassignablePartition(partition_index=0, replicas=nodes)
        move = reassign.AlterPartitionReassignmentsRequest(
            topics=[reassign.ReassignableTopic(name=topic, partitions=[place])], timeout_ms=WAIT_MS
        )
        yield Case(f"move {topic} to {nodes}", reassign.ALTER_PARTITION_REASSIGNMENTS, 0, move, error)
    writers = [describe_producers.TopicRequest(name="nowhere", partition_indexes=[0])]
    look = describe_producers.DescribeProducersRequest(topics=writers)
    yield Case("producers", describe_producers.DESCRIBE_PRODUCERS, 0, look, E.UNKNOWN_TOPIC_OR_PARTITION)
    other = describe_quorum.TopicData(topic_name=THERE, partitions=[describe_quorum.PartitionData(partition_index=0)])
    quorum = describe_quorum.DescribeQuorumRequest(topics=[other])
    yield Case("quorum of a topic", describe_quorum.DESCRIBE_QUORUM, 2, quorum, E.UNKNOWN_TOPIC_OR_PARTITION)
    moves = list_partition_reassignments.ListPartitionReassignmentsRequest(timeout_ms=0, topics=None)
    list_moves = list_partition_reassignments.LIST_PARTITION_REASSIGNMENTS
    yield Case("moves, without time", list_moves, 0, moves, E.NONE)
    forget = unregister_broker.UnregisterBrokerRequest(broker_id=77)
    yield Case("forget no broker", unregister_broker.UNREGISTER_BROKER, 0, forget, E.BROKER_ID_NOT_REGISTERED)


# --- groups ---------------------------------------------------------------------------------------------------


def _groups() -> Iterator[Case]:
    find = find_coordinator.FindCoordinatorRequest(key_type=9, coordinator_keys=["g"])
    yield Case("find, an unknown kind", find_coordinator.FIND_COORDINATOR, 4, find, E.INVALID_REQUEST)
    for group, session, error in (("", 10_000, E.INVALID_GROUP_ID), ("g", 1, E.INVALID_SESSION_TIMEOUT)):
        strategy = join_group.JoinGroupRequestProtocol(name="range", metadata=b"")
        join = join_group.JoinGroupRequest(
            group_id=group, session_timeout_ms=session, rebalance_timeout_ms=10_000, member_id="",
            protocol_type="consumer", protocols=[strategy],
        )  # fmt: skip
        yield Case(f"join {group!r} for {session} ms", join_group.JOIN_GROUP, 5, join, error)
    beat = heartbeat.HeartbeatRequest(group_id="unknown", generation_id=1, member_id="m")
    yield Case("heartbeat of nobody", heartbeat.HEARTBEAT, 4, beat, E.UNKNOWN_MEMBER_ID)
    member = leave_group.MemberIdentity(member_id="m")
    leave = leave_group.LeaveGroupRequest(group_id="unknown", members=[member])
    yield Case("leave of nobody", leave_group.LEAVE_GROUP, 4, leave, E.UNKNOWN_MEMBER_ID)
    sync = sync_group.SyncGroupRequest(group_id="unknown", generation_id=1, member_id="m", assignments=())
    yield Case("sync of nobody", sync_group.SYNC_GROUP, 3, sync, E.UNKNOWN_MEMBER_ID)
    for version, generation, error in (
        (8, -1, E.NONE),
        (8, 5, E.ILLEGAL_GENERATION),
        (9, -1, E.NONE),
        (9, 5, E.GROUP_ID_NOT_FOUND),
    ):
        place = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        commit = offset_commit.OffsetCommitRequest(
            group_id=f"committing-{version}-{generation}", generation_id_or_member_epoch=generation, member_id="",
            topics=[offset_commit.OffsetCommitRequestTopic(name=THERE, partitions=[place])],
        )  # fmt: skip
        name = f"commit in generation {generation}, version {version}"
        yield Case(name, offset_commit.OFFSET_COMMIT, version, commit, error)
    for version, error in ((5, E.NONE), (6, E.GROUP_ID_NOT_FOUND)):
        look = describe_groups.DescribeGroupsRequest(groups=["unknown"])
        yield Case(f"describe nobody, version {version}", describe_groups.DESCRIBE_GROUPS, version, look, error)
    gone = delete_groups.DeleteGroupsRequest(groups_names=["unknown"])
    yield Case("delete no group", delete_groups.DELETE_GROUPS, 2, gone, E.GROUP_ID_NOT_FOUND)
    forget = offset_delete.OffsetDeleteRequest(group_id="unknown", topics=())
    yield Case("forget no offsets", offset_delete.OFFSET_DELETE, 0, forget, E.GROUP_ID_NOT_FOUND)
