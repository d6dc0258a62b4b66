"""Clusters of the testing kit started and stopped in one process: nothing may grow."""

import time

from tests.unit.testing.leftovers import left, memory_mb, one

SETTLED = 20
CLUSTERS = 200
"""At least so many, whatever the budget."""
GROWTH_MB = 10.0


def main(budget_s: float) -> dict[str, object]:
    end = time.monotonic() + budget_s
    clusters, settled_mb, settled = 0, 0.0, left()
    while clusters < CLUSTERS or time.monotonic() < end:
        one()
        clusters += 1
        if clusters < SETTLED:
            continue
        found = left()
        if clusters == SETTLED:
            settled, settled_mb = found, memory_mb()
        assert found == settled, f"after {clusters} clusters {found}, after {SETTLED} {settled}"
        grown = memory_mb() - settled_mb
        assert grown < GROWTH_MB, f"after {clusters} clusters {grown:.1f} MB more than after {SETTLED}"
    return {
        "clusters": clusters,
        "threads": settled.threads,
        "files": settled.files,
        "tasks": settled.tasks,
        "mb": round(memory_mb(), 1),
        "grown_mb": round(memory_mb() - settled_mb, 1),
    }
