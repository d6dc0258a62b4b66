"""A fetch that waits for data."""

from collections.abc import Sequence
from typing import Any

from rookery.broker.handlers.fetch_answer import Fetch
from rookery.broker.replication.partition import Partition
from rookery.broker.server.pending import Pending


class DelayedFetch:
    """Woken by its partitions. One byte is there as soon as a partition can be read further; where more is
    asked for, the bytes appended since are a guess that costs nothing, and only a good one causes a read."""

    kind = "Fetch"

    def __init__(self, fetch: Fetch, min_bytes: int, pending: Pending[Any]) -> None:
        self._fetch = fetch
        self._min_bytes = min_bytes
        self._pending = pending
        self._places: dict[Partition, tuple[int, int, int]] = {}
        for wanted, partition in zip(fetch.wanted, fetch.read.partitions, strict=True):
            if partition is not None:
                epoch = partition.state.leader_epoch
                self._places[partition] = (wanted.request.fetch_offset, epoch, partition.bytes_in)
        self._had = fetch.read.bytes

    @property
    def partitions(self) -> list[Partition]:
        return list(self._places)

    def try_complete(self, changed: Sequence[Partition]) -> bool:
        until = self._fetch.read.until
        moved = False
        for partition in changed:
            offset, epoch, _ = self._places[partition]
            if not partition.is_leader or partition.state.leader_epoch != epoch or partition.offline:
                return self._answer()
            moved |= until(partition) > offset
        if not moved:
            return False
        if self._min_bytes <= 1:
            return self._answer()
        return self._guess() >= self._min_bytes and self._answer_if_enough()

    def _guess(self) -> int:
        """Bytes there may be now: at least what was found, plus all that was appended since."""
        return self._had + sum(
            partition.bytes_in - bytes_in for partition, (_, _, bytes_in) in self._places.items()
        )

    def _answer_if_enough(self) -> bool:
        read = self._fetch.read
        read.read()
        if read.bytes >= self._min_bytes or read.answer_now:
            self._pending.complete(self._fetch.response())
            return True
        self._had = read.bytes
        self._places = {
            partition: (offset, epoch, partition.bytes_in)
            for partition, (offset, epoch, _) in self._places.items()
        }
        return False

    def _answer(self) -> bool:
        self._fetch.read.read()
        self._pending.complete(self._fetch.response())
        return True

    def expire(self) -> None:
        self._answer()

    def fail(self, error: Exception) -> None:
        self._pending.fail(error)
