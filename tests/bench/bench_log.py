"""What the log costs: appends, reads, recovery, lookups and ten thousand idle partitions.

Each figure stands beside the floor under it, measured in turns in the same run: the checksum and the one system
call without which the work cannot be done. CPU time is what counts; page-cache memory that is touched for the
first time is dear on virtual machines, so every round reuses the files of the last one.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from crc32c import crc32c

from rookery.core.disk import FileDisk
from rookery.core.log import Log, LogConfig
from rookery.core.log.indexes import OffsetIndex
from rookery.core.wire.batch import CRC_FROM, stamp
from rookery.core.wire.records import Record, build_batch, validate_produce_batch

ROUNDS = 7
ROUND_BYTES = 24 << 20
NOON = 1_700_000_000_000
SIZES = {"1 record": (1, 100), "16 KB": (16, 960), "1 MB": (1000, 1000)}
MAX_BATCH = 2 << 20
PARTITIONS = 10_000


def sample_batch(name: str) -> bytearray:
    records, size = SIZES[name]
    rng = random.Random(1)
    return build_batch([Record(i, NOON + i, None, rng.randbytes(size)) for i in range(records)])


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder on the disk that the working tree is on."""
    with tempfile.TemporaryDirectory(dir=Path(__file__).parents[2] / "build") as folder:
        yield Path(folder)


