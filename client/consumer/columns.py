"""The records of a batch in columns: what `getcolumns` hands out, without a Python object for each record."""

from collections.abc import Sequence
from itertools import chain, repeat
from typing import Any

from rookery.client.consumer.alike import Row
from rookery.client.types import Columns, Headers, Record
from rookery.core.types import TopicPartition

new_record: Any = getattr(tuple, "__new__")  # noqa: B009
"""Makes a named tuple of fields that are known to be right, without its constructor."""
AnyRecord = Record[Any, Any]
NO_HEADERS: Headers = ()


class BatchColumns:
    """Filled while a batch is decoded; then cut, or made into records."""

    __slots__ = ("_epoch", "_place", "headers", "keys", "offsets", "timestamps", "values")

    def __init__(self, place: TopicPartition, leader_epoch: int) -> None:
        self._place = place
        self._epoch = leader_epoch
        self.offsets: list[int] = []
        self.timestamps: list[int] = []
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.headers: list[Headers] = []

    def __len__(self) -> int:
        return len(self.offsets)

    def add(self, records: Sequence[AnyRecord]) -> None:
        _, _, offsets, timestamps, keys, values, headers, _, _ = zip(*records, strict=True)
        self.offsets += offsets
        self.timestamps += timestamps
        self.keys += keys
        self.values += values
        self.headers += headers

    def add_row(self, data: bytes, row: Row, before: AnyRecord) -> None:
        """A row of records that follow a record, which is like them."""
        count = row.records
        self.offsets += range(before.offset + 1, before.offset + 1 + count)
        self.timestamps += row.timestamps(data, before.timestamp)
        keys, values = row.keys(data), row.values(data)
        self.keys += keys if isinstance(keys, list) else repeat(None, count)
        self.values += values if isinstance(values, list) else repeat(None, count)
        self.headers += repeat(NO_HEADERS, count)

    def stamp(self, timestamp: int) -> None:
        """All records have the time at which the log took them."""
        self.timestamps = [timestamp] * len(self.offsets)

    def drop_before(self, position: int) -> None:
        if not self.offsets or self.offsets[0] >= position:
            return
        kept = [index for index, offset in enumerate(self.offsets) if offset >= position]
        first = kept[0] if kept else len(self.offsets)
        for column in (self.offsets, self.timestamps, self.keys, self.values, self.headers):
            del column[:first]

    def cut(self, start: int, stop: int) -> Columns[Any, Any]:
        some = slice(start, stop)
        return Columns(
            *self._place,
            self.offsets[some],
            self.timestamps[some],
            self.keys[some],
            self.values[some],
            self.headers[some],
        )

    def records(self) -> list[AnyRecord]:
        topic, partition = self._place
        fields = zip(
            repeat(topic), repeat(partition), self.offsets, self.timestamps, self.keys, self.values, self.headers,
            repeat(self._epoch), repeat(None),
        )  # fmt: skip
        return list(map(new_record, repeat(Record), fields))


def of_records(records: Sequence[AnyRecord]) -> Columns[Any, Any]:
    """Records of one partition in columns."""
    first = records[0]
    return Columns(
        first.topic,
        first.partition,
        [each.offset for each in records],
        [each.timestamp for each in records],
        [each.key for each in records],
        [each.value for each in records],
        [each.headers for each in records],
    )


def joined(parts: Sequence[Columns[Any, Any]]) -> list[Columns[Any, Any]]:
    """One for each partition, in the order of their first records."""
    by_place: dict[tuple[str, int], list[Columns[Any, Any]]] = {}
    for each in parts:
        by_place.setdefault((each.topic, each.partition), []).append(each)
    return [some[0] if len(some) == 1 else _one(some) for some in by_place.values()]


def _one(parts: Sequence[Columns[Any, Any]]) -> Columns[Any, Any]:
    columns = zip(*(each[2:] for each in parts), strict=True)
    return Columns(parts[0].topic, parts[0].partition, *(list(chain.from_iterable(each)) for each in columns))
