"""Where the rows of a pipeline go. Each sink is exactly once across restarts, by its own means."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rookery.client.spark.checkpoints import check_files, check_same
from rookery.client.spark.pipelines import tables
from rookery.client.spark.pipelines.spec import Sink, SpecError

RECORD = ("key", "value", "headers", "partition")


def writer(spark: SparkSession, rows: DataFrame, sink: Sink, cluster: Mapping[str, str], checkpoint: str) -> Any:
    """A stream writer of Spark for the sink, to be triggered and started."""
    if sink.kind == "topic":
        return topic_writer(records(rows, sink), sink.topic or "", sink.exactly_once, cluster, sink.options)
    assert sink.path is not None
    if sink.kind == "parquet":
        check_files(spark, sink.path, checkpoint)
        missing = [name for name in sink.partition_by if name not in rows.columns]
        if missing:
            raise SpecError(f"sink.partition_by: the transform has no column {missing[0]!r}, but {_names(rows)}")
        files = rows.writeStream.format("parquet").option("path", sink.path).options(**sink.options)
        return files.partitionBy(*sink.partition_by) if sink.partition_by else files
    return table_writer(spark, rows, sink.path, checkpoint)


def topic_writer(
    rows: DataFrame, topic: str, exactly_once: bool, cluster: Mapping[str, str], options: Mapping[str, str]
) -> Any:
    sink = rows.writeStream.format("rookery").options(**cluster).option("topic", topic)
    return sink.option("exactly_once", str(exactly_once).lower()).options(**options)


def records(rows: DataFrame, sink: Sink) -> DataFrame:
    """Rows as records: a column `value` is the value, otherwise all columns are, as JSON."""
    if "value" in rows.columns:
        return rows.select(*(name for name in RECORD if name in rows.columns))
    fields = [name for name in rows.columns if not name.startswith("_")]
    if not fields:
        raise SpecError(f"transform: there is nothing to write to a topic but {_names(rows)}")
    if sink.key is not None and sink.key not in rows.columns:
        raise SpecError(f"sink.key: the transform has no column {sink.key!r}, but {_names(rows)}")
    value = F.to_json(F.struct(*fields), {"ignoreNullFields": "false"}).alias("value")
    return rows.select(value) if sink.key is None else rows.select(F.col(sink.key).cast("string").alias("key"), value)


def table_writer(spark: SparkSession, rows: DataFrame, path: str, checkpoint: str) -> Any:
    tables.check_columns(rows)
    check_same(spark, path, max(tables.versions(spark, path), default=-1), checkpoint)

    def write(batch: DataFrame, number: int) -> None:
        batch.persist()  # read and counted once, although it is used several times
        try:
            tables.update(batch.sparkSession, path, batch, number)
        finally:
            batch.unpersist()

    return rows.writeStream.foreachBatch(write)


def _names(rows: DataFrame) -> str:
    return ", ".join(rows.columns)
