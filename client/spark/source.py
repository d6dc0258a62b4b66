"""The data source `rookery` as PySpark sees it: readers and writers, for batches and streams.

Options are checked here, on the driver, before any task runs. A batch read plans its ranges once, a stream once per
micro-batch; each task reads its own. A write is at least once, as with Spark's own sink: each task sends its rows and
waits for the cluster to have them. With `exactly_once` a stream's tasks write transactions, which the driver commits.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from rookery.client.spark import schema as columns
from rookery.client.spark.blocking import connected
from rookery.client.spark.epochs import ExactlyOnceError, task_from
from rookery.client.spark.epochs import Task as SinkTask
from rookery.client.spark.exactly_once import Written, abort_epoch, check_settings, commit_epoch, write_epoch
from rookery.client.spark.fetching import Task, read
from rookery.client.spark.kafka_options import Connecting, OptionError
from rookery.client.spark.offsets import (
    Json,
    Position,
    count,
    is_initial,
    position_in,
    recreated,
    start_in,
    to_json,
)
from rookery.client.spark.options import (
    SinkOptions,
    SourceOptions,
    includes_headers,
    sink_options,
    source_options,
)
from rookery.client.spark.outbox import Outbox
from rookery.client.spark.places import LATEST, InAllPartitions, Offsets
from rookery.client.spark.planner import Planner


class TaskPartition(InputPartition):
    """A task as Spark sends it to an executor."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.task = task


