"""A pipeline that copies numbered records from topic to topic exactly once, and what a reader must see of it."""

import json
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from pyspark.sql import SparkSession

from rookery.broker.coordination.internal_topic import partition_for
from tests.cluster.ends import Reachable
from tests.cluster.local import LocalCluster
from tests.cluster.transaction_load import STATE
from tests.spark.transactions import PATIENCE_S, wait_for_markers

STATE_PARTITIONS = 50
"""The default of transaction.state.log.num.partitions."""
FILE = """
checkpoint = "state"
every = "0 seconds"

[sources.numbers]
topic = "{source}"
values = "text"
options = {{ maxOffsetsPerTrigger = {at_once} }}

[transform]
sql = "SELECT value, _partition AS partition FROM numbers"

[sink]
kind = "topic"
topic = "{sink}"
options = {{ "kafka.transaction.timeout.ms" = 120000 }}
"""


def write_file(folder: Path, source: str, sink: str, at_once: int = 100) -> Path:
    path = folder / "copy.toml"
    path.write_text(FILE.format(source=source, sink=sink, at_once=at_once))
    return path


def sequences(cluster: Reachable, topic: str, partitions: int) -> dict[int, list[int]]:
    """The numbers that a consumer with `read_committed` sees in each partition, in the order of the log."""
    wait_for_markers(cluster, topic, partitions)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    found: dict[int, list[int]] = {index: [] for index in range(partitions)}
    try:
        consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)])
        left = partitions
        while left:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"{topic} does not end: {left} partitions are left"
            error, value, partition = message.error(), message.value(), message.partition()
            if error is None:
                assert value is not None
                assert partition is not None
                found[partition].append(int(value))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                left -= 1
    finally:
        consumer.close()
    return found


def check(cluster: Reachable, topic: str, partitions: int, written: int) -> None:
    """Each number once, in the partition and in the order in which it was first written."""
    for partition, seen in sequences(cluster, topic, partitions).items():
        expected = list(range(partition, written, partitions))
        if seen != expected:
            twice, lost = len(seen) - len(set(seen)), len(set(expected) - set(seen))
            raise AssertionError(
                f"{topic}-{partition}: of {len(expected)} numbers {lost} are missing and {twice} are there twice; "
                f"in order: {seen == sorted(seen)}"
            )


def coordinator(cluster: LocalCluster, checkpoint: Path) -> int:
    """The node that coordinates the transactions of the query's first task."""
    query = json.loads((checkpoint / "rows" / "metadata").read_text())["id"]
    return cluster.leader(STATE, partition_for(f"rookery-spark-{query}-0", STATE_PARTITIONS))


def numbers_by_kafka(spark: SparkSession, cluster: LocalCluster, topic: str) -> list[int]:
    """The same by Spark's own source."""
    rows = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .option("subscribe", topic)
        .option("kafka.isolation.level", "read_committed")
        .load()
    )
    return sorted(int(bytes(row.value)) for row in rows.select("value").collect())
