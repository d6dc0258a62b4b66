"""Requests that make or delete partitions, under the quota `controller_mutation_rate` of their client."""

from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import UUID

from rookery.broker.quotas.client_quotas import ClientQuotas
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode
from rookery.core.metadata.requests import TopicAnswer
from rookery.core.types import NO_TOPIC_ID

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
