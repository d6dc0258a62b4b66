"""The driver's view of what is read: which partitions, from where, to where."""

import time
from collections.abc import Callable, Collection, Mapping

from rookery.client.cluster import Cluster
from rookery.client.spark.blocking import BlockingCluster, connected
from rookery.client.spark.fetching import DataLossError, Task
from rookery.client.spark.lookup import offsets_at, partitions_of
from rookery.client.spark.offsets import Range, ranges_between, split
from rookery.client.spark.option_values import OptionError
from rookery.client.spark.options import ENDS, STARTS, SourceOptions
from rookery.client.spark.places import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTime,
    AtTimes,
    Everywhere,
    Offsets,
    Place,
    TopicPartition,
    show,
)
from rookery.core.logs import get_logger

log = get_logger("client.spark")
POLL_PAUSE_S = 0.1
"""Spark asks an idle source for its end a hundred times a second; the cluster is asked this often at most."""


class Planner:
    """Answers where reading begins and ends. Every end is a high watermark, or lies below one."""

    def __init__(
        self,
        options: SourceOptions,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options = options
        self._monotonic = monotonic
        self._sleep = sleep
        self._partitions: tuple[float, set[TopicPartition]] | None = None
        self._latest: tuple[float, Offsets] | None = None

    @property
    def _blocking(self) -> BlockingCluster:
        return connected(self._options.connecting)

    @property
    def _cluster(self) -> Cluster:
        return self._blocking.cluster

    def partitions(self) -> set[TopicPartition]:
        """The partitions there are; asked for again each time unless the options allow some age."""
        now = self._monotonic()
        if self._partitions is None or now - self._partitions[0] >= self._options.partitions_ttl_s:
            wanted = partitions_of(
                self._cluster, self._options.selection, missing_is_error=self._options.fail_on_data_loss
            )
            self._partitions = (now, self._blocking.run(wanted))
        return self._partitions[1]

    # --- places ---------------------------------------------------------------------------------------------

    def starting(self) -> Offsets:
        """Where the options say to begin, now."""
        return self._resolve(self._options.starting, STARTS, self._options.latest_if_no_match)

    def ending(self) -> Offsets:
        """Where the options say to end, now: never above the high watermark."""
        end = self._resolve(self._options.ending, ENDS, True)
        above = {key for key, latest in self._at(dict.fromkeys(end, LATEST)).items() if end[key] > latest}
        if above:
            raise OptionError(f"option 'endingOffsets' lies behind the last committed record of {show(above)}")
        return end

    def _resolve(self, place: Place, names: tuple[str, str, str], latest_if_no_match: bool) -> Offsets:
        partitions = self.partitions()
        match place:
            case Everywhere(mark):
                return self._at(dict.fromkeys(partitions, mark))
            case AtOffsets(offsets):
                _check_complete(partitions, offsets, names[0])
                marks = {key: offset for key, offset in offsets.items() if offset < 0}
                return {**offsets, **self._at(marks)}
            case AtTimes(times):
                _check_complete(partitions, times, names[1])
                return self._at_times(times, names[1], latest_if_no_match)
            case AtTime(moment):
                return self._at_times(dict.fromkeys(partitions, moment), names[2], latest_if_no_match)

    def _at_times(
        self, times: Mapping[TopicPartition, int], option: str, latest_if_no_match: bool
    ) -> Offsets:
        found = self._at(times)
        older = {key for key, offset in found.items() if offset < 0}
        if older and not latest_if_no_match:
            raise OptionError(
                f"option {option!r}: all records of {show(older)} are older; with "
                "startingOffsetsByTimestampStrategy=latest reading begins at their end"
            )
        return {**found, **self._at(dict.fromkeys(older, LATEST))}

    def _at(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        committed = self._options.fetching.read_committed
        return self._blocking.run(offsets_at(self._cluster, wanted, read_committed=committed))

    # --- streams --------------------------------------------------------------------------------------------

    def latest(self, known: Offsets) -> Offsets:
        """How far each partition can be read now. Where that is less than is known, ask again: a new leader
        may be behind with its high watermark for a moment."""
        now = self._monotonic()
        if self._latest is not None and now - self._latest[0] < POLL_PAUSE_S:
            return self._latest[1]
        found = self._at(dict.fromkeys(self.partitions(), LATEST))
        for _ in range(self._options.lookup_retries):
            if not _behind(found, known):
                break
            self._sleep(self._options.lookup_pause_s)
            found = self._at(dict.fromkeys(found, LATEST))
        self._latest = (now, found)
        return found

    def check_lost(self, known: Offsets, found: Offsets) -> None:
        """Nothing that was read before may be missing now."""
        self.lost(known.keys() - found.keys(), "does not exist any more")
        self.lost(_behind(found, known), "ends before the offset that was read last")

    def with_new(self, known: Offsets, end: Collection[TopicPartition]) -> Offsets:
        """The offsets known, and the first ones of partitions that came later: these are read from their start."""
        new = set(end) - known.keys()
        if not new:
            return known
        first = self._at(dict.fromkeys(new, EARLIEST))
        self.lost({key for key, offset in first.items() if offset > 0}, "is new and has lost its first records")
        return {**known, **first}

    def lost(self, partitions: Collection[TopicPartition], how: str) -> None:
        """Data is lost: an error, or a warning where the options allow it."""
        if not partitions:
            return
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{show(partitions)} {how}; set failOnDataLoss=false to go on with what is left")
        log.warning("spark.data_loss", partitions=show(partitions), how=how)

    # --- tasks ----------------------------------------------------------------------------------------------

    def tasks(self, start: Offsets, end: Offsets, columns: tuple[str, ...]) -> list[Task]:
        """The work between two offsets, split as the options say."""
        options = self._options
        ranges = split(ranges_between(start, end), options.partitions_min, options.records_per_partition_max)
        return [self._task(each, columns) for each in ranges]

    def _task(self, wanted: Range, columns: tuple[str, ...]) -> Task:
        options = self._options
        return Task(wanted, columns, options.fetching, options.fail_on_data_loss, options.poll_timeout_s)


def _behind(found: Offsets, known: Offsets) -> set[TopicPartition]:
    return {key for key, offset in found.items() if offset < known.get(key, 0)}


def _check_complete(
    partitions: Collection[TopicPartition], named: Mapping[TopicPartition, int], option: str
) -> None:
    missing, strange = set(partitions) - named.keys(), named.keys() - set(partitions)
    if missing:
        raise OptionError(f"option {option!r} must name all partitions; it lacks {show(missing)}")
    if strange:
        raise OptionError(f"option {option!r} names partitions that do not exist: {show(strange)}")
