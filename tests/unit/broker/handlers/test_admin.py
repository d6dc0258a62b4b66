"""Requests that the controller decides, and what a broker tells of itself."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from rookery.core.errors import ErrorCode, NotControllerError
from rookery.core.metadata.image import ResourceType
from rookery.core.metadata.records import ConfigRecord
from rookery.core.wire.apis.create_partitions import (
    CREATE_PARTITIONS,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from rookery.core.wire.apis.create_topics import (
    CREATE_TOPICS,
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from rookery.core.wire.apis.delete_topics import DELETE_TOPICS, DeleteTopicsRequest, DeleteTopicState
from rookery.core.wire.apis.describe_cluster import DESCRIBE_CLUSTER, DescribeClusterRequest
from rookery.core.wire.apis.describe_configs import (
    DESCRIBE_CONFIGS,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)
from rookery.core.wire.apis.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from tests.unit.broker.talk import QuietBroker, Talk


def topic(name: str, partitions: int = 1, replicas: int = 1, **configs: str | None) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[],
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
        ],
    )


async def create(
    talk: Talk, *topics: CreatableTopic, version: int = 7, **options: Any
) -> list[CreatableTopicResult]:
    answer = await talk.ask(CREATE_TOPICS, version, CreateTopicsRequest(topics=topics, **options))
    return list(answer.topics)


# --- topics -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 8))
async def test_topics_are_there_when_their_creation_is_answered(broker: QuietBroker, version: int) -> None:
    talk = broker.talk()
    (result,) = await create(talk, topic("orders", 3, retention_ms="1000"), version=version)
    assert (result.name, result.error_code) == ("orders", ErrorCode.NONE)
    assert broker.partition("orders", 2).is_leader
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
        configs = {config.name: (config.value, config.config_source) for config in result.configs or ()}
        assert configs["retention.ms"] == ("1000", 1)
        assert configs["segment.bytes"][1] == 5
    if version >= 7:
        assert result.topic_id == broker.cluster.image.topic_ids["orders"]


async def test_minus_1_takes_the_defaults(broker: QuietBroker) -> None:
    (result,) = await create(broker.talk(), topic("orders", -1, -1))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 1, 1)


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (topic("taken"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (topic("orders", 0), ErrorCode.INVALID_PARTITIONS),
        (topic("orders", 1, 3), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("no/slash"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("orders", retention_ms="soon"), ErrorCode.INVALID_CONFIG),
        (topic("orders", no_such_key="1"), ErrorCode.INVALID_CONFIG),
    ],
)
async def test_refusals_carry_the_error_that_kafka_gives(
    broker: QuietBroker, wanted: CreatableTopic, error: ErrorCode
) -> None:
    await broker.create("taken")
    (result,) = await create(broker.talk(), wanted)
    assert result.error_code == error
    assert result.error_message


async def test_a_wrong_assignment_is_refused(broker: QuietBroker) -> None:
    wanted = topic("orders", -1, -1)
    wanted.assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 9])]
    (result,) = await create(broker.talk(), wanted)
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


async def test_duplicate_names_are_an_invalid_request_and_others_are_created(broker: QuietBroker) -> None:
    results = await create(broker.talk(), topic("twice"), topic("once"), topic("twice"))
    codes = {(one.name, one.error_code) for one in results}
    assert codes == {("twice", ErrorCode.INVALID_REQUEST), ("once", ErrorCode.NONE)}


async def test_validate_only_creates_nothing(broker: QuietBroker) -> None:
    (result,) = await create(broker.talk(), topic("orders"), validate_only=True)
    assert result.error_code == ErrorCode.NONE
    assert "orders" not in broker.cluster.image.topic_ids


async def test_a_controller_that_does_not_answer_in_time_is_reported(
    broker: QuietBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(broker.cluster, "ask", never)
    (result,) = await create(broker.talk(), topic("orders"), timeout_ms=10)
    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_a_controller_that_cannot_be_reached_is_reported(
    broker: QuietBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(_: object) -> None:
        raise NotControllerError("no controller is known")

    monkeypatch.setattr(broker.cluster, "ask", gone)
    request = DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000)
    answer = await broker.talk().ask(DELETE_TOPICS, 5, request)
    assert answer.responses[0].error_code == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize("version", range(1, 7))
async def test_deleted_topics_are_gone_when_that_is_answered(broker: QuietBroker, version: int) -> None:
    await broker.create("orders")
    request = DeleteTopicsRequest(topic_names=["orders", "nowhere"], timeout_ms=1000)
    if version >= 6:
        states = [DeleteTopicState(name=name, topic_id=UUID(int=0)) for name in ("orders", "nowhere")]
        request = DeleteTopicsRequest(topics=states, timeout_ms=1000)
    answer = await broker.talk().ask(DELETE_TOPICS, version, request)
    assert {(one.name, one.error_code) for one in answer.responses} == {
        ("orders", ErrorCode.NONE),
        ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    }
    assert broker.partitions.named("orders", 0) is None


async def test_topics_are_deleted_by_id(broker: QuietBroker) -> None:
    await broker.create("orders")
    topic_id = broker.cluster.image.topic_ids["orders"]
    states = [DeleteTopicState(name=None, topic_id=one) for one in (topic_id, UUID(int=9))]
    answer = await broker.talk().ask(DELETE_TOPICS, 6, DeleteTopicsRequest(topics=states, timeout_ms=1000))
    assert {one.error_code for one in answer.responses} == {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID}
    assert "orders" not in broker.cluster.image.topic_ids


@pytest.mark.row(30)
@pytest.mark.parametrize(("count", "error"), [(4, 0), (2, 37), (1, 37)])
async def test_partitions_can_be_added_and_never_taken_away(
    broker: QuietBroker, count: int, error: int
) -> None:
    await broker.create("orders", partitions=2)
    wanted = CreatePartitionsTopic(name="orders", count=count)
    request = CreatePartitionsRequest(topics=[wanted], timeout_ms=1000, validate_only=False)
    answer = await broker.talk().ask(CREATE_PARTITIONS, 3, request)
    assert answer.results[0].error_code == error
    assert len(broker.cluster.image.topics[broker.cluster.image.topic_ids["orders"]].partitions) == max(2, count)


# --- configuration ----------------------------------------------------------------------------------------


async def describe(
    talk: Talk, kind: int, name: str, *keys: str, **options: Any
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys)
    )
    request = DescribeConfigsRequest(resources=[resource], **options)
    answer = await talk.ask(DESCRIBE_CONFIGS, 4, request)
    result: DescribeConfigsResult = answer.results[0]
    return result


async def test_options_report_their_value_and_where_it_comes_from() -> None:
    broker = QuietBroker(config={"log.retention.hours": "2", "log.segment.bytes": "2000000"})
    await broker.create("orders", segment_bytes="3000000")
    result = await describe(
        broker.talk(), ResourceType.TOPIC, "orders", "retention.ms", "segment.bytes", "cleanup.policy",
        include_synonyms=True, include_documentation=True,
    )  # fmt: skip
    found = {config.name: config for config in result.configs}
    assert {name: (config.value, config.config_source) for name, config in found.items()} == {
        "retention.ms": ("7200000", 5),
        "segment.bytes": ("3000000", 1),
        "cleanup.policy": ("delete", 5),
    }
    synonyms = [(one.name, one.value, one.source) for one in found["segment.bytes"].synonyms]
    assert synonyms[:2] == [("segment.bytes", "3000000", 1), ("log.segment.bytes", "2000000", 4)]
    assert found["segment.bytes"].config_type == 3
    assert found["segment.bytes"].documentation
    await broker.stop()


NO_KEY: dict[str, tuple[str, int, list[Any]]] = {
    "flush.ms": ("9223372036854775807", 5, []),
    "remote.storage.enable": ("false", 5, []),
    "segment.ms": ("604800000", 5, []),
}
"""Topic options that follow no single key of a broker have no places to show."""


async def test_sources_are_those_that_kafka_names() -> None:
    """All of this was asked of Kafka's own server."""
    broker = QuietBroker(config={"log.retention.hours": "24", "log.cleanup.policy": "compact"})
    await broker.create("orders")

    async def places(kind: int, name: str, *keys: str) -> dict[str, Any]:
        found = await describe(broker.talk(), kind, name, *keys, include_synonyms=True)
        return {
            one.name: (one.value, one.config_source, [(each.name, each.value, each.source) for each in one.synonyms])
            for one in found.configs
        }

    keys = ("cleanup.policy", "retention.ms", *NO_KEY)
    in_file = [("log.cleanup.policy", "compact", 4), ("log.cleanup.policy", "delete", 5)]
    assert await places(ResourceType.TOPIC, "orders", *keys) == NO_KEY | {
        "cleanup.policy": ("compact", 4, in_file),
        "retention.ms": ("86400000", 5, []),
    }
    unset = await places(ResourceType.BROKER, "1", "log.retention.ms", "log.roll.ms", "broker.rack")
    assert list(unset.values()) == [(None, 5, [])] * 3
    broker.cluster.commit(
        [
            ConfigRecord(ResourceType.BROKER, "", "log.retention.ms", "7200000"),
            ConfigRecord(ResourceType.BROKER, "", "log.cleanup.policy", "delete"),
            ConfigRecord(ResourceType.BROKER, "1", "log.cleanup.policy", "compact,delete"),
        ]
    )
    by_hours = [("log.retention.hours", "24", 4), ("log.retention.hours", "168", 5)]
    retention = ("7200000", 3, [("log.retention.ms", "7200000", 3), *by_hours])
    policies = [("log.cleanup.policy", "compact,delete", 2), ("log.cleanup.policy", "delete", 3), *in_file]
    assert await places(ResourceType.TOPIC, "orders", *keys) == NO_KEY | {
        "cleanup.policy": ("compact,delete", 2, policies),
        "retention.ms": retention,
    }
    assert (await places(ResourceType.BROKER, "1"))["log.retention.ms"] == retention
    await broker.stop()


