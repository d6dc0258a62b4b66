"""Consumer groups: time of a rebalance, commits per second, time until a killed coordinator is replaced.

The members speak the protocol and nothing else, all from one event loop, the same against one node of ours and, where
Java and Maven are there, one node of Apache Kafka in the same run. CPU is that of the server's process.
"""

import asyncio
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rookery.broker.coordination.internal_topic import partition_for
from rookery.core.errors import ErrorCode
from rookery.core.net.connection import Connection, ConnectionLostError
from rookery.core.wire.apis.create_topics import CREATE_TOPICS, CreatableTopic, CreateTopicsRequest
from rookery.core.wire.apis.find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from rookery.core.wire.apis.heartbeat import HEARTBEAT, HeartbeatRequest
from rookery.core.wire.apis.join_group import JOIN_GROUP, JoinGroupRequest, JoinGroupRequestProtocol
from rookery.core.wire.apis.offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from rookery.core.wire.apis.sync_group import SYNC_GROUP, SyncGroupRequest, SyncGroupRequestAssignment
from tests.cluster.local import local_cluster
from tests.interop.kafka.server import KafkaServer

SIZES = (2, 20, 100)
REBALANCES = 10
COMMITTERS = 16
COMMITS_S = 4.0
FAILOVERS = 5
TIMEOUT_S = 60.0
TOPIC = "bench"
SUBSCRIPTION = b"\0\0\0\0\0\1\0\5bench\xff\xff\xff\xff"
TICKS = os.sysconf("SC_CLK_TCK")


class Peer(NamedTuple):
    name: str
    host: str
    port: int
    pid: int

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    async def connect(self) -> Connection:
        return await Connection.open(self.host, self.port, client_id="bench")


class Member:
    """One member of a group on a connection of its own."""

    def __init__(self, connection: Connection, group: str) -> None:
        self._connection = connection
        self._group = group
        self._id = ""
        self._generation = -1

    async def rejoin_requested(self) -> None:
        """Heartbeat until the group rebalances."""
        while True:
            request = HeartbeatRequest(group_id=self._group, generation_id=self._generation, member_id=self._id)
            answer = await self._connection.request(HEARTBEAT, 3, request, TIMEOUT_S)
            if answer.error_code:
                return

    async def rebalance(self) -> None:
        """Join and sync."""
        answer = await self._join()
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._id = answer.member_id
            answer = await self._join()
        if answer.error_code:
            raise RuntimeError(f"join: {ErrorCode(answer.error_code).name}")
        self._generation = answer.generation_id
        given = [
            SyncGroupRequestAssignment(member_id=member.member_id, assignment=bytes(64)) for member in answer.members
        ]
        request = SyncGroupRequest(
            group_id=self._group, generation_id=answer.generation_id, member_id=self._id, assignments=given
        )
        synced = await self._connection.request(SYNC_GROUP, 3, request, TIMEOUT_S)
        if synced.error_code:
            await self.rebalance()

    async def _join(self) -> Any:
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=self._id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        )
        return await self._connection.request(JOIN_GROUP, 5, request, TIMEOUT_S)

    def close(self) -> None:
        self._connection.close()


async def ready(peer: Peer, group: str) -> None:
    """Wait until the group has a coordinator that answers."""
    connection = await peer.connect()
    topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1, assignments=(), configs=())
    await connection.request(CREATE_TOPICS, 4, CreateTopicsRequest(topics=[topic], timeout_ms=30_000), TIMEOUT_S)
    while True:
        found = await connection.request(FIND_COORDINATOR, 2, FindCoordinatorRequest(key=group), TIMEOUT_S)
        if found.error_code == 0 and await committed_at(found.host, found.port, group, 0):
            break
        await asyncio.sleep(0.05)
    connection.close()


async def committed_at(host: str, port: int, group: str, offset: int) -> bool:
    """Whether this node takes a commit of the group."""
    try:
        connection = await Connection.open(host, port, client_id="bench")
        code = await commit(connection, group, offset)
        connection.close()
    except (OSError, ConnectionLostError):
        return False
    return code == 0


async def commit(connection: Connection, group: str, offset: int) -> int:
    request = OffsetCommitRequest(
        group_id=group,
        member_id="",
        topics=[
            OffsetCommitRequestTopic(
                name=TOPIC, partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)]
            )
        ],
    )
    answer = await connection.request(OFFSET_COMMIT, 7, request, TIMEOUT_S)
    code: int = answer.topics[0].partitions[0].error_code
    return code


async def rebalance(members: list[Member]) -> float:
    """Seconds from the moment one member asks for a rebalance until all have their assignment."""
    began = time.perf_counter()
    *others, asking = members
    asked = asyncio.create_task(asking.rebalance())
    if others:
        await others[-1].rejoin_requested()
    await asyncio.gather(asked, *(member.rebalance() for member in others))
    return time.perf_counter() - began


