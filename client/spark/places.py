"""Start and end of a read in each partition, as set by options."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

TopicPartition = tuple[str, int]
Offsets = dict[TopicPartition, int]
Ids = dict[str, str]
"""The ids of topics by name."""

LATEST = -1
EARLIEST = -2


@dataclass(frozen=True, slots=True)
class InAllPartitions:
    """The same place in every partition: EARLIEST or LATEST."""

    place: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for each partition, or EARLIEST or LATEST."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimes:
    """The first record at or after a time (ms), for each partition."""

    times: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record at or after one time (ms), in every partition."""

    time: int


Place = InAllPartitions | AtOffsets | AtTimes | AtTime


def show(partitions: Iterable[TopicPartition]) -> str:
    """Partitions for an error message."""
    return ", ".join(f"{topic}-{partition}" for topic, partition in sorted(partitions)) or "none"