async def test_all_options_of_a_broker_are_reported_when_no_key_is_named(broker: QuietBroker) -> None:
    broker.cluster.commit([ConfigRecord(ResourceType.BROKER, "", "log.retention.ms", "5000")])
    result = await describe(broker.talk(), ResourceType.BROKER, "1")
    found = {config.name: config for config in result.configs}
    assert found["delete.topic.enable"].value == "true"
    assert (found["log.retention.ms"].value, found["log.retention.ms"].config_source) == ("5000", 3)
    assert (found["listeners"].read_only, found["log.retention.ms"].read_only) == (True, False)
    password = found["ssl.key.password"]
    assert (password.is_sensitive, password.value) == (True, None)
    assert not found["ssl.key.password"].synonyms


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (ResourceType.TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ResourceType.TOPIC, "no/slash", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (ResourceType.BROKER, "7", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_cannot_be_described_is_an_error(
    broker: QuietBroker, kind: int, name: str, error: ErrorCode
) -> None:
    result = await describe(broker.talk(), kind, name)
    assert (result.error_code, list(result.configs)) == (error, [])


# --- cluster and producers --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
async def test_the_cluster_is_described(broker: QuietBroker, version: int) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=False)
    answer = await broker.talk().ask(DESCRIBE_CLUSTER, version, request)
    assert (answer.cluster_id, answer.controller_id) == (broker.cluster.cluster_id, 1)
    assert [(one.broker_id, one.port) for one in answer.brokers] == [(1, 9092)]
    assert answer.cluster_authorized_operations == -(2**31)


@pytest.mark.parametrize(("kind", "error"), [(2, 114), (7, 115)])
async def test_other_endpoints_than_brokers_are_refused(broker: QuietBroker, kind: int, error: int) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=kind)
    assert (await broker.talk().ask(DESCRIBE_CLUSTER, 1, request)).error_code == error


