"""How long a person waits for the command line: `--help`, and `topic list` against a node of this process.

The goals are 80 ms and 200 ms on a quiet machine; CPU time is shown beside, as it says more on a busy one. Byte code is
written, as for anybody who installed it, to a folder of this run.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time

from rookery.testing import Cluster

RUNS = 7


def environment(folder: str) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": folder}


def run(folder: str, *words: str) -> tuple[float, float]:
    """Seconds that passed, and seconds of CPU, of one call."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "rookery.client.cli", *words],
        check=True, capture_output=True, timeout=60, env=environment(folder),
    )  # fmt: skip
    passed = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return passed, after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime


def measure(folder: str, name: str, goal_ms: int, *words: str) -> None:
    run(folder, *words)  # writes the byte code
    found = [run(folder, *words) for _ in range(RUNS)]
    passed, cpu = min(each[0] for each in found), min(each[1] for each in found)
    took = f"{passed * 1000:5.0f} ms, {cpu * 1000:5.0f} ms of CPU"
    print(f"rookery {name:<14} best of {RUNS}: {took} (goal {goal_ms} ms)")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        measure(folder, "--help", 80, "--help")
        with Cluster(nodes=1) as cluster:
            cluster.create_topic("orders")
            for words in ("topic list", "group list", "cluster status"):
                measure(folder, words, 200, *words.split(), "--bootstrap", cluster.bootstrap)


if __name__ == "__main__":
    main()
