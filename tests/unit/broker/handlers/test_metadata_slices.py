"""A request for all topics of a large cluster does not hold the loop: its answer is built in slices."""

import asyncio
from uuid import UUID

import pytest

from rookery.broker.handlers import metadata
from rookery.core.metadata.image import Endpoint
from rookery.core.metadata.records import PartitionRecord, RegisterBrokerRecord, TopicRecord
from rookery.core.wire.apis.api_versions import API_VERSIONS, ApiVersionsRequest
from rookery.core.wire.apis.metadata import METADATA, MetadataRequest, MetadataResponse
from tests.unit.broker.one_broker import LISTENER, directory_of
from tests.unit.broker.talk import QuietBroker

EVERYTHING = MetadataRequest(topics=None)
PARTITIONS = 5 * metadata.SLICE + 7


def fill(broker: QuietBroker) -> None:
    """Two topics that another broker has: one is larger than a slice, one is small."""
    endpoint = Endpoint(LISTENER, "127.0.0.1", 9093, "PLAINTEXT")
    broker.cluster.commit([RegisterBrokerRecord(2, UUID(int=2), (endpoint,), fenced=False)])
    for number, (name, partitions) in enumerate((("large", PARTITIONS), ("small", 3)), 7):
        topic_id, directories = UUID(int=number), (directory_of(2),)
        records = [
            PartitionRecord(topic_id, index, (2,), (2,), leader=2, directories=directories)
            for index in range(partitions)
        ]
        broker.cluster.commit([TopicRecord(name, topic_id), *records])


def leaders(answer: MetadataResponse) -> list[tuple[str | None, int, set[int]]]:
    """Of each topic: its name, how many partitions it has, and who leads them."""
    return [(each.name, len(each.partitions), {one.leader_id for one in each.partitions}) for each in answer.topics]


async def test_no_pass_builds_more_than_a_slice_and_others_are_served_between(
    broker: QuietBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(broker)
    built = 0
    partition = metadata._View.partition

    def counted(view: metadata._View, *what: object) -> object:
        nonlocal built
        built += 1
        return partition(view, *what)  # type: ignore[arg-type]

    monkeypatch.setattr(metadata._View, "partition", counted)
    talk, other = broker.talk(), broker.talk()
    talk.send(METADATA, 12, EVERYTHING)
    answers: list[MetadataResponse] = []
    served = 0
    while not answers:
        before = built
        await other.ask(API_VERSIONS, 3, ApiVersionsRequest(client_software_name="a", client_software_version="1"))
        served += 1
        await broker_pass()
        answers = talk.receive()
        assert built - before <= 2 * metadata.SLICE
    assert served >= 3
    assert leaders(answers[0]) == [("large", PARTITIONS, {2}), ("small", 3, {2})]
    assert built == PARTITIONS + 3
    assert leaders(await talk.ask(METADATA, 12, EVERYTHING)) == leaders(answers[0])
    assert built == PARTITIONS + 3, "an answer that still holds is built once"


async def test_an_answer_that_is_out_of_date_when_it_is_built_is_not_kept(broker: QuietBroker) -> None:
    fill(broker)
    talk = broker.talk()
    talk.send(METADATA, 12, EVERYTHING)
    await broker_pass()
    assert talk.receive() == []
    broker.cluster.commit([RegisterBrokerRecord(2, UUID(int=2), (), fenced=True)])
    gone = await broker.talk().ask(METADATA, 12, MetadataRequest(topics=None))
    assert leaders(gone) == [("large", PARTITIONS, {-1}), ("small", 3, {-1})]
    (asked_before,) = await talk.receive_some(1)
    assert leaders(asked_before)[0] == ("large", PARTITIONS, {2}), "as it was when it was asked for"
    assert leaders(await talk.ask(METADATA, 12, EVERYTHING)) == leaders(gone)


async def broker_pass() -> None:
    """One pass of the loop."""
    await asyncio.sleep(0)
