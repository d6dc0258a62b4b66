"""A fetch that waits for data."""

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

from rookery.broker.handlers.fetch_answer import Fetch
from rookery.broker.handlers.fetch_session import Wanted
from rookery.broker.replication.partition import Partition
from rookery.broker.server.pending import Pending
from rookery.core.metadata import image

Place = tuple[Wanted, image.Partition, int, int]
"""A partition when it was read last: what was asked for, who led, where this reader's reading ended, and how many bytes
had been appended up to there."""


class DelayedFetch:
    """Woken by its partitions. One byte is there as soon as a partition can be read further; where more is
    asked for, the bytes appended behind what was read are a guess that costs nothing, and only a good one causes
    a read."""

    kind = "Fetch"

    def __init__(self, fetch: Fetch, pending: Pending[Any]) -> None:
        self._fetch = fetch
        self._min_bytes = fetch.read.bytes_min
        self._pending = pending
        self._remember()

    def _remember(self) -> None:
        """What was read last, and how far."""
        read = self._fetch.read
        wanted = {
            partition: wanted
            for wanted, partition in zip(self._fetch.wanted, read.partitions, strict=True)
            if partition is not None
        }
        self.partitions = partitions = list(wanted)
        states = [partition.state for partition in partitions]
        bytes_in: Iterable[int] = repeat(0)
        if self._min_bytes > 1:
            bytes_in = [partition.bytes_in - read.bytes_above(partition) for partition in partitions]
        found = zip(wanted.values(), states, read.ends(partitions), bytes_in, strict=False)
        self._places: dict[Partition, Place] = dict(zip(partitions, found, strict=True))
        self._had = read.bytes

    def try_complete(self, changed: Sequence[Partition]) -> bool:
        read, places = self._fetch.read, self._places
        tells_watermarks = read.tells_watermarks
        moved = False
        for partition, end in zip(changed, read.ends(changed), strict=True):
            wanted, state, until, _ = places[partition]
            if partition.offline or (partition.state is not state and _is_led_anew(state, partition.state)):
                return self._answer()
            if tells_watermarks and partition.log.high_watermark > wanted.high_watermark:
                return self._answer()
            if end > until:
                moved = True
        if not moved:
            return False
        if self._min_bytes <= 1:
            return self._answer()
        return self._guess() >= self._min_bytes and self._answer_if_enough()

    def _guess(self) -> int:
        """Bytes there may be now: at least what was found, plus all that was appended behind it."""
        return self._had + sum(partition.bytes_in - place[3] for partition, place in self._places.items())

    def _answer_if_enough(self) -> bool:
        read = self._fetch.read
        self._fetch.read_again()
        if read.bytes >= self._min_bytes or read.answer_now:
            self._pending.complete(self._fetch.response())
            return True
        self._fetch.wait()
        self._remember()
        return False

    def _answer(self) -> bool:
        self._fetch.read_again()
        self._pending.complete(self._fetch.response())
        return True

    def expire(self) -> None:
        self._answer()

    def fail(self, error: Exception) -> None:
        self._pending.fail(error)


def _is_led_anew(was: image.Partition, now: image.Partition) -> bool:
    """Whether somebody else leads now, or nobody, or the same broker again."""
    return now.leader != was.leader or now.leader_epoch != was.leader_epoch
