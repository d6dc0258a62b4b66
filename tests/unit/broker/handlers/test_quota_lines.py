"""Client quotas over the wire (checklist line 10), and how they are set and told."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from rookery.broker.quotas.client_quotas import QuotaClient
from rookery.core.errors import ErrorCode, NotControllerError
from rookery.core.metadata.image import Endpoint
from rookery.core.metadata.records import PartitionChangeRecord, RegisterBrokerRecord
from rookery.core.types import NO_TOPIC_ID
from rookery.core.wire.apis import alter_client_quotas as alter
from rookery.core.wire.apis import describe_client_quotas as describe
from rookery.core.wire.apis.api_versions import API_VERSIONS, ApiVersionsRequest
from rookery.core.wire.apis.create_partitions import (
    CREATE_PARTITIONS,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from rookery.core.wire.apis.create_topics import (
    CREATE_TOPICS,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from rookery.core.wire.apis.delete_topics import DELETE_TOPICS, DeleteTopicsRequest, DeleteTopicState
from rookery.core.wire.apis.fetch import FETCH, FetchPartition, FetchRequest, FetchResponse, FetchTopic
from rookery.core.wire.apis.metadata import METADATA, MetadataRequest, MetadataRequestTopic
from rookery.core.wire.apis.produce import PRODUCE, ProduceResponse
from tests.unit.broker.one_broker import LISTENER
from tests.unit.broker.talk import QuietBroker, Talk, batch_of, fetch_request, produce_request

Parts = tuple[tuple[str, str | None], ...]
EVERY_CLIENT: Parts = (("client-id", None),)
EXACT, DEFAULT, ANY = 0, 1, 2


async def set_quota(
    broker: QuietBroker, parts: Parts, *, version: int = 1, validate_only: bool = False, **values: float | None
) -> ErrorCode:
    entity = [alter.EntityData(entity_type=type, entity_name=name) for type, name in parts]
    ops = [alter.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()]
    request = alter.AlterClientQuotasRequest(
        entries=[alter.EntryData(entity=entity, ops=ops)], validate_only=validate_only
    )
    answer = await broker.talk().ask(alter.ALTER_CLIENT_QUOTAS, version, request)
    (entry,) = answer.entries
    assert tuple((part.entity_type, part.entity_name) for part in entry.entity) == parts
    assert bool(entry.error_message) == bool(entry.error_code)
    return ErrorCode(entry.error_code)


async def found(
    broker: QuietBroker, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> dict[Parts, dict[str, float]]:
    request = describe.DescribeClientQuotasRequest(
        components=[describe.ComponentData(entity_type=t, match_type=m, match=n) for t, m, n in components],
        strict=strict,
    )
    answer = await broker.talk().ask(describe.DESCRIBE_CLIENT_QUOTAS, version, request)
    if answer.error_code:
        assert answer.entries is None
        assert answer.error_message
        raise LookupError(ErrorCode(answer.error_code).name)
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries
    }


# --- setting and telling ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1])
async def test_quotas_are_reported_as_they_were_set(broker: QuietBroker, version: int) -> None:
    assert await set_quota(broker, EVERY_CLIENT, version=version, producer_byte_rate=1000.0) == ErrorCode.NONE
    assert await found(broker, version=version) == {EVERY_CLIENT: {"producer_byte_rate": 1000.0}}
    assert await set_quota(broker, EVERY_CLIENT, validate_only=True, producer_byte_rate=1.0) == ErrorCode.NONE
    assert await found(broker) == {EVERY_CLIENT: {"producer_byte_rate": 1000.0}}
    assert await set_quota(broker, EVERY_CLIENT, connection_creation_rate=1.0) == ErrorCode.INVALID_REQUEST
    assert await set_quota(broker, EVERY_CLIENT, producer_byte_rate=None) == ErrorCode.NONE
    assert await found(broker) == {}


async def test_a_controller_that_refuses_is_quoted(broker: QuietBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(request: object) -> Any:
        raise NotControllerError("nobody leads")

    monkeypatch.setattr(broker.cluster, "ask", refuse)
    assert await set_quota(broker, EVERY_CLIENT, producer_byte_rate=1.0) == ErrorCode.NOT_CONTROLLER


ENTITIES: dict[str, Parts] = {
    "user": (("user", "ann"),),
    "users": (("user", None),),
    "both": (("client-id", "app"), ("user", "ann")),
    "id": (("client-id", "app"),),
    "ids": (("client-id", None),),
    "ip": (("ip", "10.0.0.1"),),
}


@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        ((), False, set(ENTITIES)),
        ((), True, set()),
        ((("user", EXACT, "ann"),), False, {"user", "both"}),
        ((("user", EXACT, "ann"),), True, {"user"}),
        ((("user", DEFAULT, None),), False, {"users"}),
        ((("user", ANY, None),), False, {"user", "users", "both"}),
        ((("user", ANY, None),), True, {"user", "users"}),
        ((("client-id", EXACT, "app"), ("user", ANY, None)), True, {"both"}),
        ((("client-id", EXACT, "other"),), False, set()),
        ((("ip", ANY, None),), True, {"ip"}),
    ],
)
async def test_entities_are_found_by_their_parts(
    broker: QuietBroker, components: Any, strict: bool, expected: set[str]
) -> None:
    for parts in ENTITIES.values():
        if parts[0][0] == "ip":
            assert await set_quota(broker, parts, connection_creation_rate=5.0) == ErrorCode.NONE
        else:
            assert await set_quota(broker, parts, request_percentage=5.0) == ErrorCode.NONE
    assert set(await found(broker, *components, strict=strict)) == {ENTITIES[name] for name in expected}


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ((("group", ANY, None),), "UNSUPPORTED_VERSION"),
        ((("", ANY, None),), "UNSUPPORTED_VERSION"),
        ((("user", EXACT, None),), "INVALID_REQUEST"),
        ((("user", DEFAULT, "ann"),), "INVALID_REQUEST"),
        ((("user", 3, None),), "INVALID_REQUEST"),
        ((("user", ANY, None), ("user", DEFAULT, None)), "INVALID_REQUEST"),
        ((("user", ANY, None), ("ip", ANY, None)), "INVALID_REQUEST"),
    ],
)
async def test_questions_that_make_no_sense_are_refused(broker: QuietBroker, components: Any, error: str) -> None:
    with pytest.raises(LookupError, match=error):
        await found(broker, *components)


# --- keeping them -------------------------------------------------------------------------------------------


async def produce(talk: Talk, size: int, acks: int = 1) -> ProduceResponse:
    answer: ProduceResponse = await talk.ask(PRODUCE, 11, produce_request("orders", batch_of(bytes(size)), acks=acks))
    return answer


def is_held(broker: QuietBroker, talk: Talk, seconds: float) -> None:
    """Nothing is answered until so much time has passed, and then all is."""
    talk.send(METADATA, 12, MetadataRequest(topics=[]))
    assert talk.receive() == []
    broker.advance(seconds - 0.01)
    assert talk.receive() == []
    broker.advance(0.02)
    assert len(talk.receive()) == 1


async def test_line_10_produce_is_answered_at_once_and_the_connection_rests(broker: QuietBroker) -> None:
    await broker.create("orders")
    await set_quota(broker, EVERY_CLIENT, producer_byte_rate=1000.0)
    talk = broker.talk()
    assert (await produce(talk, 5000)).throttle_time_ms == 0
    answer = await produce(talk, 10_000)
    assert answer.responses[0].partition_responses[0].base_offset == 1, "the batch is written all the same"
    assert 5000 < answer.throttle_time_ms < 5500, "15 KB and some, of which 10 may go at once"
    is_held(broker, talk, answer.throttle_time_ms / 1000)


async def test_line_10_acks_0_is_held_for_its_bytes_without_an_answer(broker: QuietBroker) -> None:
    await broker.create("orders")
    await set_quota(broker, EVERY_CLIENT, producer_byte_rate=1000.0, request_percentage=0.000001)
    talk = broker.talk()
    size = len(batch_of(bytes(12_000)))
    talk.send(PRODUCE, 11, produce_request("orders", batch_of(bytes(12_000)), acks=0))
    talk.send(METADATA, 12, MetadataRequest(topics=[]))
    assert broker.partition("orders").log.segment_log.end_offset == 1
    assert not talk.transport.frames()
    broker.advance(size / 1000 - 10)
    assert not talk.transport.frames(), "the request itself is a little larger than its batch"
    broker.advance(0.5)
    assert len(talk.transport.frames()) == 1


async def test_other_clients_are_not_held(broker: QuietBroker) -> None:
    await broker.create("orders")
    await set_quota(broker, (("client-id", "other"),), producer_byte_rate=1.0)
    await set_quota(broker, (("user", "ann"),), producer_byte_rate=1.0)
    talk = broker.talk()
    assert (await produce(talk, 10_000)).throttle_time_ms == 0
    await set_quota(broker, (("user", "ANONYMOUS"),), producer_byte_rate=1.0)
    assert (await produce(talk, 10_000)).throttle_time_ms > 0


async def fill(broker: QuietBroker, batches: int, size: int = 1000) -> None:
    await broker.create("orders")
    talk = broker.talk()
    for _ in range(batches):
        await talk.produce("orders", batch_of(bytes(size)))


def fetched(answer: FetchResponse) -> int:
    return sum(len(one.records or b"") for topic in answer.responses for one in topic.partitions)


async def test_line_10_a_fetch_beyond_the_quota_is_answered_empty_and_the_connection_rests(
    broker: QuietBroker,
) -> None:
    await fill(broker, 20)
    await set_quota(broker, EVERY_CLIENT, consumer_byte_rate=1000.0)
    talk = broker.talk()
    first = await talk.ask(FETCH, 12, fetch_request("orders", 0))
    assert 8000 < fetched(first) <= 10_000, "no more is read than ten seconds allow"
    assert first.throttle_time_ms == 0
    second = await talk.ask(FETCH, 12, fetch_request("orders", 9))
    assert (second.error_code, second.session_id, list(second.responses)) == (0, 0, [])
    assert second.throttle_time_ms > 0
    is_held(broker, talk, second.throttle_time_ms / 1000)
    broker.advance(11)
    assert fetched(await talk.ask(FETCH, 12, fetch_request("orders", 9))) > 8000


async def test_line_10_a_parked_fetch_is_judged_when_its_data_is_there(broker: QuietBroker) -> None:
    await fill(broker, 9)
    await set_quota(broker, EVERY_CLIENT, consumer_byte_rate=1000.0)
    talk, writer = broker.talk(), broker.talk()
    assert fetched(await talk.ask(FETCH, 12, fetch_request("orders", 0))) > 9000
    talk.send(FETCH, 12, fetch_request("orders", 9, max_wait_ms=60_000, min_bytes=500))
    assert talk.receive() == []
    await writer.produce("orders", batch_of(bytes(1000)))
    (answer,) = talk.receive()
    assert (fetched(answer), answer.throttle_time_ms > 0) == (0, True)
    is_held(broker, talk, answer.throttle_time_ms / 1000)


def in_session(session_id: int, epoch: int, offset: int | None = None) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset or 0, partition_max_bytes=1 << 20)
    topics = [] if offset is None else [FetchTopic(topic="orders", partitions=[partition])]
    return FetchRequest(session_id=session_id, session_epoch=epoch, topics=topics, max_wait_ms=0, min_bytes=1)


async def test_a_session_survives_a_hold_and_a_new_one_is_not_begun_by_an_empty_answer(broker: QuietBroker) -> None:
    await fill(broker, 20)
    await set_quota(broker, EVERY_CLIENT, consumer_byte_rate=1000.0)
    talk = broker.talk()
    first = await talk.ask(FETCH, 12, in_session(0, 0, 0))
    assert first.session_id > 0
    held = await talk.ask(FETCH, 12, in_session(first.session_id, 1, 9))
    assert (held.session_id, list(held.responses), held.throttle_time_ms > 0) == (first.session_id, [], True)
    begun = await broker.talk().ask(FETCH, 12, in_session(0, 0, 9))
    assert (begun.session_id, list(begun.responses), begun.throttle_time_ms > 0) == (0, [], True)
    broker.advance(22)
    goes_on = await talk.ask(FETCH, 12, in_session(first.session_id, 2))
    assert (goes_on.error_code, goes_on.session_id) == (0, first.session_id)
    assert fetched(goes_on) > 8000


async def test_a_batch_larger_than_the_quota_is_not_in_the_way_for_ever(broker: QuietBroker) -> None:
    await fill(broker, 2, size=50_000)
    await set_quota(broker, EVERY_CLIENT, consumer_byte_rate=1000.0)
    talk = broker.talk()
    assert fetched(await talk.ask(FETCH, 12, fetch_request("orders", 0))) > 50_000
    held = await talk.ask(FETCH, 12, fetch_request("orders", 1))
    assert (fetched(held), held.throttle_time_ms > 50_000) == (0, True)
    broker.advance(held.throttle_time_ms / 1000)
    assert fetched(await talk.ask(FETCH, 12, fetch_request("orders", 1))) > 50_000


async def test_followers_have_no_quota(broker: QuietBroker) -> None:
    endpoint = Endpoint(LISTENER, "127.0.0.1", 9093, "PLAINTEXT")
    broker.cluster.commit([RegisterBrokerRecord(2, UUID(int=2), (endpoint,), fenced=False)])
    await fill(broker, 20)
    topic_id = broker.cluster.image.topic_ids["orders"]
    broker.cluster.commit([PartitionChangeRecord(topic_id, 0, replicas=(1, 2), isr=(1,))])
    await set_quota(broker, EVERY_CLIENT, consumer_byte_rate=1.0, request_percentage=0.000001)
    talk = broker.talk()
    for _ in range(3):
        answer = await talk.ask(FETCH, 12, fetch_request("orders", 0, replica_id=2))
        assert (fetched(answer) > 10_000, answer.throttle_time_ms) == (True, 0)


async def test_the_answer_to_api_versions_stays_whole(broker: QuietBroker) -> None:
    await set_quota(broker, EVERY_CLIENT, request_percentage=50.0)
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    answer = await broker.talk().ask(API_VERSIONS, 3, request)
    ranges = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
    assert (ranges[48], ranges[49]) == ((0, 1), (0, 1))


@pytest.mark.parametrize("version", [1, 4])
async def test_the_shared_answer_to_api_versions_keeps_no_throttle_time(broker: QuietBroker, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    free = await broker.talk().ask(API_VERSIONS, version, request)
    await set_quota(broker, EVERY_CLIENT, request_percentage=0.000001)
    broker.client_quotas.worked(QuotaClient("ANONYMOUS", "test"), 1.0)
    throttled = await broker.talk().ask(API_VERSIONS, version, request)
    await set_quota(broker, EVERY_CLIENT, request_percentage=None)
    assert throttled.throttle_time_ms > 0
    assert throttled.api_keys == free.api_keys
    assert await broker.talk().ask(API_VERSIONS, version, request) == free


# --- topics and partitions ----------------------------------------------------------------------------------


def new_topic(name: str, partitions: int) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])


async def make(broker: QuietBroker, talk: Talk, *sizes: int, version: int = 7, **options: Any) -> CreateTopicsResponse:
    """Create topics of these numbers of partitions, with names that are new."""
    number = len(broker.cluster.image.topics)
    topics = [new_topic(f"topic-{number + place}", size) for place, size in enumerate(sizes)]
    answer: CreateTopicsResponse = await talk.ask(
        CREATE_TOPICS, version, CreateTopicsRequest(topics=topics, timeout_ms=5000, **options)
    )
    return answer


def errors(answer: Any) -> list[int]:
    return [one.error_code for one in answer.topics]


HELD = ErrorCode.THROTTLING_QUOTA_EXCEEDED


async def test_changes_of_partitions_are_refused_topic_by_topic_until_the_quota_allows_them(
    broker: QuietBroker,
) -> None:
    await set_quota(broker, EVERY_CLIENT, controller_mutation_rate=1.0)
    talk = broker.talk()
    assert errors(await make(broker, talk, 100, 5, validate_only=True)) == [0, 0], "a check costs nothing"
    answer = await make(broker, talk, 6, 6, 1)
    assert errors(answer) == [0, 0, HELD], "eleven seconds' worth may be made, and the topic that reaches it"
    assert 1000 <= answer.throttle_time_ms < 1100, "twelve were made"
    assert answer.topics[2].error_message
    is_held(broker, talk, answer.throttle_time_ms / 1000)
    assert errors(await make(broker, talk, 3)) == [0]
    growth = CreatePartitionsTopic(name="topic-0", count=8)
    request = CreatePartitionsRequest(topics=[growth], timeout_ms=5000, validate_only=False)
    grown = await talk.ask(CREATE_PARTITIONS, 3, request)
    assert (grown.results[0].error_code, grown.throttle_time_ms > 2000) == (HELD, True)
    broker.advance(20)
    grown = await talk.ask(CREATE_PARTITIONS, 3, request)
    assert (grown.results[0].error_code, grown.throttle_time_ms) == (0, 0)
    by_id = DeleteTopicState(name=None, topic_id=broker.cluster.image.topic_ids["topic-0"])
    by_name = [DeleteTopicState(name=f"topic-{number}", topic_id=NO_TOPIC_ID) for number in (1, 2)]
    gone = DeleteTopicsRequest(topics=[by_id, *by_name], timeout_ms=5000)
    deleted = await talk.ask(DELETE_TOPICS, 6, gone)
    assert [one.error_code for one in deleted.responses] == [0, 0, HELD]
    assert deleted.responses[2].name == "topic-2"
    assert set(broker.cluster.image.topic_ids) == {"topic-2"}


async def test_older_clients_are_served_and_held_afterwards(broker: QuietBroker) -> None:
    await set_quota(broker, EVERY_CLIENT, controller_mutation_rate=1.0)
    talk = broker.talk()
    answer = await make(broker, talk, 10, 10, version=5)
    assert (errors(answer), answer.throttle_time_ms) == ([0, 0], 9000)
    is_held(broker, talk, 9)


async def test_what_the_controller_refuses_is_not_paid_for(broker: QuietBroker) -> None:
    await set_quota(broker, EVERY_CLIENT, controller_mutation_rate=1.0)
    talk = broker.talk()
    await make(broker, talk, 1)
    again = CreateTopicsRequest(topics=[new_topic("topic-0", 500)], timeout_ms=5000)
    for _ in range(3):
        assert errors(await talk.ask(CREATE_TOPICS, 7, again)) == [ErrorCode.TOPIC_ALREADY_EXISTS]
    unknown = DeleteTopicsRequest(topic_names=["nowhere"], timeout_ms=5000)
    assert (await talk.ask(DELETE_TOPICS, 5, unknown)).responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors(await make(broker, talk, 10)) == [0]


async def test_topics_made_on_demand_count(broker: QuietBroker) -> None:
    await set_quota(broker, EVERY_CLIENT, controller_mutation_rate=1.0)
    talk = broker.talk()
    names = [f"wanted-{number}" for number in range(20)]

    async def ask() -> None:
        topics = [MetadataRequestTopic(name=name) for name in names]
        await talk.ask(METADATA, 12, MetadataRequest(topics=topics, allow_auto_topic_creation=True))
        await asyncio.sleep(0)

    await ask()
    await broker.cluster.until(lambda image: len(image.topics) == 12, 5)
    assert len(broker.cluster.image.topics) == 12, "eleven, and one that is owed"
    await ask()
    assert len(broker.cluster.image.topics) == 12
    broker.advance(30)
    await ask()
    assert await broker.cluster.until(lambda image: len(image.topics) == 20, 5)
