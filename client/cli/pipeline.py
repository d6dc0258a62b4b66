"""`rookery pipeline`: data pipelines on Spark."""

import argparse
from typing import Any

from rookery.client.cli import pipeline_run
from rookery.client.cli.common import add_bootstrap, client_options
from rookery.client.cli.pipeline_words import pairs, reason, say
from rookery.client.errors import CliError

WHERE_CHECKPOINTS_ARE = "_checkpoint"


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("pipeline", help="run data pipelines on Spark")
    pipelines = parser.add_subparsers(dest="pipeline", metavar="pipeline", required=True)
    pipeline_run.add_parsers(pipelines)
    archive = pipelines.add_parser(
        "archive", help="copy topics to Parquet files by date, each record once across restarts"
    )
    archive.add_argument("topics", help="topic, or several separated by commas")
    archive.add_argument("output", help="folder for topic=…/date=…/*.parquet")
    archive.add_argument("--checkpoint", help=f"folder with the job's place (OUTPUT/{WHERE_CHECKPOINTS_ARE})")
    archive.add_argument("--follow", action="store_true", help="go on with what comes later")
    archive.add_argument("--every", default="10 seconds", help="time between batches with --follow (10 seconds)")
    archive.add_argument("--batch", type=int, metavar="N", help="records in one batch, about")
    archive.add_argument("--master", default="local[*]", help="where Spark runs (local[*])")
    archive.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="setting of Spark")
    archive.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="option of the source")
    add_bootstrap(archive)
    archive.set_defaults(run=_archive)


def _archive(arguments: argparse.Namespace) -> int:
    settings = pairs(arguments.conf, "--conf")
    secured = client_options(arguments)
    bootstrap = secured.pop("bootstrap.servers")
    secured.pop("client.id")
    options = {**{f"kafka.{key}": value for key, value in secured.items()}, **pairs(arguments.option, "--option")}
    try:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        from rookery.client.spark import archive, checkpoints, sessions
    except ImportError as error:
        raise CliError(f"{error}. Spark is an extra: pip install 'rookery[spark]'; it needs Java 17") from error
    job = archive.ArchiveJob(
        bootstrap=bootstrap,
        topics=arguments.topics,
        output=arguments.output,
        checkpoint=arguments.checkpoint or checkpoint_in(arguments.output),
        follow=arguments.follow,
        interval=arguments.every,
        offsets_max=arguments.batch,
        options=options,
    )
    say(f"starting Spark on {arguments.master}, which takes some seconds")
    try:
        spark = sessions.open_session(arguments.master, settings)
    except PySparkException as error:
        raise CliError(f"Spark does not start: {reason(error)}. It needs Java 17") from error
    try:
        say(f"copying {job.topics} of {bootstrap} to {job.output}{' until it is stopped' if job.follow else ''}")
        archive.watch(archive.start(spark, job), say)
    except checkpoints.OtherCheckpointError as error:
        raise CliError(str(error)) from error
    except (PySparkException, Py4JJavaError) as error:
        raise CliError(f"the archive stopped: {reason(error)}") from error
    finally:
        spark.stop()
    return 0


def checkpoint_in(output: str) -> str:
    """Where the job's checkpoint is by default; the output may be a URL."""
    return f"{output.rstrip('/')}/{WHERE_CHECKPOINTS_ARE}"
