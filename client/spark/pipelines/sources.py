"""Topics as views: values become columns, and rows that do not parse are marked."""

import dataclasses
from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from rookery.client.spark.pipelines.spec import FAIL, RECORD_COLUMNS, Source, SpecError

CORRUPT = "_corrupt"
ERROR = "_error"
NOT_PARSED = "the value is no JSON object whose fields have the types of the columns"


def read(spark: SparkSession, source: Source, cluster: Mapping[str, str]) -> DataFrame:
    """The records, as the source `rookery` gives them."""
    which = {"subscribePattern": source.pattern} if source.pattern else {"subscribe": ",".join(source.topics)}
    reader = spark.readStream.format("rookery").options(**cluster, **which)
    reader = reader.options(startingOffsets=source.start, includeHeaders="true")
    return reader.option("kafka.isolation.level", source.isolation).options(**source.options).load()


def view(records: DataFrame, source: Source) -> DataFrame:
    """Rows of good values. How many rows came and how many were bad is observed under the source's name."""
    rows = parsed(records, source)
    if source.values == "json":
        bad = F.col(ERROR).isNotNull()
        rows = rows.observe(source.name, F.count(F.lit(1)).alias("rows"), F.count_if(bad).alias("bad"))
        if source.bad_rows == FAIL:
            bad = F.when(bad, F.raise_error(_where())).otherwise(F.lit(False)).cast("boolean")
        rows = rows.filter(~bad).drop(ERROR)
    if source.watermark is not None:
        rows = rows.withWatermark(source.watermark.column, source.watermark.delay)
    if source.unique:
        rows = rows.dropDuplicatesWithinWatermark(list(source.unique))
    return rows


def parsed(records: DataFrame, source: Source) -> DataFrame:
    """The view's columns; with JSON also ERROR, which is null in a good row."""
    key = F.col("key").cast("string") if source.keys == "text" else F.col("key")
    named = [key.alias("_key"), *(F.col(name[1:]).alias(name) for name in RECORD_COLUMNS[1:])]
    if source.values != "json":
        value = F.col("value").cast("string") if source.values == "text" else F.col("value")
        return records.select(value.alias("value"), *named)
    text = F.col("value").cast("string")
    fields = ", ".join(f"`{name}` {kind}" for name, kind in source.columns.items())
    value = F.from_json(text, f"{fields}, `{CORRUPT}` string", {"columnNameOfCorruptRecord": CORRUPT})
    rows = records.select(value.alias("_parsed"), *named)
    columns = [F.col(f"_parsed.{name}").alias(name) for name in source.columns]
    return rows.select(*columns, *RECORD_COLUMNS, _error(source).alias(ERROR))


def _error(source: Source) -> Column:
    """Why a row is bad, or null. A record without a value, a tombstone, is a good row of nulls."""
    text = F.col("_value").cast("string")
    whole = F.is_valid_utf8(text) & F.ltrim(text).startswith("{") & F.col(f"_parsed.{CORRUPT}").isNull()
    error = F.when(F.col("_value").isNull(), None).when(~whole, NOT_PARSED)
    for name in source.required:
        error = error.when(F.col(f"_parsed.{name}").isNull(), f"{name} is required and missing")
    return error


def _where() -> Column:
    place = F.format_string("%s-%s at offset %s: ", "_topic", "_partition", "_offset")
    return F.concat(place, F.col(ERROR), F.lit(". With dead_letters such rows go to a topic"))


def dead_letters(records: DataFrame, source: Source) -> DataFrame:
    """The bad records as they came, with headers that say where they were and what is wrong with them."""
    source = dataclasses.replace(source, keys="binary")
    added = {"error": ERROR, "topic": "_topic", "partition": "_partition", "offset": "_offset"}
    headers = [
        F.struct(F.lit(f"rookery.{name}").alias("key"), F.col(column).cast("string").cast("binary").alias("value"))
        for name, column in added.items()
    ]
    none = F.array().cast("array<struct<key:string,value:binary>>")
    return parsed(records, source).filter(F.col(ERROR).isNotNull()).select(
        F.col("_key").alias("key"),
        F.col("_value").alias("value"),
        F.concat(F.coalesce("_headers", none), F.array(*headers)).alias("headers"),
    )


def check_types(source: Source) -> None:
    """The types of a source's columns must be Spark's."""
    for name, kind in source.columns.items():
        try:
            DataType.fromDDL(kind)
        except PySparkException:
            raise SpecError(
                f"sources.{source.name}.columns.{name}: {kind!r} is no type of Spark, such as string, long, double, "
                "timestamp, date, boolean, array<string> or struct<a:int>"
            ) from None
