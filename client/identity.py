"""The idempotent producer's identity: a producer id, and a sequence number for each partition.

A response can be lost after the records were stored. The sender then retries the batch with the same numbers, and
the leader returns the first offset instead of storing the batch twice.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rookery.core.errors import (
    InvalidProducerEpochError,
    OutOfOrderSequenceNumberError,
    UnknownProducerIdError,
)
from rookery.core.net.cluster import Cluster, check
from rookery.core.wire.apis.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from rookery.core.wire.batch import MAX_SEQUENCE

TIMEOUT_S = 60.0
UNUSED_MS = 60_000  # transaction timeout: a required field that has no effect here

LOST_PRODUCER_STATE = (OutOfOrderSequenceNumberError, UnknownProducerIdError, InvalidProducerEpochError)
"""Errors of a leader that does not have the producer's earlier batches. Nothing was stored; use a new producer id."""

Place = tuple[str, int]


class Stamp(NamedTuple):
    """Producer id, epoch and sequence of a batch; all -1 without idempotence."""

    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1


class Turn(Protocol):
    """One batch of a partition in flight; the same stamp for all retries, unless the leader lost the producer state."""

    stamp: Stamp

    async def renew(self) -> None: ...


class Identity(Protocol):
    """Gives the batches of a partition their stamps, one batch after the other."""

    def turn(self, place: Place, records: int) -> AbstractAsyncContextManager[Turn]: ...


class NoIdentity:
    """No idempotence: with acks other than all, a retry may store a batch twice."""

    stamp = Stamp()

    @asynccontextmanager
    async def turn(self, place: Place, records: int) -> AsyncIterator["NoIdentity"]:
        yield self

    async def renew(self) -> None: ...


class ProducerId:
    """A producer id, requested when first needed, and the next sequence number of each partition."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._given: tuple[int, int] | None = None
        self._sequences: dict[Place, int] = defaultdict(int)
        self._turns: dict[Place, asyncio.Lock] = defaultdict(asyncio.Lock)

    @asynccontextmanager
    async def turn(self, place: Place, records: int) -> AsyncIterator["_Numbered"]:
        """Write a batch within; leave with an error if it is not known to be stored."""
        async with self._turns[place]:
            turn = _Numbered(self, place, await self._stamp(place))
            try:
                yield turn
            except BaseException:
                self._give_up(turn.stamp)
                raise
            if self._is_current(turn.stamp):
                self._sequences[place] = (turn.stamp.sequence + records) & MAX_SEQUENCE

    async def with_new_id(self, place: Place, stamp: Stamp) -> Stamp:
        """Another stamp for a batch whose leader lost the producer state."""
        self._give_up(stamp)
        return await self._stamp(place)

    async def _stamp(self, place: Place) -> Stamp:
        if self._given is None:
            given = await self._cluster.retrying(self._ask, TIMEOUT_S)
            self._given = self._given or given  # another partition may have asked meanwhile
        return Stamp(*self._given, self._sequences[place])

    def _give_up(self, stamp: Stamp) -> None:
        if self._is_current(stamp):
            self._given = None
            self._sequences.clear()

    def _is_current(self, stamp: Stamp) -> bool:
        return self._given == (stamp.producer_id, stamp.epoch)

    async def _ask(self) -> tuple[int, int]:
        request = InitProducerIdRequest(transaction_timeout_ms=UNUSED_MS)
        answer = await self._cluster.ask_any(INIT_PRODUCER_ID, request)
        check(answer.error_code, "a producer id")
        return answer.producer_id, answer.producer_epoch


@dataclass
class _Numbered:
    """The turn of one batch under a producer id."""

    _id: ProducerId
    _place: Place
    stamp: Stamp

    async def renew(self) -> None:
        self.stamp = await self._id.with_new_id(self._place, self.stamp)
