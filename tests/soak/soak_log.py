"""Long random histories of partitions, each from a seed: against the naive model, and through crashes in
compaction."""

import random
import time
from collections.abc import Callable

from rookery.core.testing.disk import PowerCut
from tests.unit.broker.log.model import FOLDER, Driver
from tests.unit.broker.log.table import table

STEPS = 120
CRASH_STEPS = 40


def main(budget_s: float) -> dict[str, object]:
    """Half of the time for histories, half for crashes; raises with the seed that failed."""
    begun = time.monotonic()
    first = random.SystemRandom().randrange(2**40)
    histories = 0
    while time.monotonic() - begun < budget_s / 2:
        seed = first + histories
        _told("history", _history, seed)
        histories += 1
    crashes = 0
    while time.monotonic() - begun < budget_s:
        seed = first + crashes
        _told("crash", _crash, seed)
        crashes += 1
    return {"first_seed": first, "histories": histories, "steps": histories * STEPS, "crashes": crashes}


def _history(seed: int) -> None:
    Driver(seed, compact=seed % 2 == 0).run(STEPS)


def _told(what: str, work: Callable[[int], None], seed: int) -> None:
    try:
        work(seed)
    except Exception as error:
        raise AssertionError(f"{what} with seed {seed}: {type(error).__name__}: {error}") from error


def _crash(seed: int) -> None:
    """A random history, then a power cut or a kill somewhere in a pass of the cleaner."""
    rng = random.Random(seed)
    driver = Driver(seed, compact=True)
    driver.run(CRASH_STEPS)
    driver.log.roll(driver.now)
    driver.log.advance_high_watermark(driver.model.end)
    driver.model.watermark = driver.model.end
    driver.log.segment_log.flush()
    before, end, point = table(driver.log), driver.log.end_offset, driver.log.segment_log.recovery_point
    driver.disk.cut_after(rng.randrange(80))
    try:
        driver.clean()
    except (PowerCut, OSError):
        pass
    except Exception as error:
        if not isinstance(error.__cause__, PowerCut | OSError):
            raise
    if rng.random() < 0.7:
        driver.disk.power_cut()
    else:
        driver.disk.restart()
    driver.log = driver.reopen(recovery_point=point)
    if (driver.log.end_offset, table(driver.log)) != (end, before):
        raise AssertionError(f"{FOLDER} changed: {end} -> {driver.log.end_offset}")
    driver.run(CRASH_STEPS)
