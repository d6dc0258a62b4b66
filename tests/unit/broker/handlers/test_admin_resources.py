"""What tools ask for besides topics and options: names, users, brokers that are gone, moves, producers."""

import asyncio
from uuid import UUID

import pytest

from rookery.core.errors import ErrorCode
from rookery.core.metadata.image import Endpoint, ResourceType
from rookery.core.metadata.records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from rookery.core.metadata.requests import ListReassignmentsReply, ListReassignmentsRequest
from rookery.core.wire.apis.alter_user_scram_credentials import (
    ALTER_USER_SCRAM_CREDENTIALS,
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from rookery.core.wire.apis.describe_producers import (
    DESCRIBE_PRODUCERS,
    DescribeProducersRequest,
    TopicRequest,
)
from rookery.core.wire.apis.describe_user_scram_credentials import (
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    DescribeUserScramCredentialsRequest,
    UserName,
)
from rookery.core.wire.apis.list_config_resources import LIST_CONFIG_RESOURCES, ListConfigResourcesRequest
from rookery.core.wire.apis.list_partition_reassignments import (
    LIST_PARTITION_REASSIGNMENTS,
    ListPartitionReassignmentsRequest,
)
from rookery.core.wire.apis.unregister_broker import UNREGISTER_BROKER, UnregisterBrokerRequest
from rookery.core.wire.records import Record, build_batch
from tests.unit.broker.one_broker import LISTENER, NODE_ID
from tests.unit.broker.talk import QuietBroker

TOPIC, NODE, LOGGER = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER


def register(broker: QuietBroker, node_id: int, *, fenced: bool = False) -> int:
    """Another broker, which exists in the metadata alone; its epoch."""
    endpoint = Endpoint(LISTENER, "127.0.0.1", 9092 + node_id, "PLAINTEXT")
    record = RegisterBrokerRecord(node_id, UUID(int=node_id), (endpoint,), fenced=fenced)
    return broker.cluster.commit([record]).brokers[node_id].epoch


@pytest.mark.parametrize(
    ("version", "types", "found"),
    [
        (0, [], []),
        (1, [TOPIC], [("a", TOPIC), ("b", TOPIC)]),
        (1, [NODE], [("1", NODE), ("2", NODE)]),
        (1, [ResourceType.CLIENT_METRICS, ResourceType.GROUP], []),
        (1, [], [("a", TOPIC), ("b", TOPIC), ("1", NODE), ("2", NODE), ("1", LOGGER), ("2", LOGGER)]),
    ],
)
async def test_what_has_options_is_listed(
    broker: QuietBroker, version: int, types: list[int], found: list[tuple[str, int]]
) -> None:
    await broker.create("b")
    await broker.create("a")
    register(broker, 2)
    register(broker, 3, fenced=True)
    answer = await broker.talk().ask(
        LIST_CONFIG_RESOURCES, version, ListConfigResourcesRequest(resource_types=types)
    )
    assert answer.error_code == ErrorCode.NONE
    assert [(one.resource_name, one.resource_type) for one in answer.config_resources] == found


async def test_types_without_options_are_not_listed(broker: QuietBroker) -> None:
    request = ListConfigResourcesRequest(resource_types=[TOPIC, 99])
    assert (await broker.talk().ask(LIST_CONFIG_RESOURCES, 1, request)).error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_nobody_has_scram_credentials(broker: QuietBroker) -> None:
    talk = broker.talk()
    everybody = await talk.ask(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, DescribeUserScramCredentialsRequest())
    assert (everybody.error_code, everybody.results) == (ErrorCode.NONE, [])
    users = [UserName(name=name) for name in ("ann", "bob", "bob")]
    named = await talk.ask(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, DescribeUserScramCredentialsRequest(users=users))
    assert [(one.user, one.error_code) for one in named.results] == [
        ("ann", ErrorCode.RESOURCE_NOT_FOUND),
        ("bob", ErrorCode.DUPLICATE_RESOURCE),
    ]


async def test_users_are_described_without_their_keys_after_they_are_set(broker: QuietBroker) -> None:
    talk = broker.talk()
    upsertions = [
        ScramCredentialUpsertion(name=name, mechanism=1, iterations=rounds, salt=b"salt", salted_password=b"p" * 32)
        for name, rounds in (("ann", 4096), ("bob", 5000), ("eve", 1))
    ]
    asked = AlterUserScramCredentialsRequest(deletions=[], upsertions=upsertions)
    altered = await talk.ask(ALTER_USER_SCRAM_CREDENTIALS, 0, asked)
    assert {one.user: one.error_code for one in altered.results} == {
        "ann": ErrorCode.NONE,
        "bob": ErrorCode.NONE,
        "eve": ErrorCode.UNACCEPTABLE_CREDENTIAL,
    }
    found = await talk.ask(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, DescribeUserScramCredentialsRequest())
    assert [(one.user, [(i.mechanism, i.iterations) for i in one.credential_infos]) for one in found.results] == [
        ("ann", [(1, 4096)]),
        ("bob", [(1, 5000)]),
    ]
    gone = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name=name, mechanism=1) for name in ("ann", "eve")], upsertions=[]
    )
    removed = await talk.ask(ALTER_USER_SCRAM_CREDENTIALS, 0, gone)
    assert {one.user: one.error_code for one in removed.results} == {
        "ann": ErrorCode.NONE,
        "eve": ErrorCode.RESOURCE_NOT_FOUND,
    }


