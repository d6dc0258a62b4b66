import io
import json
import logging
from collections.abc import Iterator

import pytest

from rookery.core import event_logging


@pytest.fixture(autouse=True)
def _untouched_logging() -> Iterator[None]:
    root = logging.getLogger(event_logging.ROOT)
    before = (root.handlers[:], root.level, root.propagate)
    yield
    root.handlers[:], root.level, root.propagate = before


def test_json_lines_carry_event_and_fields() -> None:
    out = io.StringIO()
    event_logging.configure(style="json", to=out)
    event_logging.get_logger("broker.replication").bind(broker_id=1).info("isr.shrink", topic="orders", isr=[1, 2])
    line = json.loads(out.getvalue())
    assert line["event"] == "isr.shrink"
    assert line["logger"] == "broker.replication"
    assert (line["broker_id"], line["topic"], line["isr"]) == (1, "orders", [1, 2])


def test_human_lines_and_levels_per_part() -> None:
    out = io.StringIO()
    event_logging.configure(to=out, levels={"broker.log": "ERROR"})
    event_logging.get_logger("broker.log").info("log.rolled", base=7)
    event_logging.get_logger("broker.server").warning("frame.refused", size=-1)
    assert "log.rolled" not in out.getvalue()
    assert "frame.refused size=-1" in out.getvalue()


def test_a_bug_is_logged_with_its_traceback() -> None:
    out = io.StringIO()
    event_logging.configure(style="json", to=out)
    try:
        raise RuntimeError("boom")
    except RuntimeError as error:
        event_logging.get_logger("x").exception("bug", error, where="here")
    line = json.loads(out.getvalue())
    assert "RuntimeError: boom" in line["traceback"]


def test_lines_that_strangers_cause_are_few_and_the_next_says_how_many_had_none() -> None:
    out, now = io.StringIO(), 0.0
    event_logging.configure(style="json", to=out)
    sparing = event_logging.SparingLogger(event_logging.get_logger("broker.server"), lambda: now)
    for _ in range(1000):
        sparing.warning("connection.refused", listener="A", peer="10.0.0.1")
    sparing.warning("connection.refused", listener="B", peer="10.0.0.2")
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["listener"] for line in lines] == ["A"] * 10 + ["B"]
    now = 1.0
    for _ in range(5):
        sparing.warning("connection.refused", listener="A", peer="10.0.0.1")
    added = [json.loads(line) for line in out.getvalue().splitlines()][11:]
    assert [line["others_before"] for line in added] == [990]
    assert sparing.counts("connection.refused") == {"A": 1005, "B": 1}
    assert sparing.counts("connection.dropped") == {}
