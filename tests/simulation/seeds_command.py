"""The command line of a simulator: runs seeds, prints a line for each, or everything that happened with ``-v``."""

import sys
import time
from collections.abc import Callable
from typing import Any

from tests.simulation.controller_rules import Violation


def raise_inner(error: BaseException | None) -> None:
    """A violation that was found within a task of the product."""
    if isinstance(error, Violation):
        raise error
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            raise_inner(each)


def main(simulation_of: Callable[[int], Any], arguments: list[str]) -> None:
    """`arguments` are seeds and ranges of them (``1..50``)."""
    verbose = "-v" in arguments
    seeds: list[int] = []
    for text in arguments:
        first, dash, last = text.partition("..")
        if first.isdecimal():
            seeds += range(int(first), int(last) + 1) if dash else [int(first)]
    failed = 0
    for seed in seeds:
        simulation = simulation_of(seed)
        if verbose:
            print(simulation.swarm)
            simulation.world.tell = print
        started = time.process_time()
        try:
            result = simulation.run()
        except Violation as violation:
            failed += 1
            print(f"VIOLATION {violation}", flush=True)
            if verbose:
                raise
            continue
        took = time.process_time() - started
        speed = f"{result.simulated_s:.1f} s in {took:.1f} s, {result.events} events"
        print(f"{seed}: {result.trace} {speed}, {result.counts}", flush=True)
    sys.exit(1 if failed else 0)
