"""Failures of Spark in one line."""

import pytest

from rookery.client.cli.pipeline_words import reason

OURS = """[STREAM_FAILED] Query [id = 1] terminated with exception: boom SQLSTATE: XXKST
Traceback (most recent call last):
  File "planner.py", line 1, in found
rookery.client.spark.kafka_options.OptionError: option 'subscribe' names topics that do not exist: t

\tat org.apache.spark.api.python.BasePythonRunner"""
PYTHON = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "t.py", line 3, in grade
ZeroDivisionError: division by zero
\tat org.apache.spark"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (OURS, "option 'subscribe' names topics that do not exist: t"),
        (PYTHON, "ZeroDivisionError: division by zero"),
        (
            "[UNRESOLVED_COLUMN] A column `x` cannot be resolved. SQLSTATE: 42703; line 1 pos 7;\n'Project",
            "[UNRESOLVED_COLUMN] A column `x` cannot be resolved. SQLSTATE: 42703; line 1 pos 7;",
        ),
    ],
)
def test_the_line_that_says_what_happened(text: str, line: str) -> None:
    assert reason(Exception(text)) == line


def test_an_error_without_words_has_its_kind() -> None:
    assert reason(Exception("")) == "Exception"
