"""Many seeded power cuts on a loop-mounted ext4; needs root."""

import os
import tempfile
import time
from pathlib import Path

from tests.cluster.power import Volume
from tests.cluster.power_cut import Outcome, one_cut

CUTS = 200


def main(budget_s: float) -> dict[str, object]:
    """200 cuts with fresh seeds, or as many as fit the time; any loss is an AssertionError."""
    if os.geteuid() != 0:
        raise PermissionError("power cuts need root: they mount a file system")
    first = time.time_ns() % 1_000_000_000
    deadline = time.monotonic() + budget_s
    outcomes: list[Outcome] = []
    while len(outcomes) < CUTS and time.monotonic() < deadline:
        with tempfile.TemporaryDirectory() as folder:
            volume = Volume(Path(folder))
            try:
                for _ in range(20):
                    outcomes.append(one_cut(volume, first + len(outcomes)))
            finally:
                volume.close()
    return {
        "first_seed": first,
        "cuts": len(outcomes),
        "records": sum(outcome.appended for outcome in outcomes),
        "flushes": sum(outcome.flushes for outcome in outcomes),
        "cuts_that_lost_a_tail": sum(outcome.found < outcome.appended for outcome in outcomes),
        "durable_records_lost": 0,
    }
