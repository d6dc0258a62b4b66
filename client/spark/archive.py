"""Topic to Parquet, partitioned by date: every committed record once, however often the job is restarted.

Spark's file sink lists the files of each finished micro-batch in its own log, and the source plans a retried
batch exactly as the first time. Read the folder with Spark, which uses that log.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from rookery.client.spark import register
from rookery.client.spark.offsets import count, from_json
from rookery.client.spark.places import Offsets

POLL_S = 1
UP_TO_DATE = "up to date: there was nothing new to copy"


@dataclass(frozen=True, slots=True)
class ArchiveJob:
    """What to copy and where to."""

    bootstrap: str
    topics: str
    output: str
    checkpoint: str
    follow: bool = False
    interval: str = "10 seconds"
    offsets_max: int | None = None
    options: dict[str, str] = field(default_factory=dict)


def open_session(master: str, settings: dict[str, str]) -> SparkSession:
    """A session, local or on a cluster, with the source registered; its workers run this Python by default."""
    os.environ.setdefault("PYSPARK_PYTHON", settings.get("spark.pyspark.python", sys.executable))
    builder: Any = SparkSession.builder
    builder = builder.master(master).appName("rookery-archive")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    return spark


def rows_of(spark: SparkSession, job: ArchiveJob) -> DataFrame:
    """The records with the day (UTC) of their timestamp."""
    options = {
        "kafka.bootstrap.servers": job.bootstrap,
        "subscribe": job.topics,
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        **job.options,
    }
    if job.offsets_max is not None:
        options["maxOffsetsPerTrigger"] = str(job.offsets_max)
    rows = spark.readStream.format("rookery").options(**options).load()
    return rows.selectExpr("*", "to_date(timestamp) as date")


class OtherCheckpointError(Exception):
    """The files were written with a checkpoint that is not this one."""


def start(spark: SparkSession, job: ArchiveJob) -> StreamingQuery:
    """Start, or continue from the checkpoint."""
    _check_checkpoint(spark, job)
    writer = (
        rows_of(spark, job)
        .writeStream.format("parquet")
        .queryName("archive")
        .partitionBy("topic", "date")
        .option("path", job.output)
        .option("checkpointLocation", job.checkpoint)
    )
    if job.follow:
        return writer.trigger(processingTime=job.interval).start()
    return writer.trigger(availableNow=True).start()


def _check_checkpoint(spark: SparkSession, job: ArchiveJob) -> None:
    """Spark's file sink skips batches whose number it has seen. With a new checkpoint, or one that is
    older than the files, these batches would be lost silently."""
    written = _newest(spark, f"{job.output}/_spark_metadata")
    planned = _newest(spark, f"{job.checkpoint}/offsets")
    if written > planned:
        raise OtherCheckpointError(
            f"{job.output} holds batches up to {written}, the checkpoint {job.checkpoint} "
            f"{'has none yet' if planned < 0 else f'knows them up to {planned}'}: records would be left out. "
            "Give the checkpoint that the files were written with, or write to another folder"
        )


def _newest(spark: SparkSession, folder: str) -> int:
    """The highest number among the files of one of Spark's logs, on any file system; -1 if there are none."""
    context: Any = spark.sparkContext
    path = context._jvm.org.apache.hadoop.fs.Path(folder)
    files = path.getFileSystem(context._jsc.hadoopConfiguration())
    if not files.exists(path):
        return -1
    names = [each.getPath().getName().removesuffix(".compact") for each in files.listStatus(path)]
    return max((int(name) for name in names if name.isdigit()), default=-1)


def watch(query: StreamingQuery, report: Callable[[str], None]) -> None:
    """Report each micro-batch until the query ends, or that there was nothing to copy; its failure is raised."""
    reported = -1
    while not query.awaitTermination(POLL_S):
        reported = _report(query, reported, report)
    if _report(query, reported, report) < 0:
        report(UP_TO_DATE)


def _report(query: StreamingQuery, reported: int, report: Callable[[str], None]) -> int:
    for progress in query.recentProgress:
        if progress["batchId"] > reported and progress["numInputRows"]:
            reported = progress["batchId"]
            rows, seconds = progress["numInputRows"], progress["batchDuration"] / 1000
            report(f"batch {reported}: {rows} records in {seconds:.1f} s{_behind(progress)}")
    return reported


def _behind(progress: Any) -> str:
    """Records that are committed and not copied yet; unknown for a retried batch."""
    source = progress["sources"][0]
    end, latest = (_offsets(source[name]) for name in ("endOffset", "latestOffset"))
    return f", {count(end, latest)} behind" if latest else ""


def _offsets(value: Any) -> Offsets:
    """Spark reports offsets as JSON, parsed or not, or as None."""
    return from_json((json.loads(value) if isinstance(value, str) else value) or {})
