"""A pipeline's file: what is understood, and what is refused with the place and the way out."""

import copy
from pathlib import Path
from typing import Any

import pytest

from rookery.client.cli.__main__ import main
from rookery.client.spark.pipelines.spec import Pipeline, SpecError, Watermark, address, parse
from rookery.client.spark.pipelines.spec_file import read_pipeline

DOCS = Path(__file__).parents[5] / "docs" / "pipelines"
LEAST: dict[str, Any] = {
    "checkpoint": "state",
    "sources": {"orders": {"topic": "orders", "columns": {"id": "long", "at": "timestamp"}}},
    "sink": {"kind": "topic", "topic": "out"},
}


def with_values(**places: Any) -> dict[str, Any]:
    """The least file with other values: `sources__orders__topic=None` takes one away."""
    values = copy.deepcopy(LEAST)
    for place, value in places.items():
        *path, last = place.split("__")
        table = values
        for key in path:
            table = table.setdefault(key, {})
        if value is None:
            table.pop(last, None)
        else:
            table[last] = value
    return values


def test_the_least_file() -> None:
    pipeline = parse(LEAST, "copy")
    assert (pipeline.name, pipeline.every, pipeline.master) == ("copy", None, "local[*]")
    assert pipeline.transform.sql == "SELECT * FROM orders"
    assert pipeline.sink.exactly_once
    (source,) = pipeline.sources
    assert (source.values, source.start, source.isolation) == ("json", "earliest", "read_uncommitted")


