"""What a pipeline's file says, checked: sources, a transform, a sink, and how to run them. Nothing here needs Spark.

Every error names the place in the file (`sources.orders.topic`), what is wrong, and what is allowed.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
LISTENER = re.compile(r"(?P<host>[^\s:]*|\[[0-9a-fA-F:]+\]):(?P<port>[0-9]{1,5})")
VALUES = ("json", "text", "binary")
KEYS = ("text", "binary")
KINDS = ("parquet", "topic", "table")
STARTS = ("earliest", "latest")
MASTER = "local[*]"
DROP, FAIL = "drop", "fail"

OWN_KEYS = (
    "subscribe", "subscribepattern", "assign", "startingoffsets", "includeheaders", "kafka.isolation.level",
)
"""Options of the source that the file has keys for."""

RECORD_COLUMNS = ("_key", "_value", "_topic", "_partition", "_offset", "_timestamp", "_headers")
"""The record itself, beside the columns of its value."""


class SpecError(ValueError):
    """Something in the file is wrong; the message begins with the place."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """How late rows may come: `delay` behind the newest time in `column`."""

    column: str
    delay: str


@dataclass(frozen=True, slots=True)
class Source:
    """One or more topics, as a view named `name`."""

    name: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    values: str = "json"
    keys: str = "text"
    columns: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    bad_rows: str = DROP
    """What becomes of values that do not parse: `drop` counts them, `fail` ends the pipeline."""
    dead_letters: str | None = None
    """A topic that gets the bad rows, too."""
    watermark: Watermark | None = None
    unique: tuple[str, ...] = ()
    start: str = "earliest"
    isolation: str = "read_uncommitted"
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Transform:
    """One of the two: a query over the views, or `FILE:FUNCTION` that returns a DataFrame."""

    sql: str | None = None
    python: str | None = None


@dataclass(frozen=True, slots=True)
class Sink:
    kind: str
    path: str | None = None
    topic: str | None = None
    partition_by: tuple[str, ...] = ()
    key: str | None = None
    exactly_once: bool = True
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A whole file."""

    name: str
    sources: tuple[Source, ...]
    transform: Transform
    sink: Sink
    checkpoint: str
    every: str | None = None
    """Time between micro-batches; without it a run ends when it has read what there was."""
    bootstrap: str | None = None
    command_config: str | None = None
    metrics: str | None = None
    master: str = MASTER
    conf: Mapping[str, str] = field(default_factory=dict)


class _Table:
    """A table of the file. Each key is taken once; what is left at the end is unknown."""

    def __init__(self, place: str, values: object) -> None:
        self.place = place
        if not isinstance(values, Mapping):
            raise SpecError(f"{place or 'the file'}: a table is needed, not {_show(values)}")
        self._values = dict(values)
        self._known: list[str] = []

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def at(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key

    def take(self, key: str) -> Any:
        self._known.append(key)
        return self._values.pop(key, None)

    def text(self, key: str) -> str | None:
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise SpecError(f"{self.at(key)}: a text is needed, not {_show(value)}")
        return value.strip()

    def needed(self, key: str, meaning: str) -> str:
        value = self.text(key)
        if value is None:
            raise SpecError(f"{self.at(key)} is missing: {meaning}")
        return value

    def choice(self, key: str, allowed: tuple[str, ...], default: str) -> str:
        value = self.text(key) or default
        if value not in allowed:
            raise SpecError(f"{self.at(key)}: {value!r} is none of {', '.join(allowed)}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.take(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise SpecError(f"{self.at(key)}: true or false is needed, not {_show(value)}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.take(key)
        if value is None:
            return ()
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list) or not all(isinstance(each, str) and each.strip() for each in value):
            raise SpecError(f"{self.at(key)}: a list of texts is needed, not {_show(value)}")
        return tuple(each.strip() for each in value)

    def pairs(self, key: str) -> dict[str, str]:
        """A table of options; numbers and booleans become the text that Spark expects."""
        found: dict[str, str] = {}
        for name, value in self.table(key)._values.items():
            if isinstance(value, bool):
                found[str(name)] = str(value).lower()
            elif isinstance(value, str | int | float):
                found[str(name)] = str(value)
            else:
                raise SpecError(f"{self.at(key)}.{name}: a text or a number is needed, not {_show(value)}")
        return found

    def table(self, key: str) -> "_Table":
        value = self.take(key)
        return _Table(self.at(key), {} if value is None else value)

    def tables(self, key: str) -> "list[tuple[str, _Table]]":
        return [(str(name), _Table(f"{self.at(key)}.{name}", each)) for name, each in self.table(key)._values.items()]

    def end(self) -> None:
        """Refuse what nobody asked for: a misspelt key would otherwise have no effect in silence."""
        for key in self._values:
            near = difflib.get_close_matches(str(key), self._known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(self._known))}"
            raise SpecError(f"{self.at(str(key))} is not known; {hint}")


