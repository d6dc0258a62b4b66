"""What clients rely on in metadata (checklist lines 12 to 19 and 22)."""

import asyncio
from uuid import UUID

import pytest

from rookery.core.errors import ErrorCode
from rookery.core.metadata.image import Endpoint
from rookery.core.metadata.records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from rookery.core.wire.apis.delete_topics import DELETE_TOPICS, DeleteTopicsRequest
from rookery.core.wire.apis.describe_topic_partitions import (
    DESCRIBE_TOPIC_PARTITIONS,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from rookery.core.wire.apis.metadata import METADATA, MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.unit.broker.one_broker import LISTENER, NODE_ID, directory_of
from tests.unit.broker.talk import QuietBroker

NOT_ASKED_FOR = -(2**31)


def named(*names: str, **options: bool) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **options)


def names(answer: MetadataResponse) -> list[str | None]:
    return [topic.name for topic in answer.topics]


@pytest.mark.row(81)
async def test_line_12_null_means_all_and_empty_none_but_in_version_0(broker: QuietBroker) -> None:
    await broker.create("b")
    await broker.create("a", partitions=3)
    talk = broker.talk()
    everything = MetadataRequest(topics=None)
    nothing = MetadataRequest(topics=[])
    assert names(await talk.ask(METADATA, 0, nothing)) == ["a", "b"]
    for version in range(1, 14):
        answer = await talk.ask(METADATA, version, everything)
        assert names(answer) == ["a", "b"]
        assert [p.partition_index for p in answer.topics[0].partitions] == [0, 1, 2]
        assert names(await talk.ask(METADATA, version, nothing)) == []


async def test_line_12_creation_is_asked_for_from_version_4_on_and_implied_before(broker: QuietBroker) -> None:
    talk = broker.talk()
    await talk.ask(METADATA, 12, named("later", allow_auto_topic_creation=False))
    await talk.ask(METADATA, 3, named("sooner"))
    assert await broker.cluster.until(lambda image: "sooner" in image.topic_ids, 5)
    assert "later" not in broker.cluster.image.topic_ids


async def test_line_13_an_unknown_topic_is_created_and_found_by_the_next_request(broker: QuietBroker) -> None:
    talk = broker.talk()
    first = await talk.ask(METADATA, 12, named("fresh"))
    assert first.topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert await broker.cluster.until(lambda image: "fresh" in image.topic_ids, 5)
    again = await talk.ask(METADATA, 12, named("fresh"))
    assert (again.topics[0].error_code, len(again.topics[0].partitions)) == (ErrorCode.NONE, 1)


@pytest.mark.parametrize("name", ["no/slash", "", ".", "x" * 250])
async def test_line_13_invalid_names_are_never_created(broker: QuietBroker, name: str) -> None:
    answer = await broker.talk().ask(METADATA, 12, named(name))
    assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_line_13_internal_topics_are_never_created_by_asking(broker: QuietBroker) -> None:
    answer = await broker.talk().ask(METADATA, 12, named("__consumer_offsets"))
    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await asyncio.sleep(0)
    assert broker.cluster.image.topic_ids.get("__consumer_offsets") is None


async def test_line_13_nothing_is_created_where_the_broker_forbids_it() -> None:
    broker = QuietBroker(config={"auto.create.topics.enable": "false"})
    answer = await broker.talk().ask(METADATA, 12, named("fresh"))
    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await asyncio.sleep(0)
    assert broker.cluster.image.topic_ids.get("fresh") is None
    await broker.stop()


async def test_line_14_the_controller_is_a_live_broker_that_takes_admin_requests(broker: QuietBroker) -> None:
    answer = await broker.talk().ask(METADATA, 12, MetadataRequest(topics=[]))
    assert answer.controller_id == NODE_ID
    assert answer.controller_id in [one.node_id for one in answer.brokers]


async def test_line_15_the_cluster_id_is_there_from_version_2_on(broker: QuietBroker) -> None:
    talk = broker.talk()
    ids = [(await talk.ask(METADATA, version, MetadataRequest(topics=[]))).cluster_id for version in range(2, 14)]
    assert set(ids) == {broker.cluster.cluster_id}
    assert len(broker.cluster.cluster_id) == 22


async def test_line_16_a_partition_without_a_leader_is_listed_with_an_error(broker: QuietBroker) -> None:
    await broker.create("orders")
    topic_id = broker.cluster.image.topic_ids["orders"]
    talk = broker.talk()
    before = (await talk.ask(METADATA, 12, named("orders"))).topics[0].partitions[0]
    broker.cluster.commit([PartitionChangeRecord(topic_id, 0, leader=-1)])
    after = (await talk.ask(METADATA, 12, named("orders"))).topics[0]
    partition = after.partitions[0]
    assert after.error_code == ErrorCode.NONE
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert partition.leader_epoch > before.leader_epoch
    assert list(partition.replica_nodes) == [NODE_ID]


async def test_line_16_a_fenced_leader_is_no_leader(broker: QuietBroker) -> None:
    await broker.create("orders")
    epoch = broker.cluster.image.brokers[NODE_ID].epoch
    broker.cluster.commit([BrokerRegistrationChangeRecord(NODE_ID, epoch, fenced=True)])
    answer = await broker.talk().ask(METADATA, 12, named("orders"))
    partition = answer.topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert list(partition.offline_replicas) == [NODE_ID]
    assert answer.brokers == []
    assert answer.controller_id == -1


