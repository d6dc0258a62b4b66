"""What compaction costs: megabytes a second and CPU time per record, beside the floor under it.

The floor is the part that no cleaner can do without: read the segments twice, check every checksum, write
what stays once. Keys repeat so that a tenth of the records survives, or all of them.
"""

import asyncio
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rookery.broker.log.background import Throttle
from rookery.broker.log.cleaning import begin_cleaning, cleaning_plan, put_in_place
from rookery.broker.log.compaction import CompactionPolicy
from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.log.retention import Retention
from rookery.core.config.options import LONG_MAX
from rookery.core.disk import FileDisk
from rookery.core.log import LogConfig, names
from rookery.core.types import TopicPartition
from rookery.core.wire.records import Codec, Record, batches, build_batch, verify

NOON = 1_700_000_000_000
BYTES = 24 << 20
CONFIG = TopicLogConfig(
    log=LogConfig(segment_bytes=8 << 20),
    compact=True,
    retention=Retention(False, -1, -1),
    compaction=CompactionPolicy(0.0, 0, LONG_MAX),
)
CASES = [
    ("100 B records, 1 of 10 stays", 100, 0.1, Codec.NONE),
    ("1 KB records, 1 of 10 stays", 1000, 0.1, Codec.NONE),
    ("1 KB records, all stay", 1000, 1.0, Codec.NONE),
    ("1 KB records, lz4, 1 of 10", 1000, 0.1, Codec.LZ4),
]


def filled(folder: Path, size: int, survivors: float, codec: Codec) -> tuple[PartitionLog, int]:
    """A log of closed segments and how many records it holds."""
    log = PartitionLog.open(FileDisk(), str(folder), TopicPartition("t", 0), replace(CONFIG), now_ms=NOON)
    rng = random.Random(1)
    per_batch = max(1, 16_000 // size)
    total = BYTES // size
    keys = max(1, int(total * survivors))
    count = 0
    while count < total:
        records = [
            Record(i, NOON, b"key-%d" % ((count + i) % keys), rng.randbytes(size // 2) + bytes(size // 2))
            for i in range(per_batch)
        ]
        log.append_as_leader(build_batch(records, codec=codec), 0, NOON)
        count += per_batch
    log.roll(NOON)
    log.segment_log.flush()
    log.advance_high_watermark(log.end_offset)
    return log, count


def timed(work: Callable[[], None]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def floor(log: PartitionLog, survivors: float, scratch: Path) -> float:
    """CPU time to read twice, check and write what stays."""

    def work() -> None:
        with scratch.open("wb") as out:
            for turn in range(2):
                for segment in log.segment_log.segments[:-1]:
                    data = Path(segment.log_path).read_bytes()
                    for pos, header in batches(data):
                        verify(data, pos, header)
                    if turn:
                        out.write(data[: int(len(data) * survivors)])

    return min(timed(work)[1] for _ in range(3))


def clean(log: PartitionLog) -> None:
    found = cleaning_plan(log, NOON)
    if found is None:
        raise RuntimeError("there is nothing to clean")
    job = begin_cleaning(log, found, memory_bytes=128 << 20, throttle=Throttle(1e15), now_ms=NOON)
    job.prepare()
    while (group := job.next_group()) is not None:
        old = put_in_place(log, group, NOON)
        for segment in old or ():
            segment.remove_files(names.DELETED)


async def lags(folder: Path) -> tuple[list[float], list[float]]:
    """How late a timer of 1 ms fires on the loop, without and with the cleaner in its thread."""

    async def watch(done: asyncio.Event) -> list[float]:
        found = []
        while not done.is_set():
            begun = time.perf_counter()
            await asyncio.sleep(0.001)
            found.append(time.perf_counter() - begun - 0.001)
        return sorted(found)

    log, _ = filled(folder / "t-0", 100, 0.1, Codec.NONE)
    idle, busy = asyncio.Event(), asyncio.Event()
    asyncio.get_running_loop().call_later(1.0, idle.set)
    without = await watch(idle)
    watching = asyncio.create_task(watch(busy))
    await asyncio.to_thread(clean, log)
    busy.set()
    return without, await watching


def main() -> None:
    print(
        f"{'':<30}{'MB/s':>7}{'CPU s/GB':>10}{'CPU us/record':>15}{'floor s/GB':>12}{'ratio':>7}{'left':>6}"
    )
    build = Path(__file__).parents[2] / "build"
    build.mkdir(exist_ok=True)
    for name, size, survivors, codec in CASES:
        with tempfile.TemporaryDirectory(dir=build) as folder:
            log, records = filled(Path(folder) / "t-0", size, survivors, codec)
            stored = log.segment_log.size
            least = floor(log, survivors, Path(folder) / "floor")
            wall, cpu = timed(lambda log=log: clean(log))  # type: ignore[misc]
            gigabytes = stored / 1e9
            print(
                f"{name:<30}{stored / 1e6 / wall:>7.0f}{cpu / gigabytes:>10.1f}{cpu / records * 1e6:>15.2f}"
                f"{least / gigabytes:>12.1f}{cpu / least:>7.1f}{log.segment_log.size / stored:>6.0%}"
            )
            log.segment_log.abandon()
    with tempfile.TemporaryDirectory(dir=build) as folder:
        for name, found in zip(("alone", "beside the cleaner"), asyncio.run(lags(Path(folder))), strict=True):
            middle, high = found[len(found) // 2], found[len(found) * 99 // 100]
            print(f"event loop lag, {name}: p50 {middle * 1e3:.2f} ms, p99 {high * 1e3:.2f} ms")
