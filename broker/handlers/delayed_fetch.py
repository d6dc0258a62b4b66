"""A fetch that waits for data."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from rookery.broker.handlers.fetch_answer import Fetch
from rookery.broker.handlers.fetch_session import Wanted
from rookery.broker.replication.partition import Partition
from rookery.broker.server.pending import Pending


class Place(NamedTuple):
    """A partition when it was read last."""

    wanted: Wanted
    leader: int
    leader_epoch: int
    bytes_in: int

    @classmethod
    def of(cls, wanted: Wanted, partition: Partition) -> "Place":
        return cls(wanted, partition.state.leader, partition.state.leader_epoch, partition.bytes_in)

    def is_lost(self, partition: Partition) -> bool:
        """Whether somebody else leads now, or nobody can say."""
        state = partition.state
        return state.leader != self.leader or state.leader_epoch != self.leader_epoch or partition.offline


class DelayedFetch:
    """Woken by its partitions. One byte is there as soon as a partition can be read further; where more is
    asked for, the bytes appended since are a guess that costs nothing, and only a good one causes a read."""

    kind = "Fetch"

    def __init__(self, fetch: Fetch, min_bytes: int, pending: Pending[Any]) -> None:
        self._fetch = fetch
        self._min_bytes = min_bytes
        self._pending = pending
        self._places: dict[Partition, Place] = {}
        for wanted, partition in zip(fetch.wanted, fetch.read.partitions, strict=True):
            if partition is not None:
                self._places[partition] = Place.of(wanted, partition)
        self._had = fetch.read.bytes

    @property
    def partitions(self) -> list[Partition]:
        return list(self._places)

    def try_complete(self, changed: Sequence[Partition]) -> bool:
        read = self._fetch.read
        moved = False
        for partition in changed:
            place = self._places[partition]
            if place.is_lost(partition) or read.owes_watermark(partition, place.wanted):
                return self._answer()
            moved |= read.until(partition) > place.wanted.request.fetch_offset
        if not moved:
            return False
        if self._min_bytes <= 1:
            return self._answer()
        return self._guess() >= self._min_bytes and self._answer_if_enough()

    def _guess(self) -> int:
        """Bytes there may be now: at least what was found, plus all that was appended since."""
        return self._had + sum(partition.bytes_in - place.bytes_in for partition, place in self._places.items())

    def _answer_if_enough(self) -> bool:
        read = self._fetch.read
        self._fetch.read_again()
        if read.bytes >= self._min_bytes or read.answer_now:
            self._pending.complete(self._fetch.response())
            return True
        self._fetch.wait()
        self._had = read.bytes
        self._places = {partition: Place.of(place.wanted, partition) for partition, place in self._places.items()}
        return False

    def _answer(self) -> bool:
        self._fetch.read_again()
        self._pending.complete(self._fetch.response())
        return True

    def expire(self) -> None:
        self._answer()

    def fail(self, error: Exception) -> None:
        self._pending.fail(error)
