"""The plain sender over a scripted cluster: what it repeats, and what is an error at once."""

import asyncio
from collections import defaultdict
from itertools import count
from typing import Any

import pytest

from rookery.client.identity import ProducerId
from rookery.client.partitioner import partition_for_key
from rookery.client.sender import Outgoing, Sender, Written
from rookery.core.errors import ErrorCode, MessageTooLargeError, UnknownTopicOrPartitionError
from rookery.core.net import cluster as client_cluster
from rookery.core.net.cluster import Cluster
from rookery.core.net.connection import ConnectionLostError
from rookery.core.wire.apis.init_producer_id import INIT_PRODUCER_ID, InitProducerIdResponse
from rookery.core.wire.apis.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from rookery.core.wire.apis.produce import (
    PRODUCE,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from rookery.core.wire.records import read_header, read_records


class Scripted(Cluster):
    """One node that leads the partitions of every topic, two at first, and answers writes with what is given, error
    codes or exceptions, then with success. It tells where a batch is that it had before, but counts it once."""

    def __init__(self, *outcomes: ErrorCode | Exception) -> None:
        super().__init__("node:1")
        self._outcomes = list(outcomes)
        self._ids = count(100)
        self._had: set[tuple[str, int, int, int]] = set()
        self.written: list[tuple[int, list[bytes | None]]] = []
        self.topics: dict[str, list[bytes | None]] = defaultdict(list)
        self.stamps: list[tuple[int, int, int]] = []
        self.partitions = 2
        self.batch_bytes_max = 1 << 30
        self.refused = 0

    async def ask_any(
        self, api: Any, request: Any, *, at_most: int | None = None, timeout_s: float | None = None
    ) -> Any:
        if api is INIT_PRODUCER_ID:
            assert request.transactional_id is None
            return InitProducerIdResponse(producer_id=next(self._ids), producer_epoch=0)
        partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=1, replica_nodes=[1], isr_nodes=[1])
            for index in range(self.partitions)
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="node", port=1)],
            topics=[MetadataResponseTopic(name=each.name, partitions=partitions) for each in request.topics],
        )

    async def ask(self, node: Any, api: Any, request: Any, **_: Any) -> Any:
        assert api is PRODUCE
        (topic,) = request.topic_data
        (data,) = topic.partition_data
        header = read_header(data.records)
        outcome = self._outcomes.pop(0) if self._outcomes else ErrorCode.NONE
        if len(data.records) > self.batch_bytes_max:
            outcome = ErrorCode.MESSAGE_TOO_LARGE
            self.refused += 1
        stored = outcome == ErrorCode.NONE or isinstance(outcome, ConnectionLostError)
        stamp = (header.producer_id, data.index, header.base_sequence)
        if stored and (topic.name, *stamp) not in self._had:
            self._had |= {(topic.name, *stamp)} if header.producer_id >= 0 else set()
            values = [record.value for record in read_records(data.records, 0)]
            self.written.append((data.index, values))
            self.topics[topic.name] += values
        self.stamps.append(stamp)
        if isinstance(outcome, Exception):
            raise outcome
        answer = PartitionProduceResponse(index=data.index, error_code=outcome, base_offset=10)
        return ProduceResponse(responses=[TopicProduceResponse(name=topic.name, partition_responses=[answer])])


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_cluster, "RETRY_PAUSE_S", 0.0)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER])
async def test_a_leader_that_is_not_ready_is_asked_again(code: ErrorCode) -> None:
    cluster = Scripted(code, code)
    assert await Sender(cluster, "t").send([Outgoing(b"a", partition=1)]) == [Written(1, 10)]
    assert cluster.written == [(1, [b"a"])]


async def test_what_will_not_pass_is_an_error_at_once() -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="no partition 7"):
        await Sender(Scripted(), "t").send([Outgoing(b"a", partition=7)])
    with pytest.raises(MessageTooLargeError):
        await Sender(Scripted(ErrorCode.MESSAGE_TOO_LARGE), "t").send([Outgoing(b"a", partition=0)])


async def test_keys_choose_partitions_and_records_without_key_stay_together() -> None:
    cluster = Scripted()
    keys = [b"a", b"b", b"c", b"d"]
    where = await Sender(cluster, "t").send([Outgoing(b"v", key) for key in keys])
    assert [each.partition for each in where] == [partition_for_key(key, 2) for key in keys]
    assert len({each.partition for each in await Sender(cluster, "t").send([Outgoing(b"v")] * 5)}) == 1


LOST = ConnectionLostError("the answer is lost")


@pytest.mark.invariant("T1")
async def test_a_batch_is_numbered_once_however_often_it_is_sent() -> None:
    """The numbers of a partition go on behind each batch, and those of partitions do not mix."""
    cluster = Scripted(LOST, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    sender = Sender(cluster, "t")
    for values in ([b"a", b"b"], [b"c"]):
        await sender.write(1, [Outgoing(value) for value in values])
    await sender.write(0, [Outgoing(b"d")])
    assert cluster.stamps == [(100, 1, 0), (100, 1, 0), (100, 1, 0), (100, 1, 2), (100, 0, 0)]
    assert cluster.written == [(1, [b"a", b"b"]), (1, [b"c"]), (0, [b"d"])]


@pytest.mark.parametrize(
    "code",
    [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH],
)
async def test_a_leader_that_forgot_the_producer_is_written_to_under_a_new_id(code: ErrorCode) -> None:
    cluster = Scripted(ErrorCode.NONE, code)
    sender = Sender(cluster, "t")
    for value in (b"a", b"b", b"c"):
        await sender.write(1, [Outgoing(value)])
    assert cluster.stamps == [(100, 1, 0), (100, 1, 1), (101, 1, 0), (101, 1, 1)]
    assert cluster.topics["t"] == [b"a", b"b", b"c"]


async def test_numbers_of_a_batch_with_an_unknown_end_are_not_used_again() -> None:
    """Its leader may have it: the next batch under the same number would be taken for it."""
    cluster = Scripted(LOST)
    sender = Sender(cluster, "t", timeout_s=-1)
    with pytest.raises(ConnectionLostError):
        await sender.write(1, [Outgoing(b"a")])
    await sender.write(1, [Outgoing(b"b")])
    assert cluster.topics["t"] == [b"a", b"b"]
    assert cluster.stamps == [(100, 1, 0), (101, 1, 0)]


async def test_senders_that_share_an_id_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """One gives up while another one has begun: no number is given twice."""
    cluster = Scripted(LOST)
    shared = ProducerId(cluster)
    monkeypatch.setattr(client_cluster, "RETRY_PAUSE_S", 60.0)
    first = asyncio.create_task(Sender(cluster, "t", identity=shared).write(1, [Outgoing(b"a")]))
    while not cluster.stamps:
        await asyncio.sleep(0)
    second = asyncio.create_task(Sender(cluster, "t", identity=shared).write(1, [Outgoing(b"b")]))
    for _ in range(10):
        await asyncio.sleep(0)
    first.cancel()
    await second
    assert cluster.topics["t"] == [b"a", b"b"]
    assert cluster.stamps == [(100, 1, 0), (101, 1, 0)]


async def test_no_id_without_all_acknowledgements() -> None:
    cluster = Scripted(LOST)
    await Sender(cluster, "t", acks=1).write(1, [Outgoing(b"a")])
    assert cluster.stamps == [(-1, 1, -1)] * 2
    assert cluster.topics["t"] == [b"a"] * 2, "nobody noticed"