def cpu(work: Callable[[], None]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def appends(folder: Path) -> None:
    print(f"{'append':<10}{'CPU µs':>10}{'floor µs':>10}{'ratio':>7}{'CPU ms/MB':>11}{'MB/cpu-s':>10}")
    for name in SIZES:
        batch = sample_batch(name)
        count = min(20_000, ROUND_BYTES // len(batch))
        log = Log.open(FileDisk(), str(folder / f"append-{len(batch)}"), LogConfig(), recovery_point=0)
        fd = os.open(folder / "floor", os.O_RDWR | os.O_APPEND | os.O_CREAT)
        view = memoryview(batch)

        def ours(log: Log = log, batch: bytearray = batch, count: int = count) -> None:
            for _ in range(count):
                stamp(batch, 0, 0, -1)
                log.append_as_leader(batch, 1, NOON, [(0, validate_produce_batch(batch, MAX_BATCH))])

        def floor(fd: int = fd, view: memoryview = view, count: int = count) -> None:
            for _ in range(count):
                crc32c(view[CRC_FROM:])
                os.write(fd, view)

        taken: dict[str, list[float]] = {"ours": [], "floor": []}
        for _ in range(ROUNDS):
            taken["floor"].append(cpu(floor))
            os.ftruncate(fd, 0)
            taken["ours"].append(cpu(ours))
            log.truncate_fully_and_start_at(0)
        mine, least = (median(taken[who][1:]) / count * 1e6 for who in ("ours", "floor"))
        per_mb = mine / len(batch) * 1e3
        print(f"{name:<10}{mine:>10.2f}{least:>10.2f}{mine / least:>7.2f}{per_mb:>11.3f}{1e3 / per_mb:>10.0f}")
        os.close(fd)
        log.abandon()


def reads(folder: Path) -> None:
    print(f"\n{'read of':<10}{'up to':>8}{'CPU µs':>10}{'pread µs':>10}{'ratio':>7}{'CPU ms/MB':>11}{'MB/cpu-s':>10}")
    for name in SIZES:
        batch = sample_batch(name)
        log = Log.open(FileDisk(), str(folder / f"read-{len(batch)}"), LogConfig(), recovery_point=0)
        for _ in range(min(40_000, ROUND_BYTES // len(batch))):
            log.append_as_leader(batch, 1, NOON)
        for limit in (64 << 10, 1 << 20):
            _sequential(name, log, limit)
        log.abandon()


def _sequential(name: str, log: Log, limit: int) -> None:
    sizes: list[int] = []

    def ours() -> None:
        sizes.clear()
        offset = 0
        while offset < log.end_offset:
            got = log.read(offset, limit)
            sizes.append(len(got.data))
            offset = got.next_offset

    def floor() -> None:
        position, fd = 0, log.active.file.fileno()
        for size in sizes:
            os.pread(fd, size, position)
            position += size

    ours()
    rounds = [(cpu(ours), cpu(floor)) for _ in range(ROUNDS)]
    mine, least = (median(times) / len(sizes) * 1e6 for times in zip(*rounds, strict=True))
    per_mb = mine * len(sizes) / sum(sizes) * 1e3
    print(
        f"{name:<10}{limit >> 10:>5} KB{mine:>10.1f}{least:>10.1f}{mine / least:>7.2f}{per_mb:>11.3f}"
        f"{1e3 / per_mb:>10.0f}"
    )


def recovery(folder: Path) -> None:
    print(f"\n{'recovery':<10}{'MB':>6}{'MB/s':>8}{'MB/cpu-s':>10}{'crc only':>10}{'batches/s':>11}")
    for name in SIZES:
        batch = sample_batch(name)
        path = str(folder / f"recover-{len(batch)}")
        count = min(100_000, (256 << 20) // len(batch))
        log = Log.open(FileDisk(), path, LogConfig(), recovery_point=0)
        for _ in range(count):
            log.append_as_leader(batch, 1, NOON)
        size = log.size
        log.abandon()
        content = bytes(min(size, 64 << 20))
        results = []
        for _ in range(3):
            wall, used = time.perf_counter(), time.process_time()
            log = Log.open(FileDisk(), path, LogConfig(), recovery_point=0)
            results.append((time.perf_counter() - wall, time.process_time() - used))
            log.abandon()
        wall, used = (min(times) for times in zip(*results, strict=True))
        begun = time.process_time()
        crc32c(content)
        alone = len(content) / (time.process_time() - begun) / 1e6
        print(
            f"{name:<10}{size / 1e6:>6.0f}{size / wall / 1e6:>8.0f}{size / used / 1e6:>10.0f}{alone:>10.0f}"
            f"{count / wall:>11.0f}"
        )


def lookups(folder: Path) -> None:
    index = OffsetIndex(0)
    for entry in range(1 << 18):
        index.append(entry * 40 + 39, entry * 4096)
    rng = random.Random(2)
    offsets = [rng.randrange(40 << 18) for _ in range(20_000)]

    def look_up() -> None:
        for offset in offsets:
            index.before(offset)

    log = Log.open(FileDisk(), str(folder / "lookup"), LogConfig(), recovery_point=0)
    batch = sample_batch("1 record")
    for _ in range(100_000):
        log.append_as_leader(batch, 1, NOON)
    places = [rng.randrange(100_000) for _ in range(5_000)]

    def read() -> None:
        for offset in places:
            log.read(offset, 1)

    best = min(cpu(look_up) for _ in range(ROUNDS)) / len(offsets) * 1e6
    print(f"\nlookup in an index of {len(index)} entries: {best:.2f} µs")
    best = min(cpu(read) for _ in range(ROUNDS)) / len(places) * 1e6
    print(f"first batch at a random offset, 1-record batches, index every 4 KB: {best:.1f} µs")
    log.abandon()


OPEN_ALL = """
import os, resource, sys, time
from rookery.core.disk import FileDisk
from rookery.core.log import Log, LogConfig
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
disk, config, root = FileDisk(), LogConfig(), sys.argv[1]
paths = [f"{root}/{name}" for name in sorted(os.listdir(root))]
before, wall, used = resident(), time.perf_counter(), time.process_time()
logs = [Log.open(disk, path, config, clean=True) for path in paths]
wall, used = time.perf_counter() - wall, time.process_time() - used
files = len(os.listdir("/proc/self/fd"))
print(f"{len(logs)} logs: {wall:.2f} s, {used:.2f} s CPU, {(resident() - before) / 1e6:.1f} MB, {files} descriptors,"
      f" {sum(log.end_offset for log in logs)} records")
"""


def idle_partitions(folder: Path) -> None:
    print(f"\nopening {PARTITIONS} idle partitions after a clean shutdown, in a process of their own")
    for what, count in (("empty", 0), ("with 100 batches each", 100)):
        root = folder / f"idle-{count}"
        log = Log.open(FileDisk(), str(root / "t-0"), LogConfig(), recovery_point=0)
        for _ in range(count):
            log.append_as_leader(sample_batch("1 record"), 1, NOON)
        log.close()
        for number in range(1, PARTITIONS):
            shutil.copytree(root / "t-0", root / f"t-{number}", copy_function=os.link)
        done = subprocess.run(
            [sys.executable, "-c", OPEN_ALL, str(root)], capture_output=True, text=True, check=True, timeout=300
        )
        print(f"  {what}: {done.stdout.strip()}")
        shutil.rmtree(root)


def main() -> None:
    with scratch() as folder:
        appends(folder)
        reads(folder)
        recovery(folder)
        lookups(folder)
        idle_partitions(folder)


if __name__ == "__main__":
    main()
