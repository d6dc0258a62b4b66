"""Topic to Parquet, partitioned by date: every committed record once, however often the job is restarted.

Spark's file sink lists the files of each finished micro-batch in its own log, and the source plans a retried
batch exactly as the first time. Read the folder with Spark, which uses that log.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from rookery.client.spark.checkpoints import check_files
from rookery.client.spark.progress import batch_of

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


def start(spark: SparkSession, job: ArchiveJob) -> StreamingQuery:
    """Start, or continue from the checkpoint."""
    check_files(spark, job.output, job.checkpoint)
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


def watch(query: StreamingQuery, report: Callable[[str], None]) -> None:
    """Report each micro-batch until the query ends, or that there was nothing to copy; its failure is raised."""
    reported = -1
    while not query.awaitTermination(POLL_S):
        reported = _report(query, reported, report)
    if _report(query, reported, report) < 0:
        report(UP_TO_DATE)


def _report(query: StreamingQuery, reported: int, report: Callable[[str], None]) -> int:
    for progress in query.recentProgress:
        batch = batch_of(progress)
        if batch.number > reported and batch.rows:
            reported = batch.number
            behind = "" if batch.behind is None else f", {batch.behind} behind"
            report(f"batch {reported}: {batch.rows} records in {batch.seconds:.1f} s{behind}")
    return reported
