"""Offsets as Spark keeps them in its checkpoint; ranges, their split, and limits of a micro-batch.

Spark compares offsets as JSON text, so the same offsets always give the same text. The first offset of a
query contains, under START, the start of the query: `startingOffsets=latest` changes with time, and a first
batch that is planned again after a failure must start at the same offsets. IDS holds the topics' ids: a topic
that was deleted and recreated has the same name, but other records.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from rookery.client.spark.kafka_options import OptionError
from rookery.client.spark.places import Ids, Offsets, TopicPartition

START = "(start)"
IDS = "(ids)"
"""These cannot be topics: brackets are not allowed in names."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """Offsets of one partition from `start` to before `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Position:
    """Offsets of partitions, and the ids of their topics if known."""

    offsets: Offsets
    ids: Ids


def to_json(
    offsets: Mapping[TopicPartition, int],
    start: Mapping[TopicPartition, int] | None = None,
    ids: Mapping[str, str] | None = None,
) -> Json:
    """``{"topic": {"0": 23}}``, in a fixed order."""
    result: Json = {}
    for topic, partition in sorted(offsets):
        result.setdefault(topic, {})[str(partition)] = offsets[topic, partition]
    known = {topic: ids[topic] for topic in result if topic in ids} if ids is not None else {}
    if known:
        result[IDS] = known
    if start is not None:
        result[START] = to_json(start)
    return result


def from_json(value: Mapping[str, Any]) -> Offsets:
    """The offsets themselves."""
    return {
        (topic, int(partition)): offset
        for topic, partitions in value.items()
        if topic not in (START, IDS)
        for partition, offset in partitions.items()
    }


def start_in(value: Mapping[str, Any]) -> Offsets | None:
    """The start of the query, if these are the offsets of its first batch."""
    return from_json(value[START]) if START in value else None


def ids_in(value: Mapping[str, Any]) -> Ids:
    """The topics' ids; empty in a checkpoint of Spark's own source."""
    return dict(value.get(IDS, {}))


def position_in(value: Mapping[str, Any]) -> Position:
    return Position(from_json(value), ids_in(value))


def recreated(offsets: Iterable[TopicPartition], then: Ids, now: Ids) -> set[TopicPartition]:
    """The partitions whose topic now has another id than before: it was deleted and recreated."""
    return {key for key in offsets if key[0] in then and key[0] in now and then[key[0]] != now[key[0]]}


def is_initial(value: Mapping[str, Any]) -> bool:
    """Whether a query starts here: then the end of its first batch contains the start."""
    return start_in(value) == from_json(value)


def limited(start: Offsets, end: Offsets, most: int) -> Offsets:
    """An end after about `most` offsets, shared between the partitions in proportion to their size.

    A share below one becomes one, so that a small partition makes progress beside a large one.
    """
    sizes = {key: end[key] - start.get(key, 0) for key in end}
    total = sum(size for size in sizes.values() if size > 0)
    if total <= most:
        return dict(end)
    return {
        key: end[key] if size <= 0 else start.get(key, 0) + min(size, max(1, size * most // total))
        for key, size in sizes.items()
    }


def limited_bytes(start: Offsets, end: Offsets, weights: Mapping[TopicPartition, float], most: int) -> Offsets:
    """An end after about `most` bytes: the same part of what each partition has, one offset at least. `weights` are
    the bytes of an offset; a partition without one is not limited."""
    sizes = {key: end[key] - start.get(key, 0) for key in end}
    total = sum(size * weights.get(key, 0) for key, size in sizes.items() if size > 0)
    if total <= most:
        return dict(end)
    return {
        key: end[key] if size <= 0 or key not in weights else start.get(key, 0) + max(1, int(size * most / total))
        for key, size in sizes.items()
    }


def count(start: Offsets, end: Offsets) -> int:
    """How many offsets lie between."""
    return sum(max(0, offset - start.get(key, 0)) for key, offset in end.items())


def ranges_between(start: Offsets, end: Offsets) -> list[Range]:
    """The ranges that have something in them. An end before its start is an error, never an empty range."""
    ranges = []
    for (topic, partition), until in sorted(end.items()):
        found = Range(topic, partition, start[topic, partition], until)
        if found.size < 0:
            raise OptionError(
                f"{topic}-{partition}: the range ends at {until}, before its start at {found.start}; "
                "check startingOffsets and endingOffsets"
            )
        if found.size:
            ranges.append(found)
    return ranges


def split(ranges: Iterable[Range], at_least: int | None, records_max: int | None) -> list[Range]:
    """Split long ranges into tasks: of `records_max` records at most, then until there are about `at_least`."""
    parts = list(ranges)
    if records_max is not None:
        parts = [part for each in parts for part in _divide(each, -(-each.size // records_max))]
    if at_least is None or len(parts) >= at_least:
        return parts
    total = sum(each.size for each in parts)
    long = [each for each in parts if _share(each, total, at_least) > 1]
    left = max(at_least - (len(parts) - len(long)), 0)
    long_total = sum(each.size for each in long)
    tasks = {each: _share(each, long_total, left) for each in long}
    return [part for each in parts for part in _divide(each, tasks.get(each, 1))]


def _share(each: Range, total: int, tasks: int) -> int:
    """In proportion, and halves upwards as Spark rounds them: Python's `round` goes to the even number."""
    return max(1, math.floor(each.size / total * tasks + 0.5)) if total else 1


def _divide(whole: Range, parts: int) -> list[Range]:
    parts = min(parts, whole.size)
    marks = [whole.start + whole.size * step // parts for step in range(parts + 1)]
    return [Range(whole.topic, whole.partition, begin, end) for begin, end in pairwise(marks)]
