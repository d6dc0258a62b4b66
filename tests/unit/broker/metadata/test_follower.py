"""A broker reads the metadata log of a real quorum, through failovers and from snapshots."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from rookery.broker.metadata.follower import ForkedError, MetadataFollower, MetadataFollowerSettings, Tail
from rookery.controller.raft.batches import data_batch
from rookery.core.errors import CorruptMessageError
from rookery.core.metadata_log import SnapshotId
from rookery.core.wire.records import Record, build_batch
from rookery.proto import raft_pb2 as pb
from tests.unit.controller.raft_driver.nodes import CLUSTER_ID, Member, Nodes, Words, nodes, until
from tests.unit.controller.raft_driver.test_node import snapshot, words
from tests.unit.core.net.test_control import UNKNOWN


def batch(offset: int, *values: bytes, epoch: int = 1, control: bool = False) -> bytes:
    records = [Record(offset + index, 5, b"\0\0\0\2" if control else None, v) for index, v in enumerate(values)]
    return bytes(build_batch(records, leader_epoch=epoch, control=control))


def test_values_are_given_once_they_are_committed() -> None:
    tail = Tail()
    tail.append(batch(0, b"", control=True) + batch(1, b"a", b"b") + batch(3, b"c", epoch=2))
    assert (tail.end_offset, tail.end_epoch, tail.committed) == (4, 2, 0)
    assert [found.values for found in tail.take(2)] == [], "half a batch is not committed"
    assert [found.values for found in tail.take(3)] == [(b"a", b"b")]
    assert [found.values for found in tail.take(100)] == [(b"c",)]
    assert (tail.committed, tail.size) == (4, 0)


def test_records_that_came_twice_count_once_and_gaps_are_noticed() -> None:
    tail = Tail()
    tail.append(batch(0, b"a"))
    tail.append(batch(0, b"a") + batch(1, b"b"))
    assert [found.values for found in tail.take(2)] == [(b"a",), (b"b",)]
    with pytest.raises(CorruptMessageError, match="2 to 5 are missing"):
        tail.append(batch(5, b"x"))


def test_damaged_records_are_not_taken() -> None:
    data = bytearray(batch(0, b"a"))
    data[-2] ^= 1
    tail = Tail()
    with pytest.raises(CorruptMessageError):
        tail.append(bytes(data))
    with pytest.raises(CorruptMessageError):
        tail.append(bytes(data[:30]))
    assert tail.end_offset == 0


def test_what_the_leader_does_not_have_is_forgotten_unless_it_was_committed() -> None:
    tail = Tail()
    tail.append(batch(0, b"a") + batch(1, b"old", epoch=1) + batch(2, b"old", epoch=1))
    tail.take(1)
    tail.truncate(1, 1)
    assert (tail.end_offset, tail.end_epoch, tail.size) == (1, 1, 0)
    tail.append(batch(1, b"new", epoch=2))
    assert [found.values for found in tail.take(2)] == [(b"new",)]
    with pytest.raises(ForkedError, match="records up to 2 of epoch 2 were committed"):
        tail.truncate(1, 2)
    with pytest.raises(ForkedError):
        tail.truncate(5, 1)


@pytest.mark.invariant("M12")
def test_records_of_an_epoch_that_the_leader_does_not_have_are_forgotten_wherever_they_end() -> None:
    tail = Tail()
    tail.append(batch(0, b"a") + batch(1, b"b") + batch(2, b"lost", epoch=2) + batch(3, b"lost", epoch=3))
    tail.take(1)
    tail.truncate(9, 2)
    assert (tail.end_offset, tail.end_epoch) == (3, 2)
    tail.truncate(9, 1)
    assert (tail.end_offset, tail.end_epoch) == (2, 1)
    tail.drop_uncommitted()
    assert (tail.end_offset, tail.size) == (1, 0)


def test_a_snapshot_replaces_everything() -> None:
    tail = Tail()
    tail.append(batch(0, b"a"))
    tail.restart_at(SnapshotId(50, 4))
    assert (tail.committed, tail.end_offset, tail.end_epoch, tail.size) == (50, 50, 4, 0)


@asynccontextmanager
async def follower(cluster: Nodes, **changes: object) -> AsyncIterator[tuple[MetadataFollower, Words]]:
    heard = Words()
    settings = {
        "cluster_id": CLUSTER_ID,
        "node_id": 50,
        "bootstrap": tuple(voter.endpoint for voter in cluster.voters),
        "max_wait_ms": 200,
        "request_timeout_ms": 500,
        **changes,
    }
    made = MetadataFollower(MetadataFollowerSettings(**settings), heard)  # type: ignore[arg-type]
    serving = asyncio.create_task(made.serve())
    try:
        yield made, heard
        assert not serving.done(), serving
    finally:
        serving.cancel()
        await asyncio.wait([serving])
        await made.stop()


async def test_a_broker_learns_what_is_committed_and_who_leads(tmp_path: Path) -> None:
    async with nodes(tmp_path, 3) as cluster, follower(cluster) as (made, heard):
        leader = await cluster.leader()
        await until("all disks are known", lambda: leader.node.driver().core.voters.all_pinned)
        leader.propose(*words(0, 10))
        await until("the broker has all", lambda: heard.values == words(0, 10))
        assert heard.leader == leader.words.leader
        assert made.leader == (*leader.words.leader, leader.endpoint)
        assert made.position == heard.end.end_offset


async def test_it_goes_on_after_a_failover(tmp_path: Path) -> None:
    async with nodes(tmp_path, 3) as cluster, follower(cluster) as (_, heard):
        first = await cluster.leader()
        first.propose(*words(0, 10))
        await until("the broker has all", lambda: heard.values == words(0, 10))
        await first.stop()
        second = await cluster.leader()
        second.propose(b"next")
        await until("the broker has the next", lambda: heard.values == [*words(0, 10), b"next"])
        assert heard.leader == second.words.leader


async def fill(cluster: Nodes, leader: Member) -> list[bytes]:
    """So much that the log begins with a snapshot of many pieces."""
    for round_ in range(3):
        leader.propose(*(b"%d" % round_ + bytes(100_000) for _ in range(60)))
        expected = [b"%d" % done + bytes(100_000) for done in range(round_ + 1) for _ in range(60)]
        await cluster.all_have(expected)
        await snapshot(leader)
    return expected


@pytest.mark.invariant("R15", "M12")
async def test_a_late_broker_starts_from_the_snapshot(tmp_path: Path) -> None:
    async with nodes(tmp_path, 1) as cluster:
        leader = await cluster.leader()
        expected = await fill(cluster, leader)
        leader.propose(b"tail")
        async with follower(cluster) as (_, heard):
            await until("the broker has all", lambda: heard.values == [*expected, b"tail"])
            assert len(heard.snapshots) == 1


class Torn:
    """A stub whose every call for a snapshot breaks after one piece."""

    def __init__(self, stub: Any, positions: list[int]) -> None:
        self.Fetch = stub.Fetch
        self._fetch_snapshot = stub.FetchSnapshot
        self._positions = positions

    async def FetchSnapshot(self, request: Any, timeout: float) -> AsyncIterator[Any]:
        self._positions.append(request.position)
        call = self._fetch_snapshot(request, timeout=30)
        async for piece in call:
            yield piece
            call.cancel()
            break
        nothing = grpc.aio.Metadata()
        raise grpc.aio.AioRpcError(grpc.StatusCode.DEADLINE_EXCEEDED, nothing, nothing, details="slow")


@pytest.mark.invariant("R15")
async def test_a_snapshot_is_gone_on_with_where_a_slow_link_left_off(tmp_path: Path) -> None:
    async with nodes(tmp_path, 1) as cluster:
        expected = await fill(cluster, await cluster.leader())
        positions: list[int] = []
        async with follower(cluster) as (made, heard):
            whole = made._stub
            made._stub = lambda: Torn(whole(), positions)  # type: ignore[method-assign]
            await until("the broker has all", lambda: heard.values == expected)
        assert len(positions) > 1
        assert positions == sorted(set(positions))


async def test_a_broker_of_another_cluster_gets_nothing_and_harms_nobody(tmp_path: Path) -> None:
    async with nodes(tmp_path, 1) as cluster, follower(cluster, cluster_id="another") as (made, heard):
        leader = await cluster.leader()
        leader.propose(b"x")
        await cluster.all_have([b"x"])
        await until("the broker was refused", lambda: made._failures > 1)
        assert heard.values == []


def test_a_broker_needs_to_know_where_to_look() -> None:
    with pytest.raises(ValueError, match=r"controller\.quorum\.bootstrap\.servers"):
        MetadataFollower(MetadataFollowerSettings(CLUSTER_ID, 1, ()), Words())


async def test_a_controller_whose_name_is_unknown_is_looked_up_anew(tmp_path: Path) -> None:
    """With the same channel it would be after pauses of up to two minutes."""
    async with follower(Nodes(tmp_path, 1), bootstrap=(UNKNOWN,)) as (made, _):
        made._stub()
        first = made._channels[UNKNOWN]
        await until("another channel", lambda: made._channels.get(UNKNOWN, first) is not first)


class Scripted:
    """A leader whose answers are given; it keeps what it was asked."""

    def __init__(self, *answers: pb.FetchResponse) -> None:
        self.asked: list[tuple[int, int]] = []
        self._answers = iter(answers)

    async def Fetch(self, request: pb.FetchRequest, timeout: float) -> pb.FetchResponse:
        self.asked.append((request.log_end.offset, request.log_end.epoch))
        answer = next(self._answers, None)
        if answer is None:
            await asyncio.Event().wait()
        assert answer is not None
        return answer


@pytest.mark.invariant("M12")
async def test_nothing_is_taken_from_an_answer_of_a_leader_whose_log_differs(tmp_path: Path) -> None:
    """A record of a deposed leader lies within what the new one has committed: it must never be applied."""
    leader = pb.Leader(id=1, epoch=5, endpoint="nowhere:1")
    shared, lost = bytes(data_batch([b"a"], 0, 0, 2)), bytes(data_batch([b"lost"], 0, 1, 4))
    kept = bytes(data_batch([b"kept"], 0, 1, 3))
    first = pb.FetchResponse(leader=leader, records=shared + lost, high_watermark=1)
    diverging = pb.FetchResponse(
        leader=leader, high_watermark=7, diverging=pb.LogPosition(offset=7, epoch=3), records=lost
    )
    last = pb.FetchResponse(leader=leader, records=kept, high_watermark=2)
    quorum = Scripted(first, diverging, last)
    async with follower(Nodes(tmp_path, 1)) as (made, heard):
        made._stub = lambda: quorum  # type: ignore[method-assign]
        await until("all answers are taken", lambda: len(quorum.asked) == 4)
        assert heard.values == [b"a", b"kept"]
    assert quorum.asked == [(0, 0), (2, 4), (1, 2), (2, 3)]
