"""What a replica promised survives a crash, and storage that lost a promise does not open."""

import random
from contextlib import suppress
from uuid import UUID

import pytest

from rookery.controller.raft import storage as raft_storage
from rookery.controller.raft.batches import data_batch
from rookery.controller.raft.errors import MetadataDamagedError
from rookery.controller.raft.messages import Batch, BatchKind
from rookery.controller.raft.ready import LogWrite, QuorumState, SnapshotChunk
from rookery.controller.raft.snapshot import Snapshots
from rookery.controller.raft.storage import RaftStorage
from rookery.controller.raft.voters import ReplicaKey
from rookery.core.disk import Disk
from rookery.core.log import Log, LogConfig
from rookery.core.log.ownership import FolderLocks, WrongFolderError, claim_folder
from rookery.core.metadata_log import METADATA_LOG, SnapshotId
from rookery.core.testing.disk import MemoryDisk, PowerCut
from tests.unit.controller.raft_driver.test_batches import VOTERS

FOLDER = f"data/{METADATA_LOG}"
STATE = QuorumState(4, ReplicaKey(2, UUID(int=9)), 2)


def disk_of(seed: int = 0) -> MemoryDisk:
    disk = MemoryDisk(random.Random(seed))
    disk.mkdir("data")
    return disk


def open_on(disk: MemoryDisk) -> RaftStorage:
    return RaftStorage.open(disk, "data", LogConfig(), 1)


def append(storage: RaftStorage, count: int, epoch: int = 1, number: int = 1) -> None:
    batches, offset = [], storage.end_offset
    for index in range(count):
        batches.append(Batch(offset + index, epoch, payload=data_batch([b"v%d" % (offset + index)], 1)))
    storage.write(LogWrite(number, tuple(batches)), 1, 1)


def flush(storage: RaftStorage) -> None:
    job = storage.begin_flush()
    job.run()
    storage.flushed(job)


def filled(disk: MemoryDisk, count: int = 10) -> RaftStorage:
    """A replica with a vote, an opened epoch, a voter set and `count` values, all synced."""
    storage = open_on(disk)
    storage.save_state(STATE)
    opening = (Batch(0, 1, BatchKind.LEADER_CHANGE), Batch(1, 1, BatchKind.VOTERS, voters=VOTERS))
    storage.write(LogWrite(1, opening), 1, 1)
    append(storage, count)
    flush(storage)
    return storage


def test_a_new_folder_starts_from_nothing() -> None:
    found = open_on(disk_of()).recovered
    assert (found.state, found.log.end_offset, found.log.snapshot) == (QuorumState(), 0, None)


@pytest.mark.invariant("R2", "R3", "R8")
@pytest.mark.parametrize("seed", range(20))
def test_synced_state_and_records_survive_a_power_cut(seed: int) -> None:
    disk = disk_of(seed)
    storage = filled(disk)
    append(storage, 5, number=2)  # not synced: may or may not survive
    disk.power_cut()
    found = open_on(disk).recovered
    assert found.state == STATE
    assert 12 <= found.log.end_offset <= 17
    assert found.log.voters == ((1, VOTERS),)
    assert found.log.epochs == ((1, 0),)


@pytest.mark.invariant("R3", "R8")
@pytest.mark.parametrize("seed", range(20))
def test_what_a_killed_process_left_unsynced_is_durable_before_it_counts(seed: int) -> None:
    disk = disk_of(seed)
    append(filled(disk), 5, number=2)
    disk.restart()  # kill -9 before the sync: the bytes are in the page cache
    acknowledged = open_on(disk).recovered.log.end_offset
    assert acknowledged == 17
    disk.power_cut()
    assert open_on(disk).recovered.log.end_offset == acknowledged


