"""Streaming reads: Spark's checkpoint keeps the offsets, the driver decides how far each micro-batch goes."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from rookery.client.spark.offsets import Json, count, from_json, is_initial, limited, start_in, to_json
from rookery.client.spark.options import SourceOptions
from rookery.client.spark.places import Offsets
from rookery.client.spark.planner import Planner
from rookery.client.spark.reader import TaskPartition, read_partition


class RookeryStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One lives on the driver for the life of a query; others, without its memory, read on executors."""

    def __init__(
        self,
        options: SourceOptions,
        columns: tuple[str, ...],
        planner: Planner | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._columns = columns
        self._planner = planner or Planner(options)
        self._monotonic = monotonic
        self._initial: Json | None = None
        self._available_now: Offsets | None = None
        self._newest: Offsets | None = None
        self._admitted_at: float | None = None

    def initialOffset(self) -> Json:
        """Where the query begins; Spark asks twice and must hear the same."""
        if self._initial is None:
            start = self._planner.starting()
            self._initial = to_json(start, start)
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """Tells Spark that there is a limit; `latestOffset` knows all of it from the options."""
        admission = self._options.admission
        if admission.offsets_max is not None:
            return ReadMaxRows(admission.offsets_max)
        if admission.offsets_min is not None:
            return ReadMinRows(admission.offsets_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """What is there now is all that this run reads."""
        self._available_now = self._planner.latest({})

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> Json:
        """The end of the next micro-batch; `start` itself, to the letter, if there is nothing to read."""
        known = from_json(start)
        target = self._planner.latest(known) if self._available_now is None else self._available_now
        self._planner.check_lost(known, target)
        self._newest = target
        begin = self._planner.with_new(known, target.keys())
        end = self._admitted(begin, target, limit)
        if all(end[key] == begin[key] for key in end) and not known.keys() - end.keys():
            return start
        return to_json(end, known if is_initial(start) else None)

    def _admitted(self, begin: Offsets, target: Offsets, limit: ReadLimit) -> Offsets:
        if isinstance(limit, ReadAllAvailable):
            return target
        admission, now = self._options.admission, self._monotonic()
        waited_long = self._admitted_at is None or now - self._admitted_at >= admission.delay_max_ms / 1000
        if (
            admission.offsets_min is not None
            and self._available_now is None
            and count(begin, target) < admission.offsets_min
            and not waited_long
        ):
            return {key: begin[key] for key in target}
        self._admitted_at = now
        return target if admission.offsets_max is None else limited(begin, target, admission.offsets_max)

    def reportLatestOffset(self) -> Json | None:
        """How far the partitions go, whatever was admitted: the difference is how far the query is behind."""
        return None if self._newest is None else to_json(self._newest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of one micro-batch. The first batch begins where its end says that it began."""
        until = from_json(end)
        carried = start_in(end)
        begin = self._planner.with_new(from_json(start) if carried is None else carried, until.keys())
        if not self._options.fail_on_data_loss:
            begin = {key: min(offset, until.get(key, offset)) for key, offset in begin.items()}
        return [TaskPartition(task) for task in self._planner.tasks(begin, until, self._columns)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options.connecting, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: the checkpoint has it."""
