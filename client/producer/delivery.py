"""What `send` returns: the place of a record once the cluster has it. To be awaited, or asked later."""

import asyncio
from collections.abc import Generator, Iterator, Sequence
from typing import Any, overload

from rookery.client.errors import IllegalStateError
from rookery.client.producer.batch import Batch, Callback
from rookery.client.types import RecordMetadata


async def settled(batch: Batch) -> None:
    """Wait for the end of a batch. A wait that is cancelled does not disturb the others."""
    if batch.settled:
        return
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(_: Batch) -> None:
        if not ended.done():
            ended.set_result(None)

    batch.when_settled(end)
    try:
        await ended
    finally:
        batch.without(end)


class Delivery:
    """One record on its way. `await delivery` returns its `RecordMetadata`, or raises why it was not delivered."""

    __slots__ = ("_batch", "_number", "_timestamp")

    def __init__(self, batch: Batch, number: int, timestamp: int) -> None:
        self._batch = batch
        self._number = number
        self._timestamp = timestamp

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self._batch.settled:
            yield from settled(self._batch).__await__()
        return self.result()

    def done(self) -> bool:
        return self._batch.settled

    @property
    def place(self) -> tuple[Batch, int]:
        """The batch, and the record's number in it."""
        return self._batch, self._number

    def result(self) -> RecordMetadata:
        """The place of the record, or its error; IllegalStateError while it is on its way."""
        error = self.exception()
        if error is not None:
            raise error
        return self._batch.metadata(self._number, self._timestamp)

    def exception(self) -> Exception | None:
        if not self._batch.settled:
            raise IllegalStateError("the record is not delivered yet", "Await it first")
        return self._batch.error_of(self._number)

    def add_callback(self, callback: Callback) -> None:
        """Call `callback(metadata, error)` once, with one of them None; at once if the record is settled."""
        if not self._batch.settled:
            self._batch.call_back(self._number, self._timestamp, callback)
        elif (error := self.exception()) is not None:
            callback(None, error)
        else:
            callback(self.result(), None)

    def __repr__(self) -> str:
        batch = self._batch
        state = "waiting" if not batch.settled else "failed" if self.exception() else "delivered"
        return f"<Delivery to {batch.place}, {state}>"


class Metadatas(Sequence[RecordMetadata]):
    """The places of many records, in their order; each is made when it is looked at."""

    def __init__(self, parts: Sequence[tuple[Batch, int, Sequence[int], int]], count: int) -> None:
        self._places: list[tuple[Batch, int]] = [None] * count  # type: ignore[list-item]
        self._timestamp = parts[0][3] if parts else -1
        for batch, first, numbers, _ in parts:
            for step, number in enumerate(numbers):
                self._places[number] = batch, first + step

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> RecordMetadata: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[RecordMetadata]: ...

    def __getitem__(self, index: int | slice) -> RecordMetadata | Sequence[RecordMetadata]:
        if isinstance(index, slice):
            return [batch.metadata(number, self._timestamp) for batch, number in self._places[index]]
        batch, number = self._places[index]
        return batch.metadata(number, self._timestamp)


class Deliveries:
    """Many records on their way. `await deliveries` returns their places in order, or raises the first failure."""

    def __init__(self) -> None:
        self._parts: list[tuple[Batch, int, Sequence[int], int]] = []
        self._count = 0

    def add(self, batch: Batch, first: int, numbers: Sequence[int], timestamp: int) -> None:
        """Records with these numbers of the call are in the batch, from number `first` on."""
        self._parts.append((batch, first, numbers, timestamp))
        self._count += len(numbers)

    def __len__(self) -> int:
        return self._count

    def __await__(self) -> Generator[Any, None, Sequence[RecordMetadata]]:
        for batch in self._batches():
            if not batch.settled:
                yield from settled(batch).__await__()
        return self.result()

    def done(self) -> bool:
        return all(batch.settled for batch in self._batches())

    def result(self) -> Sequence[RecordMetadata]:
        if not self.done():
            raise IllegalStateError("some records are not delivered yet", "Await them first")
        for batch, first, numbers, _ in self._parts:
            for step in range(len(numbers)) if batch.children else (0,):
                if (error := batch.error_of(first + step)) is not None:
                    raise error
        return Metadatas(self._parts, self._count)

    def _batches(self) -> Iterator[Batch]:
        return (part[0] for part in self._parts)
