"""The driver around the core, in one process over real sockets."""

import asyncio
import errno
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rookery.controller.raft.answers import DAMAGED_PAUSE_S
from rookery.controller.raft.errors import MetadataDamagedError, NotServingError
from rookery.controller.raft.snapshot import WRITING
from rookery.controller.raft.storage import RaftStorage
from rookery.controller.raft.voters import UNKNOWN_DIRECTORY, ReplicaKey, Voter, VoterSet
from rookery.core.clock import SystemClock
from rookery.core.errors import NotControllerError, RecordListTooLargeError
from rookery.core.log import LogDirFailed
from rookery.core.log.checkpoints import HIGH_WATERMARKS
from rookery.core.metadata_log import METADATA_LOG, SnapshotId
from rookery.core.testing.disk import MemoryDisk
from tests.unit.controller.raft_driver.nodes import FAST, Member, Nodes, nodes, until
from tests.unit.core.net.test_control import UNKNOWN


def words(first: int, count: int) -> list[bytes]:
    return [b"w%d" % number for number in range(first, first + count)]


async def test_a_quorum_of_one_elects_itself_commits_and_remembers(tmp_path: Path) -> None:
    async with nodes(tmp_path, 1) as cluster:
        [member] = cluster.members
        await cluster.leader()
        member.propose(*words(0, 3))
        member.propose(b"last")
        await cluster.all_have([*words(0, 3), b"last"])
        await member.stop()
        cluster.members[0] = again = member.again()
        await again.start()
        await cluster.leader()
        assert again.words.values == [*words(0, 3), b"last"], "on_leader comes after all that was committed before"
        assert again.words.leader[1] > member.words.leader[1]


async def test_three_voters_agree_and_hand_over_at_a_clean_stop(tmp_path: Path) -> None:
    async with nodes(tmp_path, 3) as cluster:
        first = await cluster.leader()
        first.propose(*words(0, 10))
        await cluster.all_have(words(0, 10))
        epoch = first.words.leader[1]
        await first.stop()
        second = await cluster.leader()
        assert second.words.leader[1] > epoch
        second.propose(b"more")
        await cluster.all_have([*words(0, 10), b"more"], [m for m in cluster.members if m is not first])
        cluster.members[cluster.members.index(first)] = again = first.again()
        await again.start()
        await cluster.all_have([*words(0, 10), b"more"])


async def test_only_the_leader_takes_proposals_and_only_of_bounded_size(tmp_path: Path) -> None:
    async with nodes(tmp_path, 3) as cluster:
        leader = await cluster.leader()
        follower = next(member for member in cluster.members if member is not leader)
        with pytest.raises(NotControllerError):
            follower.node.propose(leader.words.leader[1], [b"x"])
        with pytest.raises(NotControllerError):
            leader.node.propose(leader.words.leader[1] - 1, [b"x"])
        with pytest.raises(RecordListTooLargeError):
            leader.propose(b"x" * (9 << 20))
        leader.propose(b"x" * (1 << 20))
        await cluster.all_have([b"x" * (1 << 20)])


async def snapshot(member: Member) -> None:
    member.node.write_snapshot(member.words.end, list(member.words.values))
    end = member.words.end
    await until(
        "the snapshot is written", lambda: member.node.driver().storage.latest_snapshot == end
    )


@pytest.mark.invariant("R15")
async def test_the_log_behind_snapshots_goes_and_state_comes_back_from_them(tmp_path: Path) -> None:
    async with nodes(tmp_path, 1) as cluster:
        [member] = cluster.members
        await cluster.leader()
        for round_ in range(3):
            member.propose(*words(10 * round_, 10))
            await cluster.all_have(words(0, 10 * round_ + 10))
            await snapshot(member)
        member.propose(b"tail")
        await cluster.all_have([*words(0, 30), b"tail"])
        storage = member.node.driver().storage
        assert storage.start_offset > 10
        assert len(storage.snapshots.all()) == 2
        await member.stop()
        cluster.members[0] = again = member.again()
        await again.start()
        await cluster.all_have([*words(0, 30), b"tail"])
        assert [found.end_offset for found in again.words.snapshots] == [member.words.end.end_offset - 1]


