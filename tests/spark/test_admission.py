"""How much one micro-batch takes: a minimum that is waited for, a delay that ends the wait, a maximum.

Spark's own source runs beside ours, over the same topic and with the same options, and takes the same.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from rookery.client.spark.offsets import from_json
from tests import needs
from tests.cluster.local import LocalCluster, wait_for
from tests.spark.topics import numbered, write

pytestmark = pytest.mark.timeout(600)
"""The first test of a run also starts Java and the cluster."""

KINDS = ("kafka", "rookery")
TOLD_OFTEN = "spark.sql.streaming.noDataProgressEventInterval"


class Side:
    """A query of one kind over one topic; its checkpoint says what each micro-batch took."""

    def __init__(self, query: DataStreamWriter, checkpoint: Path) -> None:
        self._writer = query.option("checkpointLocation", str(checkpoint))
        self._checkpoint = checkpoint
        self._query: StreamingQuery | None = None

    def start(self) -> None:
        self._query = self._writer.trigger(processingTime="0 seconds").start()

    def stop(self) -> None:
        if self._query is not None:
            self._query.stop()

    def take_what_is_there(self) -> None:
        assert self._writer.trigger(availableNow=True).start().awaitTermination(300)

    def ends(self) -> list[int]:
        """How many records lie before the end of each micro-batch that is done."""
        done = sorted(int(file.name) for file in (self._checkpoint / "commits").glob("[0-9]*"))
        lines = [(self._checkpoint / "offsets" / str(number)).read_text().splitlines()[2] for number in done]
        return [_records(line) for line in lines]

    def sees(self, records: int) -> bool:
        """Whether the source has told Spark of so many, taken or not."""
        assert self._query is not None
        failure = self._query.exception()
        assert failure is None, failure
        progress = self._query.lastProgress
        return progress is not None and _records(progress["sources"][0]["latestOffset"]) == records


def _records(offset: str) -> int:
    return sum(from_json(json.loads(offset) or {}).values())


@pytest.fixture(autouse=True)
def told_often(spark: SparkSession) -> Iterator[None]:
    """A query that has nothing to do says so every 100 ms."""
    needs.command("mvn", "it fetches Spark's own Kafka connector")
    spark.conf.set(TOLD_OFTEN, "100")
    yield
    spark.conf.unset(TOLD_OFTEN)


def sides(spark: SparkSession, cluster: LocalCluster, topic: str, folder: Path, **options: str) -> list[Side]:
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, "startingOffsets": "earliest", **options}
    return [
        Side(spark.readStream.format(kind).options(**given).load().writeStream.format("noop"), folder / kind)
        for kind in KINDS
    ]


def wait_for_ends(both: list[Side], ends: list[int]) -> None:
    wait_for(lambda: all(side.ends() == ends for side in both), f"batches that end at {ends}", 120)


@pytest.mark.row(173)
def test_fewer_than_the_minimum_wait(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    """But not in the first batch, nor where a run takes what is there; the maximum holds for every batch."""
    cluster.create_topic("enough", 2, 3)
    write(cluster, "enough", numbered(0, 20, 2))
    limits = {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "12", "maxTriggerDelay": "1h"}
    both = sides(spark, cluster, "enough", tmp_path, **limits)
    try:
        for side in both:
            side.start()
        wait_for_ends(both, [12])
        wait_for(lambda: all(side.sees(20) for side in both), "the queries to see what they do not take")
        write(cluster, "enough", numbered(20, 2, 2))
        wait_for_ends(both, [12, 22])
    finally:
        for side in both:
            side.stop()
    write(cluster, "enough", numbered(22, 8, 2))
    for side in both:
        side.take_what_is_there()
        assert side.ends() == [12, 22, 30]


@pytest.mark.row(173)
def test_the_delay_ends_the_wait(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    cluster.create_topic("late", 1, 3)
    write(cluster, "late", numbered(0, 4, 1))
    both = sides(spark, cluster, "late", tmp_path, minOffsetsPerTrigger="1000", maxTriggerDelay="1s")
    try:
        for side in both:
            side.start()
        wait_for_ends(both, [4])
        write(cluster, "late", numbered(4, 3, 1))
        wait_for_ends(both, [4, 7])
    finally:
        for side in both:
            side.stop()
