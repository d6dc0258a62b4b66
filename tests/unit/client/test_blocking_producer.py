"""The queue between threads and the loop of a blocking producer: every record is handed over, once."""

import asyncio
from typing import Any, ClassVar

import pytest

from rookery.client import blocking_producer
from rookery.client.blocking_producer import BlockingProducer
from rookery.client.errors import BufferFullError, ClosedError, KafkaTimeoutError, TransactionAbortedError
from rookery.client.producer.transaction_state import TransactionState


class Slow:
    """A client whose buffer is full until `room` is set."""

    def __init__(self, max_block_s: float = 60.0) -> None:
        self.room = asyncio.Event()
        self.sent: list[Any] = []
        self.max_block_s = max_block_s
        self.delivery_timeout_s = 120.0
        self.transaction_state: TransactionState | None = None

    def try_send(self, topic: str, value: Any, **_: Any) -> Any:
        if not self.room.is_set():
            return None
        self.sent.append(value)
        return Done()

    async def send(self, topic: str, value: Any, **options: Any) -> Any:
        await self.room.wait()
        return self.try_send(topic, value, **options)

    async def flush(self) -> None:
        pass

    async def open(self) -> None:
        self.room.set()

    async def values(self) -> list[Any]:
        return self.sent

    async def close(self, timeout_s: float) -> None:
        self.closed_within = timeout_s


class Done:
    def done(self) -> bool:
        return True

    def result(self) -> str:
        return "stored"


class Face(BlockingProducer):
    made_of: ClassVar[Any] = Slow


def test_a_wait_that_is_given_up_loses_no_record() -> None:
    face = Face()
    try:
        face._awake = True  # the call below hands the records over
        first, second = face.send("t", b"1"), face.send("t", b"2")
        with pytest.raises(KafkaTimeoutError):
            second.result(timeout_s=0.05)
        face._loop().run(face._client.open())
        first.result(2)
        second.result(2)
        assert face._loop().run(face._client.values()) == [b"1", b"2"]
    finally:
        face.close(0)


def test_a_loop_that_finds_the_queue_empty_is_woken_by_the_next_record() -> None:
    face = Face()
    try:
        face._loop().run(face._client.open())
        face._awake = True  # as if another call had handed the record over first
        face._loop().run(face._drain_all())
        delivery = face.send("t", b"1")
        for _ in range(200):
            if delivery.done():
                break
            face._loop().run(asyncio.sleep(0.01))
        assert delivery.done()
    finally:
        face.close(0)


def test_flush_and_close_are_bounded_although_records_wait_for_room() -> None:
    face = Face()
    waiting = [face.send("t", b"1"), face.send("t", b"2")]
    with pytest.raises(KafkaTimeoutError, match="not all settled after"):
        face.flush(0.05)
    face.close(0.05)
    assert face._client.closed_within == pytest.approx(0, abs=0.05)
    for delivery in waiting:
        assert delivery.done()
        with pytest.raises(ClosedError):
            delivery.result()
    with pytest.raises(ClosedError):
        face.send("t", b"3")
    with pytest.raises(ClosedError):
        face.try_send("t", b"3")


def test_a_queued_record_waits_for_room_no_longer_than_max_block_ms() -> None:
    face = Face(max_block_s=0.1)
    try:
        for delivery in [face.send("t", b"%d" % number) for number in range(3)]:
            with pytest.raises(BufferFullError):
                delivery.result(10)
    finally:
        face.close(0)


def test_who_fills_the_queue_waits_no_longer_than_max_block_ms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking_producer, "QUEUE_MAX", 2)
    face = Face(max_block_s=0.05)
    try:
        face._awake = True  # nobody takes records from the queue
        assert [face.try_send("t", b"") is not None for _ in range(3)] == [True, True, False]
        with pytest.raises(BufferFullError, match="2 records wait for room"):
            face.send("t", b"one too many")
    finally:
        face.close(0)


def test_a_transaction_does_not_commit_without_a_record_that_was_refused_after_send() -> None:
    face = Face(max_block_s=0.05)
    try:
        state = TransactionState("t-1")
        state.initialized()
        state.begin()
        face._client.transaction_state = state
        face.send("t", b"1")
        face.flush(10)  # hands the record over, as a commit does; nobody asks for its result
        with pytest.raises(TransactionAbortedError, match="no room for the record"):
            state.end(commit=True)
    finally:
        face.close(0)


def test_on_delivery_learns_of_a_record_that_was_refused_after_send() -> None:
    told: list[Any] = []

    def on_delivery(place: Any, error: Any) -> None:
        told.append((place, type(error)))
        raise ValueError("a mistake in the user's function harms no other record")

    face = Face(max_block_s=0.05)
    for _ in range(2):
        face.send("t", b"1", on_delivery=on_delivery)
    face.flush(10)
    assert told == [(None, BufferFullError)] * 2
    face._awake = True  # nobody takes the next one from the queue
    face._client.max_block_s = 60.0
    face.send("t", b"2", on_delivery=on_delivery)
    face.close(0)
    assert told[2:] == [(None, ClosedError)]
