"""Who coordinates what, and how clients learn of it."""

from uuid import UUID

import pytest

from rookery.broker.coordination.internal_topic import java_hash, partition_for
from rookery.core.errors import ErrorCode
from rookery.core.metadata.image import Endpoint
from rookery.core.metadata.records import PartitionChangeRecord, RegisterBrokerRecord
from rookery.core.net.connection import Connection
from rookery.core.wire.apis.find_coordinator import (
    FIND_COORDINATOR,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from rookery.core.wire.apis.metadata import METADATA, MetadataRequest
from tests.unit.broker.one_broker import LISTENER, NODE_ID, OneBroker, running_broker
from tests.unit.broker.waiting import until

OTHER = NODE_ID + 1
ONE = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "5"}


@pytest.mark.row(102)
@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("Aa", 2112), ("hello", 99162322), ("Hello World", -862545276), ("polygenelubricants", -(2**31))],
)
def test_hashes_are_javas(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_the_number_without_a_positive_twin_counts_as_zero() -> None:
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("Hello World", 50) == 862545276 % 50


async def find(broker: OneBroker, version: int, *keys: str, key_type: int = 0) -> FindCoordinatorResponse:
    connection = await Connection.open("127.0.0.1", broker.port, client_id="t")
    request = FindCoordinatorRequest(key=keys[0], key_type=key_type, coordinator_keys=list(keys))
    try:
        return await connection.request(FIND_COORDINATOR, version, request, 10)
    finally:
        connection.close()


@pytest.mark.row(101)
@pytest.mark.parametrize("version", range(7))
async def test_line_20_the_topic_is_made_when_the_first_client_asks(version: int) -> None:
    async with running_broker(config=ONE) as broker:
        answer = await find(broker, version, "g")
        first = answer.coordinators[0] if version >= 4 else answer
        assert (first.error_code, first.node_id, first.host, first.port) == (15, -1, "", -1)
        await until(lambda: broker.cluster.image.topic("__consumer_offsets"))
        answer = await find(broker, version, "g")
        found = answer.coordinators[0] if version >= 4 else answer
        assert (found.error_code, found.node_id, found.host, found.port) == (0, NODE_ID, "127.0.0.1", broker.port)
        topic = broker.cluster.image.topic("__consumer_offsets")
        assert topic is not None
        assert len(topic.partitions) == 5
        config = broker.cluster.image.topic_config("__consumer_offsets")
        assert (config["cleanup.policy"], config["segment.bytes"]) == ("compact", "104857600")


async def test_line_20_several_keys_are_answered_one_by_one() -> None:
    async with running_broker(config=ONE) as broker:
        await find(broker, 4, "g")
        await until(lambda: broker.cluster.image.topic("__consumer_offsets"))
        answer = await find(broker, 6, "a", "b", "c")
        assert [(each.key, each.error_code, each.node_id) for each in answer.coordinators] == [
            ("a", 0, NODE_ID), ("b", 0, NODE_ID), ("c", 0, NODE_ID),
        ]  # fmt: skip


async def test_line_20_kinds_of_keys() -> None:
    async with running_broker(config=ONE) as broker:
        transaction = await find(broker, 6, "t", key_type=1)
        assert transaction.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE, "it needs three brokers"
        share = await find(broker, 6, "s", key_type=2)
        assert share.coordinators[0].error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.row(151)
async def test_the_topic_is_not_made_with_fewer_replicas_than_asked_for() -> None:
    async with running_broker(config={"offsets.topic.replication.factor": "3"}) as broker:
        for _ in range(3):
            answer = await find(broker, 2, "g")
            assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert broker.cluster.image.topic("__consumer_offsets") is None


async def test_a_broker_that_is_cut_off_names_the_other_replicas() -> None:
    """As coordinators in place of itself. As leader it still names itself: perhaps the others are dead, and it is the
    only one that can be read."""
    async with running_broker(config=ONE) as broker:
        await find(broker, 4, "g")
        await until(lambda: broker.cluster.image.topic("__consumer_offsets"))
        topic = broker.cluster.image.topic("__consumer_offsets")
        assert topic is not None
        other = Endpoint(LISTENER, "127.0.0.1", 1, "PLAINTEXT")
        both = (NODE_ID, OTHER)
        broker.cluster.commit(
            [
                RegisterBrokerRecord(OTHER, UUID(int=OTHER), (other,), fenced=False),
                *(PartitionChangeRecord(topic.id, index, isr=both, replicas=both) for index in topic.partitions),
            ]
        )
        assert {await coordinator(broker, key) for key in "abc"} == {NODE_ID}
        assert await leaders(broker) == {NODE_ID}
        broker.strand()
        assert {await coordinator(broker, key) for key in "abc"} == {OTHER}
        assert await leaders(broker) == {NODE_ID}
        broker.brokers.session_lasts = True
        assert {await coordinator(broker, key) for key in "abc"} == {NODE_ID}
        assert await leaders(broker) == {NODE_ID}


async def coordinator(broker: OneBroker, key: str) -> int:
    return (await find(broker, 6, key)).coordinators[0].node_id


async def leaders(broker: OneBroker) -> set[int]:
    connection = await Connection.open("127.0.0.1", broker.port, client_id="t")
    try:
        answer = await connection.request(METADATA, 12, MetadataRequest(topics=None), 10)
    finally:
        connection.close()
    return {each.leader_id for topic in answer.topics for each in topic.partitions}
