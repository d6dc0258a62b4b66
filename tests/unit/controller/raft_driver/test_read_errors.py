"""A leader that cannot read what others need of it says so, and goes on where nobody could take its place."""

import asyncio
import errno
from pathlib import Path

import pytest

from rookery.controller.raft import driver
from rookery.controller.raft.snapshot import Snapshots
from rookery.core.log import Log, LogDirFailed, LogRead
from rookery.core.metadata_log import SnapshotId
from tests.unit.controller.raft_driver.nodes import Member, Nodes, nodes, until

TOLD = "raft.metadata.unreadable"


async def _with_snapshot(cluster: Nodes) -> tuple[Member, SnapshotId]:
    """A leader whose log begins with a snapshot: a newcomer has to download it."""
    leader = await cluster.leader()
    storage = leader.node.driver().storage
    for value in (b"a", b"b"):
        leader.propose(value)
        await until("it is committed", lambda value=value: value in leader.words.values)  # type: ignore[misc]
        leader.node.write_snapshot(leader.words.end, list(leader.words.values))
        await until("the snapshot is written", lambda: storage.latest_snapshot == leader.words.end)
    return leader, leader.words.end


def _eio(path: str) -> OSError:
    return OSError(errno.EIO, "Input/output error", path)


@pytest.mark.invariant("R15")
@pytest.mark.parametrize("size", [1, 3])
async def test_a_read_error_while_a_snapshot_is_checked_is_reported_and_the_check_repeated(
    tmp_path: Path, size: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check is done besides: who downloads the snapshot checks it, too."""
    monkeypatch.setattr(driver, "CHECK_AGAIN_S", 0.05)
    check, tries = Snapshots.check, list[SnapshotId]()

    def failing(snapshots: Snapshots, snapshot: SnapshotId) -> None:
        if len(tries) < 3:
            tries.append(snapshot)
            raise _eio(snapshots.path(snapshot))
        check(snapshots, snapshot)
        tries.append(snapshot)

    async with nodes(tmp_path, size) as cluster:
        leader, last = await _with_snapshot(cluster)
        monkeypatch.setattr(Snapshots, "check", failing)
        newcomer = cluster.newcomer(size + 1)
        await newcomer.start()
        await until("the snapshot was checked", lambda: len(tries) >= 4)
        assert tries[:4] == [last] * 4
        assert TOLD in caplog.text
        leader.propose(b"c")
        await cluster.all_have([b"a", b"b", b"c"])
        assert leader.leads


@pytest.mark.invariant("R15")
@pytest.mark.parametrize("what", ["log", "snapshot"])
async def test_the_only_voter_goes_on_when_it_cannot_read_for_others(
    tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunk, read, tries = Snapshots.read_chunk, Log.read, list[str]()
    broken = asyncio.Event()

    def no_chunk(snapshots: Snapshots, snapshot: SnapshotId, position: int, size: int) -> tuple[int, bytes] | None:
        if what == "snapshot" and broken.is_set():
            tries.append("")
            raise _eio(snapshots.path(snapshot))
        return chunk(snapshots, snapshot, position, size)

    def no_read(log: Log, offset: int, max_bytes: int, upper: int | None = None) -> LogRead:
        if what == "log" and broken.is_set() and str(tmp_path / "1") in log.path:
            tries.append("")
            raise LogDirFailed("reading", log.path, _eio(log.path))
        return read(log, offset, max_bytes, upper)

    async with nodes(tmp_path, 1) as cluster:
        leader, _ = await _with_snapshot(cluster)
        monkeypatch.setattr(Snapshots, "read_chunk", no_chunk)
        monkeypatch.setattr(Log, "read", no_read)
        if what == "log":
            leader.propose(b"c")
            await cluster.all_have([b"a", b"b", b"c"])
        broken.set()
        await cluster.newcomer(2).start()
        await until("it was asked twice", lambda: len(tries) >= 2)
        assert [record.getMessage() for record in caplog.records].count(TOLD) == 1
        broken.clear()
        await cluster.all_have([b"a", b"b", b"c"] if what == "log" else [b"a", b"b"])
        assert leader.leads
