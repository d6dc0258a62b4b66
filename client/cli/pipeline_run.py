"""`rookery pipeline run`, `list`, `status` and `stop`: pipelines that a file describes."""

import argparse
import dataclasses
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.client.cli.common import add_bootstrap, add_output, client_options, show
from rookery.client.cli.pipeline_words import pairs, reason, say
from rookery.client.errors import CliError, NotFoundError, UnhealthyError, UsageError
from rookery.client.spark.pipelines.runs import (
    DONE,
    FAILED,
    RUNNING,
    STOPPED,
    AlreadyRunningError,
    Run,
    Runs,
    runs_folder,
)
from rookery.client.spark.pipelines.spec import Pipeline, SpecError, address
from rookery.client.spark.pipelines.spec_file import read_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rookery.client.spark.progress import Progress

STOP_S = 60.0
COLUMNS = ("name", "state", "rows", "rate", "behind", "bad", "started", "file")


def add_parsers(pipelines: Any) -> None:
    run = pipelines.add_parser("run", help="run the pipeline that a file describes, or continue it")
    run.add_argument("file", type=Path, help="the pipeline, as TOML or YAML")
    run.add_argument("--check", action="store_true", help="only check the file; Spark is not started")
    run.add_argument("--once", action="store_true", help="end when everything is read, whatever the file says")
    run.add_argument(
        "--accept-changes", action="store_true", help="continue although the file changed since its checkpoint was made"
    )
    run.add_argument("--metrics", metavar="HOST:PORT", help="where /metrics is served (the file's metrics)")
    run.add_argument("--master", help="where Spark runs (the file's spark.master, or local[*])")
    run.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="setting of Spark")
    add_bootstrap(run)
    run.set_defaults(run=_run)
    listing = pipelines.add_parser("list", help="list the pipelines that were run from this machine")
    add_output(listing)
    listing.set_defaults(run=_list)
    status = pipelines.add_parser("status", help="show how far a pipeline is: rows, rate, lag, bad rows")
    status.add_argument("name", help="its name")
    add_output(status)
    status.set_defaults(run=_status)
    stop = pipelines.add_parser("stop", help="stop a running pipeline; the next run continues")
    stop.add_argument("name", help="its name")
    stop.add_argument("--timeout", type=float, default=STOP_S, metavar="SECONDS", help=f"how long to wait ({STOP_S:g})")
    stop.set_defaults(run=_stop)


# --- run -----------------------------------------------------------------------------------------------------


def _run(arguments: argparse.Namespace) -> int:
    pipeline = _pipeline(arguments)
    if arguments.check:
        print(f"{arguments.file}: pipeline {pipeline.name} is as it should be")
        return 0
    arguments.bootstrap = arguments.bootstrap or pipeline.bootstrap
    if arguments.command_config is None and pipeline.command_config is not None:
        arguments.command_config = Path(pipeline.command_config)
    client = client_options(arguments)
    client.pop("client.id")
    cluster = {f"kafka.{key}": str(value) for key, value in client.items()}
    run = Run(
        name=pipeline.name,
        file=str(arguments.file.resolve()),
        pid=os.getpid(),
        started=_now(),
        cluster=client["bootstrap.servers"],
        master=pipeline.master,
        checkpoint=pipeline.checkpoint,
        output=pipeline.sink.topic or pipeline.sink.path or "",
    )
    runs = Runs(runs_folder(os.environ))
    try:
        with runs.claimed(run):
            _execute(arguments, pipeline, cluster, run, runs)
    except AlreadyRunningError as error:
        raise CliError(str(error)) from error
    return 0


def _pipeline(arguments: argparse.Namespace) -> Pipeline:
    """The file, with what the command line says instead."""
    try:
        pipeline = read_pipeline(arguments.file)
        metrics = arguments.metrics or pipeline.metrics
        if metrics is not None:
            address(metrics)
    except SpecError as error:
        raise UsageError(str(error)) from error
    return dataclasses.replace(
        pipeline,
        every=None if arguments.once else pipeline.every,
        metrics=metrics,
        master=arguments.master or pipeline.master,
        conf={**pipeline.conf, **pairs(arguments.conf, "--conf")},
    )


def _execute(
    arguments: argparse.Namespace, pipeline: Pipeline, cluster: dict[str, str], run: Run, runs: Runs
) -> None:
    try:
        _run_on_spark(arguments, pipeline, cluster, run, runs)
    except BaseException as error:
        run.state, run.error = FAILED, str(error) or type(error).__name__
        raise
    finally:
        run.ended = _now()
        runs.save(run)


