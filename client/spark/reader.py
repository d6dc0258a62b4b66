"""Batch reads: the ranges are planned once on the driver, each task reads its own."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from rookery.client.spark.blocking import connected
from rookery.client.spark.fetching import Task, read
from rookery.client.spark.kafka_options import Connecting
from rookery.client.spark.options import SourceOptions
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
