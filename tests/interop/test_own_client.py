"""Our own client against our server and against Apache Kafka's: the same suite, the same results."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rookery import (
    Admin,
    Consumer,
    IllegalStateError,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    ProducerFencedError,
    Record,
    TopicPartition,
    sync,
)
from rookery.client.admin.types import TopicDescription
from rookery.client.cli.__main__ import main
from rookery.core.errors import UnknownTopicOrPartitionError
from tests.cluster.local import local_cluster
from tests.interop.kafka.server import KafkaServer

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
WAIT_S = 60


class Server:
    """Where the tests connect to, and how it is stopped and started again."""

    def __init__(self, bootstrap: str, stop: Any, start: Any) -> None:
        self.bootstrap = bootstrap
        self.stop = stop
        self.start = start

    def producer(self, **options: Any) -> Producer:
        return Producer(bootstrap_servers=self.bootstrap, **options)

    def consumer(self, *topics: str, **options: Any) -> Consumer:
        settings = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 1000, **options}
        return Consumer(*topics, bootstrap_servers=self.bootstrap, **settings)

    async def create(self, *topics: str, partitions: int = 1) -> None:
        async with Admin(bootstrap_servers=self.bootstrap) as admin:
            for topic in topics:
                await admin.create_topic(topic, partitions=partitions)


@pytest.fixture(scope="module", params=["rookery", "kafka"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if request.param == "kafka":
        folder: Path = tmp_path_factory.mktemp("kafka")
        kafka = KafkaServer(folder)
        kafka.start()
        try:
            yield Server(kafka.bootstrap, kafka.kill, kafka.start)
        finally:
            kafka.stop()
    else:
        with local_cluster(1) as cluster:
            yield Server(cluster.bootstrap, lambda: cluster.kill(1), cluster.up)


async def read(consumer: Consumer, count: int) -> list[Record[Any, Any]]:
    found: list[Record[Any, Any]] = []
    async with asyncio.timeout(WAIT_S):
        while len(found) < count:
            found += await consumer.getmany(max_records=count - len(found))
    return found


async def test_the_calls_that_programs_are_written_with(server: Server) -> None:
    """The quick start, call by call."""
    servers = server.bootstrap
    async with Admin(bootstrap_servers=servers) as a:
        await a.create_topic("t", partitions=3, replication_factor=1, config={"retention.ms": "60000"})
    async with Producer(bootstrap_servers=servers, acks="all", linger_ms=5) as p:
        meta = await p.send("t", b"value", key=b"k", headers=[("h", b"1")])
        place = await meta
        assert (place.topic, place.offset) == ("t", 0)
    async with Producer(bootstrap_servers=servers, transactional_id="contract") as p, p.transaction():
        await p.send("t", b"second", key=b"k")
    async with Consumer("t", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as c:
        async for record in c:
            assert (record.topic, record.partition, record.offset) == ("t", place.partition, 0)
            assert (record.key, record.value, list(record.headers)) == (b"k", b"value", [("h", b"1")])
            assert record.timestamp == place.timestamp
            break
        async with asyncio.timeout(WAIT_S):
            while not (batch := await c.getmany(timeout_ms=1000, max_records=500)):
                pass
        assert [each.value for each in batch] == [b"second"]
        assert await c.getmany(timeout_ms=1) == []
        await c.commit()
        await c.commit({TopicPartition("t", place.partition): 17})
        assert (await c.committed())[TopicPartition("t", place.partition)] == OffsetAndMetadata(17)


def test_the_same_calls_without_asyncio(server: Server) -> None:
    servers = server.bootstrap
    with sync.Admin(bootstrap_servers=servers) as a:
        a.create_topic("plain", partitions=1)
    with sync.Producer(bootstrap_servers=servers, acks="all", linger_ms=5) as p:
        assert p.send("plain", b"value", key=b"k", headers=[("h", b"1")]).result().offset == 0
    with sync.Consumer("plain", bootstrap_servers=servers, group_id="plain", auto_offset_reset="earliest") as c:
        for record in c:
            assert (record.offset, record.key, record.value) == (0, b"k", b"value")
            break
        assert c.getmany(timeout_ms=1, max_records=500) == []
        c.commit()
        found = c.committed()[TopicPartition("plain", 0)]
        assert found is not None
        assert found.offset == 1


async def test_poison_records_a_parallel_run_and_commits_in_the_background(server: Server) -> None:
    await server.create("poison", "poison-dead", partitions=2)
    async with server.producer() as producer:
        for number in range(40):
            await producer.send("poison", b"x" if number == 7 else b"%d" % number, key=b"%d" % (number % 5))
    seen: dict[bytes, list[int]] = {}
    told: list[Any] = []
    async with server.consumer(
        "poison",
        group_id="poison",
        value_deserializer="json",
        on_deserialize_error="dead-letter",
        dead_letter_topic="poison-dead",
        enable_auto_commit=False,
    ) as consumer:
        enough = asyncio.Event()

        async def handle(record: Record[Any, Any]) -> None:
            seen.setdefault(record.key, []).append(record.value)
            if sum(map(len, seen.values())) == 39:
                enough.set()

        running = asyncio.create_task(consumer.run(handle, concurrency=4, handle_signals=False))
        async with asyncio.timeout(WAIT_S):
            await enough.wait()
        running.cancel()
        await asyncio.wait((running,))
        await consumer.commit_async(callback=lambda offsets, error: told.append(error))
        assert sum(each.offset for each in (await consumer.committed()).values() if each is not None) == 40
    assert told == [None]
    assert seen == {b"%d" % key: [n for n in range(key, 40, 5) if n != 7] for key in range(5)}
    async with server.consumer("poison-dead") as consumer:
        assert [record.value for record in await read(consumer, 1)] == [b"x"]


async def test_all_codecs_one_by_one_and_in_bulk(server: Server) -> None:
    await server.create("codecs")
    sent: list[tuple[bytes, bytes]] = []
    for codec in CODECS:
        async with server.producer(compression_type=codec) as producer:
            place = await (await producer.send("codecs", b"v" * 500, key=codec.encode(), headers=[("h", b"1")]))
            assert place.offset == len(sent)
            sent.append((codec.encode(), b"v" * 500))
            values = [b"%d" % number for number in range(100)]
            places = await (await producer.send_many("codecs", values, keys=[b"k"] * 100))
            assert [each.offset for each in places] == list(range(len(sent), len(sent) + 100))
            sent += [(b"k", value) for value in values]
    async with server.consumer() as consumer:
        consumer.assign([TopicPartition("codecs", 0)])
        records = await read(consumer, len(sent))
    assert [(record.key, record.value) for record in records] == sent
    assert list(records[0].headers) == [("h", b"1")]


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
async def test_a_group_shares_commits_and_resumes(server: Server, protocol: str) -> None:
    topic = group = f"shared-{protocol}"
    await server.create(topic, partitions=4)
    async with server.producer() as producer:
        await (await producer.send_many(topic, [b"%d" % n for n in range(80)], keys=[b"%d" % n for n in range(80)]))
    options = {"group_id": group, "group_protocol": protocol, "enable_auto_commit": False}
    async with server.consumer(topic, **options) as first, server.consumer(topic, **options) as second:
        seen: dict[tuple[int, int], bytes] = {}
        async with asyncio.timeout(WAIT_S):
            while not (first.assignment and second.assignment and read_so_far(first, second) == 80):
                for consumer in (first, second):
                    records = await consumer.getmany(timeout_ms=100)
                    seen |= {(each.partition, each.offset): each.value for each in records}
        assert first.assignment | second.assignment == {TopicPartition(topic, index) for index in range(4)}
        assert not first.assignment & second.assignment
        assert sorted(int(value) for value in seen.values()) == list(range(80))
        await first.commit()
        await second.commit({tp: OffsetAndMetadata(at.offset, "note") for tp, at in second.positions().items()})
    async with server.producer() as producer:
        await (await producer.send(topic, b"last", partition=2))
    async with server.consumer(topic, **options) as third:
        assert [record.value for record in await read(third, 1)] == [b"last"]


def read_so_far(*consumers: Consumer) -> int:
    """The records before the positions of all partitions."""
    return sum(at.offset for consumer in consumers for at in consumer.positions().values())


class CrashError(Exception):
    """Comes out of a transaction."""


async def aborted(producer: Producer) -> None:
    async with producer.transaction() as transaction:
        await transaction.send("tx", b"gone")
        await producer.flush()
        raise CrashError


async def fenced(producer: Producer) -> None:
    async with producer.transaction() as transaction:
        await (await transaction.send("tx", b"late"))


async def test_transactions(server: Server) -> None:
    await server.create("tx", "tx-in")
    place = TopicPartition("tx-in", 0)
    async with server.producer(transactional_id="own") as producer:
        async with producer.transaction() as transaction:
            await transaction.send("tx", b"kept")
            await transaction.send_offsets({place: OffsetAndMetadata(5)}, "tx-group")
        with pytest.raises(CrashError):
            await aborted(producer)
        with pytest.raises(IllegalStateError):
            await producer.send("tx", b"outside")
        async with server.producer(transactional_id="own") as successor:
            async with successor.transaction() as transaction:
                await transaction.send("tx", b"next")
            with pytest.raises(ProducerFencedError):
                await fenced(producer)
    async with server.consumer(isolation_level="read_committed") as consumer:
        consumer.assign([TopicPartition("tx", 0)])
        assert [record.value for record in await read(consumer, 2)] == [b"kept", b"next"]
    async with Admin(bootstrap_servers=server.bootstrap) as admin:
        assert (await admin.list_group_offsets("tx-group"))[place].offset == 5


async def described_at_last(admin: Admin, topic: str) -> TopicDescription:
    """Brokers of Apache Kafka learn of a new topic after the one that was asked."""
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                return await admin.describe_topic(topic)
            except UnknownTopicOrPartitionError:
                await asyncio.sleep(0.05)


async def test_admin_seeks_and_patterns(server: Server) -> None:
    async with Admin(bootstrap_servers=server.bootstrap) as admin:
        await admin.create_topic("look-a", partitions=2, config={"retention.ms": "60000000"})
        described = await described_at_last(admin, "look-a")
        assert len(described.partitions) == 2
        assert (await admin.describe_topic_config("look-a", ["retention.ms"]))["retention.ms"].value == "60000000"
        await admin.create_partitions("look-a", 3)
        with pytest.raises(KafkaError):
            await admin.create_topic("look-a")
    async with server.producer() as producer:
        for number in range(10):
            await producer.send("look-a", b"%d" % number, partition=0, timestamp_ms=1_000_000 + number)
    place = TopicPartition("look-a", 0)
    async with server.consumer() as consumer:
        consumer.assign([place])
        consumer.seek_to_time(1_000_007)
        assert [record.value for record in await read(consumer, 3)] == [b"7", b"8", b"9"]
        consumer.seek(place, 4)
        assert [record.value for record in await read(consumer, 1)] == [b"4"]
        assert await consumer.beginning_offsets(place) == {place: 0}
        assert await consumer.end_offsets(place) == {place: 10}
    async with server.consumer(group_id="look") as consumer:
        consumer.subscribe(pattern="look-.*")
        assert len(await read(consumer, 10)) == 10
        await server.create("look-b")
        async with server.producer() as producer:
            await producer.send("look-b", b"found")
        assert [record.topic for record in await read(consumer, 1)] == ["look-b"]


async def test_a_server_that_is_killed_and_comes_back(server: Server) -> None:
    """Nothing is lost, doubled or reordered, and nobody has to do anything."""
    await server.create("back")
    async with (
        server.producer(linger_ms=1) as producer,
        server.consumer("back", group_id="back", session_timeout_ms=30_000, group_protocol="classic") as consumer,
    ):
        sent = [await producer.send("back", b"%d" % number) for number in range(50)]
        await producer.flush()
        assert len(await read(consumer, 20)) == 20
        await asyncio.to_thread(server.stop)
        sent += [await producer.send("back", b"%d" % number) for number in range(50, 100)]
        await asyncio.to_thread(server.start)
        assert [(await each).offset for each in sent] == list(range(100))
        assert [int(record.value) for record in await read(consumer, 80)] == list(range(20, 100))


VERBS = (
    "topic create verbs --partitions 2 --replication-factor 1", "topic list -o json", "topic describe verbs",
    "topic alter verbs retention.ms=60000", "topic add-partitions verbs 3", "topic offsets verbs", "consume verbs -n 0",
    "config get topic verbs", "config set topic verbs retention.ms=50000", "config diff topic verbs",
    "config unset topic verbs retention.ms", "cluster status", "cluster describe", "cluster health", "node list",
    "node describe 1", "partition reassign --brokers 1", "partition elect", "transaction list", "user list",
    "quota list", "doctor", "group reset of-verbs --to-earliest --topic verbs --yes", "group list",
    "group describe of-verbs", "group explain of-verbs", "group export of-verbs", "group delete of-verbs --yes",
    "topic copy verbs verbs-2", "topic delete verbs --yes", "topic delete verbs-2 --yes",
)  # fmt: skip


def test_verbs_of_the_command_line(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """docs/cli.md says that they work against Apache Kafka, too."""
    for verb in VERBS:
        found = main([*verb.split(), "--bootstrap", server.bootstrap])
        printed = capsys.readouterr()
        assert found == 0, f"{verb}: {printed.out}{printed.err}"
