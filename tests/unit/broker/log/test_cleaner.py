"""The cleaner as a service: on a real disk, in its thread, while the log is used."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from rookery.broker.log.background import CancelledWork, Throttle
from rookery.broker.log.cleaner import Cleaner, CleanerOptions
from rookery.broker.log.compaction import CompactionPolicy
from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.housekeeper import Housekeeper, HousekeepingOptions
from rookery.broker.log.log_dirs import LogDirs
from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.log.retention import Retention
from rookery.core.config import node
from rookery.core.config.options import LONG_MAX, Settings
from rookery.core.disk import FileDisk
from rookery.core.log import LogConfig, names
from rookery.core.testing.clock import ManualClock
from rookery.core.types import TopicPartition
from tests.unit.broker.log.batches import NOW, batch
from tests.unit.broker.log.nodes import log_dirs
from tests.unit.broker.log.table import table

TP = TopicPartition("users", 0)
COMPACT = TopicLogConfig(
    log=LogConfig(segment_bytes=20_000),
    compact=True,
    retention=Retention(False, -1, -1),
    compaction=CompactionPolicy(0.5, 0, LONG_MAX),
    file_delete_delay_ms=0,
)


class Setup:
    def __init__(self, dirs: LogDirs, log: PartitionLog, cleaner: Cleaner, keeper: Housekeeper) -> None:
        self.dirs, self.log, self.cleaner, self.keeper = dirs, log, cleaner, keeper

    def fill(self, count: int, keys: int = 10) -> None:
        for n in range(count):
            key = b"key-%d" % (n % keys)
            self.log.append_as_leader(batch(1, keys=[key], values=[b"%d" % n * 20]), 0, NOW)
        self.log.advance_high_watermark(self.log.end_offset)
        self.dirs.appended(self.log)


@asynccontextmanager
async def running(path: Path, config: TopicLogConfig = COMPACT, **options: float) -> AsyncIterator[Setup]:
    clock = ManualClock()
    dirs = log_dirs(FileDisk(), [str(path)], config=config, clock=clock)
    await dirs.start()
    log = dirs.partitions.get(TP) or await dirs.create(TP, UUID(int=1))
    keeper = Housekeeper(dirs, clock, HousekeepingOptions())
    rate = options.get("rate", 1e12)
    cleaner = Cleaner(dirs, keeper, clock, CleanerOptions(5, 1 << 20, rate))
    serving = asyncio.create_task(cleaner.serve())
    try:
        yield Setup(dirs, log, cleaner, keeper)
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await cleaner.stop()
        await dirs.stop(1)


async def until_cleaned(setup: Setup, offset: int) -> None:
    async with asyncio.timeout(30):
        while (setup.log.clean_offset or 0) < offset:
            await asyncio.sleep(0.005)


@pytest.mark.row(44)
async def test_dirty_logs_are_cleaned_by_themselves(tmp_path: Path) -> None:
    async with running(tmp_path) as setup:
        setup.fill(1000)
        before, size, active = table(setup.log), setup.log.segment_log.size, setup.log.segment_log.active.base_offset
        await until_cleaned(setup, active)
        assert table(setup.log) == before
        assert setup.log.segment_log.size < size / 2
        await setup.keeper.tick()
        assert not list(tmp_path.glob("users-0/*.deleted"))
        setup.fill(1000)
        await until_cleaned(setup, setup.log.segment_log.active.base_offset)
        await setup.dirs.save_checkpoints("cleaner-offset-checkpoint")
        checkpoint = (tmp_path / "cleaner-offset-checkpoint").read_text()
        assert f"users 0 {setup.log.clean_offset}" in checkpoint
        before, clean_offset = table(setup.log), setup.log.clean_offset
    async with running(tmp_path) as setup:
        assert setup.log.clean_offset == clean_offset
        assert table(setup.log) == before


async def test_a_clean_enough_log_is_left_alone(tmp_path: Path) -> None:
    never = replace(COMPACT, compaction=CompactionPolicy(1.0, 0, LONG_MAX))
    async with running(tmp_path, never) as setup:
        setup.fill(300)
        assert await setup.cleaner.dirtiest() is None


@pytest.mark.parametrize("gone", [False, True])
async def test_a_damaged_log_is_reported_and_left_uncleaned_and_nothing_else(tmp_path: Path, gone: bool) -> None:
    async with running(tmp_path) as setup:
        other = await setup.dirs.create(TopicPartition("users", 1), UUID(int=1))
        setup.fill(200)
        first = Path(setup.log.segment_log.segments[0].log_path)
        content = bytearray(first.read_bytes())
        content[150] ^= 1
        first.write_bytes(content)
        if gone:
            first.unlink()
        setup.fill(400)
        async with asyncio.timeout(30):
            while setup.log.uncleanable is None:
                await asyncio.sleep(0.005)
        assert setup.dirs.offline == {}
        assert list(setup.dirs.damaged) == [setup.log.partition]
        assert not list(tmp_path.glob(f"users-0/*{names.CLEANED}"))
        for n in range(600):
            other.append_as_leader(batch(1, keys=[b"k"], values=[b"%d" % n * 20]), 0, NOW)
        other.advance_high_watermark(other.end_offset)
        async with asyncio.timeout(30):
            while other.clean_offset is None:
                await asyncio.sleep(0.005)


async def test_the_loop_stays_free_while_a_log_is_cleaned_slowly(tmp_path: Path) -> None:
    async with running(tmp_path, rate=2_000.0) as setup:
        setup.fill(1000)
        async with asyncio.timeout(10):
            while not any(t.name.startswith("log-cleaner") for t in threading.enumerate()):
                await asyncio.sleep(0.005)
        for n in range(50):
            setup.log.append_as_leader(batch(1, keys=[b"more"], values=[b"%d" % n]), 0, NOW)
            await asyncio.sleep(0)
        assert setup.log.clean_offset is None, "still waiting for its share of the disk"


def test_the_throttle_keeps_the_rate_and_can_be_called_off() -> None:
    now = [0.0]
    throttle = Throttle(1000, lambda: now[0])
    waited: list[float] = []
    revoked = threading.Event()
    revoked.wait = lambda seconds: waited.append(seconds) or False  # type: ignore
    throttle.took(500, revoked)
    throttle.took(250, revoked)
    assert waited == [0.5, 0.75]
    now[0] = 10.0  # a long pause saves up one second, not ten
    throttle.took(1000, revoked)
    assert waited == [0.5, 0.75]
    throttle.took(1000, revoked)
    assert waited[-1] == 1.0
    revoked.set()
    with pytest.raises(CancelledWork):
        throttle.took(1, revoked)


def test_options_come_from_the_node() -> None:
    settings = Settings(node.TABLE, {}).having({"log.cleaner.backoff.ms": "7"})
    assert CleanerOptions.of(settings).backoff_ms == 7
