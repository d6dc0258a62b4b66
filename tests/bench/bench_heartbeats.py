"""10,000 members in 100 groups of the consumer protocol, each on a connection of its own, with the default heartbeat
interval of 5 s, on one node of ours and one of Apache Kafka, one after the other.

The members speak the protocol and nothing else, all from one event loop. CPU and memory are those of the server's
process; the time of a heartbeat is what its member waits, the bench's own loop included. When all groups are stable
nothing may be written any more.
"""

import asyncio
import shutil
import statistics
import time
from random import Random
from uuid import uuid4

from confluent_kafka import Consumer, TopicPartition

from rookery.core.errors import ErrorCode
from rookery.core.net.connection import Connection
from rookery.core.wire.apis.consumer_group_heartbeat import (
    CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from rookery.core.wire.apis.find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from rookery.core.wire.apis.list_groups import LIST_GROUPS, ListGroupsRequest
from tests.bench.loaders import cpu_s, memory_mb
from tests.cluster.local import LocalCluster, local_cluster
from tests.interop.kafka.cluster import kafka_cluster

GROUPS, MEMBERS = 100, 100
TOPIC = "t"
VERSION = 1
TIMEOUT_S = 60.0
STABLE_S = 240.0
MEASURED_S = 15.0
NOT_YET = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
AT_ONCE = 50
"""Members that join at the same time."""


class Member:
    """Says what changed, as clients do: its partitions when they were assigned anew, nothing else."""

    def __init__(self, connection: Connection, group: str) -> None:
        self._connection = connection
        self._group = group
        self._id = str(uuid4())
        self._epoch = 0
        self._changed: list[TopicPartitions] | None = []
        self.interval_s = 0.0

    async def join(self) -> None:
        await self._ask(300_000, [TOPIC])

    async def beat(self) -> None:
        await self._ask()

    @property
    def has_to_say_something(self) -> bool:
        return self._changed is not None

    async def _ask(self, rebalance_timeout_ms: int = -1, topics: list[str] | None = None) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._id,
            member_epoch=self._epoch,
            rebalance_timeout_ms=rebalance_timeout_ms,
            subscribed_topic_names=topics,
            topic_partitions=self._changed,
        )
        answer: ConsumerGroupHeartbeatResponse = await self._connection.request(
            CONSUMER_GROUP_HEARTBEAT, VERSION, request, TIMEOUT_S
        )
        if answer.error_code:
            raise RuntimeError(f"{self._group}: {ErrorCode(answer.error_code).name} {answer.error_message}")
        self._epoch = answer.member_epoch
        self.interval_s = answer.heartbeat_interval_ms / 1000
        self._changed = None if answer.assignment is None else list(answer.assignment.topic_partitions)


class Load:
    """All members; `times` are those of heartbeats (s), while they are measured."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._room = asyncio.Semaphore(AT_ONCE)
        self._rng = Random(1)
        self.joined = 0
        self.times: list[float] | None = None

    async def member(self, group: str) -> None:
        async with self._room:
            connection = await Connection.open(self._host, self._port, client_id=group)
            member = Member(connection, group)
            await member.join()
            self.joined += 1
        pause_s = self._rng.random() * member.interval_s
        while True:
            if not member.has_to_say_something:
                await asyncio.sleep(pause_s)
            begun = time.perf_counter()
            await member.beat()
            if self.times is not None:
                self.times.append(time.perf_counter() - begun)
            pause_s = member.interval_s


async def coordinator_serves(host: str, port: int) -> None:
    """The first question for it creates its topic."""
    connection = await Connection.open(host, port, client_id="bench")
    async with asyncio.timeout(TIMEOUT_S):
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=["g0"])
        while (await connection.request(FIND_COORDINATOR, 4, find, TIMEOUT_S)).coordinators[0].error_code:
            await asyncio.sleep(0.1)
        # a member of no group: the answer is UNKNOWN_MEMBER_ID or GROUP_ID_NOT_FOUND when the coordinator is loaded
        nobody = ConsumerGroupHeartbeatRequest(group_id="g0", member_id="nobody", member_epoch=1)
        while True:
            answer = await connection.request(CONSUMER_GROUP_HEARTBEAT, VERSION, nobody, TIMEOUT_S)
            if answer.error_code not in NOT_YET:
                break
            await asyncio.sleep(0.1)
    connection.close()


async def all_stable(host: str, port: int) -> None:
    connection = await Connection.open(host, port, client_id="bench")
    async with asyncio.timeout(STABLE_S):
        while True:
            request = ListGroupsRequest(states_filter=["Stable"], types_filter=["consumer"])
            answer = await connection.request(LIST_GROUPS, 5, request, TIMEOUT_S)
            if len(answer.groups) == GROUPS:
                break
            await asyncio.sleep(1)
    connection.close()


def written(cluster: LocalCluster) -> int:
    """The end of the log of groups."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "log_level": 0})
    try:
        return consumer.get_watermark_offsets(TopicPartition("__consumer_offsets", 0), timeout=30)[1]
    finally:
        consumer.close()