async def test_a_broker_that_is_gone_is_forgotten(broker: QuietBroker) -> None:
    epoch = register(broker, 2)

    async def unregister() -> ErrorCode:
        answer = await broker.talk().ask(UNREGISTER_BROKER, 0, UnregisterBrokerRequest(broker_id=2))
        assert bool(answer.error_message) == bool(answer.error_code)
        return ErrorCode(answer.error_code)

    assert await unregister() is ErrorCode.INVALID_REQUEST, "it is alive"
    assert 2 in broker.cluster.image.brokers
    broker.cluster.commit([BrokerRegistrationChangeRecord(2, epoch, fenced=True)])
    assert await unregister() is ErrorCode.NONE
    assert 2 not in broker.cluster.image.brokers
    assert await unregister() is ErrorCode.BROKER_ID_NOT_REGISTERED


async def test_the_timeout_of_listing_moves_is_no_deadline(
    broker: QuietBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = asyncio.Event()

    async def slow(request: ListReassignmentsRequest) -> ListReassignmentsReply:
        asyncio.get_running_loop().call_later(0.02, answered.set)
        await answered.wait()
        return ListReassignmentsReply(())

    monkeypatch.setattr(broker.cluster, "ask", slow)
    request = ListPartitionReassignmentsRequest(timeout_ms=0)
    assert (await broker.talk().ask(LIST_PARTITION_REASSIGNMENTS, 0, request)).error_code == ErrorCode.NONE


async def test_producers_of_a_partition_are_reported_by_every_replica(broker: QuietBroker) -> None:
    talk = broker.talk()
    await broker.create("orders")
    register(broker, 2)
    records = [Record(n, 1000 + n, None, b"x", []) for n in range(3)]
    await talk.produce("orders", bytes(build_batch(records, producer_id=7, producer_epoch=2, base_sequence=0)))
    asked = DescribeProducersRequest(topics=[TopicRequest(name="orders", partition_indexes=[0, 4])])

    async def producers() -> list[tuple[int, int, int, int, int]]:
        first, missing = (await talk.ask(DESCRIBE_PRODUCERS, 0, asked)).topics[0].partitions
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return [
            (one.producer_id, one.producer_epoch, one.last_sequence, one.last_timestamp, one.current_txn_start_offset)
            for one in first.active_producers
        ]

    assert await producers() == [(7, 2, 2, 1002, -1)]
    topic_id = broker.cluster.image.topic_ids["orders"]
    elsewhere = PartitionChangeRecord(topic_id, 0, isr=(NODE_ID, 2), leader=2, replicas=(NODE_ID, 2))
    broker.cluster.commit([elsewhere])
    assert await producers() == [(7, 2, 2, 1002, -1)], "this broker follows now"
