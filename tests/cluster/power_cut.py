"""A seeded life of a log on a volume that loses power, and what must be true when it is opened again."""

import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from rookery.core.disk import FileDisk
from rookery.core.log import Log, LogConfig, LogDirFailed
from rookery.core.log.checkpoints import RECOVERY_POINTS, read_offsets, write_offsets
from rookery.core.log.ownership import take_marker, write_marker
from rookery.core.types import TopicPartition
from tests.cluster.power import Volume
from tests.unit.core.log.sample import batch, everything

PARTITION = TopicPartition("orders", 0)


@dataclass
class Life:
    """What the writer did, so far as it knows."""

    values: list[bytes] = field(default_factory=list)
    before_truncation: list[list[bytes]] = field(default_factory=list)  # not durably gone yet
    durable: int = 0
    flushes: int = 0
    closed: bool = False
    reached: threading.Event = field(default_factory=threading.Event)


@dataclass
class Outcome:
    appended: int
    flushed: int
    found: int
    flushes: int
    clean: bool


def one_cut(volume: Volume, seed: int) -> Outcome:
    """Write until the power goes, restore, recover and check. Raises AssertionError on any loss."""
    rng = random.Random(seed)
    root = volume.root / f"seed-{seed}"
    segment_bytes, interval = rng.choice([2_000, 20_000, 200_000]), rng.choice([0, 500, 4096])
    config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=interval)
    life = Life()
    plug = threading.Thread(target=_pull, args=(volume, life, rng.random() / 500))
    plug.start()
    try:
        _live(volume, root, config, rng, life)
    except (OSError, LogDirFailed):
        pass  # the power is gone
    finally:
        life.reached.set()
        plug.join()
    volume.restore()
    return _checked(root, config, life)


def _pull(volume: Volume, life: Life, delay: float) -> None:
    """Cut when the writer has come far enough, a moment later, in the middle of whatever it does then."""
    life.reached.wait(60)
    time.sleep(delay)
    volume.cut()


def _live(volume: Volume, root: Path, config: LogConfig, rng: random.Random, life: Life) -> None:
    disk = FileDisk()
    disk.mkdir(str(root))
    disk.sync_dir(str(root.parent))
    log = Log.open(disk, f"{root}/{PARTITION}", config, recovery_point=0)
    try:
        _write(volume, log, disk, root, rng, life)
    finally:
        log.abandon()


def _write(volume: Volume, log: Log, disk: FileDisk, root: Path, rng: random.Random, life: Life) -> None:
    points = f"{root}/{RECOVERY_POINTS}"
    flush_often = rng.choice([0.01, 0.1, 0.5])
    end_in_order = rng.random() < 0.2
    cut_at = rng.randint(5, 120)
    for number in range(100_000):
        if number == cut_at:
            life.reached.set()
        value = b"%d-" % number + rng.randbytes(rng.choice([0, 50, 1500]))
        life.values.append(value)
        log.append_as_leader(batch([value]), 1 + log.end_offset // 50, 0)
        if rng.random() < flush_often:
            log.flush()
            if volume.dying:
                return
            life.durable, life.flushes = log.end_offset, life.flushes + 1
            life.before_truncation.clear()
            write_offsets(disk, points, {PARTITION: log.recovery_point})
        if rng.random() < 0.02:
            _truncate(log, disk, points, rng, life)
        if end_in_order and number > 40:
            log.close()
            write_marker(disk, str(root), 7)
            if not volume.dying:
                life.durable, life.closed = log.end_offset, True
            return


def _truncate(log: Log, disk: FileDisk, points: str, rng: random.Random, life: Life) -> None:
    offset = rng.randint(max(0, log.end_offset - 40), log.end_offset)
    if offset < log.recovery_point:
        life.durable = min(life.durable, offset)
        write_offsets(disk, points, {PARTITION: offset})
    life.before_truncation.append(list(life.values))
    del life.values[offset:]
    log.truncate_to(offset)


def _checked(root: Path, config: LogConfig, life: Life) -> Outcome:
    disk = FileDisk()
    if not disk.exists(str(root)):
        assert life.durable == 0
        return Outcome(len(life.values), 0, 0, 0, False)
    point = read_offsets(disk, f"{root}/{RECOVERY_POINTS}").get(PARTITION, 0)
    marker = take_marker(disk, str(root))
    assert marker == 7 or not life.closed, "the marker was written and is gone"
    log = Log.open(disk, f"{root}/{PARTITION}", config, clean=marker is not None, recovery_point=point)
    found = [record.value or b"" for record in everything(log)]
    possible = [life.values, *life.before_truncation]
    assert len(found) >= life.durable, f"{life.durable} records were durable, {len(found)} are left"
    assert any(found == values[: len(found)] for values in possible), "the log is no prefix of what was written"
    assert [log.epochs.epoch_at(offset) for offset in range(len(found))] == [1 + o // 50 for o in range(len(found))]
    log.append_as_leader(batch([b"after"]), 10_000, 0)
    log.close()
    again = Log.open(disk, f"{root}/{PARTITION}", config, clean=True, recovery_point=log.end_offset)
    assert [record.value for record in everything(again)] == [*found, b"after"]
    again.abandon()
    return Outcome(len(life.values), life.durable, len(found), life.flushes, marker is not None)