@pytest.mark.invariant("R15")
async def test_a_voter_that_missed_deleted_records_gets_the_snapshot(tmp_path: Path) -> None:
    async with nodes(tmp_path, 3) as cluster:
        leader = await cluster.leader()
        absent = next(member for member in cluster.members if member is not leader)
        await absent.stop()
        present = [member for member in cluster.members if member is not absent]
        for round_ in range(3):
            leader.propose(*(b"%d" % round_ + bytes(100_000) for _ in range(30)))
            expected = [b"%d" % done + bytes(100_000) for done in range(round_ + 1) for _ in range(30)]
            await cluster.all_have(expected, present)
            await snapshot(leader)
        cluster.members[cluster.members.index(absent)] = again = absent.again()
        await again.start()
        await cluster.all_have(expected)
        assert len(again.words.snapshots) == 1
        leader.propose(b"after")
        await cluster.all_have([*expected, b"after"])


def rot(file: Path) -> None:
    sound = file.read_bytes()
    file.write_bytes(sound[:-5] + b"?" + sound[-4:])


@pytest.mark.invariant("R15", "R18")
@pytest.mark.parametrize("what", ["log", "checkpoint"])
async def test_a_leader_whose_metadata_rotted_ends_when_another_needs_it(tmp_path: Path, what: str) -> None:
    """The others elect one that has it whole; whoever was behind gets it from there."""
    async with nodes(tmp_path, 3) as cluster:
        leader = await cluster.leader()
        absent = next(member for member in cluster.members if member is not leader)
        await absent.stop()
        present = [member for member in cluster.members if member is not absent]
        for round_ in range(2):
            leader.propose(*words(10 * round_, 10))
            await cluster.all_have(words(0, 10 * round_ + 10), present)
            if what == "checkpoint":
                await snapshot(leader)
        files = sorted((Path(leader.settings.folder) / METADATA_LOG).glob(f"*.{what}"))
        rot(files[-1])
        cluster.members[cluster.members.index(absent)] = again = absent.again()
        await again.start()
        with pytest.raises(BaseExceptionGroup) as caught:
            await asyncio.wait_for(leader.node.serve(), 15)
        assert caught.group_contains(MetadataDamagedError, match=f"{files[-1].name} is damaged.*remove-voter")
        await leader.stop()
        rest = [member for member in cluster.members if member is not leader]
        await cluster.all_have(words(0, 20), rest)


@pytest.mark.invariant("R15")
async def test_the_only_voter_goes_on_with_a_snapshot_that_rotted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody else could lead. Who downloads it goes on asking, and gets the next one."""
    async with nodes(tmp_path, 1) as cluster:
        leader = await cluster.leader()
        for round_ in range(2):
            leader.propose(*words(10 * round_, 10))
            await cluster.all_have(words(0, 10 * round_ + 10))
            await snapshot(leader)
        snapshots = leader.node.driver().storage.snapshots
        rot(Path(snapshots.path(snapshots.all()[-1])))
        await cluster.newcomer(2).start()
        for event in ("raft.snapshot.damaged", "raft.metadata.damaged"):
            await until(f"{event} is told", lambda event=event: event in caplog.text)  # type: ignore[misc]
        leader.propose(*words(20, 10))
        await cluster.all_have(words(0, 30), [leader])
        await snapshot(leader)
        await cluster.all_have(words(0, 30))


@pytest.mark.invariant("R15")
async def test_the_only_voter_with_a_log_that_rotted_neither_spins_nor_fills_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer without records is asked for again at once: it has to wait, and one line says what is wrong."""
    failed: list[float] = []
    read = RaftStorage.read

    def noted(storage: RaftStorage, offset: int, upper: int, max_bytes: int) -> tuple[bytes, int]:
        try:
            return read(storage, offset, upper, max_bytes)
        except MetadataDamagedError:
            failed.append(asyncio.get_running_loop().time())
            raise

    monkeypatch.setattr(RaftStorage, "read", noted)
    async with nodes(tmp_path, 1) as cluster:
        leader = await cluster.leader()
        leader.propose(*words(0, 10))
        await cluster.all_have(words(0, 10))
        [segment] = (Path(leader.settings.folder) / METADATA_LOG).glob("*.log")
        rot(segment)
        await cluster.newcomer(2).start()
        await until("it was asked again", lambda: len(failed) >= 2)
        assert failed[1] - failed[0] >= 0.9 * DAMAGED_PAUSE_S
        told = [record for record in caplog.records if record.getMessage() == "raft.metadata.damaged"]
        assert len(told) == 1
        assert not leader.node.driver()._failure.done(), "it is better than nothing"


