"""The newest row of each key as a table: every micro-batch with rows writes a new version of the whole table.

A version is complete when Spark has written its `_SUCCESS` file, and readers take the newest complete one. A batch
that is run again finds its version and leaves it, so each batch has its effect once.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rookery.client.spark.checkpoints import Folder
from rookery.client.spark.pipelines.spec import SpecError

VERSION = "version="
KEPT = 2
"""Versions that stay: a reader may be in the midst of the last one when the next is complete."""
NEEDED = ("_key", "_value", "_offset")


def versions(spark: SparkSession, path: str) -> list[int]:
    """The complete versions, oldest first."""
    names = [name for name in Folder(spark, path).names() if name.startswith(VERSION)]
    return sorted(int(name.removeprefix(VERSION)) for name in names if Folder(spark, path).has(f"{name}/_SUCCESS"))


def folder_of(path: str, version: int) -> str:
    return f"{path.rstrip('/')}/{VERSION}{version}"


def read_table(spark: SparkSession, path: str) -> DataFrame:
    """The table as its newest complete version has it."""
    found = versions(spark, path)
    if not found:
        raise FileNotFoundError(f"{path} has no table yet: no batch of its pipeline is complete")
    return spark.read.parquet(folder_of(path, found[-1]))


def check_columns(rows: DataFrame) -> None:
    missing = [name for name in NEEDED if name not in rows.columns]
    if missing:
        raise SpecError(
            f"transform: a table needs the columns {', '.join(NEEDED)} of its source, {', '.join(missing)} are not "
            "there: write SELECT *, ..."
        )


def update(spark: SparkSession, path: str, rows: DataFrame, batch: int) -> None:
    """Write the version of a batch: the table before it, with the newest row of each key that is in the batch."""
    complete = versions(spark, path)
    if batch in complete or rows.isEmpty():
        return
    before = [version for version in complete if version < batch]
    kept = ["_key", *(name for name in rows.columns if not name.startswith("_"))]
    newest = (
        rows.filter(F.col("_key").isNotNull())
        .groupBy("_key")
        .agg(F.max_by(F.struct(*rows.columns), F.col("_offset")).alias("row"))
        .select("row.*")
    )
    table = newest.filter(F.col("_value").isNotNull()).select(*kept)
    if before:
        others = spark.read.parquet(folder_of(path, before[-1])).join(newest.select("_key"), "_key", "left_anti")
        table = table.unionByName(others, allowMissingColumns=True)
    table.write.mode("overwrite").parquet(folder_of(path, batch))
    for version in before[: -(KEPT - 1)]:
        Folder(spark, path).remove(f"{VERSION}{version}")