def _show(value: object) -> str:
    return repr(value) if len(repr(value)) < 40 else f"{repr(value)[:40]}..."


def parse(values: object, name: str) -> Pipeline:
    """The pipeline in a file's tables; `name` is used if the file gives none."""
    top = _Table("", values)
    name = top.text("name") or name
    if not NAME.fullmatch(name):
        raise SpecError(f"name: {name!r} has characters other than letters, digits, - and _")
    sources = tuple(_source(each, table) for each, table in top.tables("sources"))
    if not sources:
        raise SpecError("sources is empty: [sources.NAME] with a topic is needed")
    cluster, spark = top.table("cluster"), top.table("spark")
    pipeline = Pipeline(
        name=name,
        sources=sources,
        transform=_transform(top.table("transform"), sources),
        sink=_sink(top.table("sink")),
        checkpoint=top.needed("checkpoint", "a folder that keeps the pipeline's place and belongs to it alone"),
        every=top.text("every"),
        bootstrap=cluster.text("bootstrap"),
        command_config=cluster.text("command_config"),
        metrics=top.text("metrics"),
        master=spark.text("master") or MASTER,
        conf=spark.pairs("conf"),
    )
    for table in (cluster, spark, top):
        table.end()
    _check_together(pipeline)
    return pipeline


def _source(name: str, table: _Table) -> Source:
    if not COLUMN.fullmatch(name):
        raise SpecError(f"{table.place}: {name!r} cannot be the name of a view: letters, digits and _ only")
    topic, topics, pattern = table.text("topic"), table.texts("topics"), table.text("pattern")
    if sum(map(bool, (topic, topics, pattern))) != 1:
        raise SpecError(f"{table.place}: one of topic, topics and pattern is needed")
    mark = table.table("watermark") if "watermark" in table else None
    source = Source(
        name=name,
        topics=(topic,) if topic else topics,
        pattern=pattern,
        values=table.choice("values", VALUES, "json"),
        keys=table.choice("keys", KEYS, "text"),
        columns=table.pairs("columns"),
        required=table.texts("required"),
        bad_rows=table.choice("bad_rows", (DROP, FAIL), DROP),
        dead_letters=table.text("dead_letters"),
        watermark=None if mark is None else _watermark(mark),
        unique=table.texts("unique"),
        start=table.choice("start", STARTS, "earliest"),
        isolation=table.choice("isolation", ("read_uncommitted", "read_committed"), "read_uncommitted"),
        options=table.pairs("options"),
    )
    table.end()
    _check_source(source, table)
    return source


def _watermark(table: _Table) -> Watermark:
    mark = Watermark(
        table.needed("column", "the column with the time of a row; _timestamp is that of its record"),
        table.needed("delay", "how late rows may come, such as '10 minutes'"),
    )
    table.end()
    return mark


def _check_source(source: Source, table: _Table) -> None:
    _check_columns(source, table)
    if source.unique and source.watermark is None:
        raise SpecError(f"{table.at('unique')} needs a watermark: keys are remembered until it has passed them")
    if source.dead_letters and source.bad_rows == FAIL:
        raise SpecError(f"{table.at('bad_rows')}: fail and dead_letters contradict each other")
    if source.dead_letters in source.topics:
        raise SpecError(f"{table.at('dead_letters')}: bad rows would be read again from {source.dead_letters!r}")
    for option in source.options:
        if option.lower() in OWN_KEYS:
            raise SpecError(f"{table.at('options')}.{option}: has a key of its own in {table.place}")


