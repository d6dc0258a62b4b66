"""Consumers that say in which rack they are: a leader sends them on, a follower serves them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from rookery.core.config import node
from rookery.core.config.options import ConfigError, Settings
from rookery.core.errors import ErrorCode
from rookery.core.metadata.image import Endpoint
from rookery.core.metadata.records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from rookery.core.wire.apis.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic, PartitionData
from rookery.core.wire.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from rookery.core.wire.markers import EndMarker, build_marker
from rookery.core.wire.records import batches, stamp
from tests.unit.broker.one_broker import LISTENER
from tests.unit.broker.talk import QuietBroker, Talk, batch_of, fetch_request

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
FOLLOWER = 2


def register(broker: QuietBroker, node_id: int, rack: str | None, *listeners: str) -> None:
    endpoints = tuple(Endpoint(name, "127.0.0.1", 9091 + node_id, "PLAINTEXT") for name in listeners)
    broker.cluster.commit([RegisterBrokerRecord(node_id, UUID(int=node_id), endpoints, rack=rack, fenced=False)])


def change(broker: QuietBroker, **state: Any) -> None:
    topic_id = broker.cluster.image.topic_ids["orders"]
    broker.cluster.commit([PartitionChangeRecord(topic_id, 0, **state)])


async def shared(broker: QuietBroker) -> None:
    """A topic of two replicas; of the three batches in the leader's log the third is not committed yet."""
    await broker.create("orders")
    for number in range(3):
        if number == 2:
            change(broker, replicas=(1, FOLLOWER), isr=(1, FOLLOWER))
        await broker.talk().produce("orders", batch_of(b"x"))
    log = broker.partition("orders").log
    assert (log.high_watermark, log.end_offset) == (2, 3)


@pytest.fixture
async def leader() -> AsyncIterator[QuietBroker]:
    """Stands in rack a; its follower, in rack b, has two of three batches."""
    quiet = QuietBroker(config={"replica.selector.class": SELECTOR})
    register(quiet, 1, "a", LISTENER)
    register(quiet, FOLLOWER, "b", LISTENER)
    await shared(quiet)
    await follow(quiet.talk(), 2)
    yield quiet
    await quiet.stop()


@pytest.fixture
async def follower() -> AsyncIterator[QuietBroker]:
    """Has three batches, of which it knows two to be committed."""
    quiet = QuietBroker()
    register(quiet, FOLLOWER, "b", LISTENER)
    await shared(quiet)
    change(quiet, leader=FOLLOWER)
    yield quiet
    await quiet.stop()


async def follow(talk: Talk, offset: int) -> PartitionData:
    return await talk.fetch("orders", offset, replica_id=FOLLOWER)


def offsets(data: PartitionData) -> list[int]:
    return [header.base_offset for _, header in batches(data.records or b"")]


# --- the leader's side ------------------------------------------------------------------------------------------


@pytest.mark.row(73)
async def test_a_consumer_is_sent_to_the_follower_in_its_rack(leader: QuietBroker) -> None:
    data = await leader.talk().fetch("orders", 1, rack_id="b")
    assert (data.error_code, data.preferred_read_replica, offsets(data)) == (ErrorCode.NONE, FOLLOWER, [])
    assert (data.high_watermark, data.log_start_offset) == (leader.partition("orders").log.high_watermark, 0)


@pytest.mark.parametrize("rack", ["", "a", "c"])
async def test_who_has_no_follower_near_is_served(leader: QuietBroker, rack: str) -> None:
    data = await leader.talk().fetch("orders", 1, rack_id=rack)
    assert data.preferred_read_replica == -1
    assert offsets(data)


async def test_nobody_is_sent_to_a_follower_that_has_less(leader: QuietBroker) -> None:
    change(leader, isr=(1,))
    assert (await leader.talk().fetch("orders", 1, rack_id="b")).preferred_read_replica == -1, "it is not in sync"
    change(leader, isr=(1, FOLLOWER))
    assert (await leader.talk().fetch("orders", 1, rack_id="b")).preferred_read_replica == FOLLOWER
    assert (await leader.talk().fetch("orders", 3, rack_id="b")).preferred_read_replica == -1, "it ends at 2"


