"""Markers on their way: by leader, again where they have to be, and no longer than they are ours to send."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from rookery.broker.transactions.markers import PER_REQUEST, MarkerSender
from rookery.broker.transactions.transaction import Markers, Producer
from rookery.core.errors import ErrorCode, KafkaError, NotEnoughReplicasError, NotLeaderOrFollowerError
from rookery.core.net.connection import ConnectionLostError
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.unit.broker.waiting import until

E = ErrorCode
A, B, C = (TopicPartition("t", index) for index in range(3))


class Leaders:
    """The image's part that matters: which broker leads what."""

    def __init__(self) -> None:
        self.of: dict[TopicPartition, int] = {A: 1, B: 1, C: 2}
        self.brokers = {1: self._broker(1), 2: self._broker(2)}

    @staticmethod
    def _broker(number: int) -> Any:
        return SimpleNamespace(endpoint=lambda listener: SimpleNamespace(host=str(number), port=9092))

    def topic(self, name: str) -> Any:
        led = {
            index: SimpleNamespace(leader=leader, has_leader=leader >= 0)
            for (topic, index), leader in self.of.items()
            if topic == name
        }
        return SimpleNamespace(partitions=led) if led else None


class Rig:
    def __init__(self) -> None:
        self.leaders = Leaders()
        self.asked: list[tuple[str, WriteTxnMarkersRequest]] = []
        self.answer: Callable[[str, TopicPartition], ErrorCode | Exception] = lambda host, partition: E.NONE
        self.gate: asyncio.Event | None = None
        self.closed = False
        self.not_written: list[KafkaError] = []
        self.completed: list[Markers] = []
        rig: Any = self
        cluster: Any = SimpleNamespace(image=self.leaders)
        self.sender = MarkerSender(
            cluster, rig, asyncio.get_running_loop(), Random(1), self._complete, listener="L", timeout_s=1.0
        )

    async def ask(self, address: Any, api: Any, request: WriteTxnMarkersRequest, *, timeout_s: float) -> Any:
        host = address[0]
        self.asked.append((host, request))
        if self.gate is not None:
            await self.gate.wait()
        results = []
        for marker in request.markers:
            topics = []
            for topic in marker.topics:
                parts = []
                for index in topic.partition_indexes:
                    code = self.answer(host, TopicPartition(topic.name, index))
                    if isinstance(code, Exception):
                        raise code
                    parts.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=code))
                topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=parts))
            results.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
        return WriteTxnMarkersResponse(markers=results)

    def _complete(self, shard: Any, markers: Markers) -> KafkaError | None:
        if self.not_written:
            return self.not_written.pop(0)
        self.completed.append(markers)
        return None

    def move(self, partition: TopicPartition, leader: int | None) -> None:
        """The image names another leader, -1 for none, or the partition no more."""
        before = self.leaders.of[partition]
        if leader is None:
            del self.leaders.of[partition]
        else:
            self.leaders.of[partition] = leader
        change: Any = SimpleNamespace(
            topic=partition.topic,
            partition=partition.partition,
            before=SimpleNamespace(leader=before),
            after=None if leader is None else SimpleNamespace(leader=leader),
        )
        changes: Any = SimpleNamespace(partitions=[change])
        self.sender.publish(changes)

    def send(self, *partitions: TopicPartition, producer_id: int = 7, shard: Any = None) -> Markers:
        markers = Markers("tx", Producer(producer_id, 3), True, frozenset(partitions), 4, 2)
        self.sender.send(shard or self, markers)
        return markers


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig()
    task = asyncio.create_task(made.sender.serve())
    yield made
    task.cancel()
    await asyncio.wait([task])


async def test_one_request_to_each_leader(rig: Rig) -> None:
    markers = rig.send(A, B, C)
    await until(lambda: rig.completed)
    assert rig.completed == [markers]
    assert sorted((host, len(request.markers)) for host, request in rig.asked) == [("1", 1), ("2", 1)]
    (marker,) = next(request for host, request in rig.asked if host == "1").markers
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (7, 3, True)
    assert (marker.coordinator_epoch, marker.transaction_version) == (4, 2)
    assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("t", [0, 1])]


async def test_a_transaction_without_partitions_is_complete_at_once(rig: Rig) -> None:
    rig.send()
    await until(lambda: rig.completed)
    assert rig.asked == []


