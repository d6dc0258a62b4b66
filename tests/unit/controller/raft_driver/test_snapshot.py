"""Snapshots appear whole or not at all."""

import random
from contextlib import suppress
from pathlib import Path

import pytest

from rookery.controller.raft.errors import CorruptStateError
from rookery.controller.raft.ready import SnapshotChunk
from rookery.controller.raft.snapshot import VALUES_PER_BATCH, Snapshots
from rookery.controller.raft.voters import VoterSet
from rookery.core.disk import FileDisk
from rookery.core.errors import CorruptMessageError
from rookery.core.metadata_log import SnapshotId
from rookery.core.testing.disk import MemoryDisk, PowerCut
from tests.unit.controller.raft_driver.test_batches import VOTERS

SNAPSHOT = SnapshotId(1000, 7)
VALUES = [str(number).encode() for number in range(VALUES_PER_BATCH + 5)]


def fresh(seed: int = 0) -> tuple[MemoryDisk, Snapshots]:
    disk = MemoryDisk(random.Random(seed))
    disk.mkdir("data")
    return disk, Snapshots(disk, "data")


def test_a_snapshot_reads_back_and_has_its_kafka_name() -> None:
    disk, snapshots = fresh()
    snapshots.write(SNAPSHOT, VOTERS, iter(VALUES), 1)
    assert disk.list("data") == ["00000000000000001000-0000000007.checkpoint"]
    assert snapshots.all() == [SNAPSHOT]
    assert snapshots.load(SNAPSHOT) == (VOTERS, VALUES)


def test_an_empty_state_has_a_snapshot_too() -> None:
    _, snapshots = fresh()
    snapshots.write(SNAPSHOT, VoterSet(), [], 1)
    assert snapshots.load(SNAPSHOT) == (VoterSet(), [])


@pytest.mark.invariant("R15")
def test_a_power_cut_at_any_step_leaves_the_whole_snapshot_or_none() -> None:
    outcomes = set()
    for seed in range(10):
        for steps in range(12):
            disk, snapshots = fresh(seed)
            disk.cut_after(steps)
            written = False
            with suppress(PowerCut):
                snapshots.write(SNAPSHOT, VOTERS, VALUES, 1)
                written = True
            disk.power_cut()
            if written:
                assert snapshots.all() == [SNAPSHOT]
            for found in snapshots.all():
                assert snapshots.load(found) == (VOTERS, VALUES)
            outcomes.add(bool(snapshots.all()))
    assert outcomes == {True, False}


def test_a_download_in_pieces_becomes_the_same_snapshot() -> None:
    _, source = fresh()
    source.write(SNAPSHOT, VOTERS, VALUES, 1)
    disk, target = fresh()
    position, size = 0, 1
    while position < size:
        found = source.read_chunk(SNAPSHOT, position, 1000)
        assert found is not None
        size, chunk = found
        target.write_chunk(SnapshotChunk(SNAPSHOT, position, chunk))
        position += len(chunk)
    assert target.all() == [], "a download is not a snapshot yet"
    assert target.install(SNAPSHOT) == VOTERS
    disk.power_cut()
    assert target.load(SNAPSHOT) == (VOTERS, VALUES)


def test_a_download_that_is_damaged_or_short_is_not_installed() -> None:
    _, source = fresh()
    source.write(SNAPSHOT, VOTERS, VALUES, 1)
    found = source.read_chunk(SNAPSHOT, 0, 1 << 20)
    assert found is not None
    for damaged in (found[1][:-70], found[1][:100] + b"?" + found[1][101:], b""):
        _, target = fresh()
        target.write_chunk(SnapshotChunk(SNAPSHOT, 0, damaged))
        with pytest.raises(CorruptMessageError, match="checkpoint"):
            target.install(SNAPSHOT)
        assert target.all() == []


def test_a_piece_for_another_position_is_refused() -> None:
    _, snapshots = fresh()
    snapshots.write_chunk(SnapshotChunk(SNAPSHOT, 0, b"abc"))
    with pytest.raises(CorruptStateError):
        snapshots.write_chunk(SnapshotChunk(SNAPSHOT, 5, b"def"))


def test_leftovers_of_a_crash_are_removed_and_missing_snapshots_are_none() -> None:
    disk, snapshots = fresh()
    snapshots.write_chunk(SnapshotChunk(SNAPSHOT, 0, b"abc"))
    snapshots.remove_unfinished()
    assert disk.list("data") == []
    assert snapshots.read_chunk(SNAPSHOT, 0, 10) is None


@pytest.mark.invariant("R15")
def test_a_snapshot_that_is_being_downloaded_can_be_read_to_its_end(tmp_path: Path) -> None:
    snapshots = Snapshots(FileDisk(), str(tmp_path))
    snapshots.write(SNAPSHOT, VOTERS, VALUES, 1)
    whole = (tmp_path / Path(snapshots.path(SNAPSHOT)).name).read_bytes()
    first = snapshots.read_chunk(SNAPSHOT, 0, 1000)
    snapshots.remove(SNAPSHOT)  # a newer one has taken its place
    rest = snapshots.read_chunk(SNAPSHOT, 1000, len(whole))
    assert first is not None
    assert rest is not None
    assert first[1] + rest[1] == whole
    for end in (2000, 3000):
        newer = SnapshotId(end, 7)
        snapshots.write(newer, VOTERS, VALUES, 1)
        assert snapshots.read_chunk(newer, 0, 10) is not None
    assert snapshots.read_chunk(SNAPSHOT, 0, 10) is None, "not for ever"
    snapshots.close()
