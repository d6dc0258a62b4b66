"""The Python client while the leader is cut off from the other nodes, but not from the client: it goes on with the next
leader, in both directions, and nothing is lost, doubled or out of order."""

import asyncio

import pytest

from rookery import Consumer, Producer
from rookery.testing import Cluster

TOPIC = "numbers"
OPTIONS = {"broker.session.timeout.ms": 2000, "replica.lag.time.max.ms": 2000, "min.insync.replicas": 2}
PATIENCE_S = 60.0


@pytest.mark.row(17, 20)
async def test_a_leader_that_is_cut_off() -> None:
    async with Cluster(nodes=3, config=OPTIONS) as cluster:
        await asyncio.to_thread(cluster.create_topic, TOPIC, replication_factor=3)
        leader = await asyncio.to_thread(cluster.leader, TOPIC)
        others = [node for node in cluster.ids if node != leader]
        sent, read = 0, list[int]()
        async with (
            Producer(bootstrap_servers=cluster.bootstrap, linger_ms=2, request_timeout_ms=3000) as producer,
            Consumer(
                TOPIC,
                bootstrap_servers=cluster.bootstrap,
                group_id="g",
                auto_offset_reset="earliest",
                metadata_max_age_ms=1000,  # the former leader serves what it has, so nothing else makes a reader ask
            ) as reader,
        ):

            async def pass_on(count: int) -> None:
                """Send that many more, until they are acknowledged and read."""
                nonlocal sent
                async with asyncio.timeout(PATIENCE_S):
                    deliveries = [
                        await producer.send(TOPIC, b"%d" % number) for number in range(sent, sent + count)
                    ]
                    sent += count
                    await asyncio.gather(*deliveries)
                    while len(read) < sent:
                        read.extend(int(record.value) for record in await reader.getmany(timeout_ms=500))

            await pass_on(100)
            async with cluster.partition([leader], others):
                await pass_on(100)
                assert await asyncio.to_thread(cluster.leader, TOPIC) != leader
                await pass_on(100)
            await asyncio.to_thread(cluster.wait_in_sync, TOPIC)
            await pass_on(100)
        stored = await asyncio.to_thread(cluster.records, TOPIC)
        assert [int(record.value or -1) for record in stored] == read == list(range(sent))