async def test_what_gathers_for_a_leader_leaves_together(rig: Rig) -> None:
    rig.gate = asyncio.Event()
    rig.send(A, producer_id=1)
    await until(lambda: rig.asked)
    for producer_id in range(2, PER_REQUEST + 3):
        rig.send(A, producer_id=producer_id)
    await asyncio.sleep(0)
    assert (len(rig.asked), rig.sender.waiting) == (1, PER_REQUEST + 1)
    rig.gate.set()
    await until(lambda: len(rig.completed) == PER_REQUEST + 2)
    assert [len(request.markers) for _, request in rig.asked] == [1, PER_REQUEST, 1]


@pytest.mark.parametrize(
    "code",
    [
        E.UNKNOWN_TOPIC_OR_PARTITION, E.NOT_LEADER_OR_FOLLOWER, E.NOT_ENOUGH_REPLICAS, E.REQUEST_TIMED_OUT,
        E.NOT_ENOUGH_REPLICAS_AFTER_APPEND, E.KAFKA_STORAGE_ERROR, E.UNKNOWN_SERVER_ERROR, ConnectionLostError("gone"),
        OSError("refused"), NotEnoughReplicasError("no"), ZeroDivisionError(),
    ],
)  # fmt: skip
async def test_it_is_tried_again_at_the_newest_leader(rig: Rig, code: ErrorCode | Exception) -> None:
    def moves(host: str, partition: TopicPartition) -> ErrorCode | Exception:
        if host == "1" and partition == A:
            rig.leaders.of[A] = 2
            return code
        return E.NONE

    rig.answer = moves
    rig.send(A)
    await until(lambda: rig.completed)
    assert [host for host, _ in rig.asked] == ["1", "2"]


@pytest.mark.parametrize("code", [E.NONE, E.UNSUPPORTED_FOR_MESSAGE_FORMAT, E.UNSUPPORTED_VERSION])
async def test_what_need_not_be_written_again_is_done(rig: Rig, code: ErrorCode) -> None:
    rig.answer = lambda host, partition: code
    rig.send(A)
    await until(lambda: rig.completed)
    assert len(rig.asked) == 1


@pytest.mark.invariant("T8")
@pytest.mark.parametrize("code", [E.INVALID_PRODUCER_EPOCH, E.TRANSACTION_COORDINATOR_FENCED])
async def test_who_is_fenced_sends_no_more(rig: Rig, code: ErrorCode) -> None:
    """Not even to the partitions that have not refused."""
    rig.answer = lambda host, partition: {A: code, B: E.NOT_ENOUGH_REPLICAS, C: E.NONE}[partition]
    rig.send(A, B)
    await until(lambda: rig.asked)
    rig.send(C, producer_id=8)
    await until(lambda: rig.completed)
    assert len(rig.asked) == 2
    assert [markers.producer.id for markers in rig.completed] == [8]
    assert rig.sender.waiting == 0


async def test_13_a_partition_without_a_leader_is_waited_for(rig: Rig) -> None:
    rig.leaders.of[A] = -1
    rig.send(A)
    await until(lambda: rig.sender.leaderless == 1)
    rig.move(B, 2)
    assert (rig.sender.leaderless, rig.asked) == (1, [])
    rig.move(A, 2)
    await until(lambda: rig.completed)
    assert (rig.sender.leaderless, [host for host, _ in rig.asked]) == (0, ["2"])


async def test_a_partition_that_never_gets_a_leader_again_is_not_waited_for(rig: Rig) -> None:
    """Its topic is deleted, or another coordinator is in charge."""
    rig.leaders.of[A] = -1
    rig.send(A)
    rig.send(A, shard=SimpleNamespace(closed=True))
    assert rig.sender.leaderless == 1
    rig.move(A, None)
    await until(lambda: rig.completed)
    rig.leaders.of[A] = -1
    rig.send(A)
    assert rig.sender.leaderless == 1
    rig.closed = True
    rig.sender.forget_closed()
    assert rig.sender.leaderless == 0


class Frozen:
    """A leader that does not answer until its gate is opened."""

    def __init__(self, rig: Rig, host: str) -> None:
        self.given_up = 0
        self.gate = asyncio.Event()
        asked = rig.ask

        async def ask(address: Any, api: Any, request: WriteTxnMarkersRequest, *, timeout_s: float) -> Any:
            if address[0] != host:
                return await asked(address, api, request, timeout_s=timeout_s)
            rig.asked.append((host, request))
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.given_up += 1
                raise
            rig.asked.pop()
            return await asked(address, api, request, timeout_s=timeout_s)

        rig.ask = ask  # type: ignore[method-assign]


