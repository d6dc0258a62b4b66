"""Plans a read on the driver: which partitions, from which offset, to which offset."""

import time
from collections.abc import Callable, Collection, Mapping, Set

from rookery.client.reader import offsets_at
from rookery.client.spark.blocking import BlockingCluster, connected
from rookery.client.spark.data_loss import report_data_loss
from rookery.client.spark.fetching import Task
from rookery.client.spark.kafka_options import OptionError
from rookery.client.spark.lookup import Found, partitions_of, weights_of
from rookery.client.spark.offsets import (
    Position,
    Range,
    limited,
    limited_bytes,
    ranges_between,
    recreated,
    split,
)
from rookery.client.spark.options import ENDS, STARTS, SourceOptions
from rookery.client.spark.places import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTime,
    AtTimes,
    InAllPartitions,
    Offsets,
    Place,
    TopicPartition,
    show,
)
from rookery.core.net.cluster import UNKNOWN_TOPIC, Cluster

WEIGHTS_S = 60.0
POLL_PAUSE_S = 0.1
"""Spark asks an idle source for its end a hundred times a second; the cluster is asked at most this often."""


GONE = "was read before and is not found: it was deleted, or the options no longer select it"
SHORT = "ends before the offset that was read last"


class Planner:
    """Computes the start and the end of reads. Every end is at or below a high watermark."""

    def __init__(
        self,
        options: SourceOptions,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options = options
        self._monotonic = monotonic
        self._sleep = sleep
        self._found: tuple[float, Found] | None = None
        self._newest: tuple[float, Position] | None = None
        self._weights: tuple[float, Mapping[TopicPartition, float], Set[TopicPartition]] | None = None
        self._first: dict[tuple[TopicPartition, str | None], int] = {}
        self._reported: set[tuple[TopicPartition, str]] = set()

    @property
    def _blocking(self) -> BlockingCluster:
        return connected(self._options.connecting)

    @property
    def _cluster(self) -> Cluster:
        return self._blocking.cluster

    def found(self, may_be_missing: Collection[TopicPartition] | None = (), *, again: bool = False) -> Found:
        """The partitions that exist; requested each time unless the options allow a cached list.

        A topic or partition that the options name and that does not exist is an error, unless it is among
        `may_be_missing` (None: any). Another node is asked first, because a node's metadata may be old.
        """
        now = self._monotonic()
        if again or self._found is None or now - self._found[0] >= self._options.partitions_ttl_s:
            self._found = (now, self._request_partitions(again))
        for _ in range(self._options.lookup_retries):
            if not _missing_names(self._found[1], may_be_missing):
                break
            self._sleep(self._options.lookup_pause_s)
            self._found = (now, self._request_partitions(True))
        missing = ", ".join(sorted(_missing_names(self._found[1], may_be_missing)))
        if missing:
            option = self._options.selection.option
            raise OptionError(f"option {option!r} names topics or partitions that do not exist: {missing}")
        return self._found[1]

    def _request_partitions(self, again: bool) -> Found:
        return self._blocking.run(partitions_of(self._cluster, self._options.selection, again=again))

    # --- places ---------------------------------------------------------------------------------------------

    def starting(self) -> Position:
        """The start that the options select now."""
        found = self.found()
        place = self._options.starting
        start = self._resolve(place, found.partitions, STARTS, self._options.latest_if_no_match)
        if isinstance(place, AtOffsets) and self._options.fail_on_data_loss:
            self._check_committed(start, STARTS[0])
        return Position(start, found.ids)

    def ending(self) -> Position:
        """The end that the options select now: never above the high watermark."""
        found = self.found()
        place = self._options.ending
        end = self._resolve(place, found.partitions, ENDS, True)
        if not isinstance(place, InAllPartitions):
            self._check_committed(end, ENDS[0])
        return Position(end, found.ids)

    def _check_committed(self, offsets: Offsets, option: str) -> None:
        above = {key for key, latest in self._at(dict.fromkeys(offsets, LATEST)).items() if offsets[key] > latest}
        if above:
            raise OptionError(f"option {option!r} is after the last committed record of {show(above)}")

    def _resolve(
        self,
        place: Place,
        partitions: Collection[TopicPartition],
        names: tuple[str, str, str],
        latest_if_no_match: bool,
    ) -> Offsets:
        match place:
            case InAllPartitions(mark):
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

    def latest(self, known: Position) -> Position:
        """The end of each partition now. Retries when a broker reports an older offset than one already seen: its
        metadata may be old, or it may be an old leader."""
        now = self._monotonic()
        if self._newest is not None:
            asked_at, newest = self._newest
            if now - asked_at < POLL_PAUSE_S and not self._is_behind(newest, known):
                return newest
        newest = self._request_latest(known)
        for _ in range(self._options.lookup_retries):
            if not self._is_behind(newest, known):
                break
            self._sleep(self._options.lookup_pause_s)
            newest = self._request_latest(known, again=True)
        self._newest = (now, newest)
        return newest

    def _request_latest(self, known: Position, *, again: bool = False) -> Position:
        found = self.found(known.offsets if self._options.fail_on_data_loss else None, again=again)
        return Position(self._at_existing(dict.fromkeys(found.partitions, LATEST)), found.ids)

    def _at_existing(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        """Like `_at`, without partitions that were deleted meanwhile."""
        try:
            return self._at(wanted)
        except UNKNOWN_TOPIC:
            left = self.found(None, again=True).partitions
            return self._at({key: mark for key, mark in wanted.items() if key in left})

    def _is_behind(self, newest: Position, known: Position) -> bool:
        """Whether a partition is missing, recreated or shorter, and this was not reported as lost before."""
        again = recreated(known.offsets, known.ids, newest.ids)
        if any((key, _recreated_text(newest.ids[key[0]])) not in self._reported for key in again):
            return True
        reported = {key for key, how in self._reported if how in (GONE, SHORT)}
        return any(newest.offsets.get(key, -1) < known.offsets[key] for key in known.offsets.keys() - again - reported)

    def without_recreated(self, known: Position, newest: Position) -> Position:
        """The known offsets that are still valid: all but those of recreated topics."""
        again = recreated(known.offsets, known.ids, newest.ids)
        for topic in sorted({topic for topic, _ in again}):
            self.lost({key for key in again if key[0] == topic}, _recreated_text(newest.ids[topic]))
        return Position({key: offset for key, offset in known.offsets.items() if key not in again}, known.ids)

    def reachable(self, known: Position, newest: Position) -> Position:
        """The end to read to; it never goes back. A partition that is missing, or ends before the known offset, keeps
        that offset: the report may come from a node with old metadata, and nothing is read twice."""
        gone = known.offsets.keys() - newest.offsets.keys()
        short = {key for key, offset in newest.offsets.items() if offset < known.offsets.get(key, 0)}
        for keys, how in ((gone, GONE), (short, SHORT)):
            self._reported -= {(key, how) for key in known.offsets.keys() - keys}
            self.lost(keys, how)
        stay = {key: known.offsets[key] for key in gone | short}
        return Position({**newest.offsets, **stay}, {**known.ids, **newest.ids})

    def with_new(self, known: Offsets, end: Position) -> Offsets:
        """The known offsets, and the first offsets of new partitions, which are read from their start."""
        new = end.offsets.keys() - known.keys()
        asked = {key for key in new if (key, end.ids.get(key[0])) not in self._first}
        if asked:
            found = self._at_existing(dict.fromkeys(asked, EARLIEST))
            self._first.update({(key, end.ids.get(key[0])): offset for key, offset in found.items()})
            self.lost(asked - found.keys(), "should be read and no longer exists")
        first = {key: self._first[key, id] for key in new if (key, id := end.ids.get(key[0])) in self._first}
        self.lost({key for key, offset in first.items() if offset > 0}, "is new and has lost its first records")
        return {**known, **first}

    def lost(self, partitions: Collection[TopicPartition], how: str) -> None:
        """Report lost data: an error, or one warning if the options allow the loss."""
        news = {key for key in partitions if (key, how) not in self._reported}
        if news:
            report_data_loss(f"{show(news)} {how}", fail=self._options.fail_on_data_loss)
            self._reported |= {(key, how) for key in news}

    def limited(self, begin: Offsets, target: Offsets) -> Offsets:
        """The end of a micro-batch that the options allow: so many offsets, and so many bytes at most."""
        admission = self._options.admission
        end = target if admission.offsets_max is None else limited(begin, target, admission.offsets_max)
        if admission.bytes_max is None or end == begin:
            return end
        return limited_bytes(begin, end, self._bytes_of(frozenset(end)), admission.bytes_max)

    def _bytes_of(self, partitions: Set[TopicPartition]) -> Mapping[TopicPartition, float]:
        """The bytes of an offset in each partition. They change slowly, so they are requested now and then only."""
        now = self._monotonic()
        if self._weights is None or now - self._weights[0] >= WEIGHTS_S or not partitions <= self._weights[2]:
            self._weights = (now, self._blocking.run(weights_of(self._cluster, partitions)), partitions)
        return self._weights[1]

    # --- tasks ----------------------------------------------------------------------------------------------

    def tasks(self, start: Offsets, end: Position, columns: tuple[str, ...]) -> list[Task]:
        """The tasks between two offsets, split as the options say. A partition without a start is skipped."""
        options = self._options
        ends = {key: offset for key, offset in end.offsets.items() if key in start}
        ranges = split(ranges_between(start, ends), options.partitions_min, options.records_per_partition_max)
        return [self._task(each, end.ids.get(each.topic), columns) for each in ranges]

    def _task(self, wanted: Range, topic_id: str | None, columns: tuple[str, ...]) -> Task:
        options = self._options
        return Task(wanted, topic_id, columns, options.fetching, options.fail_on_data_loss, options.poll_timeout_s)


def _recreated_text(topic_id: str) -> str:
    return f"belongs to a topic that was deleted and recreated under the same name, and now has the id {topic_id}"


def _missing_names(found: Found, may_be_missing: Collection[TopicPartition] | None) -> set[str]:
    if may_be_missing is None:
        return set()
    return set(found.missing) - {topic for topic, _ in may_be_missing} - {show([key]) for key in may_be_missing}


def _check_complete(
    partitions: Collection[TopicPartition], named: Mapping[TopicPartition, int], option: str
) -> None:
    missing, strange = set(partitions) - named.keys(), named.keys() - set(partitions)
    if missing:
        raise OptionError(f"option {option!r} must name all partitions; {show(missing)} are missing")
    if strange:
        raise OptionError(f"option {option!r} names partitions that do not exist: {show(strange)}")
