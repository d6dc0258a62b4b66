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


def test_each_question_where_something_is_has_at_most_two_files() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = page.split("\n## Where is ...?\n")[1].split("\n## ")[0].strip().splitlines()[2:]
    links = {row.split("|")[1].strip(): LINK.findall(row) for row in rows}
    answers = {question: [name for name in names if not name.endswith(".md")] for question, names in links.items()}

    assert len(answers) >= 20
    assert {question: files for question, files in answers.items() if len(files) > 2} == {}


FOLDERS = ("broker", "client", "controller", "core", "deploy", "docs", "proto", "testing", "tests")
PATH = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]+)`")
MODULE = re.compile(r"`(?:[\w./-]*/)?(\w+\.py)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_and_modules_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text()
    modules = {path.name for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    paths = [ROOT / path.rstrip("/") for path in PATH.findall(text)]

    assert [path for path in paths if not path.exists() and not path.with_name(f"{path.name}.py").exists()] == []
    assert [name for name in MODULE.findall(text) if name not in modules] == []


def test_each_question_of_the_architecture_page_is_answered_by_at_most_two_modules() -> None:
    table = (ROOT / "docs" / "architecture.md").read_text().partition("## Where is")[2].partition("\n## ")[0]
    questions = [line for line in table.splitlines() if line.endswith(" |") and "?" in line.split("|")[1]]

    assert len(questions) >= 20
    assert [line for line in questions if len(re.findall(r"\]\([^)]+\.py\)", line)) > 2] == []
