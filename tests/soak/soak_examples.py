"""Looks for examples that the property tests of the unit suite have not had yet: an ordinary run has the same ones
every time. What Hypothesis finds it keeps in .hypothesis, and prints with the failure."""

import os
import subprocess
import sys
import time

from tests.plugin import NEW_EXAMPLES, ROOT

PROPERTIES = "from hypothesis import"
"""What a file with property tests says."""


def main(budget_s: float) -> dict[str, object]:
    end = time.monotonic() + budget_s
    files = [str(path) for path in sorted(ROOT.glob("tests/**/test_*.py")) if PROPERTIES in path.read_text()]
    rounds = 0
    while not rounds or time.monotonic() < end:
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *files],
            cwd=ROOT,
            env={**os.environ, NEW_EXAMPLES: "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode:
            raise AssertionError(run.stdout[-20_000:])
        rounds += 1
    return {"files": len(files), "rounds": rounds}