async def test_a_marker_does_not_wait_for_a_leader_that_leads_no_longer(rig: Rig) -> None:
    frozen = Frozen(rig, "1")
    first, behind = rig.send(A), rig.send(B, producer_id=8)
    await until(lambda: rig.asked)
    rig.send(B, producer_id=9)
    rig.move(C, 1)
    await asyncio.sleep(0)
    assert frozen.given_up == 0, "what is asked for is still led there"
    rig.move(A, 2)
    rig.move(B, 2)
    await until(lambda: len(rig.completed) == 3)
    assert rig.completed[:2] == [first, behind]
    assert frozen.given_up == 1
    assert {host for host, _ in rig.asked[1:]} == {"2"}
    frozen.gate.set()
    rig.send(C, producer_id=10)
    await until(lambda: len(rig.completed) == 4)
    assert rig.asked[-1][0] == "1", "the next request goes to the broker that was frozen"


async def test_only_what_has_moved_is_sent_to_the_next_leader(rig: Rig) -> None:
    frozen = Frozen(rig, "1")
    rig.send(A, B)
    await until(lambda: rig.asked)
    rig.move(A, 2)
    await until(lambda: len(rig.asked) == 2)
    assert (rig.asked[1][0], frozen.given_up, rig.completed) == ("2", 0, [])
    frozen.gate.set()
    await until(lambda: rig.completed)


async def test_13_a_deleted_topic_holds_nothing_up(rig: Rig) -> None:
    rig.answer = lambda host, partition: E.UNKNOWN_TOPIC_OR_PARTITION
    rig.send(A, B)
    await until(lambda: rig.asked)
    rig.leaders.of.clear()
    await until(lambda: rig.completed)


async def test_a_broker_that_is_not_known_is_looked_up_again(rig: Rig) -> None:
    del rig.leaders.brokers[2]
    rig.send(C)
    await asyncio.sleep(0)
    assert rig.asked == []
    rig.leaders.brokers[2] = Leaders._broker(2)
    await until(lambda: rig.completed)


@pytest.mark.invariant("T7")
async def test_a_leader_that_cannot_be_asked_is_logged_once(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """However often it is tried; when it has answered, the next failure is logged again."""

    async def fails(attempts: int) -> None:
        rig.answer = lambda host, partition: ConnectionLostError("gone")
        before, completed = len(rig.asked), len(rig.completed)
        rig.send(A)
        await until(lambda: len(rig.asked) > before + attempts)
        rig.answer = lambda host, partition: E.NONE
        await until(lambda: len(rig.completed) > completed)

    def logged() -> int:
        return sum("transaction.markers.not.sent" in record.getMessage() for record in caplog.records)

    with caplog.at_level(logging.INFO):
        await fails(attempts=3)
        assert logged() == 1
        await fails(attempts=3)
        assert logged() == 2


async def test_a_lost_shard_sends_nothing_more(rig: Rig) -> None:
    rig.answer = lambda host, partition: E.NOT_ENOUGH_REPLICAS
    rig.send(A)
    await until(lambda: rig.asked)
    rig.closed = True
    rig.answer = lambda host, partition: E.NONE
    other = SimpleNamespace(closed=False)
    rig.send(A, producer_id=8, shard=other)
    await until(lambda: rig.completed)
    assert [markers.producer.id for markers in rig.completed] == [8]


async def test_a_completion_that_cannot_be_written_is_tried_again(rig: Rig) -> None:
    rig.not_written = [NotEnoughReplicasError("too few"), NotEnoughReplicasError("still")]
    rig.send(A)
    await until(lambda: rig.completed)
    assert (len(rig.asked), rig.sender.not_appended) == (1, 0)


async def test_a_completion_is_left_to_the_next_coordinator(rig: Rig) -> None:
    rig.not_written = [NotLeaderOrFollowerError("led elsewhere")]
    rig.send(A)
    await until(lambda: not rig.not_written)
    rig.send(B, producer_id=8)
    await until(lambda: rig.completed)
    assert [markers.producer.id for markers in rig.completed] == [8]
    assert rig.sender.not_appended == 0


@pytest.mark.parametrize("why", ["refused", "not written"])
async def test_a_sender_that_stops_leaves_no_timer(why: str) -> None:
    """What waits to be tried again is the next coordinator's; a broker that stops in order leaves nothing behind."""
    rig = Rig()
    if why == "refused":
        rig.answer = lambda host, partition: E.NOT_ENOUGH_REPLICAS
    else:
        rig.not_written += [NotEnoughReplicasError("too few")] * 1000
    task = asyncio.create_task(rig.sender.serve())
    await asyncio.sleep(0)
    rig.send(A)
    await until(lambda: rig.sender._timers)
    (timer,) = rig.sender._timers.values()
    task.cancel()
    await asyncio.wait([task])
    assert isinstance(timer, asyncio.TimerHandle)
    assert timer.cancelled()
    assert not rig.sender._timers
