"""Which changes of a file a checkpoint survives."""

import dataclasses

import pytest

from rookery.client.spark.pipelines.changes import changed, plan_of
from rookery.client.spark.pipelines.spec import Pipeline, Sink, Source, Transform, Watermark

SOURCE = Source("orders", ("orders",), columns={"id": "long"}, watermark=Watermark("id", "1 s"))
PIPELINE = Pipeline("p", (SOURCE,), Transform("SELECT  *\nFROM orders"), Sink("topic", topic="out"), "state")


@pytest.mark.parametrize(
    ("other", "places"),
    [
        (dataclasses.replace(PIPELINE, every="1 second", master="spark://m:1", conf={"a": "b"}, metrics=":1"), []),
        (dataclasses.replace(PIPELINE, transform=Transform("SELECT * FROM orders")), []),
        (dataclasses.replace(PIPELINE, sources=(dataclasses.replace(SOURCE, options={"a": "b"}, start="latest"),)), []),
        (dataclasses.replace(PIPELINE, transform=Transform("SELECT 1")), ["transform.sql"]),
        (dataclasses.replace(PIPELINE, sink=Sink("topic", topic="other", key="k")), ["sink.key", "sink.topic"]),
        (
            dataclasses.replace(
                PIPELINE,
                sources=(dataclasses.replace(SOURCE, columns={"id": "int"}, watermark=Watermark("id", "2 s")),),
            ),
            ["sources.orders.columns.id", "sources.orders.watermark.delay"],
        ),
    ],
)
def test_changes(other: Pipeline, places: list[str]) -> None:
    assert changed(plan_of(PIPELINE, None), plan_of(other, None)) == places


def test_the_text_of_a_python_transform_counts() -> None:
    python = dataclasses.replace(PIPELINE, transform=Transform(python="t.py:f"))
    assert changed(plan_of(python, "a"), plan_of(python, "a")) == []
    assert changed(plan_of(python, "a"), plan_of(python, "b")) == ["transform.python"]
