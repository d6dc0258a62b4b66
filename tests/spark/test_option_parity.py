"""Options, alone and together, given to Spark's own `format("kafka")` and to ours: the same rows, or both refuse."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from rookery.client.spark import blocking
from rookery.client.spark.data_loss import DataLossError
from rookery.client.spark.kafka_options import OptionError
from rookery.client.spark.source import RookeryDataSource
from rookery.core.wire.records import RecordHeader
from tests import needs
from tests.cluster.deleting import delete_records
from tests.cluster.local import LocalCluster
from tests.spark.topics import Outgoing, write

pytestmark = pytest.mark.timeout(600)
"""The first test of a run also starts Java and the cluster."""

Options = dict[str, str]
KINDS = ("kafka", "rookery")
TWO, NONE = "option-two", "option-none"
"""Two partitions, of which the first has lost its first records; and a topic without records."""
FIRST, ENDS = 5, (20, 10)
TIME = 1_700_000_000_000
QUICK = {"fetchOffset.retryIntervalMs": "10"}


def both(zero: int, one: int) -> str:
    return f'{{"{TWO}":{{"0":{zero},"1":{one}}}}}'


@pytest.fixture(scope="module", autouse=True)
def topics(spark: SparkSession, cluster: LocalCluster) -> Iterator[None]:
    needs.command("mvn", "it fetches Spark's own Kafka connector")
    cluster.create_topic(TWO, 2, 3)
    cluster.create_topic(NONE, 1, 3)
    for partition, end in enumerate(ENDS):
        for first in range(0, end, 10):
            write(cluster, TWO, [_record(partition, number) for number in range(first, first + 10)])
    delete_records(cluster, TWO, 0, FIRST)
    yield
    blocking.close_all()


def _record(partition: int, number: int) -> Outgoing:
    headers = [RecordHeader("h", b"%d" % number)] if number % 2 else ()
    return Outgoing(b"v%d" % number, b"k%d" % number, headers, partition, TIME + number * 10)


def batch(spark: SparkSession, cluster: LocalCluster, kind: str, options: Options) -> DataFrame:
    return spark.read.format(kind).options(**whole(cluster, options)).load()


def whole(cluster: LocalCluster, options: Options) -> Options:
    """With the cluster, and a topic if the options choose none."""
    chooses = any(name.lower() in ("subscribe", "subscribepattern", "assign") for name in options)
    chosen = {} if chooses else {"subscribe": TWO}
    return {"kafka.bootstrap.servers": cluster.bootstrap, **QUICK, **chosen, **options}


def in_order(rows: list[Any]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows), key=lambda row: (row[2], row[3], row[4]))


THE_SAME: list[tuple[Options, int]] = [
    ({}, 25),
    ({"subscribe": f" {TWO} , {NONE},,{TWO}"}, 25),
    ({"subscribe": NONE}, 0),
    ({"subscribePattern": " ption-(two|none) "}, 25),
    ({"subscribePattern": "^ption"}, 0),
    ({"assign": f' {{"{TWO}":[1]}} '}, 10),
    ({"STARTINGOFFSETS": " Earliest ", "endingoffsets": "LATEST"}, 25),
    ({"startingOffsets": both(7, -2), "endingOffsets": both(-1, 4)}, 17),
    ({"startingOffsets": both(20, 10)}, 0),
    ({"startingOffsets": both(7, 3), "endingOffsets": both(7, 3)}, 0),
    ({"startingTimestamp": f" {TIME + 85} "}, 12),
    ({"startingTimestamp": str(TIME + 150), "startingOffsetsByTimestampStrategy": "Latest"}, 5),
    ({"startingOffsetsByTimestamp": both(TIME + 100, TIME)}, 20),
    ({"endingTimestamp": str(TIME + 75)}, 11),
    ({"endingTimestamp": str(TIME * 2)}, 25),
    ({"endingOffsetsByTimestamp": both(TIME + 60, TIME * 2)}, 11),
    (
        {
            "startingTimestamp": str(TIME + 85),
            "startingOffsetsByTimestamp": both(TIME, TIME),
            "startingOffsets": both(20, 10),
            "endingOffsetsByTimestamp": both(TIME + 100, TIME + 95),
            "endingOffsets": both(6, 6),
        },
        2,
    ),
    ({"startingOffsets": both(0, 0), "failOnDataLoss": "False"}, 25),
    ({"startingOffsets": both(0, 0), "endingOffsets": both(3, 3), "failOnDataLoss": "false"}, 3),
    ({"minPartitions": "5"}, 25),
    ({"maxRecordsPerPartition": "6", "startingOffsets": both(5, 0), "endingOffsets": both(19, 9)}, 23),
    ({"maxRecordsPerPartition": "9", "minPartitions": "6"}, 25),
    ({"includeHeaders": "TRUE", "groupIdPrefix": "mine", "kafka.isolation.level": "read_committed"}, 25),
    ({"kafka.no.such.setting": "1", "partition.metadata.cache.ttl.ms": "60000"}, 25),
]


@pytest.mark.row(127, 173)
@pytest.mark.parametrize(("options", "count"), THE_SAME)
def test_the_same_rows(spark: SparkSession, cluster: LocalCluster, options: Options, count: int) -> None:
    kafka, rookery = (batch(spark, cluster, kind, options) for kind in KINDS)
    assert rookery.schema == kafka.schema
    expected = in_order(kafka.collect())
    assert in_order(rookery.collect()) == expected
    assert len(expected) == count
    if {"minPartitions", "maxRecordsPerPartition"} & options.keys():
        assert rookery.rdd.getNumPartitions() == kafka.rdd.getNumPartitions()


REFUSED: list[tuple[Options, str]] = [
    ({"subscribe": TWO, "assign": f'{{"{TWO}":[0]}}'}, "'subscribe' and 'assign'"),
    ({"subscribe": " , "}, "subscribe"),
    ({"subscribePattern": "  "}, "subscribePattern"),
    ({"subscribePattern": "("}, "subscribePattern"),
    ({"assign": "[0]"}, "assign"),
    ({"assign": f'{{"{TWO}":0}}'}, "assign"),
    ({"subscribe": "option-missing"}, "subscribe"),
    ({"subscribe": f"{TWO},option-missing", "failOnDataLoss": "false"}, "subscribe"),
    ({"startingOffsets": "latest"}, "startingOffsets"),
    ({"startingOffsets": both(-1, 0)}, "startingOffsets"),
    ({"startingOffsets": "sometime"}, "startingOffsets"),
    ({"startingOffsets": '{"'}, "startingOffsets"),
    ({"startingOffsets": f'{{"{TWO}":{{"0":5}}}}'}, "startingOffsets"),
    ({"startingOffsets": f'{{"{TWO}":{{"0":5,"1":0,"2":0}}}}'}, "startingOffsets"),
    ({"startingOffsets": f'{{"{TWO}":{{"0":5,"1":0}},"{NONE}":{{"0":0}}}}'}, "startingOffsets"),
    ({"endingOffsets": "earliest"}, "endingOffsets"),
    ({"endingOffsets": both(-2, 1)}, "endingOffsets"),
    ({"endingOffsets": f'{{"{TWO}":{{"0":9}}}}'}, "endingOffsets"),
    ({"startingOffsets": both(21, 0)}, "startingOffsets"),
    ({"startingOffsets": both(9, 0), "endingOffsets": both(8, 5)}, "startingOffsets"),
    ({"startingOffsets": both(0, 0)}, "failOnDataLoss"),
    ({"startingTimestamp": "yesterday"}, "startingTimestamp"),
    ({"startingTimestamp": str(TIME + 150)}, "startingTimestamp"),
    ({"startingTimestamp": str(TIME), "subscribe": NONE}, "startingTimestamp"),
    ({"startingTimestamp": str(TIME + 90), "endingTimestamp": str(TIME + 70)}, "startingOffsets"),
    ({"startingOffsetsByTimestamp": f'{{"{TWO}":{{"0":5}}}}'}, "startingOffsetsByTimestamp"),
    ({"startingTimestamp": "1", "startingOffsetsByTimestampStrategy": "guess"}, "startingOffsetsByTimestampStrategy"),
    ({"failOnDataLoss": "maybe"}, "failOnDataLoss"),
    ({"includeHeaders": "yes"}, "includeHeaders"),
    ({"minPartitions": "0"}, "minPartitions"),
    ({"minPartitions": "1_0"}, "minPartitions"),
    ({"maxRecordsPerPartition": "0"}, "maxRecordsPerPartition"),
    ({"kafka.auto.offset.reset": "earliest"}, "kafka.auto.offset.reset"),
    ({"kafka.key.deserializer": "x"}, "kafka.key.deserializer"),
    ({"kafka.enable.auto.commit": "false"}, "kafka.enable.auto.commit"),
    ({"kafka.interceptor.classes": "x"}, "kafka.interceptor.classes"),
    ({"kafka.isolation.level": "some"}, "kafka.isolation.level"),
    ({"kafka.bootstrap.servers": "nowhere"}, "kafka.bootstrap.servers"),
]


@pytest.mark.row(173)
@pytest.mark.parametrize(("options", "named"), REFUSED)
def test_both_refuse(spark: SparkSession, cluster: LocalCluster, options: Options, named: str) -> None:
    with pytest.raises(Exception, match=r"."):
        batch(spark, cluster, "kafka", options).collect()
    with pytest.raises((OptionError, DataLossError), match=re.escape(named)):
        read_here(whole(cluster, options))


def read_here(options: Options) -> None:
    """What Spark calls on the driver, and then in tasks, without its starting a process after each refusal."""
    source = RookeryDataSource(options)
    reader = source.reader(_columns(source))
    for partition in reader.partitions():
        list(reader.read(partition))


def _columns(source: RookeryDataSource) -> StructType:
    columns = StructType.fromDDL(source.schema())
    assert isinstance(columns, StructType)
    return columns


STRICTER: list[tuple[Options, str]] = [
    ({"startingOffset": "earliest"}, "startingOffset"),
    ({"maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger"),
    ({"assign": f'{{"{TWO}":[0,7]}}'}, f"{TWO}-7"),
]


@pytest.mark.row(173)
@pytest.mark.parametrize(("options", "named"), STRICTER)
def test_what_spark_passes_over_is_refused(
    spark: SparkSession, cluster: LocalCluster, options: Options, named: str
) -> None:
    batch(spark, cluster, "kafka", options).collect()
    with pytest.raises(OptionError, match=named):
        read_here(whole(cluster, options))


# Lost data and several tasks of a partition are not asked of both: Spark's own source may then use one consumer twice.
STREAMED: list[tuple[Options, int]] = [
    ({"startingOffsets": both(12, -2), "maxOffsetsPerTrigger": "7", "minPartitions": "3"}, 18),
    ({"startingTimestamp": str(TIME + 150), "startingOffsetsByTimestampStrategy": "latest"}, 5),
    ({"startingOffsets": both(0, 0), "failOnDataLoss": "false"}, 25),
    ({}, 0),
]


@pytest.mark.row(173)
@pytest.mark.parametrize(("options", "count"), STREAMED)
def test_the_same_rows_in_a_stream(
    spark: SparkSession, cluster: LocalCluster, options: Options, count: int
) -> None:
    """The rows of each micro-batch: admission shares them out alike."""
    found = {kind: _streamed(spark, cluster, kind, options) for kind in KINDS}
    assert found["rookery"] == found["kafka"]
    assert sum(map(len, found["kafka"])) == count


def _streamed(
    spark: SparkSession, cluster: LocalCluster, kind: str, options: Options
) -> list[list[tuple[Any, ...]]]:
    batches: list[list[tuple[Any, ...]]] = []
    frame = spark.readStream.format(kind).options(**whole(cluster, options)).load()
    query = (
        frame.writeStream.foreachBatch(lambda rows, _: batches.append(in_order(rows.collect())))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    return [each for each in batches if each]


REFUSED_IN_STREAMS: list[tuple[Options, str]] = [
    ({"endingOffsets": "latest"}, "endingOffsets"),
    ({"endingOffsetsByTimestamp": both(1, 1)}, "endingOffsetsByTimestamp"),
    ({"minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"}, "minOffsetsPerTrigger"),
    ({"subscribe": "option-missing"}, "subscribe"),
    ({"startingOffsets": both(21, 0)}, "startingOffsets"),
    ({"startingOffsets": f'{{"{TWO}":{{"0":5}}}}'}, "startingOffsets"),
]


@pytest.mark.row(173)
@pytest.mark.parametrize(("options", "named"), REFUSED_IN_STREAMS)
def test_both_refuse_a_stream(spark: SparkSession, cluster: LocalCluster, options: Options, named: str) -> None:
    with pytest.raises(Exception, match=r"."):
        _streamed(spark, cluster, "kafka", options)
    source = RookeryDataSource(whole(cluster, options))
    with pytest.raises(OptionError, match=named):
        source.streamReader(_columns(source)).latestOffset({}, ReadAllAvailable())
