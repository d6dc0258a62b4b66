"""What the archive says of its micro-batches."""

from types import SimpleNamespace
from typing import Any

import pytest

from rookery.client.spark import archive


@pytest.mark.parametrize(
    ("latest", "said"),
    [
        ({"t": {"0": 12}}, "batch 3: 10 records in 2.0 s, 2 behind"),
        ('{"t": {"0": 10}}', "batch 3: 10 records in 2.0 s, 0 behind"),
        ("null", "batch 3: 10 records in 2.0 s"),
        (None, "batch 3: 10 records in 2.0 s"),
    ],
)
def test_each_batch_is_reported_once(latest: Any, said: str) -> None:
    """The first batch after a restart may be a repeated one: Spark then tells no latest offset."""
    source = {"endOffset": '{"t": {"0": 10}}', "latestOffset": latest}
    progress = {"batchId": 3, "numInputRows": 10, "batchDuration": 2000, "sources": [source]}
    polls = iter([False, False, True])
    query: Any = SimpleNamespace(awaitTermination=lambda _: next(polls), recentProgress=[progress])
    lines: list[str] = []
    archive.watch(query, lines.append)
    assert lines == [said]


def test_a_run_without_a_record_says_so() -> None:
    """Spark runs an empty batch, or none at all."""
    empty = {"batchId": 0, "numInputRows": 0, "batchDuration": 5, "sources": []}
    for seen in ([], [empty]):
        polls = iter([False, True])
        query: Any = SimpleNamespace(awaitTermination=lambda _, polls=polls: next(polls), recentProgress=seen)
        lines: list[str] = []
        archive.watch(query, lines.append)
        assert lines == [archive.UP_TO_DATE]
