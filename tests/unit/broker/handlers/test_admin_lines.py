"""Administration: configs, elections, moves, log directories, the quorum. A test per line of the checklist."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from rookery.broker.handlers.describe_configs import DescribeConfigsHandler
from rookery.core.errors import ErrorCode, NotControllerError
from rookery.core.metadata.image import Endpoint, ResourceType
from rookery.core.metadata.records import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from rookery.core.metadata.requests import ConfigOp
from rookery.core.wire.apis import alter_configs as replacing
from rookery.core.wire.apis import incremental_alter_configs as changing
from rookery.core.wire.apis.alter_partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from rookery.core.wire.apis.api_versions import API_VERSIONS, ApiVersionsRequest
from rookery.core.wire.apis.create_acls import CREATE_ACLS, AclCreation, CreateAclsRequest
from rookery.core.wire.apis.create_topics import CREATE_TOPICS, CreatableTopic, CreateTopicsRequest
from rookery.core.wire.apis.delete_acls import DELETE_ACLS, DeleteAclsFilter, DeleteAclsRequest
from rookery.core.wire.apis.delete_topics import DELETE_TOPICS, DeleteTopicsRequest
from rookery.core.wire.apis.describe_acls import DESCRIBE_ACLS, DescribeAclsRequest
from rookery.core.wire.apis.describe_configs import (
    DESCRIBE_CONFIGS,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from rookery.core.wire.apis.describe_log_dirs import (
    DESCRIBE_LOG_DIRS,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from rookery.core.wire.apis.describe_quorum import (
    DESCRIBE_QUORUM,
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from rookery.core.wire.apis.describe_topic_partitions import (
    DESCRIBE_TOPIC_PARTITIONS,
    Cursor,
    DescribeTopicPartitionsRequest,
)
from rookery.core.wire.apis.describe_topic_partitions import TopicRequest as AskedTopic
from rookery.core.wire.apis.elect_leaders import ELECT_LEADERS, ElectLeadersRequest, TopicPartitions
from rookery.core.wire.apis.list_partition_reassignments import (
    LIST_PARTITION_REASSIGNMENTS,
    ListPartitionReassignmentsRequest,
)
from rookery.core.wire.apis.update_features import UPDATE_FEATURES, FeatureUpdateKey, UpdateFeaturesRequest
from rookery.core.wire.records import Record, build_batch
from tests.unit.broker.one_broker import LISTENER, NODE_ID
from tests.unit.broker.talk import QuietBroker

TOPIC, BROKER = int(ResourceType.TOPIC), int(ResourceType.BROKER)
METADATA_TOPIC = "__cluster_metadata"


def register(broker: QuietBroker, node_id: int) -> None:
    """Another broker, which exists in the metadata alone."""
    endpoint = Endpoint(LISTENER, "127.0.0.1", 9092 + node_id, "PLAINTEXT")
    broker.cluster.commit([RegisterBrokerRecord(node_id, UUID(int=node_id), (endpoint,), fenced=False)])


# --- topics -------------------------------------------------------------------------------------------------


async def test_line_58_topics_are_checked_and_visible_when_answered(broker: QuietBroker) -> None:
    talk = broker.talk()

    def wanted(name: str, partitions: int, replicas: int) -> CreatableTopic:
        return CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=replicas, assignments=[], configs=[]
        )

    asked = [wanted("good", -1, -1), wanted("none", 0, 1), wanted("many", 1, 9), wanted("bad/name", 1, 1)]
    asked += [wanted("twice", 1, 1), wanted("twice", 1, 1)]
    answer = await talk.ask(CREATE_TOPICS, 7, CreateTopicsRequest(topics=asked, timeout_ms=5000))
    codes = {one.name: one.error_code for one in answer.topics}
    assert codes == {
        "good": ErrorCode.NONE,
        "none": ErrorCode.INVALID_PARTITIONS,
        "many": ErrorCode.INVALID_REPLICATION_FACTOR,
        "bad/name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "twice": ErrorCode.INVALID_REQUEST,
    }
    (good,) = [one for one in answer.topics if one.name == "good"]
    assert (good.num_partitions, good.replication_factor) == (1, 1)
    assert {config.name for config in good.configs or ()} >= {"retention.ms", "cleanup.policy"}
    assert "good" in broker.cluster.image.topic_ids, "visible when the answer is there"
    again = await talk.ask(CREATE_TOPICS, 7, CreateTopicsRequest(topics=[wanted("good", 1, 1)], timeout_ms=5000))
    assert again.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    only = CreateTopicsRequest(topics=[wanted("checked", 1, 1)], timeout_ms=5000, validate_only=True)
    assert (await talk.ask(CREATE_TOPICS, 7, only)).topics[0].error_code == ErrorCode.NONE
    assert "checked" not in broker.cluster.image.topic_ids
    gone = await talk.ask(DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=["good", "nowhere"], timeout_ms=5000))
    assert [one.error_code for one in gone.responses] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert "good" not in broker.cluster.image.topic_ids


# --- configs ------------------------------------------------------------------------------------------------


async def change(broker: QuietBroker, resource: tuple[int, str], *configs: Any, **options: Any) -> ErrorCode:
    """Ask for changes to one resource, each (name, how, value)."""
    entries = [
        changing.AlterableConfig(name=name, config_operation=op, value=value) for name, op, value in configs
    ]
    asked = changing.AlterConfigsResource(resource_type=resource[0], resource_name=resource[1], configs=entries)
    request = changing.IncrementalAlterConfigsRequest(
        resources=[asked], validate_only=options.get("validate_only", False)
    )
    answer = await broker.talk().ask(changing.INCREMENTAL_ALTER_CONFIGS, options.get("version", 1), request)
    (result,) = answer.responses
    assert (result.resource_type, result.resource_name) == resource
    assert bool(result.error_message) == bool(result.error_code)
    return ErrorCode(result.error_code)


@pytest.mark.parametrize("version", [0, 1])
async def test_single_options_of_a_topic_change(broker: QuietBroker, version: int) -> None:
    await broker.create("orders")
    orders = (TOPIC, "orders")
    assert await change(broker, orders, ("retention.ms", ConfigOp.SET, "1000"), version=version) == 0
    assert await change(broker, orders, ("cleanup.policy", ConfigOp.APPEND, "compact"), version=version) == 0
    assert dict(broker.cluster.image.topic_config("orders")) == {
        "retention.ms": "1000",
        "cleanup.policy": "delete,compact",
    }
    assert await change(broker, orders, ("retention.ms", ConfigOp.DELETE, None), version=version) == 0
    assert "retention.ms" not in broker.cluster.image.topic_config("orders")


@pytest.mark.parametrize(
    ("resource", "config", "error"),
    [
        ((TOPIC, "orders"), ("retention.ms", ConfigOp.SET, "soon"), ErrorCode.INVALID_CONFIG),
        ((TOPIC, "orders"), ("no.such.key", ConfigOp.SET, "1"), ErrorCode.INVALID_CONFIG),
        ((TOPIC, "orders"), ("retention.ms", ConfigOp.APPEND, "1"), ErrorCode.INVALID_CONFIG),
        ((TOPIC, "orders"), ("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
        ((TOPIC, "nowhere"), ("retention.ms", ConfigOp.SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((BROKER, "1"), ("log.dirs", ConfigOp.SET, "/other"), ErrorCode.INVALID_REQUEST),
        ((99, "x"), ("retention.ms", ConfigOp.SET, "1"), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_wrong_changes_are_refused(
    broker: QuietBroker, resource: tuple[int, str], config: Any, error: ErrorCode
) -> None:
    await broker.create("orders")
    before = broker.cluster.image.configs
    assert await change(broker, resource, config) == error
    assert broker.cluster.image.configs == before


async def test_a_change_may_only_be_checked(broker: QuietBroker) -> None:
    await broker.create("orders")
    wish = ("retention.ms", ConfigOp.SET, "1000")
    assert await change(broker, (TOPIC, "orders"), wish, validate_only=True) == 0
    assert not broker.cluster.image.topic_config("orders")


async def test_an_option_of_kafka_without_effect_here_is_accepted_and_shown(
    broker: QuietBroker, caplog: pytest.LogCaptureFixture
) -> None:
    threads = "background.threads"
    assert await change(broker, (BROKER, ""), (threads, ConfigOp.SET, "many")) == ErrorCode.INVALID_REQUEST
    assert await change(broker, (BROKER, ""), ("no.such.option", ConfigOp.SET, "1")) == ErrorCode.INVALID_REQUEST
    assert threads not in await described(broker, BROKER, "1")
    assert await change(broker, (BROKER, ""), (threads, ConfigOp.SET, "8")) == 0
    assert [line.message for line in caplog.records] == ["config.ignored"]
    for resource, places in (("", [(threads, "8", 3)]), ("1", [(threads, "8", 3), (threads, "10", 5)])):
        shown = (await described(broker, BROKER, resource))[threads]
        assert (shown.value, shown.config_source, shown.read_only) == ("8", 3, False)
        assert [(one.name, one.value, one.source) for one in shown.synonyms] == places
    assert await change(broker, (BROKER, ""), (threads, ConfigOp.DELETE, None)) == 0
    assert threads not in await described(broker, BROKER, "1")


async def test_options_of_all_brokers_and_of_one_change(broker: QuietBroker) -> None:
    assert await change(broker, (BROKER, ""), ("message.max.bytes", ConfigOp.SET, "5000")) == 0
    assert await change(broker, (BROKER, "1"), ("message.max.bytes", ConfigOp.SET, "6000")) == 0
    entries = await described(broker, BROKER, "1")
    assert (entries["message.max.bytes"].value, entries["message.max.bytes"].config_source) == ("6000", 2)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_all_options_of_a_topic_are_replaced(broker: QuietBroker, version: int) -> None:
    await broker.create("orders", retention_ms="1000", segment_bytes="2000000")
    config = replacing.AlterableConfig(name="flush.ms", value="7")
    asked = replacing.AlterConfigsResource(resource_type=TOPIC, resource_name="orders", configs=[config])
    request = replacing.AlterConfigsRequest(resources=[asked], validate_only=False)
    answer = await broker.talk().ask(replacing.ALTER_CONFIGS, version, request)
    assert [one.error_code for one in answer.responses] == [ErrorCode.NONE]
    assert dict(broker.cluster.image.topic_config("orders")) == {"flush.ms": "7"}


async def test_an_absent_controller_is_reported_for_each_resource(
    broker: QuietBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nobody(request: object) -> None:
        raise NotControllerError("nobody leads")

    monkeypatch.setattr(broker.cluster, "ask", nobody)
    assert await change(broker, (TOPIC, "orders"), ("flush.ms", ConfigOp.SET, "1")) == ErrorCode.NOT_CONTROLLER


async def described(broker: QuietBroker, kind: int, name: str, keys: Sequence[str] | None = None) -> Any:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=True
    )
    answer = await broker.talk().ask(DESCRIBE_CONFIGS, DescribeConfigsHandler.served.max, request)
    (result,) = answer.results
    assert result.error_code == ErrorCode.NONE
    return {entry.name: entry for entry in result.configs}


async def test_line_59_configs_report_type_source_and_synonyms(broker: QuietBroker) -> None:
    await broker.create("orders", retention_ms="1000")
    broker.cluster.commit([ConfigRecord(BROKER, "", "log.retention.ms", "5000")])
    entries = await described(broker, TOPIC, "orders")
    retention = entries["retention.ms"]
    assert (retention.value, retention.config_source, retention.config_type) == ("1000", 1, 5)
    assert [(one.name, one.source) for one in retention.synonyms][:2] == [
        ("retention.ms", 1),
        ("log.retention.ms", 3),
    ]
    assert retention.documentation
    assert not retention.read_only
    assert (entries["segment.bytes"].config_source, entries["cleanup.policy"].config_type) == (5, 7)
    assert set(await described(broker, TOPIC, "orders", ["flush.ms"])) == {"flush.ms"}
    assert set(await described(broker, TOPIC, "orders", [])) == set(entries), "no keys mean all"
    node = await described(broker, BROKER, str(NODE_ID))
    assert all(entry.value is None for entry in node.values() if entry.is_sensitive)
    assert any(entry.is_sensitive for entry in node.values())
    assert node["delete.topic.enable"].value == "true"
    version = node["inter.broker.protocol.version"]
    assert (version.value.split(".")[0], version.read_only) == ("4", True)


# --- the odd ones -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3, 4])
async def test_line_60_log_dirs_are_reported_even_when_nothing_lies_in_them(
    broker: QuietBroker, version: int
) -> None:
    talk = broker.talk()
    empty = await talk.ask(DESCRIBE_LOG_DIRS, version, DescribeLogDirsRequest())
    assert [(one.log_dir, one.error_code, one.topics) for one in empty.results] == [("data", 0, [])]
    await broker.create("orders", 2)
    await talk.produce("orders", bytes(build_batch([Record(0, 0, None, b"x" * 500, [])])))
    full = await talk.ask(DESCRIBE_LOG_DIRS, version, DescribeLogDirsRequest())
    (topic,) = full.results[0].topics
    assert topic.name == "orders"
    assert [(one.partition_index, one.partition_size > 500) for one in topic.partitions] == [(0, True), (1, False)]
    some = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic="orders", partitions=[1, 7])])
    (topic,) = (await talk.ask(DESCRIBE_LOG_DIRS, version, some)).results[0].topics
    assert [one.partition_index for one in topic.partitions] == [1]


async def test_a_log_dir_that_is_offline_is_reported_with_its_error(broker: QuietBroker) -> None:
    broker.storage.offline["data"] = "the disk is gone"
    answer = await broker.talk().ask(DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest())
    assert [(one.log_dir, one.error_code) for one in answer.results] == [("data", ErrorCode.KAFKA_STORAGE_ERROR)]


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_line_60_there_are_no_acls_without_an_authorizer(broker: QuietBroker, version: int) -> None:
    talk = broker.talk()
    disabled = ErrorCode.SECURITY_DISABLED
    look = DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1)
    answer = await talk.ask(DESCRIBE_ACLS, version, look)
    assert (answer.error_code, answer.resources) == (disabled, [])
    rule = AclCreation(
        resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3
    )
    made = await talk.ask(CREATE_ACLS, version, CreateAclsRequest(creations=[rule, rule]))
    assert [one.error_code for one in made.results] == [disabled, disabled]
    match = DeleteAclsFilter(resource_type_filter=1, operation=1, permission_type=1)
    gone = await talk.ask(DELETE_ACLS, version, DeleteAclsRequest(filters=[match]))
    assert [one.error_code for one in gone.filter_results] == [disabled]


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_line_60_the_quorum_is_one_partition_of_one_topic(broker: QuietBroker, version: int) -> None:
    asked = TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])
    answer = await broker.talk().ask(DESCRIBE_QUORUM, version, DescribeQuorumRequest(topics=[asked]))
    assert answer.error_code == ErrorCode.NONE
    (topic,) = answer.topics
    (quorum,) = topic.partitions
    assert (topic.topic_name, quorum.partition_index, quorum.leader_id) == (METADATA_TOPIC, 0, NODE_ID)
    assert [one.replica_id for one in quorum.current_voters] == [NODE_ID]
    if version >= 2:
        assert [(node.node_id, node.listeners[0].port) for node in answer.nodes] == [(NODE_ID, 9093)]


async def test_other_partitions_have_no_quorum(broker: QuietBroker) -> None:
    asked = TopicData(topic_name="orders", partitions=[PartitionData(partition_index=3)])
    answer = await broker.talk().ask(DESCRIBE_QUORUM, 2, DescribeQuorumRequest(topics=[asked]))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_line_60_an_election_that_is_not_needed_is_reported(broker: QuietBroker, version: int) -> None:
    await broker.create("orders")
    named = [TopicPartitions(topic="orders", partitions=[0, 5])]
    answer = await broker.talk().ask(ELECT_LEADERS, version, ElectLeadersRequest(topic_partitions=named))
    (topic,) = answer.replica_election_results
    assert [(one.partition_id, one.error_code) for one in topic.partition_result] == [
        (0, ErrorCode.ELECTION_NOT_NEEDED),
        (5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


async def test_all_partitions_go_back_to_their_preferred_leaders(broker: QuietBroker) -> None:
    await broker.create("orders")
    register(broker, 2)
    topic_id = broker.cluster.image.topic_ids["orders"]
    both = PartitionChangeRecord(topic_id, 0, isr=(1, 2), leader=2, replicas=(1, 2))
    broker.cluster.commit([both])
    answer = await broker.talk().ask(ELECT_LEADERS, 2, ElectLeadersRequest(topic_partitions=None))
    (topic,) = answer.replica_election_results
    assert [(one.partition_id, one.error_code) for one in topic.partition_result] == [(0, ErrorCode.NONE)]
    partition = broker.cluster.image.partition(topic_id, 0)
    assert partition is not None
    assert partition.leader == NODE_ID


async def test_an_unknown_type_of_election_is_refused(broker: QuietBroker) -> None:
    request = ElectLeadersRequest(election_type=7, topic_partitions=None)
    answer = await broker.talk().ask(ELECT_LEADERS, 2, request)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def move(topic: str, replicas: Sequence[int] | None) -> AlterPartitionReassignmentsRequest:
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=[partition])])


@pytest.mark.parametrize("version", [0, 1])
async def test_line_60_moves_begin_are_listed_and_called_off(broker: QuietBroker, version: int) -> None:
    talk = broker.talk()
    await broker.create("orders")
    register(broker, 2)

    async def ask(request: AlterPartitionReassignmentsRequest) -> int:
        answer = await talk.ask(ALTER_PARTITION_REASSIGNMENTS, version, request)
        assert answer.error_code == ErrorCode.NONE
        return int(answer.responses[0].partitions[0].error_code)

    assert await ask(move("orders", None)) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert await ask(move("nowhere", [2])) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await ask(move("orders", [9])) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert await ask(move("orders", [2])) == ErrorCode.NONE
    under_way = await talk.ask(LIST_PARTITION_REASSIGNMENTS, 0, ListPartitionReassignmentsRequest())
    (topic,) = under_way.topics
    (found,) = topic.partitions
    assert (topic.name, found.adding_replicas, found.removing_replicas) == ("orders", [2], [1])
    assert await ask(move("orders", None)) == ErrorCode.NONE
    over = await talk.ask(LIST_PARTITION_REASSIGNMENTS, 0, ListPartitionReassignmentsRequest())
    assert over.topics == []


async def pages(broker: QuietBroker, limit: int, *names: str) -> list[list[tuple[str, list[int], int]]]:
    """Follow the cursor to the end; (topic, its partitions, error) per page."""
    talk, found, cursor = broker.talk(), [], None
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[AskedTopic(name=name) for name in names], response_partition_limit=limit, cursor=cursor
        )
        answer = await talk.ask(DESCRIBE_TOPIC_PARTITIONS, 0, request)
        found.append(
            [
                (topic.name, [one.partition_index for one in topic.partitions], topic.error_code)
                for topic in answer.topics
            ]
        )
        if answer.next_cursor is None:
            return found
        cursor = Cursor(
            topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index
        )


async def test_topics_are_described_page_by_page(broker: QuietBroker) -> None:
    await broker.create("b", 3)
    await broker.create("a", 2)
    whole = [[("a", [0, 1], 0), ("b", [0, 1, 2], 0)]]
    assert await pages(broker, 2000) == whole
    assert await pages(broker, 4) == [[("a", [0, 1], 0), ("b", [0, 1], 0)], [("b", [2], 0)]]
    assert await pages(broker, 2) == [[("a", [0, 1], 0)], [("b", [0, 1], 0)], [("b", [2], 0)]]
    assert await pages(broker, 2000, "b", "missing", "no/slash") == [
        [
            ("b", [0, 1, 2], 0),
            ("missing", [], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("no/slash", [], ErrorCode.INVALID_TOPIC_EXCEPTION),
        ]
    ]


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_feature_levels_are_checked(broker: QuietBroker, version: int) -> None:
    update = FeatureUpdateKey(feature="metadata.version", max_version_level=99)
    answer = await broker.talk().ask(UPDATE_FEATURES, version, UpdateFeaturesRequest(feature_updates=[update]))
    code = answer.results[0].error_code if version < 2 else answer.error_code
    assert code != ErrorCode.NONE
    assert "metadata.version" not in broker.cluster.image.features


@pytest.mark.parametrize("version", [3, 4])
async def test_feature_levels_are_reported_with_the_versions(broker: QuietBroker, version: int) -> None:
    talk = broker.talk()
    asked = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    before = await talk.ask(API_VERSIONS, version, asked)
    assert not before.finalized_features
    broker.cluster.commit([FeatureLevelRecord("metadata.version", 1)])
    after = await talk.ask(API_VERSIONS, version, asked)
    assert [(one.name, one.max_version_level) for one in after.finalized_features] == [("metadata.version", 1)]
    assert "metadata.version" in [one.name for one in after.supported_features]
