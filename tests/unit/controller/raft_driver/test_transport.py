"""What a slow link does to a download."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from rookery.controller.raft import messages as m
from rookery.controller.raft.ready import Send
from rookery.controller.raft.settings import RaftConfig
from rookery.controller.raft.translation import CallerIdentity
from rookery.controller.raft.transport import Transport
from rookery.controller.raft.voters import ReplicaKey
from rookery.proto import raft_pb2 as pb
from tests.unit.controller.raft_driver.nodes import until

SNAPSHOT = m.SnapshotId(9, 2)
HASTY = RaftConfig(fetch_timeout_ms=40, fetch_max_wait_ms=20)


class Inbox:
    def __init__(self) -> None:
        self.responses: list[m.Response] = []
        self.failed: list[int] = []

    def received(self, response: m.Response) -> None:
        self.responses.append(response)

    def request_failed(self, to: int, correlation: int) -> None:
        self.failed.append(correlation)

    def leader_connection_closed(self, leader_id: int) -> None:
        raise AssertionError("it is only slow")


class SlowLeader:
    """So many pieces arrive at once; the rest takes for ever."""

    def __init__(self, arrive: int) -> None:
        self.arrive = arrive
        self.cut = 0

    async def FetchSnapshot(self, request: pb.FetchSnapshotRequest, timeout: float) -> AsyncIterator[pb.SnapshotChunk]:
        leader = pb.Leader(id=1, epoch=3, reported_by=1)
        position = request.position
        try:
            for _ in range(self.arrive):
                yield pb.SnapshotChunk(
                    leader=leader, snapshot=request.snapshot, size=100, position=position, data=b"piece"
                )
                position += 5
            await asyncio.Event().wait()
        finally:
            self.cut += 1


async def download(leader: SlowLeader) -> Inbox:
    inbox, key = Inbox(), ReplicaKey(2, UUID(int=2))
    transport = Transport(lambda: CallerIdentity("c", key, 1, ()), HASTY, inbox, me=2, endpoints={1: "leader:1"})
    tasks: list[asyncio.Task[None]] = []
    transport._peer("leader:1", tasks.append).stub = leader  # type: ignore[arg-type]
    request = m.FetchSnapshotRequest(2, 77, 3, key, SNAPSHOT, 10)
    transport.send(Send(1, request), lambda work: tasks.append(asyncio.create_task(work)))
    await until("it ended", lambda: inbox.responses or inbox.failed)
    await asyncio.wait(tasks)
    await transport.close()
    assert leader.cut == 1, "the rest is not waited for"
    return inbox


@pytest.mark.invariant("R15")
async def test_what_has_arrived_of_a_snapshot_counts() -> None:
    inbox = await download(SlowLeader(arrive=3))
    (response,) = inbox.responses
    assert isinstance(response, m.FetchSnapshotResponse)
    assert (response.correlation, response.position, response.size) == (77, 10, 100)
    assert response.chunk == b"piecepiecepiece"
    assert not inbox.failed


async def test_a_leader_of_whom_nothing_arrives_has_failed() -> None:
    inbox = await download(SlowLeader(arrive=0))
    assert (inbox.responses, inbox.failed) == ([], [77])