async def test_a_snapshot_of_what_is_not_committed_or_of_another_epoch_is_refused(tmp_path: Path) -> None:
    async with nodes(tmp_path, 1) as cluster:
        member = await cluster.leader()
        member.propose(b"x")
        await cluster.all_have([b"x"])
        end, epoch = member.words.end.end_offset, member.words.end.epoch
        with pytest.raises(ValueError, match="past the committed"):
            member.node.write_snapshot(SnapshotId(end + 5, epoch), [])
        with pytest.raises(ValueError, match="not of epoch"):
            member.node.write_snapshot(SnapshotId(end, epoch + 1), [])


@pytest.mark.invariant("R15")
async def test_a_thread_makes_and_writes_the_values_of_a_snapshot(tmp_path: Path) -> None:
    """In a big cluster that takes seconds, in which the loop must not stand still."""
    made_by = set[int]()

    def values() -> Iterator[bytes]:
        made_by.add(threading.get_ident())
        yield b"x"

    async with nodes(tmp_path, 1) as cluster:
        member = await cluster.leader()
        member.propose(b"x")
        await cluster.all_have([b"x"])
        member.node.write_snapshot(member.words.end, values())
        storage = member.node.driver().storage
        await until("the snapshot is written", lambda: storage.latest_snapshot == member.words.end)
        assert made_by
        assert threading.get_ident() not in made_by


@pytest.mark.invariant("R15")
async def test_a_node_that_stops_leaves_no_thread_behind_that_writes_a_snapshot(tmp_path: Path) -> None:
    begun, ended = threading.Event(), threading.Event()

    def values() -> Iterator[bytes]:
        try:
            for _ in range(10_000_000):
                begun.set()
                yield bytes(10)
        finally:
            ended.set()

    async with nodes(tmp_path, 1) as cluster:
        member = await cluster.leader()
        member.propose(b"x")
        await cluster.all_have([b"x"])
        member.node.write_snapshot(member.words.end, values())
        await until("the thread is at work", begun.is_set)
        await member.stop()
        assert ended.is_set()
        again = cluster.members[0] = member.again()
        await again.start()
        await cluster.all_have([b"x"])
        assert again.words.snapshots == []


async def test_a_listener_that_comes_late_gets_everything(tmp_path: Path) -> None:
    async with nodes(tmp_path, 1) as cluster:
        member = await cluster.leader()
        member.propose(*words(0, 5))
        await cluster.all_have(words(0, 5))
        late = type(member.words)()
        member.node.subscribe(late)
        await until("the late listener caught up", lambda: late.values == words(0, 5))
        await until("it knows the leader", lambda: late.leader == member.words.leader)


async def test_what_is_begun_while_the_node_stops_is_dropped(tmp_path: Path) -> None:
    """The core may have decided to send something when its tasks are cancelled."""

    async def work() -> None: ...

    async with nodes(tmp_path, 1) as cluster:
        member = await cluster.leader()
        driver = member.node.driver()
        driver.task.cancel()
        while not driver.task.done():
            driver.spawn(work())
            await asyncio.sleep(0)
        driver.spawn(work())
        await member.stop()
        with pytest.raises(NotServingError):
            member.node.driver()


async def test_a_voter_whose_name_is_unknown_is_looked_up_anew(tmp_path: Path) -> None:
    """With the same channel it would be after pauses of up to two minutes."""
    made = Nodes(tmp_path, 1)
    (me,) = made.voters
    away = Voter(ReplicaKey(2, UNKNOWN_DIRECTORY), UNKNOWN)
    member = made.member(me.id, me.endpoint, VoterSet([me, away]))
    await member.start()
    try:
        peers = member.node.driver().transport._peers
        await until("a call to the other voter", lambda: UNKNOWN in peers)
        first = peers[UNKNOWN]
        await until("another channel", lambda: peers.get(UNKNOWN, first) is not first)
    finally:
        await member.stop()


