"""The tree holds what the product needs, and speaks of nothing else."""

import re
import subprocess

from tests.tidy.source import ROOT, files

PAGES = {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md"}
FILES = {".dockerignore", ".gitignore", "Makefile", "pyproject.toml", *PAGES}
FOLDERS = {".ci", "broker", "client", "controller", "core", "deploy", "docs", "proto", "src", "testing", "tests"}
LINES_MAX = 600
MACHINE_PATHS = re.compile(r"(?<![\w.])/(work|root|home/\w+)/")


def tracked() -> list[str]:
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return listing.stdout.splitlines()


def test_only_known_entries_at_the_top() -> None:
    assert {name.split("/")[0] for name in tracked()} - FILES - FOLDERS == set()


def test_no_machines_paths() -> None:
    wrong = []
    for name in tracked():
        path = ROOT / name
        if (
            path.is_file()
            and not path.is_symlink()
            and path.suffix in (".py", ".md", ".toml", ".proto", ".java", "")
        ):
            found = MACHINE_PATHS.search(path.read_text(errors="replace"))
            if found and name != "tests/tidy/test_tree.py":
                wrong.append(f"{name}: {found.group()}")
    assert wrong == []


def test_the_package_is_made_of_links_to_the_top_level_folders() -> None:
    package = ROOT / "src" / "rookery"
    for folder in ("core", "proto", "broker", "controller", "client", "testing"):
        assert (package / folder).is_symlink()
        assert (package / folder).resolve() == ROOT / folder


def test_no_module_is_too_long() -> None:
    long = [f"{path}: {count}" for path in files() if (count := (ROOT / path).read_text().count("\n")) > LINES_MAX]
    assert long == [], f"more than {LINES_MAX} lines: one idea a module"
