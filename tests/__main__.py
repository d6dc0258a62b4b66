"""The whole suite: ``make test``. Fast folders on all cores first, then those with real processes, one test at a time.

Given folders or files, it is plain pytest.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.plugin import ADD_ROWS, ORDER

HERE = Path(__file__).parent
REAL = ("cluster", "interop", "containers", "spark")
"""Folders whose tests start processes, measure them, or need the machine for themselves."""


def main(arguments: list[str]) -> int:
    pytest = [sys.executable, "-m", "pytest", *arguments]
    if any(not each.startswith("-") and Path(each.partition("::")[0]).exists() for each in arguments):
        return subprocess.run(pytest, check=False).returncode
    fast = [f"tests/{folder}" for folder in ORDER if folder not in REAL]
    workers = str(os.cpu_count() or 1)
    found = subprocess.run([*pytest, "-n", workers, "--dist", "worksteal", *fast], check=False).returncode
    if found:
        return found
    real = [f"tests/{folder}" for folder in REAL]
    return subprocess.run([*pytest, *real], env={**os.environ, ADD_ROWS: "1"}, check=False).returncode


if __name__ == "__main__":
    os.chdir(HERE.parent)
    sys.exit(main(sys.argv[1:]))
