"""Writes: each task sends its rows and waits for the cluster to have them. At least once, as Spark's own sink."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from rookery.client.spark.blocking import connected
from rookery.client.spark.outbox import Outbox
from rookery.client.spark.sink_options import SinkOptions


@dataclass
class Wrote(WriterCommitMessage):
    """What one task wrote."""

    records: int


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
        return write_rows(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to do: the rows of the tasks are written."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing can be undone: the batch is written again, and some records twice."""
