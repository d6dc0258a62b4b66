"""Mutated frames against a broker in this process, for as long as the budget lasts."""

import asyncio
import secrets
import time

from tests.unit.broker.server.fuzz import fuzz

FRAMES = 50_000


def main(budget_s: float) -> dict[str, object]:
    end, frames, closed, seeds = time.monotonic() + budget_s, 0, 0, []
    while time.monotonic() < end:
        seed = secrets.randbelow(2**32)
        seeds.append(seed)
        totals = asyncio.run(fuzz(FRAMES, seed))
        frames += FRAMES
        closed += int(str(totals["closed"]))
    return {"frames": frames, "connections closed": closed, "seeds": len(seeds)}