def read_partition(connecting: Connecting, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Runs on an executor. Spark creates one empty task if there are none."""
    if isinstance(partition, TaskPartition):
        yield from read(connected(connecting), partition.task)


class RookeryReader(DataSourceReader):
    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """The tasks. A partition that was created or deleted meanwhile is skipped."""
        planner = Planner(self._options)
        start, end = planner.starting(), planner.ending()
        return [TaskPartition(task) for task in planner.tasks(start.offsets, end, self._columns)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options.connecting, partition)


START_UNKNOWN = (
    "should be read by a first batch that Spark's own source planned and did not finish: its start is not in the "
    "checkpoint, and startingOffsets=latest is another offset now. Let that source finish the batch first"
)


class RookeryStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One instance plans on the driver for the whole query; other instances, without its state, read on executors."""

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
        self._start_json: Json | None = None
        self._ends = False
        self._available_now: Position | None = None
        self._newest: Offsets | None = None
        self._admitted_at: float | None = None

    def initialOffset(self) -> Json:
        """Empty. Spark also calls this when it retries the first batch, whose end contains the start. The start of a
        new query is computed when its first batch is planned."""
        return {}

    def _query_start(self) -> Json:
        """The start of a new query, requested from the cluster once."""
        if self._start_json is None:
            start = self._planner.starting()
            self._start_json = to_json(start.offsets, start.offsets, start.ids)
        return self._start_json

    def getDefaultReadLimit(self) -> ReadLimit:
        """Declares to Spark that there is a limit; `latestOffset` knows all of it from the options."""
        admission = self._options.admission
        if admission.offsets_max is not None:
            return ReadMaxRows(admission.offsets_max)
        if admission.bytes_max is not None:
            return ReadMaxBytes(admission.bytes_max)
        if admission.offsets_min is not None:
            return ReadMinRows(admission.offsets_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """This run reads what is committed when its first batch is planned. Not what is committed now: a query from the
        latest offset starts later."""
        self._ends = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> Json:
        """The end of the next micro-batch; exactly `start` if there is nothing to read."""
        start = start or self._query_start()
        known = position_in(start)
        newest = self._available_now or self._planner.latest(known)
        if self._ends:
            self._available_now = newest
        kept = self._planner.without_recreated(known, newest)
        target = self._planner.reachable(kept, newest)
        begin = self._planner.with_new(kept.offsets, target)
        end = self._admitted(begin, {key: target.offsets[key] for key in begin}, limit)
        self._newest = target.offsets
        if all(end[key] == begin[key] for key in begin):
            return start
        return to_json(end, kept.offsets if is_initial(start) else None, target.ids)

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
            return begin
        self._admitted_at = now
        return self._planner.limited(begin, target)

    def reportLatestOffset(self) -> Json | None:
        """The end of the partitions, without limits: the difference is the query's lag."""
        return None if self._newest is None else to_json(self._newest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of one micro-batch. The first batch starts at the offsets that its end contains."""
        until = position_in(end)
        carried = start_in(end)
        begin = self._planner.with_new(self._without_recreated(start, until) if carried is None else carried, until)
        if not self._options.fail_on_data_loss:
            begin = {key: min(offset, until.offsets.get(key, offset)) for key, offset in begin.items()}
        return [TaskPartition(task) for task in self._planner.tasks(begin, until, self._columns)]

    def _without_recreated(self, start: dict[str, Any], until: Position) -> Offsets:
        """The start without recreated topics, which are read from their start."""
        if not start and self._options.starting == InAllPartitions(LATEST):
            self._planner.lost(until.offsets.keys(), START_UNKNOWN)
        known = position_in(start or self._query_start())
        again = recreated(known.offsets, known.ids, until.ids)
        return {key: offset for key, offset in known.offsets.items() if key not in again}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options.connecting, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: Spark's checkpoint has the offsets."""


@dataclass
class Wrote(WriterCommitMessage):
    """What one task wrote, and with `exactly_once` what the driver is to commit."""

    records: int
    written: Written | None = None


def write_rows(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Wrote:
    """Runs on an executor. The rows of one task keep their order within a partition."""
    blocking = connected(options.connecting)
    context = TaskContext.get()
    outbox = Outbox(blocking, options, turn=context.partitionId() if context else 0)
    try:
        for batch in batches:
            outbox.add(batch)
        outbox.finish()
    finally:
        outbox.abandon()
    return Wrote(outbox.written)


class RookeryWriter(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Wrote:
        return write_rows(self._options, iterator)


class RookeryStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Wrote:
        if not self._options.exactly_once:
            return write_rows(self._options, iterator)
        written = write_epoch(self._options, _current_task(), iterator)
        return Wrote(written.records, written)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """At least once: nothing to do, the rows of the tasks are written."""
        if self._options.exactly_once:
            commit_epoch(self._options, _written(messages), batchId, len(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """At least once: nothing can be undone, the batch is written again, and some records twice."""
        if self._options.exactly_once:
            abort_epoch(self._options, _written(messages))


def _written(messages: list[WriterCommitMessage | None]) -> list[Written]:
    """Of the tasks that did not fail."""
    return [each.written for each in messages if isinstance(each, Wrote) and each.written is not None]


def _current_task() -> SinkTask:
    context = TaskContext.get()
    if context is None:
        raise ExactlyOnceError("exactly_once needs a task of Spark")
    return task_from(
        context.getLocalProperty("sql.streaming.queryId"),
        context.getLocalProperty("streaming.sql.batchId"),
        context.partitionId(),
        context.attemptNumber(),
    )


class RookeryDataSource(DataSource):
    """Topics of a cluster, with the options and columns of Spark's own Kafka source."""

    @classmethod
    def name(cls) -> str:
        return "rookery"

    def schema(self) -> str:
        return columns.ddl(columns.names(includes_headers(self.options)))

    def reader(self, schema: StructType) -> RookeryReader:
        return RookeryReader(source_options(self.options, streaming=False), self._columns(schema))

    def streamReader(self, schema: StructType) -> RookeryStreamReader:
        return RookeryStreamReader(source_options(self.options, streaming=True), self._columns(schema))

    def writer(self, schema: StructType, overwrite: bool) -> RookeryWriter:
        if overwrite:
            raise OptionError("a topic is only appended to: use mode('append')")
        return RookeryWriter(sink_options(self.options, _types(schema)))

    def streamWriter(self, schema: StructType, overwrite: bool) -> RookeryStreamWriter:
        """`overwrite` comes with output mode complete: every result is written whole, one behind the other."""
        options = sink_options(self.options, _types(schema), streaming=True)
        if options.exactly_once:
            check_settings(options)
        return RookeryStreamWriter(options)

    def _columns(self, schema: StructType) -> tuple[str, ...]:
        return columns.wanted(_types(schema), includes_headers(self.options))


def _types(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]
