"""Several answers that leave as one."""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar, cast

from rookery.broker.coordination.reply import coordinator_error
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode, KafkaError

P = TypeVar("P")


class Gather(Generic[P]):
    """Calls `done` with all parts, in their order, when the last of them is there."""

    def __init__(self, size: int, done: Callable[[list[P]], None]) -> None:
        self._parts: list[P | None] = [None] * size
        self._missing = size
        self._done = done
        if size == 0:
            done([])

    def put(self, index: int, part: P) -> None:
        if self._parts[index] is None:
            self._parts[index] = part
            self._missing -= 1
            if self._missing == 0:
                self._done(cast(list[P], self._parts))


class Part(Generic[P]):
    """The receiver of one part; `refusal` makes it from an error code."""

    __slots__ = ("_call", "_gather", "_index", "_otherwise", "_refusal")

    def __init__(
        self,
        gather: Gather[P],
        index: int,
        call: Call,
        refusal: Callable[[ErrorCode], P],
        otherwise: Mapping[ErrorCode, ErrorCode] | None = None,
    ) -> None:
        self._gather = gather
        self._index = index
        self._call = call
        self._refusal = refusal
        self._otherwise = otherwise

    def complete(self, response: P) -> None:
        self._gather.put(self._index, response)

    def refuse(self, error: KafkaError) -> None:
        code = coordinator_error(error, self._otherwise)
        self._call.error(code)
        self.complete(self._refusal(code))
