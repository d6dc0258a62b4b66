import re
from pathlib import Path

import pytest

from tests.tidy.source import ROOT

PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")]
LINK = re.compile(r"\]\(([^)#\s]+)")
FUNCTION = re.compile(r"\]\(([^)#\s]+\.py)\): `(\w+)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_to_files_that_exist(page: Path) -> None:
    targets = [target for target in LINK.findall(page.read_text()) if "://" not in target]

    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_functions_named_beside_a_file_are_in_it(page: Path) -> None:
    named = FUNCTION.findall(page.read_text())

    assert [name for path, name in named if f"def {name}(" not in (page.parent / path).read_text()] == []