async def test_nobody_is_sent_to_a_broker_that_cannot_be_reached(leader: QuietBroker) -> None:
    register(leader, FOLLOWER, "b", "OTHER")
    assert (await leader.talk().fetch("orders", 1, rack_id="b")).preferred_read_replica == -1
    register(leader, FOLLOWER, "b", LISTENER)
    epoch = leader.cluster.image.brokers[FOLLOWER].epoch
    leader.cluster.commit([BrokerRegistrationChangeRecord(FOLLOWER, epoch, fenced=True)])
    assert (await leader.talk().fetch("orders", 1, rack_id="b")).preferred_read_replica == -1


async def test_without_a_selector_everybody_reads_from_the_leader(broker: QuietBroker) -> None:
    register(broker, FOLLOWER, "b", LISTENER)
    await shared(broker)
    await follow(broker.talk(), 2)
    data = await broker.talk().fetch("orders", 1, rack_id="b")
    assert (data.preferred_read_replica, offsets(data)) == (-1, [1])


async def test_a_session_learns_of_a_follower_that_comes_near(leader: QuietBroker) -> None:
    """The partition had nothing new, and still has not: where to read it is news."""
    await follow(leader.talk(), 3)
    talk = leader.talk()
    assert leader.partition("orders").log.high_watermark == 3
    register(leader, FOLLOWER, "elsewhere", LISTENER)
    first = await talk.ask(FETCH, 12, fetch_request("orders", 3, rack_id="b", session_epoch=0))
    register(leader, FOLLOWER, "b", LISTENER)
    nothing_else = FetchRequest(
        max_wait_ms=500, min_bytes=1, session_id=first.session_id, session_epoch=1, rack_id="b", topics=[]
    )
    second = await talk.ask(FETCH, 12, nothing_else)
    assert second.responses[0].partitions[0].preferred_read_replica == FOLLOWER


def test_an_unknown_selector_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"replica\.selector\.class.*RackAwareReplicaSelector"):
        Settings(node.TABLE).having({"replica.selector.class": "com.example.Mine"})


# --- how followers learn what is committed -------------------------------------------------------------------------


def session_request(session_id: int, epoch: int, *offset: int) -> FetchRequest:
    asked = [FetchPartition(partition=0, fetch_offset=one, partition_max_bytes=1 << 20) for one in offset]
    return FetchRequest(
        replica_id=FOLLOWER,
        max_wait_ms=500,
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic="orders", partitions=asked)] if asked else [],
    )


async def test_a_follower_learns_at_once_what_is_committed(leader: QuietBroker) -> None:
    talk = leader.talk()
    first = await talk.ask(FETCH, 12, session_request(0, 0, 2))
    assert offsets(first.responses[0].partitions[0]) == [2]
    second = await talk.ask(FETCH, 12, session_request(first.session_id, 1, 3))
    told = second.responses[0].partitions[0]
    assert (told.high_watermark, offsets(told)) == (3, [])
    talk.send(FETCH, 12, session_request(first.session_id, 2))
    assert talk.receive() == [], "it knows all: now it waits"


async def test_a_waiting_follower_learns_what_another_ones_fetch_commits(leader: QuietBroker) -> None:
    register(leader, 3, None, LISTENER)
    change(leader, replicas=(1, FOLLOWER, 3), isr=(1, FOLLOWER, 3))
    talk = leader.talk()
    first = await talk.ask(FETCH, 12, session_request(0, 0, 3))
    assert first.responses[0].partitions[0].high_watermark == 2
    talk.send(FETCH, 12, session_request(first.session_id, 1))
    assert talk.receive() == []
    await leader.talk().fetch("orders", 3, replica_id=3)
    (answer,) = talk.receive()
    assert answer.responses[0].partitions[0].high_watermark == 3


# --- the follower's side --------------------------------------------------------------------------------------------


@pytest.mark.row(73)
@pytest.mark.invariant("P14")
async def test_a_follower_shows_what_it_knows_to_be_committed(follower: QuietBroker) -> None:
    data = await follower.talk().fetch("orders", 0)
    assert (data.error_code, offsets(data), data.high_watermark) == (ErrorCode.NONE, [0, 1], 2)
    behind = await follower.talk().fetch("orders", 3)
    assert (behind.error_code, offsets(behind)) == (ErrorCode.NONE, []), "it is here, and not known to be committed"


