"""docs/performance.md: figures can be measured again, and it says where Rookery loses."""

import re
from pathlib import Path

import pytest

from tests.bench.__main__ import names

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"


@pytest.mark.row(51)
def test_losses_are_published() -> None:
    text = PAGE.read_text()
    losses = text.split("## Where we lose")[1].split("\n## ")[0]
    assert losses.count("\n- ") >= 3
    assert "**MISSED**" in text, "goals that are missed are marked"


def test_every_command_is_there_and_every_section_of_figures_names_one() -> None:
    text = PAGE.read_text()
    commands = {name for words in re.findall(r'NAMES="?([a-z_ ]+)', text) for name in words.split()}
    assert commands <= set(names())
    sections = [each for each in text.split("\n## ")[1:] if "\n|" in each]
    assert sections
    for section in sections:
        assert "make bench NAMES=" in section, section.splitlines()[0]


def test_every_table_has_its_date() -> None:
    for section in PAGE.read_text().split("\n## ")[1:]:
        if "\n|" in section:
            assert re.search(r"20\d\d-\d\d-\d\d", section), section.splitlines()[0]
