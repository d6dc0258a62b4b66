"""Real devices that fail: a full disk, a read-only one and one that is gone take only their own log dir."""

import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from rookery.broker.log.log_dirs import LogDirs
from rookery.broker.log.partition_log import Isolation, PartitionLog
from rookery.core.disk import FileDisk
from rookery.core.errors import KafkaStorageError
from rookery.core.log import LogConfig
from rookery.core.types import TopicPartition
from tests.unit.broker.log.batches import NOW, batch
from tests.unit.broker.log.nodes import DURABLE, log_dirs
from tests.unit.broker.log.volumes import SmallVolume

TOPIC_ID = UUID(int=99)
LARGER = replace(DURABLE, log=LogConfig(segment_bytes=1 << 20))
BIG: list[bytes | None] = [b"x" * 1000] * 50


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[SmallVolume]:
    volume = SmallVolume(tmp_path, 16)
    yield volume
    volume.close()


class Broker:
    """Two dirs, one of them on the volume, a partition with some durable records in each."""

    def __init__(self, volume: SmallVolume, good: Path) -> None:
        self.bad = str(volume.root / "data")
        self.dirs: LogDirs = log_dirs(FileDisk(), [self.bad, str(good)], config=LARGER)
        self.offline: list[str] = []

    async def start(self) -> tuple[PartitionLog, PartitionLog]:
        await self.dirs.start()
        self.dirs.on_offline = lambda log_dir, _: self.offline.append(log_dir.path)
        first = await self.dirs.create(TopicPartition("t", 0), TOPIC_ID)
        second = await self.dirs.create(TopicPartition("t", 1), TOPIC_ID)
        for log in (first, second):
            await self.append(log)
            log.advance_high_watermark(1)
        return first, second

    async def append(self, log: PartitionLog, values: list[bytes | None] | None = None) -> None:
        count = len(values) if values else 1
        log.append_as_leader(batch(count, values=values), 0, NOW)
        waiting = self.dirs.appended(log)
        assert waiting is not None
        await waiting

    async def until_refused(self, log: PartitionLog) -> KafkaStorageError:
        for _ in range(2000):
            try:
                await self.append(log, BIG)
            except KafkaStorageError as error:
                return error
        raise AssertionError("the device took everything")


async def _check_only_one_dir_is_gone(
    broker: Broker, good: PartitionLog, lines: list[logging.LogRecord]
) -> None:
    assert broker.offline == [broker.bad]
    assert [line.getMessage() for line in lines].count("log_dir.offline") == 1
    with pytest.raises(KafkaStorageError, match="offline"):
        broker.dirs.get(TopicPartition("t", 0))
    await broker.append(good)
    good.advance_high_watermark(2)
    assert good.read(0, 10_000, Isolation.HIGH_WATERMARK).next_offset == 2
    await broker.dirs.stop(5)
    assert os.path.exists(os.path.join(os.path.dirname(good.segment_log.path), ".kafka_cleanshutdown"))


@pytest.mark.row(52)
@pytest.mark.invariant("S9")
async def test_a_full_disk(volume: SmallVolume, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(volume, tmp_path / "good")
    bad, good = await broker.start()
    ballast = volume.fill(leave=2 << 20)
    with caplog.at_level(logging.ERROR):
        error = await broker.until_refused(bad)
    assert "No space left" in str(error)
    await _check_only_one_dir_is_gone(broker, good, caplog.records)
    ballast.unlink()
    again = Broker(volume, tmp_path / "good")
    await again.dirs.start()
    log = again.dirs.get(TopicPartition("t", 0))
    assert log.end_offset == bad.end_offset, "whole batches only, and all that were acknowledged"
    await again.append(log)
    await again.dirs.stop(6)


@pytest.mark.row(52)
@pytest.mark.invariant("S8")
async def test_a_device_that_is_gone(
    volume: SmallVolume, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(volume, tmp_path / "good")
    bad, good = await broker.start()
    durable = bad.segment_log.recovery_point
    volume.cut()
    with caplog.at_level(logging.ERROR), pytest.raises(KafkaStorageError):
        await broker.append(bad)
    assert bad.segment_log.recovery_point == durable
    await _check_only_one_dir_is_gone(broker, good, caplog.records)


@pytest.mark.invariant("S4", "S8", "S12")
async def test_what_was_acknowledged_after_a_sync_survives_a_power_cut(
    volume: SmallVolume, tmp_path: Path
) -> None:
    broker = Broker(volume, tmp_path / "good")
    bad, _ = await broker.start()
    values: list[bytes | None] = [b"v" * 1000] * 20
    for _ in range(80):  # through some segments
        await broker.append(bad, values)
    await broker.dirs.save_checkpoints("recovery-point-offset-checkpoint")
    for _ in range(7):
        await broker.append(bad, values)
    acknowledged = bad.end_offset
    for _ in range(3):
        bad.append_as_leader(batch(20, values=values), 0, NOW)
    assert len(bad.segment_log.segments) > 1
    volume.cut()
    with pytest.raises(KafkaStorageError):
        await broker.append(bad)
    await broker.dirs.stop(1)
    bad.segment_log.abandon()
    volume.restore()
    again = Broker(volume, tmp_path / "good")
    await again.dirs.start()
    log = again.dirs.get(TopicPartition("t", 0))
    assert log.end_offset >= acknowledged
    offset = 0
    while offset < acknowledged:
        offset = log.read(offset, 1 << 20, Isolation.LOG_END).next_offset
    await again.dirs.stop(2)


@pytest.mark.row(52)
async def test_a_disk_that_became_read_only(
    volume: SmallVolume, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(volume, tmp_path / "good")
    bad, good = await broker.start()
    volume.make_read_only()
    with caplog.at_level(logging.ERROR):
        await broker.until_refused(bad)
    await _check_only_one_dir_is_gone(broker, good, caplog.records)
