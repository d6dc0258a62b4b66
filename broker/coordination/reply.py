"""Answers of a coordinator: at once if it can be, else later; several may leave as one."""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar, cast

from rookery.broker.coordination.step import Receiver
from rookery.broker.server.client import Call
from rookery.broker.server.pending import Pending
from rookery.core.errors import ErrorCode, KafkaError

A = TypeVar("A")
R = TypeVar("R")

_E = ErrorCode
_AS_COORDINATOR: Mapping[ErrorCode, ErrorCode] = {
    _E.UNKNOWN_TOPIC_OR_PARTITION: _E.COORDINATOR_NOT_AVAILABLE,
    _E.NOT_ENOUGH_REPLICAS: _E.COORDINATOR_NOT_AVAILABLE,
    _E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _E.COORDINATOR_NOT_AVAILABLE,
    _E.REQUEST_TIMED_OUT: _E.COORDINATOR_NOT_AVAILABLE,
    _E.NOT_LEADER_OR_FOLLOWER: _E.NOT_COORDINATOR,
    _E.FENCED_LEADER_EPOCH: _E.NOT_COORDINATOR,
    _E.UNKNOWN_LEADER_EPOCH: _E.NOT_COORDINATOR,
    _E.KAFKA_STORAGE_ERROR: _E.NOT_COORDINATOR,
    _E.MESSAGE_TOO_LARGE: _E.UNKNOWN_SERVER_ERROR,
    _E.RECORD_LIST_TOO_LARGE: _E.UNKNOWN_SERVER_ERROR,
}
"""Clients of a coordinator do not know the errors of its log."""


def coordinator_error(error: KafkaError, otherwise: Mapping[ErrorCode, ErrorCode] | None = None) -> ErrorCode:
    """The error code that a client gets; `otherwise` goes before the common rules."""
    if otherwise is not None and error.code in otherwise:
        return otherwise[error.code]
    return _AS_COORDINATOR.get(error.code, error.code)


class Reply(Generic[R]):
    """`refusal` makes the API's answer from an error code."""

    __slots__ = ("_call", "_otherwise", "_pending", "_refusal", "_response")

    def __init__(
        self,
        call: Call,
        refusal: Callable[[ErrorCode], R],
        otherwise: Mapping[ErrorCode, ErrorCode] | None = None,
    ) -> None:
        self._call = call
        self._refusal = refusal
        self._otherwise = otherwise
        self._response: R | None = None
        self._pending: Pending[R] | None = None

    def complete(self, response: R) -> None:
        if self._pending is not None:
            self._pending.complete(response)
        elif self._response is None:
            self._response = response

    def refuse(self, error: KafkaError) -> None:
        code = coordinator_error(error, self._otherwise)
        self._call.error(code)
        self.complete(self._refusal(code))

    def outcome(self, *, blocks: bool = True) -> R | Pending[R]:
        """What the handler returns; called once, when the request has been decided."""
        if self._response is not None:
            return self._response
        self._pending = Pending(blocks=blocks)
        return self._pending


class Converted(Generic[A, R]):
    """A receiver that gets the answer in another form."""

    __slots__ = ("_convert", "_to")

    def __init__(self, to: Receiver, convert: Callable[[A], R]) -> None:
        self._to = to
        self._convert = convert

    def complete(self, response: A) -> None:
        self._to.complete(self._convert(response))

    def refuse(self, error: KafkaError) -> None:
        self._to.refuse(error)


P = TypeVar("P")


class Gather(Generic[P]):
    """Calls `done` with all parts, in their order, when the last of them is there."""

    def __init__(self, size: int, done: Callable[[list[P]], None]) -> None:
        self._parts: list[P | None] = [None] * size
        self._missing = size
        self._done = done
        if size == 0:
            done([])

    def is_missing(self, index: int) -> bool:
        return self._parts[index] is None

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
