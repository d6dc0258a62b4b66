"""Runs a pipeline on Spark: one query for its rows, one more for the bad rows of each source with `dead_letters`.

Each query has a folder of its own in the checkpoint. Beside them the checkpoint keeps the plan it was made for and
whether the last run ended by itself, so that a changed file is distinguished from a crash.
"""

import importlib.util
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from rookery.client.spark.checkpoints import Folder
from rookery.client.spark.pipelines import sinks, sources
from rookery.client.spark.pipelines.changes import Plan, changed, plan_of
from rookery.client.spark.pipelines.spec import Pipeline, SpecError
from rookery.client.spark.progress import Meter, Progress, batch_of

NOTE = "pipeline.json"
MAIN = "rows"
POLL_S = 0.5
NEW, CONTINUES, CRASHED, CHANGED = "new", "continues", "crashed", "changed"


class ChangedError(Exception):
    """The file does not fit to its checkpoint any more."""


@dataclass
class Start:
    """How a run begins."""

    kind: str
    changes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return {
            NEW: "the checkpoint is new: reading from the start of the sources",
            CONTINUES: "the checkpoint continues where the last run ended",
            CRASHED: "the last run did not end by itself (a crash or a kill); continuing, nothing is lost or doubled",
            CHANGED: f"continuing with a changed file: {', '.join(self.changes)}",
        }[self.kind]


class PipelineRun:
    """One run of a pipeline in this session."""

    def __init__(
        self, spark: SparkSession, pipeline: Pipeline, cluster: Mapping[str, str], *, accept_changes: bool = False
    ) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._cluster = {key: str(value) for key, value in cluster.items()}
        self._accept_changes = accept_changes
        self._code = _code_of(pipeline)
        self._queries: dict[str, StreamingQuery] = {}
        self._meters: dict[str, Meter] = {}

    def start(self) -> Start:
        """Start all queries, or continue them from the checkpoint."""
        for source in self._pipeline.sources:
            sources.check_types(source)
        plan = plan_of(self._pipeline, self._code)
        how = self._how(plan)
        records = {
            source.name: sources.read(self._spark, source, self._cluster) for source in self._pipeline.sources
        }
        views = {
            source.name: sources.view(records[source.name], source) for source in self._pipeline.sources
        }
        rows = self._transformed(views)
        folder = self._folder(MAIN)
        writers = {MAIN: sinks.writer(self._spark, rows, self._pipeline.sink, self._cluster, folder)}
        for source in self._pipeline.sources:
            if source.dead_letters:
                letters = sources.dead_letters(records[source.name], source)
                writers[f"bad-{source.name}"] = sinks.topic_writer(
                    letters, source.dead_letters, True, self._cluster, {}
                )
        self._remember(plan, ended=False)
        try:
            for name, writer in writers.items():
                self._start_query(name, writer)
        except BaseException:
            self.stop()
            raise
        return how

    def _start_query(self, name: str, writer: Any) -> None:
        writer = writer.queryName(f"{self._pipeline.name}-{name}")
        writer = writer.option("checkpointLocation", self._folder(name))
        every = self._pipeline.every
        trigger = writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=every)
        self._queries[name] = trigger.start()
        self._meters[name] = Meter(name)

    def _folder(self, query: str) -> str:
        return f"{self._pipeline.checkpoint.rstrip('/')}/{query}"

    def _transformed(self, views: Mapping[str, DataFrame]) -> DataFrame:
        transform = self._pipeline.transform
        if transform.python is not None:
            result = _function_of(transform.python)(self._spark, **views)
            if not isinstance(result, DataFrame):
                raise SpecError(f"transform.python: {transform.python} returned {type(result).__name__}, no DataFrame")
            return result
        for name, view in views.items():
            view.createOrReplaceTempView(name)
        return self._spark.sql(transform.sql or "")

    def _how(self, plan: Plan) -> Start:
        text = Folder(self._spark, self._pipeline.checkpoint).read(NOTE)
        if text is None:
            return Start(NEW)
        note = json.loads(text)
        changes = changed(note["plan"], plan)
        if changes and not self._accept_changes:
            raise ChangedError(
                f"the file has changed since {self._pipeline.checkpoint} was made: {', '.join(changes)}. The results "
                "of both would be mixed. Name a new checkpoint (and a new output), undo the change, or continue all "
                "the same with --accept-changes"
            )
        if changes:
            return Start(CHANGED, changes)
        return Start(CONTINUES if note["ended"] else CRASHED)

    def _remember(self, plan: Plan, *, ended: bool) -> None:
        note = json.dumps({"pipeline": self._pipeline.name, "ended": ended, "plan": plan}, indent=1)
        Folder(self._spark, self._pipeline.checkpoint).write(NOTE, note)

    def watch(
        self, report: Callable[[Progress], None], stopping: Callable[[], bool] = lambda: False
    ) -> list[Progress]:
        """Report micro-batches until all queries have ended or `stopping` says so; a query's failure is raised, when
        the others have been stopped."""
        try:
            while not stopping() and any(query.isActive for query in self._queries.values()):
                self._look(report)
                self._raise_failure()
                time.sleep(POLL_S)
            self._look(report)
            self._raise_failure()
        finally:
            self.stop()
        self._remember(plan_of(self._pipeline, self._code), ended=True)
        return [meter.progress for meter in self._meters.values()]

    def _look(self, report: Callable[[Progress], None]) -> None:
        for name, query in self._queries.items():
            meter = self._meters[name]
            for each in query.recentProgress:
                batch = batch_of(each)
                if batch.number > meter.progress.batch and meter.add(batch):
                    report(meter.progress)

    def _raise_failure(self) -> None:
        for query in self._queries.values():
            failure = query.exception()
            if failure is not None:
                raise failure

    def stop(self) -> None:
        """End the queries. A micro-batch that is under way is run again by the next run."""
        for query in self._queries.values():
            query.stop()


def _code_of(pipeline: Pipeline) -> str | None:
    if pipeline.transform.python is None:
        return None
    path = Path(pipeline.transform.python.rpartition(":")[0])
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"transform.python: {path} cannot be read: {error}") from None


def _function_of(reference: str) -> Callable[..., Any]:
    """The function in a file. Its module travels to the executors with what it defines."""
    place, _, name = reference.rpartition(":")
    module_spec = importlib.util.spec_from_file_location(f"pipeline_{Path(place).stem}", place)
    if module_spec is None or module_spec.loader is None:
        raise SpecError(f"transform.python: {place} is no Python file")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[module.__name__] = module
    module_spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    function = getattr(module, name, None)
    if not callable(function):
        raise SpecError(f"transform.python: {place} has no function {name!r}")
    return function  # type: ignore[no-any-return]
