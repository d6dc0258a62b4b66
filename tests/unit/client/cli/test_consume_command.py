"""Where `rookery consume` begins, and what a line means to `rookery produce`."""

from datetime import UTC, datetime
from typing import Any

import pytest

from rookery.client.cli.consume import parse_start
from rookery.client.cli.produce import key_and_value, parse_headers
from rookery.client.errors import UsageError


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("start", 0),
        ("end", None),
        ("17", 17),
        ("-3", -3),
        ("@2026-05-01T12:00+00:00", datetime(2026, 5, 1, 12, tzinfo=UTC)),
    ],
)
def test_where_to_begin(text: str, start: Any) -> None:
    assert parse_start(text) == start


@pytest.mark.parametrize("text", ["@noon", "last", "1.5"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=f"--from {text}"):
        parse_start(text)


def test_lines() -> None:
    assert key_and_value(b"a:b\r\n", None, ":") == (b"a", b"b")
    assert key_and_value(b"ab", "k", ":") == (b"k", b"ab")
    assert key_and_value(b"a:b", None, None) == (None, b"a:b")
    assert parse_headers(["a=1", "b="]) == (("a", b"1"), ("b", b""))
    with pytest.raises(UsageError, match="NAME=VALUE"):
        parse_headers(["a"])
