"""Snapshots, transaction indexes and the other indexes are caches: whatever happens to them, nothing
changes."""

import random
from dataclasses import replace
from itertools import combinations

import pytest

from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.partition_log import Isolation, PartitionLog
from rookery.broker.log.producer_state import NOT_VERIFIED
from rookery.core.log import LogConfig, names
from rookery.core.testing.disk import MemoryDisk
from rookery.core.types import TopicPartition
from rookery.core.wire.markers import EndMarker, build_marker
from tests.unit.broker.log.batches import NOW, batch
from tests.unit.broker.log.table import visible

TP = TopicPartition("t", 0)
FOLDER = "/d/t-0"
CONFIG = replace(TopicLogConfig(), log=LogConfig(segment_bytes=300, index_interval_bytes=100))
CACHES = (names.SNAPSHOT, names.TXN_INDEX, names.INDEX, names.TIME_INDEX, names.LEADER_EPOCHS)


def closed() -> MemoryDisk:
    """A log of some segments, with retries to know and transactions that end segments later."""
    disk = MemoryDisk(random.Random(1))
    disk.mkdir("/d")
    log = PartitionLog.open(disk, FOLDER, TP, CONFIG, now_ms=NOW)
    for n in range(3):
        log.append_as_leader(batch(1, producer_id=1, sequence=n, transactional=True), n, NOW, NOT_VERIFIED)
        log.append_as_leader(batch(2, producer_id=2, sequence=2 * n, transactional=True), n, NOW, NOT_VERIFIED)
        log.append_as_leader(batch(1, producer_id=3, sequence=n), n, NOW)
        marker = EndMarker(n == 1, 0)
        log.append_own(build_marker(marker, producer_id=1, producer_epoch=0, timestamp=NOW), n, NOW)
    ended = EndMarker(False, 0)
    log.append_own(build_marker(ended, producer_id=2, producer_epoch=0, timestamp=NOW), 3, NOW)
    assert len(log.segment_log.segments) >= 4
    log.close()
    return disk


def view(disk: MemoryDisk, *, clean: bool) -> object:
    """All that can be seen of the log and its producers."""
    log = PartitionLog.open(
        disk,
        FOLDER,
        TP,
        CONFIG,
        clean=clean,
        recovery_point=None if clean else 0,
        high_watermark=99,
        now_ms=NOW,
    )
    log.advance_high_watermark(log.end_offset)
    end = log.end_offset
    return (
        (log.start_offset, end, log.last_stable_offset),
        sorted(log.store.state.entries.items()),
        [(r.offset, r.value) for r in visible(log)],
        [log.read(offset, 1, Isolation.LAST_STABLE).aborted for offset in range(end)],
        log.segment_log.epochs.entries,
    )


def caches(disk: MemoryDisk) -> list[str]:
    return [f"{FOLDER}/{name}" for name in disk.list(FOLDER) if name.endswith(CACHES)]


@pytest.mark.invariant("S5", "T2")
@pytest.mark.parametrize("clean", [True, False])
def test_any_of_them_may_be_missing(clean: bool) -> None:
    wanted = view(closed(), clean=clean)
    paths = caches(closed())
    assert {path.rpartition(".")[2] for path in paths} >= {"snapshot", "txnindex", "timeindex"}
    rng = random.Random(5)
    subsets = [*combinations(paths, 1), *rng.sample(list(combinations(paths, 2)), 40), tuple(paths)]
    subsets += [tuple(path for path in paths if rng.random() < 0.5) for _ in range(40)]
    for subset in subsets:
        disk = closed()
        for path in subset:
            disk.remove(path)
        assert view(disk, clean=clean) == wanted, subset


@pytest.mark.invariant("S5", "T2")
def test_any_byte_of_them_may_be_wrong() -> None:
    wanted = view(closed(), clean=True)
    contents = {path: closed().read(path) for path in caches(closed())}
    rng = random.Random(6)
    places = [(path, at) for path, content in contents.items() for at in range(len(content))]
    for path, at in rng.sample(places, min(400, len(places))):
        disk = closed()
        damaged = bytearray(contents[path])
        damaged[at] ^= 1 << rng.randrange(8)
        disk.edit(path, damaged)
        assert view(disk, clean=True) == wanted, (path, at)


@pytest.mark.invariant("S5")
def test_any_of_them_may_be_cut_or_swapped_with_another() -> None:
    wanted = view(closed(), clean=True)
    contents = {path: closed().read(path) for path in caches(closed())}
    rng = random.Random(7)
    for path, content in contents.items():
        for _ in range(4):
            disk = closed()
            disk.edit(path, content[: rng.randrange(len(content) + 1)])
            assert view(disk, clean=True) == wanted, path
        same = [other for other in contents if other != path and other.endswith(path[-8:])]
        for other in same:
            disk = closed()
            disk.edit(path, contents[other])
            assert view(disk, clean=True) == wanted, (path, other)


@pytest.mark.invariant("T2")
def test_a_snapshot_of_another_history_is_not_believed() -> None:
    """Left behind by a truncation: the same offset, but after a batch of another leader epoch."""
    disk = MemoryDisk(random.Random(1))
    disk.mkdir("/d")
    log = PartitionLog.open(disk, FOLDER, TP, CONFIG, now_ms=NOW)
    for n in range(9):
        log.append_as_leader(batch(2, producer_id=1, sequence=2 * n), 0, NOW)
    log.store.save()
    base = log.segment_log.segments[1].base_offset
    stale = disk.read(names.segment_file(FOLDER, base, names.SNAPSHOT))
    log.truncate_to(base - 2, NOW)
    for n in range(4):
        log.append_as_leader(batch(2, producer_id=9, sequence=2 * n), 1, NOW)
    log.store.save()
    assert log.segment_log.segments[1].base_offset == base
    right = dict(log.store.state.entries)
    disk.edit(names.segment_file(FOLDER, base, names.SNAPSHOT), stale)
    disk.restart()
    log = PartitionLog.open(disk, FOLDER, TP, CONFIG, recovery_point=0, now_ms=NOW)
    assert log.store.state.entries == right
