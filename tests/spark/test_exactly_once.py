"""The sink with `exactly_once`: epochs that are replayed, attempts that are fenced, partitions that changed."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from rookery.client.spark.blocking import close_all
from rookery.client.spark.epochs import ExactlyOnceError, Task
from rookery.client.spark.exactly_once import commit_epoch, write_epoch
from rookery.client.spark.options import sink_options
from tests.cluster.local import LocalCluster
from tests.spark.topics import numbered, write
from tests.spark.transactions import values_in

pytestmark = [pytest.mark.timeout(600), pytest.mark.row(173)]
"""The first test of a run also starts Java and the cluster."""

SOURCE, SINK, PARTITIONS = "eos-from", "eos-to", 2


class Copying:
    """A query from one topic into the other, run until nothing is left."""

    def __init__(self, spark: SparkSession, cluster: LocalCluster, folder: Path) -> None:
        self._spark = spark
        self._cluster = cluster
        self._checkpoint = folder / "checkpoint"
        self.sink = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": SINK, "exactly_once": "true"}

    def run(self, **options: str) -> None:
        reader = self._spark.readStream.format("rookery").option("kafka.bootstrap.servers", self._cluster.bootstrap)
        rows = reader.options(subscribe=SOURCE, startingOffsets="earliest", **options).load()
        writer = rows.select("key", "value").writeStream.format("rookery").options(**self.sink)
        query = writer.option("checkpointLocation", str(self._checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(300)

    @property
    def id(self) -> str:
        found: str = json.loads((self._checkpoint / "metadata").read_text())["id"]
        return found

    def forget(self, epoch: int) -> None:
        """As if the driver had died before it knew that the epoch was done: it is the next to run."""
        (self._checkpoint / "commits" / f".{epoch}.crc").unlink(missing_ok=True)
        (self._checkpoint / "commits" / str(epoch)).unlink()

    def found(self, isolation: str) -> list[int]:
        return values_in(self._cluster, SINK, isolation, PARTITIONS)


def test_each_row_is_there_once(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    for topic in (SOURCE, SINK):
        cluster.create_topic(topic, PARTITIONS, 3)
    copying = Copying(spark, cluster, tmp_path)
    write(cluster, SOURCE, numbered(0, 100, PARTITIONS))
    copying.run()
    for replayed in (False, True):
        if replayed:
            copying.forget(0)
            copying.run()
        for isolation in ("read_committed", "read_uncommitted"):
            assert copying.found(isolation) == list(range(100)), "nothing is sent a second time"

    options = sink_options(copying.sink, [("value", "string")], streaming=True)
    rows = [str(number) for number in range(1000, 1000 + 50 // PARTITIONS)]
    stray = pa.RecordBatch.from_arrays([pa.array(rows)], names=["value"])  # as many as the newer attempt will have
    try:
        older = [write_epoch(options, Task(copying.id, 1, index), [stray]) for index in range(PARTITIONS)]
        write(cluster, SOURCE, numbered(100, 50, PARTITIONS))
        copying.run()
        assert copying.found("read_committed") == list(range(150))
        assert copying.found("read_uncommitted") == sorted([*range(150), *(int(row) for row in rows * PARTITIONS)])
        with pytest.raises(ExactlyOnceError, match="a newer attempt took over"):
            commit_epoch(options, older, 1, PARTITIONS)
        with pytest.raises(ExactlyOnceError, match="has written epoch 1, and this is epoch 0"):
            write_epoch(options, Task(copying.id, 0, 0), [stray])
    finally:
        close_all()
    assert copying.found("read_committed") == list(range(150))

    copying.forget(1)
    with pytest.raises(StreamingQueryException, match="rows now and had 25 when they were committed"):
        copying.run(maxRecordsPerPartition="10")
    copying.run()  # the next run ends transactions that killed tasks of the failed one left open
    assert copying.found("read_committed") == list(range(150))
    write(cluster, SOURCE, numbered(150, 10, PARTITIONS))
    copying.run()
    assert copying.found("read_committed") == list(range(160))
