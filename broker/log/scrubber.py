"""The scrubber: checks every byte of closed segments, so that damage is found while another replica is whole.

One pass over all partitions each `rookery.scrub.interval.ms`, at most `rookery.scrub.bytes.per.second`, in a thread and
in slices of which none keeps the files for long. How far a partition is checked is kept in a checkpoint, so that a pass
goes on where it stopped, also after a restart. What is found is the partition's damage; the scrubber changes nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial

from rookery.broker.log.background import Threads, Throttle, real_threads
from rookery.broker.log.housekeeper import SLICE
from rookery.broker.log.log_dirs import LogDirs
from rookery.broker.log.partition_files import FilesClosed
from rookery.broker.log.partition_log import PartitionLog
from rookery.core.clock import Clock
from rookery.core.config import node
from rookery.core.config.options import Settings
from rookery.core.event_logging import get_logger
from rookery.core.log import LogCorrupt, Segment
from rookery.core.log.scrub import SegmentScrub
from rookery.core.service import Service

log = get_logger("broker.log")

SLICE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class ScrubOptions:
    """The broker's options; the names are the keys with `rookery.scrub.` taken off and `.` as `_`."""

    interval_ms: int = 604_800_000
    bytes_per_second: int = 4 * 1024 * 1024

    @staticmethod
    def of(settings: Settings) -> "ScrubOptions":
        return ScrubOptions(settings[node.SCRUB_INTERVAL_MS], settings[node.SCRUB_BYTES_PER_SECOND])


class Scrubber(Service):
    """Checks logs until cancelled."""

    name = "log-scrubber"

    def __init__(
        self, dirs: LogDirs, clock: Clock, options: ScrubOptions, threads: Threads = real_threads
    ) -> None:
        self._dirs = dirs
        self._clock = clock
        self._options = options
        self._thread = threads("log-scrubber", 1)
        self._breathe = Throttle(options.bytes_per_second, clock.monotonic).breathe
        self.pause: Callable[[float], Awaitable[None]] = asyncio.sleep
        self.passes = 0
        self.bytes_read = 0

    async def serve(self) -> None:
        while True:
            begun = self._clock.monotonic()
            await self.scrub_all()
            passed = self._clock.monotonic() - begun
            await asyncio.sleep(max(self._options.interval_ms / 1000 - passed, 0))

    async def stop(self) -> None:
        self._thread.shutdown(wait=False)

    async def scrub_all(self) -> None:
        """One pass, or what is left of it."""
        read_before = self.bytes_read
        for number, partition in enumerate(list(self._dirs.partitions.values())):
            await self._scrub(partition)
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)
        for partition in self._dirs.partitions.values():
            partition.scrubbed_offset = None
        self.passes += 1
        if self.bytes_read > read_before:
            log.info("scrub.done", partitions=len(self._dirs.partitions), bytes=self.bytes_read - read_before)

    async def _scrub(self, partition: PartitionLog) -> None:
        """Whatever goes wrong concerns only this partition, and is looked at again with the next pass."""
        try:
            for segment, next_base in _closed(partition):
                await self._scrub_segment(partition, segment, next_base)
                partition.scrubbed_offset = next_base
        except FilesClosed:
            return
        except OSError as error:
            log.warning("scrub.failed", partition=str(partition.partition), reason=str(error))
        except Exception as error:  # a defect, which must not end the node
            log.exception("scrub.failed", error, partition=str(partition.partition))

    async def _scrub_segment(self, partition: PartitionLog, segment: Segment, next_base: int) -> None:
        scrub = SegmentScrub(partition.segment_log.disk, segment, next_base)
        is_whole = partial(_is_whole, partition, segment, partition.truncations)
        try:
            more = True
            while more:
                before = scrub.position
                more = await self._step(partition, scrub, is_whole)
                read = scrub.position - before
                self.bytes_read += read
                await self.pause(read / self._options.bytes_per_second)
        finally:
            scrub.close()

    async def _step(self, partition: PartitionLog, scrub: SegmentScrub, is_whole: Callable[[], bool]) -> bool:
        """Check one slice; False if there is nothing more to check in the segment."""
        async with partition.files.shared("scrub") as lease:
            if not is_whole():
                return False
            try:
                return await lease.run(self._thread, partial(scrub.step, SLICE_BYTES, self._breathe))
            except LogCorrupt as error:
                if is_whole():
                    self._dirs.found_damage(partition, error)
                return False


def _closed(partition: PartitionLog) -> Iterator[tuple[Segment, int]]:
    """The closed and durable segments that this pass has not come to yet, and where each ends; as they are when their
    turn comes."""
    done = partition.scrubbed_offset or 0
    while True:
        log = partition.segment_log
        found = next(
            (
                (segment, after.base_offset)
                for segment, after in zip(log.segments, log.segments[1:], strict=False)
                if segment.base_offset >= done and after.base_offset <= log.recovery_point
            ),
            None,
        )
        if found is None:
            return
        yield found
        done = found[1]


def _is_whole(partition: PartitionLog, segment: Segment, truncations: int) -> bool:
    """Whether this very segment is still closed and in use, and not known to be damaged."""
    unchanged = segment.damage is None and partition.truncations == truncations
    return unchanged and any(segment is one for one in partition.segment_log.segments[:-1])
