"""A leader holds back replicas that catch up, when the cluster says so."""

from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from rookery.broker.replication.topic_settings import TopicSettings
from rookery.core.metadata.image import Endpoint
from rookery.core.metadata.records import PartitionChangeRecord, RegisterBrokerRecord
from rookery.core.wire.apis.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from rookery.core.wire.records import Record, build_batch
from tests.unit.broker.one_broker import LISTENER
from tests.unit.broker.talk import QuietBroker, Talk

FOLLOWER = 2
BATCH = bytes(build_batch([Record(0, 0, None, b"x" * 5000, [])]))


@pytest.fixture
async def broker() -> AsyncIterator[QuietBroker]:
    """Leads a partition with two batches in it; broker 2 has a replica that is out of sync."""
    quiet = QuietBroker()
    endpoint = Endpoint(LISTENER, "127.0.0.1", 9093, "PLAINTEXT")
    quiet.cluster.commit([RegisterBrokerRecord(FOLLOWER, UUID(int=2), (endpoint,), fenced=False)])
    await quiet.create("orders", leader_replication_throttled_replicas="*")
    topic_id = quiet.cluster.image.topic_ids["orders"]
    quiet.cluster.commit([PartitionChangeRecord(topic_id, 0, replicas=(1, FOLLOWER), isr=(1,))])
    for _ in range(2):
        await quiet.talk().produce("orders", BATCH)
    quiet.broker.leader_quota.rate = 1000
    yield quiet
    await quiet.stop()


async def fetch(talk: Talk, offset: int) -> int:
    """Bytes that the follower gets from an offset on."""
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=len(BATCH))
    request = FetchRequest(
        replica_id=FOLLOWER,
        max_wait_ms=0,
        min_bytes=1,
        topics=[FetchTopic(topic="orders", partitions=[asked])],
        forgotten_topics_data=(),
    )
    answer = await talk.ask(FETCH, 11, request)
    (data,) = answer.responses[0].partitions
    assert data.error_code == 0
    return len(data.records or b"")


@pytest.mark.row(71)
async def test_a_replica_that_catches_up_waits_when_it_took_its_share(broker: QuietBroker) -> None:
    talk = broker.talk()
    assert await fetch(talk, 0) == len(BATCH)
    assert await fetch(talk, 1) == 0
    broker.advance(len(BATCH) / 1000 + 1)
    assert await fetch(talk, 1) == len(BATCH)


@pytest.mark.row(71)
async def test_a_replica_in_sync_is_never_held_back(broker: QuietBroker) -> None:
    topic_id = broker.cluster.image.topic_ids["orders"]
    broker.cluster.commit([PartitionChangeRecord(topic_id, 0, isr=(1, FOLLOWER))])
    talk = broker.talk()
    assert await fetch(talk, 0) == len(BATCH)
    assert await fetch(talk, 1) == len(BATCH)


async def test_replicas_that_are_not_named_are_never_held_back(broker: QuietBroker) -> None:
    broker.partition("orders").settings = TopicSettings(leader_throttled=frozenset({"7:1"}))
    talk = broker.talk()
    assert await fetch(talk, 0) == len(BATCH)
    assert await fetch(talk, 1) == len(BATCH)