@pytest.mark.row(135)
@pytest.mark.invariant("P14", "T9")
async def test_a_follower_hides_what_is_not_decided(follower: QuietBroker) -> None:
    """A follower knows open and aborted transactions from its copy of the log."""
    partition = follower.partition("orders")

    def fetch_from_leader(batch: bytes | bytearray, high_watermark: int) -> None:
        copy = bytearray(batch)
        stamp(copy, 0, partition.log.end_offset, 1)
        partition.apply_fetched(copy, high_watermark=high_watermark, leader_log_start=0, now_ms=0)

    in_transaction: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    fetch_from_leader(batch_of(b"undecided", base_sequence=0, **in_transaction), 4)
    data = await follower.talk().fetch("orders", 0, isolation_level=1)
    assert (offsets(data), data.high_watermark, data.last_stable_offset) == ([0, 1, 2], 4, 3)
    assert offsets(await follower.talk().fetch("orders", 0)) == [0, 1, 2, 3]
    marker = build_marker(EndMarker(False, 0), producer_id=7, producer_epoch=0, timestamp=0)
    fetch_from_leader(marker, 4)
    data = await follower.talk().fetch("orders", 0, isolation_level=1)
    assert data.last_stable_offset == 3, "the marker is not known to be committed"
    partition.apply_fetched(b"", high_watermark=5, leader_log_start=0, now_ms=0)
    data = await follower.talk().fetch("orders", 0, isolation_level=1)
    assert (offsets(data), data.last_stable_offset) == ([0, 1, 2, 3, 4], 5)
    assert [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()] == [(7, 3)]


async def test_an_offset_that_a_follower_does_not_have_is_out_of_range(follower: QuietBroker) -> None:
    assert (await follower.talk().fetch("orders", 4)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("epoch", "told"),
    [(0, ErrorCode.FENCED_LEADER_EPOCH), (1, ErrorCode.NONE), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
async def test_a_follower_checks_the_leader_epoch(follower: QuietBroker, epoch: int, told: ErrorCode) -> None:
    assert (await follower.talk().fetch("orders", 0, current_leader_epoch=epoch)).error_code == told


@pytest.mark.parametrize("version", range(4, 11))
async def test_clients_that_know_nothing_of_racks_are_sent_to_the_leader(follower: QuietBroker, version: int) -> None:
    data = await follower.talk().fetch("orders", 0, version=version)
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_other_followers_copy_from_the_leader_alone(follower: QuietBroker) -> None:
    data = await follower.talk().fetch("orders", 0, replica_id=3)
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_nobody_reads_a_log_that_is_being_cut(follower: QuietBroker) -> None:
    follower.partition("orders").cut = asyncio.get_running_loop().create_future()
    assert (await follower.talk().fetch("orders", 0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    follower.partition("orders").cut = None


async def test_nobody_reads_from_a_directory_that_failed(follower: QuietBroker) -> None:
    follower.partition("orders").go_offline()
    assert (await follower.talk().fetch("orders", 0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("version", [12, 16])
async def test_a_waiting_consumer_learns_that_its_replica_is_gone(follower: QuietBroker, version: int) -> None:
    topic_id = follower.cluster.image.topic_ids["orders"]
    reader = follower.talk()
    reader.send(FETCH, version, fetch_request("orders", 2, max_wait_ms=500, topic_id=topic_id))
    assert reader.receive() == []
    change(follower, replicas=(FOLLOWER,), isr=(FOLLOWER,), leader=3)
    (answer,) = reader.receive()
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_consumer_waits_at_a_follower(follower: QuietBroker) -> None:
    reader = follower.talk()
    reader.send(FETCH, 12, fetch_request("orders", 2, max_wait_ms=500))
    assert reader.receive() == []
    follower.partition("orders").apply_fetched(b"", high_watermark=3, leader_log_start=0, now_ms=0)
    (answer,) = reader.receive()
    assert offsets(answer.responses[0].partitions[0]) == [2]


async def test_list_offsets_stays_with_the_leader(follower: QuietBroker) -> None:
    asked = ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    answer = await follower.talk().ask(LIST_OFFSETS, 7, ListOffsetsRequest(replica_id=-1, topics=[asked]))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