def _run_on_spark(
    arguments: argparse.Namespace, pipeline: Pipeline, cluster: dict[str, str], run: Run, runs: Runs
) -> None:
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        from rookery.client.spark.checkpoints import OtherCheckpointError
        from rookery.client.spark.pipelines.metrics import PipelineMetrics, served
        from rookery.client.spark.pipelines.runner import ChangedError, PipelineRun
    except ImportError as error:
        raise CliError(f"{error}. Spark is an extra: pip install 'rookery[spark]'; it needs Java 17") from error
    metrics = PipelineMetrics(pipeline.name)
    try:
        serving = nullcontext() if pipeline.metrics is None else served(metrics, *address(pipeline.metrics))
        with serving as port, _session(pipeline) as spark, _interrupts() as interrupted:
            if port is not None:
                run.metrics = f"http://{address(pipeline.metrics or '')[0]}:{port}/metrics"
                say(f"metrics: {run.metrics}")
            running = PipelineRun(spark, pipeline, cluster, accept_changes=arguments.accept_changes)
            say(f"{pipeline.name}: {running.start()}")
            screen = Screen()

            def report(progress: "Progress") -> None:
                metrics.report(progress)
                screen.show(progress)
                run.queries = [each for each in run.queries if each["query"] != progress.query]
                run.queries.append(progress.as_json())
                run.queries.sort(key=lambda each: each["query"] != "rows")
                runs.save(run)

            runs.save(run)
            done = running.watch(report, interrupted)
            screen.end()
            run.state = STOPPED if interrupted() else DONE
            rows, bad = sum(each.rows for each in done if each.query == "rows"), sum(each.bad_rows for each in done)
            end = "stopped; the next run continues" if interrupted() else "done" if rows else "up to date: nothing new"
            say(f"{pipeline.name}: {end}. {rows:,} rows, {bad:,} of them bad")
    except (SpecError, ChangedError, OtherCheckpointError) as error:
        raise CliError(f"{arguments.file}: {error}") from error
    except OSError as error:
        raise CliError(f"{pipeline.name}: {error}") from error
    except (PySparkException, Py4JError) as error:
        raise CliError(f"{pipeline.name} stopped: {reason(error)}") from error


@contextmanager
def _session(pipeline: Pipeline) -> "Iterator[SparkSession]":
    from rookery.client.spark.sessions import open_session

    say(f"starting Spark on {pipeline.master}, which takes some seconds")
    spark = open_session(pipeline.master, pipeline.conf, f"rookery-{pipeline.name}")
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _interrupts() -> Iterator[Any]:
    """Ctrl-C and SIGTERM end the run in order; gives whether one came."""
    came: list[int] = []
    before = {number: signal.signal(number, lambda *_: came.append(1)) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Screen:
    """Progress: one line that is written over on a terminal, lines otherwise."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._open = False

    def show(self, progress: "Progress") -> None:
        from rookery.client.spark.progress import describe

        line = describe(progress) if progress.query == "rows" else f"{progress.query}: {describe(progress)}"
        if not self._terminal:
            say(f"{_now()} {line}")
        elif progress.query == "rows":
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{line[:width].ljust(width)}", end="", file=sys.stderr, flush=True)
            self._open = True

    def end(self) -> None:
        if self._open:
            print(file=sys.stderr)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


# --- list, status, stop --------------------------------------------------------------------------------------


def _row(run: Run) -> dict[str, Any]:
    rate = run.figure("rows_per_second")
    behind = run.figure("behind")
    return {
        "name": run.name,
        "state": run.state,
        "rows": run.figure("rows") or 0,
        "rate": "-" if rate is None else f"{rate:,.0f}/s",
        "behind": "-" if behind is None else behind,
        "bad": run.figure("bad_rows") or 0,
        "started": run.started,
        "file": run.file,
    }


def _list(arguments: argparse.Namespace) -> int:
    show([_row(run) for run in Runs(runs_folder(os.environ)).all()], COLUMNS, arguments.output)
    return 0


def _found(name: str) -> Run:
    run = Runs(runs_folder(os.environ)).find(name)
    if run is None:
        raise NotFoundError(f"no pipeline {name!r} was run from this machine; `rookery pipeline list` shows what was")
    return run


def _status(arguments: argparse.Namespace) -> int:
    run = _found(arguments.name)
    if arguments.output != "table":
        show([dataclasses.asdict(run)], ("name", "state", "pid", "started", "file"), arguments.output)
        return 0
    from rookery.client.spark.progress import Progress, describe

    print(f"{run.name} is {run.state}{f', process {run.pid}' if run.state == RUNNING else ''}")
    for key in ("file", "started", "ended", "cluster", "master", "checkpoint", "output", "metrics", "error"):
        if getattr(run, key):
            print(f"  {key}: {getattr(run, key)}")
    for each in run.queries:
        print(f"  {each['query']}: {each['rows']:,} rows in this run; {describe(Progress(**each))}")
    return 0


def _stop(arguments: argparse.Namespace) -> int:
    run = _found(arguments.name)
    if run.state != RUNNING:
        say(f"{run.name} is not running: {run.state}")
        return 0
    os.kill(run.pid, signal.SIGTERM)
    deadline = time.monotonic() + arguments.timeout
    while _found(arguments.name).state == RUNNING:
        if time.monotonic() > deadline:
            raise UnhealthyError(f"{run.name} (process {run.pid}) still runs after {arguments.timeout:g} s")
        time.sleep(0.1)
    say(f"{run.name} is stopped; `rookery pipeline run {run.file}` continues")
    return 0