def _check_columns(source: Source, table: _Table) -> None:
    if source.values == "json" and not source.columns:
        raise SpecError(f"{table.at('columns')} is missing: the fields of the JSON values and their types")
    for key in ("columns", "required", "dead_letters"):
        if source.values != "json" and getattr(source, key):
            raise SpecError(f"{table.at(key)} needs values = 'json'; other values are not parsed")
    for name in source.columns:
        if not COLUMN.fullmatch(name):
            raise SpecError(f"{table.at('columns')}: {name!r} cannot be a column; names begin with a letter")
    known = columns_of(source)
    mark = () if source.watermark is None else (source.watermark.column,)
    for key, names in (("required", source.required), ("unique", source.unique), ("watermark.column", mark)):
        for name in names:
            if name not in known:
                raise SpecError(f"{table.at(key)}: there is no column {name!r}; there are {', '.join(known)}")


def columns_of(source: Source) -> tuple[str, ...]:
    """The columns of a source's view."""
    return (*(source.columns if source.values == "json" else ("value",)), *RECORD_COLUMNS)


def _transform(table: _Table, sources: tuple[Source, ...]) -> Transform:
    found = Transform(table.text("sql"), table.text("python"))
    table.end()
    if found.sql and found.python:
        raise SpecError("transform: sql and python are both there; one is needed")
    if found.python and not all(found.python.rpartition(":")[::2]):
        raise SpecError(f"transform.python: {found.python!r} is not FILE.py:FUNCTION")
    if not found.sql and not found.python:
        if len(sources) > 1:
            raise SpecError("transform is missing: it says how the sources become one")
        return Transform(f"SELECT * FROM {sources[0].name}")
    return found


def _sink(table: _Table) -> Sink:
    kind = table.needed("kind", f"one of {', '.join(KINDS)}")
    if kind not in KINDS:
        raise SpecError(f"{table.at('kind')}: {kind!r} is none of {', '.join(KINDS)}")
    wanted = "topic" if kind == "topic" else "path"
    sink = Sink(
        kind=kind,
        **{wanted: table.needed(wanted, f"where the rows of a {kind} sink go")},
        partition_by=table.texts("partition_by"),
        key=table.text("key"),
        exactly_once=table.flag("exactly_once", True),
        options=table.pairs("options"),
    )
    table.end()
    if kind != "parquet" and sink.partition_by:
        raise SpecError("sink.partition_by is for kind = 'parquet'")
    if kind != "topic" and sink.key:
        raise SpecError("sink.key is for kind = 'topic'; the key of a table is that of the records")
    if kind != "topic" and not sink.exactly_once:
        raise SpecError(f"sink.exactly_once is for kind = 'topic'; a {kind} sink is always exactly once")
    return sink


def _check_together(pipeline: Pipeline) -> None:
    if pipeline.metrics is not None:
        address(pipeline.metrics)
    sink = pipeline.sink
    for source in pipeline.sources:
        if sink.topic is not None and sink.topic in (*source.topics, source.dead_letters):
            raise SpecError(f"sink.topic: {sink.topic!r} is also in sources.{source.name}")
    if sink.kind == "table" and (len(pipeline.sources) > 1 or pipeline.sources[0].watermark):
        raise SpecError("sink.kind: a table needs one source, without a watermark: it has the newest row of each key")
    if sink.path is not None and sink.path.rstrip("/") == pipeline.checkpoint.rstrip("/"):
        raise SpecError("checkpoint and sink.path are the same folder; each needs its own")


def address(listener: str) -> tuple[str, int]:
    """`HOST:PORT` of metrics; without a host on this machine only."""
    found = LISTENER.fullmatch(listener)
    if found is None or int(found["port"]) > 65535:
        raise SpecError(f"metrics: {listener!r} is not HOST:PORT, such as 127.0.0.1:9464")
    return found["host"].strip("[]") or "127.0.0.1", int(found["port"])