@pytest.mark.row(15)
async def test_every_producer_gets_an_id_of_its_own(broker: QuietBroker) -> None:
    talk = broker.talk()
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    answers = [await talk.ask(INIT_PRODUCER_ID, 5, request) for _ in range(1001)]
    assert {(one.error_code, one.producer_epoch) for one in answers} == {(0, 0)}
    assert len({one.producer_id for one in answers}) == 1001


async def test_producers_that_wait_for_a_block_share_one(
    broker: QuietBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    allocate = broker.cluster.allocate_producer_ids

    async def counting() -> range:
        nonlocal asked
        asked += 1
        return await allocate()

    monkeypatch.setattr(broker.cluster, "allocate_producer_ids", counting)
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    talks = [broker.talk() for _ in range(5)]
    for talk in talks:
        talk.send(INIT_PRODUCER_ID, 5, request)
    answers = [(await talk.receive_some(1))[0] for talk in talks]
    assert (asked, len({one.producer_id for one in answers})) == (1, 5)


async def test_without_a_block_producers_are_asked_to_try_again(
    broker: QuietBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone() -> range:
        raise NotControllerError("no controller is known")

    monkeypatch.setattr(broker.cluster, "allocate_producer_ids", gone)
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    answer = await broker.talk().ask(INIT_PRODUCER_ID, 5, request)
    code = ErrorCode(answer.error_code)
    assert (answer.producer_id, code.retriable) == (-1, True)


async def test_a_transactional_id_is_served_by_its_coordinator_alone(broker: QuietBroker) -> None:
    request = InitProducerIdRequest(transactional_id="transfers", transaction_timeout_ms=60_000)
    answer = await broker.talk().ask(INIT_PRODUCER_ID, 5, request)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.NOT_COORDINATOR, -1)


async def test_half_a_producer_is_refused(broker: QuietBroker) -> None:
    for producer_id, epoch in ((7, -1), (-1, 7)):
        request = InitProducerIdRequest(
            transactional_id="transfers", transaction_timeout_ms=60_000, producer_id=producer_id, producer_epoch=epoch
        )
        answer = await broker.talk().ask(INIT_PRODUCER_ID, 5, request)
        assert answer.error_code == ErrorCode.INVALID_REQUEST
