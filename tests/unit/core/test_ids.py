"""Ids: written as Kafka writes them, and fit for a command line."""

from uuid import UUID

import pytest

from rookery.core import ids


def test_the_text_is_kafkas() -> None:
    assert ids.id_text(UUID(int=0)) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert ids.id_text(UUID(int=1)) == "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.mark.row(78)
def test_none_looks_like_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """`rookery quorum add-voter` and its like take the id of a folder as a word."""
    dash, good = UUID(bytes=b"\xf8" * 16), UUID(bytes=b"\x01" * 16)
    assert ids.id_text(dash).startswith("-")
    made = iter([dash, dash, good])
    monkeypatch.setattr(ids, "uuid4", lambda: next(made))
    assert ids.new_id() == good
