"""Transactions, as Apache Kafka's own server and Rookery's keep them: `rookery` reads of them what Spark's own source
reads."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests import needs
from tests.cluster.local import LocalCluster
from tests.interop.kafka.cluster import kafka_cluster
from tests.spark.topics import into_files, numbers
from tests.spark.transactions import Writer, end_offsets, history, wait_for_markers

pytestmark = pytest.mark.timeout(600)
"""The first test of a run also starts Java and the cluster."""

KINDS = ("kafka", "rookery")
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
PARTITIONS = 2


@pytest.fixture(scope="module", params=["kafka", "rookery"])
def server(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    needs.command("mvn", "it fetches Apache Kafka and Spark's own Kafka connector")
    if request.param == "rookery":
        yield request.getfixturevalue("cluster")
    else:
        with kafka_cluster(1, transaction__state__log__num__partitions="1") as running:
            yield running


def rows(
    spark: SparkSession, kind: str, server: LocalCluster, topic: str, isolation: str | None, **options: str
) -> list[tuple[Any, ...]]:
    """Whole rows in the order of the log. A task that waits for what never comes fails."""
    given = {
        "kafka.bootstrap.servers": server.bootstrap,
        "subscribe": topic,
        "kafkaConsumer.pollTimeoutMs": "20000",
        **({} if isolation is None else {"kafka.isolation.level": isolation}),
        **options,
    }
    found = spark.read.format(kind).options(**given).load().collect()
    return [tuple(row) for row in sorted(found, key=lambda row: (row.partition, row.offset))]


def values(found: list[tuple[Any, ...]]) -> list[int]:
    return sorted(int(bytes(row[1])) for row in found)


@pytest.mark.row(173)
def test_reads_are_equal_row_for_row(spark: SparkSession, server: LocalCluster) -> None:
    """Also where tasks begin, and answers end, in the middle of transactions that were aborted."""
    server.create_topic("mixed", PARTITIONS, 1)
    written = history(server, "mixed", PARTITIONS, batches=120)
    assert 0 < len(written.committed) < len(written.all)
    split = {"maxRecordsPerPartition": "40", "minPartitions": "24", "kafka.max.partition.fetch.bytes": "500"}
    for isolation, expected in ((COMMITTED, written.committed), (UNCOMMITTED, written.all)):
        theirs, ours = (rows(spark, kind, server, "mixed", isolation) for kind in KINDS)
        assert values(theirs) == expected
        assert ours == theirs
        assert rows(spark, "rookery", server, "mixed", isolation, **split) == theirs
    for kind in KINDS:
        assert values(rows(spark, kind, server, "mixed", None)) == written.all, "the default is read_uncommitted"


def archive(spark: SparkSession, server: LocalCluster, topic: str, folder: Path) -> list[int]:
    """Copy what can be read now into Parquet files, and tell where in each partition the stream ended."""
    reader = spark.readStream.format("rookery").option("kafka.bootstrap.servers", server.bootstrap)
    reader = reader.option("kafka.isolation.level", COMMITTED).option("startingOffsets", "earliest")
    query = into_files(reader.option("subscribe", topic).load(), folder).trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    progress = query.lastProgress
    assert progress is not None
    told = json.loads(progress["sources"][0]["endOffset"])[topic]
    return [told[str(index)] for index in range(PARTITIONS)]


@pytest.mark.row(173)
def test_a_read_ends_at_the_last_stable_offset(spark: SparkSession, server: LocalCluster, tmp_path: Path) -> None:
    """Nothing behind the start of an open transaction, neither in a stream; when it has ended the rest comes, once."""
    server.create_topic("open", PARTITIONS, 1)
    plain, writer = Writer(server, "open"), Writer(server, "open", "writer", "lz4")
    expected: list[int] = []
    everything: list[int] = []

    def copied() -> list[int]:
        return numbers(spark.read.parquet(str(tmp_path / "files")))

    for first, commit in ((0, True), (100, False)):
        plain.write(range(first, first + 10))
        expected += range(first, first + 10)
        writer.begin()
        for number in range(first + 10, first + 40, 10):
            writer.write(range(number, number + 10), partition=number // 10 % PARTITIONS)
        plain.write(range(first + 40, first + 50))
        everything += range(first, first + 50)
        for isolation, there in ((COMMITTED, expected), (UNCOMMITTED, everything)):
            theirs, ours = (rows(spark, kind, server, "open", isolation) for kind in KINDS)
            assert ours == theirs
            assert values(ours) == there
        stable = end_offsets(server, "open", COMMITTED, PARTITIONS)
        assert archive(spark, server, "open", tmp_path) == stable
        assert copied() == expected
        expected += [*writer.end(commit), *range(first + 40, first + 50)]
        wait_for_markers(server, "open", PARTITIONS)
        assert stable < end_offsets(server, "open", COMMITTED, PARTITIONS)
        assert archive(spark, server, "open", tmp_path) == end_offsets(server, "open", UNCOMMITTED, PARTITIONS)
        assert copied() == expected


@pytest.mark.row(173)
@pytest.mark.parametrize("isolation", [COMMITTED, UNCOMMITTED])
def test_ranges_without_a_record(spark: SparkSession, server: LocalCluster, isolation: str) -> None:
    """Markers alone, and markers and what was aborted: a task of such a range ends, and has no rows."""
    topic = f"markers-{isolation}"
    server.create_topic(topic, 1, 1)
    writer = Writer(server, topic, "writer")
    for number in range(4):
        writer.begin()
        writer.write([number])
        writer.end(commit=number == 0)
    wait_for_markers(server, topic)
    assert end_offsets(server, topic, isolation) == [8]
    expected = {COMMITTED: [0], UNCOMMITTED: [0, 1, 2, 3]}[isolation]
    for start, split in ((0, "1"), (0, "100"), (6, "100"), (7, "1")):
        place = {"startingOffsets": f'{{"{topic}":{{"0":{start}}}}}', "maxRecordsPerPartition": split}
        theirs, ours = (rows(spark, kind, server, topic, isolation, **place) for kind in KINDS)
        assert ours == theirs
        assert values(ours) == [number for number in expected if number * 2 >= start]