async def beats(name: str, cluster: LocalCluster) -> None:
    node = cluster.node(1)
    host, _, port = node.kafka.rpartition(":")
    await coordinator_serves(host, int(port))
    load = Load(host, int(port))
    empty_mb, begun, spent = memory_mb(node.pid), time.monotonic(), cpu_s(node.pid)
    async with asyncio.TaskGroup() as group:
        members = [group.create_task(load.member(f"g{number % GROUPS}")) for number in range(GROUPS * MEMBERS)]
        while load.joined < len(members):
            await asyncio.sleep(0.1)
        await all_stable(host, int(port))
        took, joining = time.monotonic() - begun, cpu_s(node.pid) - spent
        before = await asyncio.to_thread(written, cluster)
        load.times, begun, spent = [], time.monotonic(), cpu_s(node.pid)
        await asyncio.sleep(MEASURED_S)
        seconds, cpu, times = time.monotonic() - begun, cpu_s(node.pid) - spent, sorted(load.times)
        records = await asyncio.to_thread(written, cluster) - before
        for member in members:
            member.cancel()
    p99 = times[len(times) * 99 // 100]
    print(
        f"{name:9}{took:8.1f}{joining:9.1f}{len(times) / seconds:11,.0f}{cpu / len(times) * 1e6:9.0f}"
        f"{cpu / seconds:9.1%}{statistics.median(times) * 1000:8.1f}{p99 * 1000:8.1f}{times[-1] * 1000:8.1f}"
        f"{records:9}{memory_mb(node.pid) - empty_mb:8.0f}",
        flush=True,
    )


def main() -> None:
    print(f"{GROUPS * MEMBERS:,} members in {GROUPS} groups, each on its own connection; CPU and memory of the server")
    print(
        f"{'':9}{'stable':>8}{'its CPU':>9}{'heartbeats':>11}{'CPU each':>9}{'CPU':>9}{'p50':>8}{'p99':>8}{'max':>8}"
        f"{'records':>9}{'memory':>8}"
    )
    print(f"{'':9}{'s':>8}{'s':>9}{'a second':>11}{'us':>9}{'':>9}{'ms':>8}{'ms':>8}{'ms':>8}{'written':>9}{'MB':>8}")
    options = {"offsets__topic__num__partitions": "1", "auto__create__topics__enable": "false"}
    with local_cluster(1, **options) as cluster:
        cluster.create_topic(TOPIC, MEMBERS, 1)
        asyncio.run(beats("rookery", cluster))
    if shutil.which("java") and shutil.which("mvn"):
        with kafka_cluster(1, **options) as cluster:
            cluster.create_topic(TOPIC, MEMBERS, 1)
            asyncio.run(beats("Kafka", cluster))


if __name__ == "__main__":
    main()
