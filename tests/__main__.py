"""The whole suite: ``make test``. Fast folders on all cores first; then tests with clusters, clients and Spark, two
files at a time, since they mostly wait; then those that are marked `alone`, one at a time.

Given folders or files, it is plain pytest.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.plugin import ADD_ROWS, ORDER

HERE = Path(__file__).parent
WAITING = ("interop", "spark", "cluster", "containers")
"""Folders whose tests start processes and wait for them; a file of tests shares one cluster."""
AT_A_TIME = 2


def main(arguments: list[str]) -> int:
    pytest = [sys.executable, "-m", "pytest", *arguments]
    if any(not each.startswith("-") and Path(each.partition("::")[0]).exists() for each in arguments):
        return subprocess.run(pytest, check=False).returncode
    fast = tuple(folder for folder in ORDER if folder not in WAITING)
    parts: tuple[tuple[list[str], tuple[str, ...]], ...] = (
        (["-n", str(os.cpu_count() or 1), "--dist", "worksteal"], fast),
        (["-n", str(AT_A_TIME), "--dist", "loadfile", "-m", "not alone"], WAITING),
        (["-m", "alone"], WAITING),
    )
    environment = dict(os.environ)
    for options, folders in parts:
        words = [*pytest, *options, *(f"tests/{folder}" for folder in folders)]
        found = subprocess.run(words, env=environment, check=False).returncode
        if found:
            return found
        environment[ADD_ROWS] = "1"
    return 0


if __name__ == "__main__":
    os.chdir(HERE.parent)
    sys.exit(main(sys.argv[1:]))
