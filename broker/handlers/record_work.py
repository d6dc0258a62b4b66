"""Looking inside batches: in threads and in short steps, since it takes time for each record, and what a batch
decompresses to is its sender's choice.

Every step is handed to the executor by itself, so that many who need it take turns. A batch that may cost much, by its
number of records or because it does not fit a small budget, is *large*: one is worked on at a time, and the clients
that send such ones take turns. So a decompression bomb costs its own client time, and the node a bounded amount of
memory.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from typing import TypeVar
from weakref import WeakValueDictionary

from rookery.broker.replication.partition import Partition
from rookery.broker.replication.topic_settings import TopicSettings
from rookery.core.errors import InvalidRecordError, MessageTooLargeError
from rookery.core.wire.batch import LOG_APPEND_TIME, BatchHeader, Buffer
from rookery.core.wire.compression import Codec, OverBudgetError
from rookery.core.wire.primitives import WireError
from rookery.core.wire.records import (
    Steps,
    check_in_steps,
    find_in_steps,
    read_header,
    recompress,
    validate_produce_batch,
)

DECOMPRESSED_BYTES_MAX = 100 * 1024 * 1024
SMALL_BYTES = 8 * 1024 * 1024
SMALL_RECORDS = 50_000
RECORDS_ON_LOOP = 500
"""Uncompressed records that may be read at once, on the loop: less than a millisecond."""

T = TypeVar("T")
Begin = Callable[[int], Steps[T]]
"""Starts the work within a budget of decompressed bytes."""


class RecordWorkInThreads:
    """Runs the steps in an executor; how many run at once is the executor's bound, and each connection has at most
    one request here."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._turns = Turns()

    def needed(self, partition: Partition, batch: Buffer | None) -> bool:
        """Whether a batch has to be opened. Raises KafkaError if it is no valid batch in the first place."""
        settings = partition.settings
        header = validate_produce_batch(batch, partition.log.config.max_message_bytes)
        return settings.keys_required or settings.check_records or header.codec != settings.codec

    async def prepare(self, partition: Partition, batch: bytearray, client: str) -> bytearray:
        """The batch as it is to be stored; raises KafkaError when it may not be. `client` is an address."""
        settings, size_max = partition.settings, partition.log.config.max_message_bytes
        try:
            return await self._work(
                lambda budget: prepare(settings, size_max, batch, budget), read_header(batch), client
            )
        except WireError as error:
            raise InvalidRecordError(str(error)) from None

    async def look_up(
        self, batch: bytes, timestamp: int | None, start: int, client: str
    ) -> tuple[int, int] | None:
        """What `core.log.timestamps.LookUp` asks for; raises WireError if the records cannot be read."""
        return await self._work(
            lambda budget: find_in_steps(batch, 0, timestamp, budget, start), read_header(batch), client
        )

    async def _work(self, begin: Begin[T], header: BatchHeader, client: str) -> T:
        if header.record_count <= SMALL_RECORDS:
            try:
                return await self._in_steps(begin(SMALL_BYTES))
            except OverBudgetError:
                pass  # larger than it seemed
        async with self._turns.of(client):
            return await self._in_steps(begin(DECOMPRESSED_BYTES_MAX))

    async def _in_steps(self, steps: Steps[T]) -> T:
        loop = asyncio.get_running_loop()
        while True:
            done = await loop.run_in_executor(self._executor, _step, steps)
            if done is not None:
                return done[0]


def is_read_quickly(header: BatchHeader) -> bool:
    """Whether the records of a batch may be looked at on the loop."""
    plain = header.codec == Codec.NONE and header.record_count <= RECORDS_ON_LOOP
    return plain or bool(header.attributes & LOG_APPEND_TIME)


class Turns:
    """One at a time. A client waits for its own turn first, so that it has one place in the common queue, however many
    connections it has."""

    def __init__(self) -> None:
        self._all = asyncio.Lock()
        self._of: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def of(self, client: str) -> AsyncIterator[None]:
        own = self._of.get(client)
        if own is None:
            own = self._of[client] = asyncio.Lock()
        async with own, self._all:
            yield


def prepare(settings: TopicSettings, size_max: int, batch: bytearray, budget: int) -> Steps[bytearray]:
    """Check the records inside, and bring them into the topic's codec."""
    if settings.keys_required or settings.check_records:
        yield from check_in_steps(batch, keys=settings.keys_required, budget=budget)
    if settings.codec is None or settings.codec == read_header(batch).codec:
        return batch
    batch = recompress(batch, 0, settings.codec, settings.codec_level, budget)
    if len(batch) > size_max:
        raise MessageTooLargeError(
            f"in the topic's codec the batch has {len(batch)} bytes, the topic takes up to {size_max}"
        )
    return batch


def _step(steps: Steps[T]) -> tuple[T] | None:
    """One step; the result, once there is one."""
    try:
        next(steps)
    except StopIteration as end:
        return (end.value,)
    return None
