"""A project of its own uses the testing kit from the built wheel, with other people's clients."""

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.tidy.source import ROOT

SAMPLE = ROOT / "tests" / "sample_project" / "sample"
PAGE = ROOT / "docs" / "testing-your-code.md"
CLIENTS = ("confluent-kafka", "aiokafka", "kafka-python", "faststream[kafka]")
PLUGINS = ("pytest", "pytest-asyncio", "pytest-xdist")
TIMEOUT_S = 300
TESTS = 13
"""Of the sample project."""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an environment that has the wheel and the clients, and nothing of this repository."""
    place = tmp_path_factory.mktemp("sample")
    _run(place, sys.executable, "-m", "build", "--wheel", "--outdir", place, ROOT)
    (wheel,) = place.glob("*.whl")
    venv.create(place / "env", with_pip=True)
    found = place / "env" / "bin" / "python"
    done = _run(place, found, "-m", "pip", "install", "--quiet", wheel, *PLUGINS, *CLIENTS)
    assert done.returncode == 0, done.stderr
    return found


def _run(folder: Path, *command: str | Path) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def _pytest(
    python: Path, tmp_path: Path, *arguments: str | Path, recipes: Sequence[str] = ()
) -> "subprocess.CompletedProcess[str]":
    shutil.copytree(SAMPLE, tmp_path / "sample")
    for number, recipe in enumerate(recipes):
        (tmp_path / "sample" / f"test_recipe_{number}.py").write_text(recipe)
    return _run(tmp_path / "sample", python, "-m", "pytest", "-q", *arguments)


def test_the_plugin_serves_a_project(python: Path, tmp_path: Path) -> None:
    done = _pytest(python, tmp_path)
    assert done.returncode == 0, done.stdout[-4000:]
    assert f"{TESTS} passed" in done.stdout


def test_with_several_workers_and_the_recipes_of_the_page(python: Path, tmp_path: Path) -> None:
    """The tests that the page shows are run as they stand there."""
    shown = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    recipes = [block for block in shown if "def test_" in block]
    assert recipes
    done = _pytest(python, tmp_path, "-n", "2", recipes=recipes)
    assert done.returncode == 0, done.stdout[-4000:]
    assert f"{TESTS + len(recipes)} passed" in done.stdout


def test_a_failing_test_shows_the_timeline(python: Path, tmp_path: Path) -> None:
    """Whoever started the cluster: the plugin, a fixture, the test itself, or a class of unittest."""
    done = _pytest(python, tmp_path, "failing.py", "failing_unittest.py")
    assert done.returncode == 1
    assert "4 failed" in done.stdout
    reports = re.split(r"^_{3,} (.*) _{3,}$", done.stdout, flags=re.MULTILINE)
    shown = dict(zip(reports[1::2], reports[2::2], strict=True))
    assert "rookery timeline" in shown["test_a_failover_that_fails"]
    assert "leader.elected topic=test_a_failover_that_fails" in shown["test_a_failover_that_fails"]
    assert "topic.created topic=in-a-fixture" in shown["test_with_a_fixture_of_its_own"]
    assert "topic.created topic=in-a-block" in shown["test_with_a_block_of_its_own"]
    assert "stop node 1" in shown["Orders.test_it"]


def test_unittest_alone_runs_it_too(python: Path, tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "sample")
    done = _run(tmp_path / "sample", python, "-m", "unittest", "test_unittest", "failing_unittest")
    assert "Ran 4 tests" in done.stderr
    assert "FAILED (failures=1)" in done.stderr
    assert "what happened:" in done.stderr
    assert "stop node 1" in done.stderr


def test_nothing_is_loaded_before_a_fixture_is_used(python: Path, tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text(
        "import sys\n\ndef test_it():\n"
        "    loaded = sorted(name for name in sys.modules if name.startswith('rookery.'))\n"
        "    assert loaded == ['rookery.testing', 'rookery.testing.plugin']\n"
    )
    done = _run(tmp_path, python, "-m", "pytest", "-q", "-p", "no:xdist", tmp_path / "test_nothing.py")
    assert done.returncode == 0, done.stdout


def test_a_cluster_for_other_languages(python: Path, tmp_path: Path) -> None:
    with subprocess.Popen(
        [python, "-m", "rookery.testing", "--nodes", "1", "--set", "num.partitions=3"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        bootstrap = process.stdout.readline().strip()
        assert bootstrap.startswith("127.0.0.1:")
        process.stdin.close()  # as when the parent ends
        assert process.wait(30) == 0
