"""Looking inside batches: what a batch decompresses to is its sender's choice, and the sender alone pays for it."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from types import SimpleNamespace
from typing import Any

import pytest

from rookery.broker.handlers import list_offsets, record_work
from rookery.broker.handlers.record_work import RecordWorkInThreads, Turns
from rookery.broker.replication.topic_settings import TopicSettings
from rookery.core.errors import ErrorCode, InvalidRecordError
from rookery.core.wire import records
from rookery.core.wire import records as wire_records
from rookery.core.wire.compression import Codec
from rookery.core.wire.records import Record, build_batch, read_header
from tests.unit.broker.handlers.test_offset_lines import MAX_TIMESTAMP, offset
from tests.unit.broker.talk import NOW_MS, QuietBroker

FEW, MANY = 10, 30_000


class ByHand(Executor):
    """Runs what was handed over when told to, one at a time and in order."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Future[Any], Callable[[], Any]]] = []
        self.steps = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        self._waiting.append((future, lambda: fn(*args, **kwargs)))
        return future

    async def step(self) -> None:
        while not self._waiting:
            await asyncio.sleep(0)
        future, work = self._waiting.pop(0)
        self.steps += 1
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)
        for _ in range(5):
            await asyncio.sleep(0)


def batch_of(count: int, codec: int = Codec.ZSTD, value: bytes = b"v", time_ms: int = NOW_MS) -> bytearray:
    return build_batch([Record(n, time_ms, b"k", value) for n in range(count)], codec=codec)


def compacted() -> Any:
    config = SimpleNamespace(max_message_bytes=1 << 20)
    return SimpleNamespace(settings=TopicSettings(keys_required=True), log=SimpleNamespace(config=config))


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_work, "SMALL_RECORDS", 1000)
    monkeypatch.setattr(record_work, "SMALL_BYTES", 100_000)


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("large", [batch_of(MANY), batch_of(FEW, value=bytes(50_000))], ids=["many", "big"])
async def test_a_small_batch_does_not_wait_for_large_ones(large: bytearray) -> None:
    executor = ByHand()
    work = RecordWorkInThreads(executor)
    large_ones = [asyncio.create_task(work.prepare(compacted(), bytearray(large), "a")) for _ in range(3)]
    await executor.step()
    small = asyncio.create_task(work.prepare(compacted(), batch_of(FEW), "b"))
    async with asyncio.timeout(30):
        while not small.done():
            await executor.step()
        assert executor.steps <= 8
        assert not all(task.done() for task in large_ones)
        while not all(task.done() for task in large_ones):
            await executor.step()
    assert [await task for task in large_ones] == [large] * 3


async def test_many_records_are_looked_at_in_short_steps() -> None:
    executor = ByHand()
    task = asyncio.create_task(RecordWorkInThreads(executor).prepare(compacted(), batch_of(MANY), "a"))
    while not task.done():
        await executor.step()
    assert executor.steps > MANY // wire_records.STEP


@pytest.mark.attack(62)
async def test_what_decompresses_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_work, "SMALL_BYTES", 10_000)
    monkeypatch.setattr(record_work, "DECOMPRESSED_BYTES_MAX", 50_000)
    executor = ByHand()
    task = asyncio.create_task(
        RecordWorkInThreads(executor).prepare(compacted(), batch_of(1, value=bytes(60_000)), "a")
    )
    while not task.done():
        await executor.step()
    with pytest.raises(InvalidRecordError, match="50000 allowed"):
        await task


async def test_clients_take_turns_however_many_connections_they_have() -> None:
    turns, order = Turns(), list[str]()

    async def one(client: str) -> None:
        async with turns.of(client):
            order.append(client)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for client in ("greedy", "greedy", "greedy", "greedy", "modest", "other"):
            group.create_task(one(client))
    assert order[:3] == ["greedy", "modest", "other"]
    assert order.count("greedy") == 4


# --- ListOffsets by time --------------------------------------------------------------------------------------


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The threads in which records of batches were looked at."""
    found: list[threading.Thread] = []
    outline = records.outline_records

    def noted(*arguments: Any) -> Any:
        found.append(threading.current_thread())
        return outline(*arguments)

    monkeypatch.setattr(wire_records, "outline_records", noted)
    return found


@pytest.mark.row(39)
@pytest.mark.parametrize(("count", "codec"), [(FEW, Codec.ZSTD), (5000, Codec.NONE)])
async def test_records_are_not_looked_up_by_time_on_the_loop(
    broker: QuietBroker, readers: list[threading.Thread], count: int, codec: int
) -> None:
    await broker.create("orders")
    talk = broker.talk()
    for second in range(3):
        await talk.produce("orders", bytes(batch_of(count, codec, time_ms=NOW_MS + second)))
    for timestamp, expected in ((NOW_MS + 1, count), (MAX_TIMESTAMP, 2 * count), (NOW_MS + 3, -1)):
        found = await offset(talk, timestamp)
        assert (found.error_code, found.offset) == (ErrorCode.NONE, expected)
    assert readers
    assert threading.main_thread() not in readers


async def test_few_plain_records_are_looked_up_at_once(
    broker: QuietBroker, readers: list[threading.Thread]
) -> None:
    await broker.create("orders")
    talk = broker.talk()
    await talk.produce("orders", bytes(batch_of(FEW, Codec.NONE)))
    assert (await offset(talk, NOW_MS)).offset == 0
    assert set(readers) == {threading.main_thread()}


async def test_a_search_through_headers_that_lie_has_an_end(
    broker: QuietBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_offsets, "LOOK_UPS_MAX", 3)
    await broker.create("orders")
    talk = broker.talk()
    batch = batch_of(FEW)
    header = read_header(batch)._replace(max_timestamp=NOW_MS + 10)
    lying = bytes(wire_records.frame_batch(bytes(batch[wire_records.HEADER_SIZE :]), header))
    for _ in range(3):
        await talk.produce("orders", lying)
    assert (await offset(talk, NOW_MS + 5)).offset == -1
    await talk.produce("orders", lying)
    assert (await offset(talk, NOW_MS + 5)).error_code == ErrorCode.CORRUPT_MESSAGE
