"""Ten million mutated frames, and more while the budget lasts, through the cores that strangers reach."""

import secrets
import time

from tests.unit.broker.server.strangers import fuzz_gate

LEAST = 10_000_000
FRAMES = 500_000


def main(budget_s: float) -> dict[str, object]:
    end, frames, seeds, admitted = time.monotonic() + budget_s, 0, 0, 0
    while frames < LEAST or time.monotonic() < end:
        totals = fuzz_gate(FRAMES, secrets.randbelow(2**32))
        frames, seeds, admitted = frames + totals.cases, seeds + 1, admitted + totals.admitted
    return {"frames": frames, "seeds": seeds, "admitted with the secret": admitted}