def test_a_voter_that_trusts_the_page_cache_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was: what was found at the start counted as flushed."""

    def trusted(disk: Disk, log: Log) -> None:
        log.recovery_point = log.end_offset

    monkeypatch.setattr(raft_storage, "_make_durable", trusted)
    lost = 0
    for seed in range(20):
        disk = disk_of(seed)
        append(filled(disk), 5, number=2)
        disk.restart()
        acknowledged = open_on(disk).recovered.log.end_offset
        disk.power_cut()
        lost += open_on(disk).recovered.log.end_offset < acknowledged
    assert lost > 5


@pytest.mark.invariant("R2")
@pytest.mark.parametrize("seed", range(12))
def test_a_vote_that_a_killed_process_left_half_saved_is_durable_before_it_counts(seed: int) -> None:
    new = QuorumState(5, ReplicaKey(3, UUID(int=9)))
    for steps in range(8):
        disk = disk_of(seed)
        storage = filled(disk)
        disk.cut_after(steps)
        with suppress(PowerCut):
            storage.save_state(new)
        disk.restart()
        trusted = open_on(disk).recovered.state
        disk.power_cut()
        assert open_on(disk).recovered.state == trusted


@pytest.mark.invariant("R2")
def test_a_power_cut_amid_a_vote_leaves_the_old_vote_or_the_new() -> None:
    new, seen = QuorumState(5, ReplicaKey(3, UUID(int=9))), set()
    for seed in range(12):
        for steps in range(8):
            disk = disk_of(seed)
            storage = filled(disk)
            disk.cut_after(steps)
            done = False
            with suppress(PowerCut):
                storage.save_state(new)
                done = True
            disk.power_cut()
            found = open_on(disk).recovered.state
            assert found == new if done else found in (STATE, new)
            seen.add(found.epoch)
    assert seen == {4, 5}


@pytest.mark.invariant("S10")
@pytest.mark.parametrize("content", [None, b"", b"{", b'{"leaderEpoch": 4}', b'{"data_version": 9}', b"\xff\xfe"])
def test_without_a_readable_quorum_state_a_log_is_not_opened(content: bytes | None) -> None:
    disk = disk_of()
    filled(disk)
    disk.restart()
    if content is None:
        disk.remove(f"{FOLDER}/quorum-state")
    else:
        disk.edit(f"{FOLDER}/quorum-state", content)
    with pytest.raises(MetadataDamagedError, match=r"quorum-state.*quorum remove-voter"):
        open_on(disk)


@pytest.mark.invariant("S10")
def test_a_damaged_quorum_state_is_refused_even_on_an_empty_log() -> None:
    disk = disk_of()
    open_on(disk).save_state(STATE)
    disk.restart()
    disk.edit(f"{FOLDER}/quorum-state", b"{")
    with pytest.raises(MetadataDamagedError):
        open_on(disk)


@pytest.mark.invariant("R18")
def test_a_log_that_lost_committed_records_is_not_opened() -> None:
    disk = disk_of()
    filled(disk).save_committed(12)
    disk.restart()
    log = f"{FOLDER}/{0:020d}.log"
    disk.edit(log, disk.read(log)[:-30])
    with pytest.raises(Exception, match=r"damaged|lost here"):
        open_on(disk)


@pytest.mark.invariant("R18")
def test_a_vanished_log_is_not_taken_for_a_new_one() -> None:
    disk = disk_of()
    filled(disk).save_committed(12)
    disk.restart()
    for name in disk.list(FOLDER):
        if name.startswith("0000"):
            disk.remove(f"{FOLDER}/{name}")
    with pytest.raises(MetadataDamagedError, match="up to 12 were durable"):
        open_on(disk)


def test_truncation_and_what_follows_it_come_back() -> None:
    disk = disk_of()
    storage = filled(disk)
    storage.write(LogWrite(2, (Batch(8, 3, BatchKind.LEADER_CHANGE),), truncate_to=8), 1, 1)
    flush(storage)
    disk.power_cut()
    found = open_on(disk).recovered.log
    assert (found.end_offset, found.epochs) == (9, ((1, 0), (3, 8)))


@pytest.mark.invariant("R15")
def test_the_log_behind_a_snapshot_goes_and_the_rest_opens() -> None:
    disk = disk_of()
    storage = filled(disk)
    for end in (6, 10):
        storage.snapshots.write(SnapshotId(end, 1), VOTERS, [b"state"], 1)
        storage.roll(1)
        append(storage, 3, number=end)
        flush(storage)
    storage.delete_before(6, 1)
    assert storage.start_offset == 6
    end = storage.end_offset
    disk.power_cut()
    found = open_on(disk).recovered.log
    assert (found.start_offset, found.end_offset, found.snapshot) in (
        (6, end, SnapshotId(10, 1)),
        (0, end, SnapshotId(10, 1)),
    )
    storage = open_on(disk)
    storage.delete_before(10, 1)
    assert storage.snapshots.all() == [SnapshotId(10, 1)]


@pytest.mark.invariant("R3", "R15")
def test_committed_records_behind_a_snapshot_survive_every_further_start() -> None:
    """A log forgets the epochs before its start: that is no sign of an installation that was cut short."""
    disk = disk_of()
    storage = filled(disk)
    storage.roll(1)
    append(storage, 5, epoch=2, number=2)
    storage.roll(1)
    for end in (13, 15):
        storage.snapshots.write(SnapshotId(end, 2), VOTERS, [b"x"], 1)
    storage.delete_before(13, 1)
    for end in (18, 19, 20):
        append(storage, 1, epoch=2, number=end)
        storage.save_committed(end)
        flush(storage)
        disk.restart()
        storage = open_on(disk)
        found = storage.recovered.log
        assert (found.start_offset, found.end_offset, found.snapshot) == (13, end, SnapshotId(15, 2))


@pytest.mark.invariant("R15")
def test_a_crash_at_any_step_of_an_installation_leaves_the_old_log_or_the_snapshot() -> None:
    source = disk_of(99)
    source.mkdir("from")
    Snapshots(source, "from").write(SnapshotId(50, 3), VOTERS, [b"new"], 1)
    name = source.list("from")[0]
    seen = set()
    for seed in range(8):
        for steps in range(22):
            disk = disk_of(seed)
            storage = filled(disk)
            storage.save_committed(12)
            storage.snapshots.write_chunk(SnapshotChunk(SnapshotId(50, 3), 0, source.read(f"from/{name}")))
            disk.cut_after(steps)
            with suppress(PowerCut):
                storage.install(SnapshotId(50, 3))
                storage.restart_at(SnapshotId(50, 3), 1)
                storage.save_committed(50)
            disk.power_cut()
            found = open_on(disk).recovered.log
            assert (found.start_offset, found.end_offset) in ((0, 12), (50, 50))
            seen.add(found.end_offset)
    assert seen == {12, 50}


def test_a_log_without_the_snapshot_it_stands_on_is_not_opened() -> None:
    disk = disk_of()
    storage = filled(disk)
    storage.snapshots.write(SnapshotId(12, 1), VOTERS, [b"state"], 1)
    storage.restart_at(SnapshotId(12, 1), 1)
    append(storage, 2, number=5)
    flush(storage)
    disk.restart()
    for snapshot in Snapshots(disk, FOLDER).all():
        Snapshots(disk, FOLDER).remove(snapshot)
    with pytest.raises(MetadataDamagedError, match=r"no snapshot \(\*\.checkpoint\) holds what came before"):
        open_on(disk)


@pytest.mark.invariant("S10")
@pytest.mark.parametrize("which", [0, 1])
def test_a_damaged_snapshot_is_reported_at_the_start_and_how_to_rebuild_the_node(which: int) -> None:
    disk = disk_of()
    storage = filled(disk)
    for end in (6, 12):
        storage.snapshots.write(SnapshotId(end, 1), VOTERS, [b"a", b"b"], 1)
    disk.restart()
    path = Snapshots(disk, FOLDER).path(Snapshots(disk, FOLDER).all()[which])
    damaged = bytearray(disk.read(path))
    damaged[len(damaged) // 2] ^= 1
    disk.edit(path, damaged)
    with pytest.raises(MetadataDamagedError, match=f"{path} is damaged.*rookery quorum add-voter ID"):
        open_on(disk)
    assert disk.read(path) == damaged


@pytest.mark.invariant("S11")
def test_a_folder_of_another_node_or_cluster_is_refused() -> None:
    disk = disk_of()
    new = UUID(int=77)
    with pytest.raises(WrongFolderError, match=r"rookery\.cluster\.id is not set"):
        claim_folder(FolderLocks(disk, 1), "data", cluster_id="", new_directory_id=new)
    claimed = claim_folder(FolderLocks(disk, 1), "data", cluster_id="mine", new_directory_id=new)
    assert claimed.directory_id == new
    disk.power_cut()
    again = claim_folder(FolderLocks(disk, 1), "data", cluster_id="", new_directory_id=UUID(int=78))
    assert again == claimed, "the directory keeps its id"
    disk.restart()
    with pytest.raises(WrongFolderError, match="belongs to cluster mine"):
        claim_folder(FolderLocks(disk, 1), "data", cluster_id="other", new_directory_id=new)
    with pytest.raises(WrongFolderError, match="belongs to node 1"):
        claim_folder(FolderLocks(disk, 2), "data", cluster_id="mine", new_directory_id=new)


@pytest.mark.invariant("R18", "S10")
def test_a_closed_segment_that_rotted_is_reported_at_the_start_unless_a_snapshot_has_its_records() -> None:
    disk = disk_of()
    storage = filled(disk)
    storage.roll(1)
    append(storage, 2, number=5)
    flush(storage)
    storage.save_committed(storage.end_offset)
    disk.restart()
    path = f"{FOLDER}/{0:020d}.log"
    damaged = bytearray(disk.read(path))
    damaged[len(damaged) // 2] ^= 1
    disk.edit(path, damaged)
    with pytest.raises(MetadataDamagedError, match=f"{path} is damaged.*rookery quorum add-voter ID"):
        open_on(disk)
    Snapshots(disk, FOLDER).write(SnapshotId(12, 1), VOTERS, [b"state"], 1)
    again = open_on(disk)
    assert again.recovered.log.end_offset == 14
    with pytest.raises(MetadataDamagedError, match=f"{path} is damaged"):
        again.read(0, again.end_offset, 1 << 20)