async def rebalances(peer: Peer, size: int) -> tuple[float, float]:
    """Milliseconds, of time and of the server's CPU, of one rebalance."""
    group = f"rebalance-{size}"
    await ready(peer, group)
    members: list[Member] = []
    for _ in range(size):
        members.append(Member(await peer.connect(), group))
        await rebalance(members)
    members = [*members[1:], members[0]]  # the leader asks
    before = peer.cpu_s()
    times = [await rebalance(members) for _ in range(REBALANCES)]
    cpu = (peer.cpu_s() - before) / REBALANCES
    for member in members:
        member.close()
    return statistics.median(times) * 1000, cpu * 1000


async def commits(peer: Peer) -> tuple[float, float]:
    """Commits per second of several clients, each waiting for its answer, and microseconds of CPU for each."""
    await asyncio.gather(*(ready(peer, f"commit-{number}") for number in range(COMMITTERS)))
    end = time.perf_counter() + COMMITS_S
    before = peer.cpu_s()

    async def work(number: int) -> int:
        connection = await peer.connect()
        done = 0
        while time.perf_counter() < end:
            if await commit(connection, f"commit-{number}", done) != 0:
                raise RuntimeError("a commit was refused")
            done += 1
        connection.close()
        return done

    done = sum(await asyncio.gather(*(work(number) for number in range(COMMITTERS))))
    return done / COMMITS_S, (peer.cpu_s() - before) / done * 1e6


@contextmanager
def our_node() -> Iterator[Peer]:
    with local_cluster(1, group__initial__rebalance__delay__ms="0", offsets__topic__num__partitions="1") as cluster:
        node = cluster.node(1)
        host, _, port = node.kafka.rpartition(":")
        yield Peer("rookery", host, int(port), node.pid)


@contextmanager
def kafkas_node() -> Iterator[Peer]:
    folder = Path(tempfile.mkdtemp(prefix="rookery-bench-"))
    server = KafkaServer(folder)
    server.start()
    try:
        host, _, port = server.bootstrap.rpartition(":")
        yield Peer("Kafka", host, int(port), server.pid)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def failover() -> list[float]:
    """Seconds from kill -9 of a coordinator until another acknowledges a commit, on three nodes."""
    gaps = []
    with local_cluster(3, offsets__topic__num__partitions="6") as cluster:
        cluster.create_topic(TOPIC, 1, 3)
        first = cluster.node(1).kafka.rpartition(":")
        asyncio.run(ready(Peer("first", first[0], int(first[2]), 0), "failover"))
        cluster.wait_in_sync("__consumer_offsets", 6)
        for number in range(FAILOVERS):
            victim = cluster.leader("__consumer_offsets", partition_for("failover", 6))
            others = [cluster.node(id).kafka.rpartition(":") for id in cluster.ids if id != victim]
            cluster.kill(victim)
            began = time.perf_counter()
            asyncio.run(committed_somewhere([(host, int(port)) for host, _, port in others], number))
            gaps.append(time.perf_counter() - began)
            cluster.up()
            cluster.wait_in_sync("__consumer_offsets", 6)
    return gaps


async def committed_somewhere(nodes: list[tuple[str, int]], offset: int) -> None:
    while not any([await committed_at(host, port, "failover", offset) for host, port in nodes]):
        await asyncio.sleep(0.01)


def measured(peer: Callable[[], Any], what: Callable[[Peer], Awaitable[Any]]) -> Any:
    with peer() as running:
        return asyncio.run(what(running))  # type: ignore[arg-type]


async def everything(peer: Peer) -> dict[str, tuple[float, float]]:
    found = {f"rebalance of {size:3} members (ms)": await rebalances(peer, size) for size in SIZES}
    found["commits per second"] = await commits(peer)
    return found


def main() -> None:
    ours = measured(our_node, everything)
    theirs: dict[str, tuple[float, float]] = {}
    if shutil.which("java") and shutil.which("mvn"):
        theirs = measured(kafkas_node, everything)
    print(f"{'':34}{'rookery':>10}{'CPU':>10}{'Kafka':>12}{'CPU':>10}{'ratio':>8}")
    for name, (value, cpu) in ours.items():
        unit = "us each" if "commits" in name else "ms"
        line = f"{name:34}{value:10.1f}{cpu:7.1f} {unit:3.3}"
        if name in theirs:
            other, other_cpu = theirs[name]
            line += f"{other:11.1f}{other_cpu:7.1f} {unit:3.3}{value / other:7.2f}"
        print(line)
    gaps = sorted(failover())
    print(f"coordinator killed (s): median {statistics.median(gaps):.2f}, longest {gaps[-1]:.2f} of {len(gaps)}")


if __name__ == "__main__":
    main()
