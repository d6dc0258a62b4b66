"""Where client quotas are charged.

`charge` is called by the connection for every request of a client while there are quotas. Two kinds of requests are
charged by their handlers, which alone know what they cost: fetches (`FetchAccount`), and the creation and deletion of
partitions (`Mutations`).
"""

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, TypeVar
from uuid import UUID

from rookery.broker.quotas.client_quotas import ClientQuotas, QuotaClient
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode
from rookery.core.metadata.requests import TopicAnswer
from rookery.core.types import NO_TOPIC_ID
from rookery.core.wire.apis.fetch import FETCH, FetchRequest
from rookery.core.wire.apis.produce import PRODUCE


def charge(quotas: ClientQuotas, call: Call, size: int, response: Any, seconds: float) -> tuple[Any, int]:
    """For a request of `size` bytes that kept the loop for `seconds`: what to answer, and for how many
    milliseconds to hold the client then. Fetches are charged by their handler, which alone knows what it read and
    for whom; a request without an answer (acks=0) costs no time, since no answer would report it."""
    api, reported_ms = call.route.api, getattr(response, "throttle_time_ms", 0)
    if api is FETCH:
        return response, reported_ms
    who = call.who
    delay_ms = max(reported_ms, quotas.worked(who, seconds)) if response is not None else 0
    if api is PRODUCE:
        delay_ms = max(delay_ms, quotas.produced(who, size))
    if delay_ms > reported_ms and hasattr(response, "throttle_time_ms"):
        response = copy(response)  # some answers are made once for all clients
        response.throttle_time_ms = delay_ms
    return response, delay_ms


class FetchAccount:
    """What a fetch of a client that may be limited costs. Begins with the request; the time of a fetch that waits is
    that of its reads."""

    __slots__ = ("_clock", "_quotas", "_since", "_spent_s", "_who")

    def __init__(self, quotas: ClientQuotas, who: QuotaClient, clock: Callable[[], float]) -> None:
        self._quotas = quotas
        self._who = who
        self._clock = clock
        self._spent_s = 0.0
        self._since = clock()

    def cap(self, request: FetchRequest) -> None:
        """Read no more than the client could get at all."""
        bytes_max = self._quotas.fetch_bytes_max(self._who)
        if bytes_max is not None:
            request.max_bytes = min(request.max_bytes, bytes_max)

    def pause(self) -> None:
        """The fetch waits."""
        self._spent_s += self._clock() - self._since

    def resume(self) -> None:
        self._since = self._clock()

    def settle(self, size: int) -> int:
        """`size` bytes were found: for how many milliseconds the client is held instead of getting them."""
        self.pause()
        return self._quotas.fetched(self._who, size, self._spent_s)


T = TypeVar("T")


class Mutations:
    """Those of one request. A version that knows THROTTLING_QUOTA_EXCEEDED is refused what its client may not do
    now, topic by topic; an older one is served and held afterwards."""

    def __init__(self, quotas: ClientQuotas, call: Call, *, strict_from: int = 0, free: bool = False) -> None:
        """`free`: nothing will be changed."""
        self._quotas = quotas if quotas.limited and not free else None
        self._call = call
        self._strict = call.version >= strict_from
        self._paid = 0
        self.delay_ms = 0

    def split(self, topics: Sequence[T], size: Callable[[T], int]) -> tuple[tuple[T, ...], list[T]]:
        """The topics that may be changed now, which are paid for by their partitions, and those that may not."""
        if self._quotas is None:
            return tuple(topics), []
        served, held = [], []
        for topic in topics:
            if self._may(self._quotas, size(topic)):
                self._paid += size(topic)
                served.append(topic)
            else:
                held.append(topic)
        return tuple(served), held

    def settle(self, made: int) -> None:
        """So many partitions were made or deleted: what was paid beyond that is given back."""
        if self._quotas is not None:
            self._quotas.mutated_less(self._call.who, self._paid - made)

    def refusal(self, name: str | None, topic_id: UUID | None = None) -> TopicAnswer:
        """The answer for a topic that has to wait."""
        text = f"the client has used up its controller_mutation_rate; try again in {self.delay_ms} ms"
        return TopicAnswer(name or "", topic_id or NO_TOPIC_ID, ErrorCode.THROTTLING_QUOTA_EXCEEDED, text)

    def _may(self, quotas: ClientQuotas, partitions: int) -> bool:
        delay_ms = quotas.mutates(self._call.who, partitions, strict=self._strict)
        self.delay_ms = max(self.delay_ms, delay_ms)
        return not (self._strict and delay_ms)
