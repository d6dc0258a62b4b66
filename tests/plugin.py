"""Test order, and the count of product rows and invariants that have a passing test.

Fast folders run first. A test marked ``row(34)`` or ``invariant("S1")`` counts for that row or id when it
passes; the result of a run is written to build/rows.json, which ``make rows`` reads.
"""

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Spark's Java is started by a fork of this process. With gRPC's support for forks, the child's copy of gRPC polls
# descriptors that are being closed, and aborts now and then. gRPC reads this when it is imported.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

ROOT = Path(__file__).resolve().parent.parent
NEW_EXAMPLES = "ROOKERY_TESTS_NEW_EXAMPLES"
RESULT = ROOT / "build" / "rows.json"
ORDER = ("tidy", "unit", "golden", "simulation", "cluster", "interop", "containers", "spark")


def _folder_rank(item: pytest.Item) -> int:
    folder = item.path.relative_to(ROOT / "tests").parts[0]
    return ORDER.index(folder) if folder in ORDER else len(ORDER)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_folder_rank)


class RowCount:
    """Which rows and invariants were shown by a passing test, and which by a failing one."""

    def __init__(self) -> None:
        self.shown: dict[str, set[str]] = {"row": set(), "invariant": set()}
        self.failed: dict[str, set[str]] = {"row": set(), "invariant": set()}
        self._marks: dict[str, list[tuple[str, str]]] = {}

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._marks[item.nodeid] = [
            (kind, str(value))
            for kind in self.shown
            for mark in item.iter_markers(kind)
            for value in mark.args
        ]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.failed:
            into = self.shown if report.passed else self.failed
            for kind, value in self._marks.get(report.nodeid, []) if not report.skipped else []:
                into[kind].add(value)

    def pytest_sessionfinish(self) -> None:
        RESULT.parent.mkdir(exist_ok=True)
        result = {
            kind: {"shown": sorted(self.shown[kind] - self.failed[kind]), "failed": sorted(self.failed[kind])}
            for kind in self.shown
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
    config.pluginmanager.register(RowCount(), "row-count")
