from pathlib import Path

import pytest

from tests.tidy.pages import PAGES


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_generated_pages_are_up_to_date(path: Path) -> None:
    assert path.read_text() == PAGES[path](), "run `make docs`"