async def test_a_disk_that_cannot_sync_stops_the_node(tmp_path: Path) -> None:
    disk = MemoryDisk(random.Random(1))
    async with nodes(tmp_path, 1) as cluster:
        [member] = cluster.members
        await member.stop()
        disk.mkdir(member.settings.folder)
        broken = Member(member.settings, member.endpoint, disk)
        cluster.members[0] = broken
        await broken.start()
        await cluster.leader()
        disk.fail("sync", ".log", error=errno.EIO)
        broken.propose(b"never committed")
        with pytest.raises(BaseExceptionGroup) as caught:
            await asyncio.wait_for(broken.node.serve(), 10)
        assert caught.group_contains(LogDirFailed)
        assert broken.words.values == []


async def test_metrics_have_the_names_dashboards_ask_for(tmp_path: Path) -> None:
    async with nodes(tmp_path, 1) as cluster:
        member = await cluster.leader()
        member.propose(*words(0, 5))
        await cluster.all_have(words(0, 5))
        value = member.metrics.value
        prefix = "kafka_server_raft_metrics_"
        assert value(prefix + "current_leader") == 1
        assert value(prefix + "current_epoch") == member.words.leader[1]
        assert value(prefix + "current_vote") == 1
        assert value(prefix + "current_state", {"state": "leader"}) == 1
        assert value(prefix + "high_watermark") == value(prefix + "log_end_offset") == member.words.end.end_offset
        assert (value(prefix + "commit_latency_avg") or 0) > 0
        assert (value(prefix + "append_records_rate") or 0) > 0
        assert (value(prefix + "election_latency_avg") or 0) > 0


class Jumping(SystemClock):
    """Jumps ahead, as the clock of a machine seems to that stood still."""

    jumped_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.jumped_s


@pytest.mark.invariant("R10")
async def test_a_standstill_of_the_whole_machine_elects_nobody(tmp_path: Path) -> None:
    cluster, clock = Nodes(tmp_path, 3), Jumping()
    try:
        for member in cluster.members:
            member.node._clock = clock
            await member.start()
        leader = await cluster.leader()
        leader.propose(b"before")
        await cluster.all_have([b"before"])
        office = leader.words.leader
        clock.jumped_s = 10 * FAST.fetch_timeout_ms / 1000
        ticked = leader.node.driver().core.next_deadline_ms
        await until("all timers fired", lambda: ticked() > clock.monotonic() * 1000)
        leader.propose(b"after")
        await cluster.all_have([b"before", b"after"])
        assert [member.words.leader for member in cluster.members] == [office] * 3
    finally:
        for member in cluster.members:
            await member.stop()


def files_of(disk: MemoryDisk, member: Member) -> list[str]:
    """But for the checkpoint that a node writes now and then."""
    return [name for name in disk.list(f"{member.settings.folder}/{METADATA_LOG}") if name != HIGH_WATERMARKS]


@pytest.mark.invariant("R15")
@pytest.mark.parametrize("operation", ["write", "sync", "rename"])
async def test_a_snapshot_that_cannot_be_written_costs_nothing_but_the_next_try(tmp_path: Path, operation: str) -> None:
    disk, given = MemoryDisk(random.Random(0)), Nodes(tmp_path, 1).members[0]
    disk.mkdir(given.settings.folder)
    member = given.again_on(disk)
    await member.start()
    await until("it leads", lambda: member.leads)
    member.propose(*words(0, 5))
    await until("all are committed", lambda: member.words.values == words(0, 5))
    before = files_of(disk, given)
    disk.fail(operation, WRITING, error=errno.ENOSPC)
    member.node.write_snapshot(member.words.end, member.words.values)
    await until("it was tried", lambda: not disk._faults and not member.node.driver()._writing_snapshot)
    if operation != "rename":
        assert files_of(disk, given) == before, "nothing is left behind"
    await snapshot(member)
    member.propose(b"after")
    await until("it goes on", lambda: member.words.values == [*words(0, 5), b"after"])
    await member.stop()


@pytest.mark.invariant("R13")
async def test_a_new_quorum_waits_for_all_its_voters_and_says_for_whom(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Nodes(tmp_path, 3)
    *first, last = cluster.members
    try:
        for member in first:
            await member.start()
        told = "raft.first_election.waits"
        await until("it is told", lambda: any(told in record.getMessage() for record in caplog.records))
        assert not any(member.leads for member in first)
        await last.start()
        leader = await cluster.leader()
        assert leader.node.driver().core.voters.all_pinned
    finally:
        for member in cluster.members:
            await member.stop()
