"""Test order, and the count of product rows, invariants and attacks that have a passing test.

Fast folders run first. A test marked ``row(34)``, ``invariant("S1")`` or ``attack(5)`` counts for that row or id
when it passes; the result of a run is written to build/rows.json, which ``make rows`` reads. Marks travel with the
reports, because tests may run in several processes.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

# Spark's Java is started by a fork of this process. With gRPC's support for forks, the child's copy of gRPC polls
# descriptors that are being closed, and aborts now and then. gRPC reads this when it is imported.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

ROOT = Path(__file__).resolve().parent.parent
NEW_EXAMPLES = "ROOKERY_TESTS_NEW_EXAMPLES"
ADD_ROWS = "ROOKERY_TESTS_ADD_ROWS"
RESULT = ROOT / "build" / "rows.json"
KINDS = ("row", "invariant", "attack")
MARKS = "rows and invariants"
SPARK = "tests/spark/"
ORDER = ("tidy", "unit", "golden", "simulation", "cluster", "interop", "containers", "spark")


def _folder_rank(item: pytest.Item) -> int:
    folder = item.path.relative_to(ROOT / "tests").parts[0]
    return ORDER.index(folder) if folder in ORDER else len(ORDER)


class ByCluster(LoadFileScheduling):  # type: ignore[misc]
    """Spreads files over workers: the tests of a file share a cluster, and all of Spark's one session."""

    def _split_scope(self, nodeid: str) -> str:
        return SPARK if nodeid.startswith(SPARK) else super()._split_scope(nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByCluster | None:
    return ByCluster(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_folder_rank)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    found = [[kind, str(value)] for kind in KINDS for mark in item.iter_markers(kind) for value in mark.args]
    item.user_properties.append((MARKS, json.dumps(found)))


class RowCount:
    """Which rows and invariants were shown by a passing test, and which by a failing one."""

    def __init__(self, *, add: bool) -> None:
        """`add` to what an earlier run of the same suite found."""
        self.shown: dict[str, set[str]] = {kind: set() for kind in KINDS}
        self.failed: dict[str, set[str]] = {kind: set() for kind in KINDS}
        if add and RESULT.exists():
            for kind, found in json.loads(RESULT.read_text()).items():
                self.shown[kind].update(found["shown"])
                self.failed[kind].update(found["failed"])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped or not (report.when == "call" or report.failed):
            return
        into = self.shown if report.passed else self.failed
        for name, found in report.user_properties:
            if name == MARKS:
                for kind, value in json.loads(str(found)):
                    into[kind].add(value)

    def pytest_sessionfinish(self) -> None:
        RESULT.parent.mkdir(exist_ok=True)
        result = {
            kind: {"shown": sorted(self.shown[kind] - self.failed[kind]), "failed": sorted(self.failed[kind])}
            for kind in KINDS
        }
        RESULT.write_text(json.dumps(result, indent=1))


def pytest_configure(config: pytest.Config) -> None:
    # A machine may stand still for a moment: how long an example took proves nothing. The examples of a run are those
    # of every run of the same code; tests.soak.soak_examples looks for others.
    settings.register_profile(
        "any-machine",
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=NEW_EXAMPLES not in os.environ,
    )
    settings.load_profile("any-machine")
    if not hasattr(config, "workerinput"):  # workers report to the process that started them
        config.pluginmanager.register(RowCount(add=ADD_ROWS in os.environ), "row-count")