def test_a_full_file() -> None:
    pipeline = parse(
        with_values(
            name="p-1",
            every="10 seconds",
            metrics=":9464",
            cluster={"bootstrap": "h:1", "command_config": "client.properties"},
            spark={"master": "spark://m:7077", "conf": {"spark.sql.shuffle.partitions": 4, "spark.speculation": False}},
            sources__orders__watermark={"column": "_timestamp", "delay": "1 minute"},
            sources__orders__unique="id",
            sources__orders__options={"maxOffsetsPerTrigger": 1000},
        ),
        "file",
    )
    assert pipeline.conf == {"spark.sql.shuffle.partitions": "4", "spark.speculation": "false"}
    assert pipeline.sources[0].watermark == Watermark("_timestamp", "1 minute")
    assert pipeline.sources[0].unique == ("id",)
    assert pipeline.sources[0].options == {"maxOffsetsPerTrigger": "1000"}
    assert address(pipeline.metrics or "") == ("127.0.0.1", 9464)
    assert address("[::1]:0") == ("::1", 0)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([], "the file: a table is needed"),
        (with_values(name="a b"), "name: 'a b' has characters"),
        (with_values(sources=None), "sources is empty"),
        (with_values(checkpoint=None), "checkpoint is missing: a folder"),
        (with_values(checkpont="x"), "checkpont is not known; did you mean 'checkpoint'?"),
        (with_values(sink__kind="kafka"), "sink.kind: 'kafka' is none of parquet, topic, table"),
        (with_values(sink__kind=None), "sink.kind is missing"),
        (with_values(sink={"kind": "parquet"}), "sink.path is missing: where the rows of a parquet sink go"),
        (with_values(sink__partition_by=["id"]), "sink.partition_by is for kind = 'parquet'"),
        (with_values(sink={"kind": "parquet", "path": "state/"}), "checkpoint and sink.path are the same folder"),
        (with_values(sink={"kind": "table", "path": "t", "key": "id"}), "sink.key is for kind = 'topic'"),
        (with_values(sink={"kind": "table", "path": "t", "exactly_once": False}), "a table sink is always"),
        (with_values(sink__exactly_once="yes"), "sink.exactly_once: true or false is needed, not 'yes'"),
        (with_values(sink__topic="orders"), "sink.topic: 'orders' is also in sources.orders"),
        (with_values(sources__orders__topic=None), "sources.orders: one of topic, topics and pattern is needed"),
        (with_values(sources__orders__pattern="o.*"), "sources.orders: one of topic, topics and pattern is needed"),
        (with_values(sources__orders__topics=[1]), "sources.orders.topics: a list of texts is needed"),
        (with_values(sources__orders__columns=None), "sources.orders.columns is missing"),
        (with_values(sources__orders__values="text"), "sources.orders.columns needs values = 'json'"),
        (with_values(sources__orders__columns={"_id": "long"}), "'_id' cannot be a column"),
        (with_values(sources__orders__required=["no"]), "sources.orders.required: there is no column 'no'"),
        (with_values(sources__orders__unique=["id"]), "sources.orders.unique needs a watermark"),
        (with_values(sources__orders__watermark={"column": "id"}), "sources.orders.watermark.delay is missing"),
        (with_values(sources__orders__watermark={"column": "x", "delay": "1 s"}), "there is no column 'x'"),
        (with_values(sources__orders__dead_letters="orders"), "bad rows would be read again from 'orders'"),
        (
            with_values(sources__orders__dead_letters="d", sources__orders__bad_rows="fail"),
            "fail and dead_letters contradict each other",
        ),
        (with_values(sources__orders__options={"subscribe": "x"}), "subscribe: has a key of its own"),
        (with_values(sources__orders__start="0"), "sources.orders.start: '0' is none of earliest, latest"),
        (with_values(sources__my_orders__topic="x"), "sources.my_orders.columns is missing"),
        (with_values(sources={"a-b": {"topic": "x"}}), "'a-b' cannot be the name of a view"),
        (
            with_values(sources__more={"topic": "x", "columns": {"a": "int"}}),
            "transform is missing: it says how the sources become one",
        ),
        (with_values(transform={"sql": "a", "python": "b"}), "transform: sql and python are both there"),
        (with_values(transform={"python": "file.py"}), "'file.py' is not FILE.py:FUNCTION"),
        (with_values(metrics="9464"), "metrics: '9464' is not HOST:PORT"),
        (with_values(metrics=":99999"), "is not HOST:PORT"),
        (with_values(spark__conf={"a": []}), "spark.conf.a: a text or a number is needed"),
        (with_values(sources__orders="orders"), "sources.orders: a table is needed, not 'orders'"),
    ],
)
def test_what_is_refused(values: Any, said: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse(values, "file")
    assert said in str(refused.value)


def test_a_table_has_one_source_without_watermark() -> None:
    table = {"kind": "table", "path": "t"}
    mark = {"column": "at", "delay": "1 minute"}
    with pytest.raises(SpecError, match="a table needs one source, without a watermark"):
        parse(with_values(sink=table, sources__orders__watermark=mark), "file")


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.*ml")), ids=lambda path: path.name)
def test_files_of_the_docs(path: Path) -> None:
    pipeline = read_pipeline(path)
    assert isinstance(pipeline, Pipeline)
    assert pipeline.name == path.stem
    assert pipeline.checkpoint == str(DOCS / "state" / path.stem), "paths are relative to the file"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.toml", "x = ", "a.toml: is no TOML: "),
        ("a.yaml", "x: [", "a.yaml: is no YAML: "),
        ("a.json", "{}", "a file that ends in .toml, .yaml or .yml is needed"),
        ("a.toml", "", "a.toml: sources is empty"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SpecError) as refused:
        read_pipeline(tmp_path / name)
    assert said in str(refused.value)
    with pytest.raises(SpecError, match="cannot be read: No such file"):
        read_pipeline(tmp_path / "none.toml")


def test_urls_stay(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text((DOCS / "lake.toml").read_text().replace("state/lake", "s3a://bucket/state"))
    assert read_pipeline(path).checkpoint == "s3a://bucket/state"


def test_a_file_is_checked_without_spark(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["pipeline", "run", str(DOCS / "lake.toml"), "--check"]) == 0
    assert "pipeline lake is as it should be" in capsys.readouterr().out
    assert main(["pipeline", "run", str(tmp_path / "no.toml"), "--check"]) == 2