async def test_a_leader_is_named_once_it_has_reported_its_replica(broker: QuietBroker) -> None:
    """Another broker learns of a new partition before the leader has made its replica, and would send clients there."""
    endpoint = Endpoint(LISTENER, "127.0.0.1", 9093, "PLAINTEXT")
    topic_id, unassigned = UUID(int=7), UUID(int=0)
    planned = PartitionRecord(topic_id, 0, (2, 1), (2, 1), leader=2, directories=(unassigned, directory_of(1)))
    broker.cluster.commit(
        [
            RegisterBrokerRecord(2, UUID(int=2), (endpoint,), fenced=False),
            TopicRecord("orders", topic_id),
            planned,
        ]
    )
    talk = broker.talk()
    page = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")])

    async def seen() -> list[tuple[int, int]]:
        """The leader that each API names, with the error."""
        topics = (
            (await talk.ask(METADATA, 12, named("orders"))).topics[0],
            (await talk.ask(DESCRIBE_TOPIC_PARTITIONS, 0, page)).topics[0],
        )
        return [(topic.partitions[0].leader_id, topic.partitions[0].error_code) for topic in topics]

    assert await seen() == [(-1, ErrorCode.LEADER_NOT_AVAILABLE)] * 2
    reported = (directory_of(2), directory_of(1))
    broker.cluster.commit([PartitionChangeRecord(topic_id, 0, directories=reported)])
    assert await seen() == [(2, ErrorCode.NONE)] * 2


@pytest.mark.row(84)
async def test_line_17_a_client_learns_the_addresses_of_its_own_listener(broker: QuietBroker) -> None:
    await broker.create("orders")
    inside = Endpoint("INTERNAL", "10.0.0.1", 9094, "PLAINTEXT")
    outside = Endpoint("PLAINTEXT", "kafka.example.com", 9092, "PLAINTEXT")
    broker.cluster.commit([RegisterBrokerRecord(NODE_ID, UUID(int=1), (outside, inside), fenced=False)])
    broker.cluster.commit([RegisterBrokerRecord(2, UUID(int=2), (outside,), rack="r2", fenced=False)])
    request = named("orders")
    seen = await broker.talk().ask(METADATA, 12, request)
    assert [(one.node_id, one.host, one.port, one.rack) for one in seen.brokers] == [
        (1, "kafka.example.com", 9092, None),
        (2, "kafka.example.com", 9092, "r2"),
    ]
    seen = await broker.talk("INTERNAL").ask(METADATA, 12, request)
    assert [(one.node_id, one.host, one.port) for one in seen.brokers] == [(1, "10.0.0.1", 9094)]


async def test_line_17_a_leader_that_the_listener_does_not_reach_is_an_error(broker: QuietBroker) -> None:
    await broker.create("orders")
    talk = broker.talk("ELSEWHERE")
    new, old = await talk.ask(METADATA, 6, named("orders")), await talk.ask(METADATA, 5, named("orders"))
    assert new.topics[0].partitions[0].error_code == ErrorCode.LISTENER_NOT_FOUND
    assert old.topics[0].partitions[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE


@pytest.mark.parametrize("name", [None, ""])
async def test_line_18_topics_are_found_by_id(broker: QuietBroker, name: str | None) -> None:
    """The Java client sends an empty name for no name."""
    await broker.create("orders")
    topic_id = broker.cluster.image.topic_ids["orders"]
    request = MetadataRequest(
        topics=[
            MetadataRequestTopic(topic_id=topic_id, name=name),
            MetadataRequestTopic(topic_id=UUID(int=99), name=name),
        ]
    )
    found, unknown = (await broker.talk().ask(METADATA, 12, request)).topics
    assert (found.name, found.topic_id, found.error_code) == ("orders", topic_id, ErrorCode.NONE)
    assert (unknown.name, unknown.topic_id) == (None, UUID(int=99))
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_topic_that_is_asked_for_many_times_is_answered_once(broker: QuietBroker) -> None:
    """Whatever name stands beside its id: else a small request would have a large answer."""
    await broker.create("orders")
    topic_id = broker.cluster.image.topic_ids["orders"]
    by_id = [MetadataRequestTopic(topic_id=topic_id, name=f"name-{number}") for number in range(100)]
    by_name = [MetadataRequestTopic(name="orders")] * 100
    request = MetadataRequest(topics=[*by_id, *by_name])
    assert [topic.name for topic in (await broker.talk().ask(METADATA, 12, request)).topics] == ["orders"] * 2


async def test_line_18_a_topic_created_anew_has_another_id(broker: QuietBroker) -> None:
    talk = broker.talk()
    ids = []
    for _ in range(2):
        await broker.create("orders")
        ids.append((await talk.ask(METADATA, 12, named("orders"))).topics[0].topic_id)
        await talk.ask(DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000))
    assert ids[0] != ids[1]
    assert UUID(int=0) not in ids


async def test_line_19_operations_are_reported_only_when_asked_for(broker: QuietBroker) -> None:
    await broker.create("orders")
    talk = broker.talk()
    plain = await talk.ask(METADATA, 10, named("orders"))
    assert plain.cluster_authorized_operations == NOT_ASKED_FOR
    assert plain.topics[0].topic_authorized_operations == NOT_ASKED_FOR
    asked = await talk.ask(
        METADATA,
        10,
        named(
            "orders", include_topic_authorized_operations=True, include_cluster_authorized_operations=True
        ),
    )
    assert asked.cluster_authorized_operations > 0
    assert asked.topics[0].topic_authorized_operations & (1 << 3 | 1 << 4), "read and write"


async def test_line_19_internal_topics_are_marked(broker: QuietBroker) -> None:
    await broker.create("orders")
    await broker.create("__consumer_offsets")
    answer = await broker.talk().ask(METADATA, 12, MetadataRequest(topics=None))
    assert {topic.name: topic.is_internal for topic in answer.topics} == {
        "orders": False,
        "__consumer_offsets": True,
    }
