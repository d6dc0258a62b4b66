"""A client with a transactional id in a process of its own, so that it can be killed.

    python -m tests.interop.transaction_client CLIENT BOOTSTRAP produce ID TIMEOUT_MS
    python -m tests.interop.transaction_client CLIENT BOOTSTRAP process ID GROUP INPUT OUTPUT COUNT

`produce` does what it reads, one command a line (init, begin, send TOPIC PARTITION VALUE, flush, offset GROUP TOPIC
PARTITION OFFSET, commit, abort), and answers each with a line of JSON, {"ok": true} or {"error": NAME}.

`process` is a member of the group: it reads COUNT committed records of the input and writes each to the output, a few
in each transaction together with the group's offsets. Before each commit it says {"sent": HOW MANY} and waits for a
line; after it {"committed": HOW MANY IN ALL}.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

STEP = 3
CALL_S = 60.0
SESSION_MS = 3_000


class Taken(NamedTuple):
    topic: str
    partition: int
    offset: int
    value: bytes


class Client(Protocol):
    """What the clients are asked for; each method is a call of the client's own API."""

    async def init(self) -> None: ...
    async def begin(self) -> None: ...
    async def send(self, topic: str, partition: int, value: bytes) -> None: ...
    async def flush(self) -> None: ...
    async def offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        """An offset of a group that nobody is a member of."""

    async def commit(self) -> None: ...
    async def abort(self) -> None: ...
    async def join(self, group: str, topic: str) -> None: ...
    async def poll(self) -> list[Taken]: ...
    async def offsets(self, taken: list[Taken]) -> None:
        """The offsets of what was read, as a member of the group."""


class Confluent:
    def __init__(self, bootstrap: str, name: str, timeout_ms: int) -> None:
        from confluent_kafka import Producer

        self._base: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
        mine = {"transactional.id": name, "transaction.timeout.ms": timeout_ms, "linger.ms": 1}
        self._producer = Producer({**self._base, **mine})
        self._failed: list[Any] = []
        self._groups: dict[str, Any] = {}

    async def init(self) -> None:
        self._producer.init_transactions(CALL_S)

    async def begin(self) -> None:
        self._failed.clear()
        self._producer.begin_transaction()

    async def send(self, topic: str, partition: int, value: bytes) -> None:
        self._producer.produce(topic, value, partition=partition, on_delivery=self._delivered)

    def _delivered(self, error: Any, message: object) -> None:
        if error is not None:
            self._failed.append(error)

    async def flush(self) -> None:
        from confluent_kafka import KafkaException

        self._producer.flush(CALL_S)
        if self._failed:
            raise KafkaException(self._failed[0])

    async def offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        from confluent_kafka import Consumer, TopicPartition

        if group not in self._groups:
            self._groups[group] = Consumer({**self._base, "group.id": group})
        metadata = self._groups[group].consumer_group_metadata()
        self._producer.send_offsets_to_transaction([TopicPartition(topic, partition, offset)], metadata, CALL_S)

    async def commit(self) -> None:
        self._producer.commit_transaction(CALL_S)

    async def abort(self) -> None:
        self._producer.abort_transaction(CALL_S)

    async def join(self, group: str, topic: str) -> None:
        from confluent_kafka import Consumer

        mine = {
            "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
            "session.timeout.ms": SESSION_MS, "isolation.level": "read_committed", "fetch.wait.max.ms": 50,
        }  # fmt: skip
        self._consumer = Consumer({**self._base, **mine})
        self._consumer.subscribe([topic])

    async def poll(self) -> list[Taken]:
        messages = [each for each in self._consumer.consume(STEP, 0.2) if each.error() is None]
        return [Taken(each.topic(), each.partition(), each.offset(), each.value()) for each in messages]  # type: ignore[arg-type]

    async def offsets(self, taken: list[Taken]) -> None:
        from confluent_kafka import TopicPartition

        newest = {(each.topic, each.partition): each.offset + 1 for each in taken}
        places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in newest.items()]
        metadata = self._consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(places, metadata, CALL_S)


class KafkaPython:
    def __init__(self, bootstrap: str, name: str, timeout_ms: int) -> None:
        from kafka import KafkaProducer

        self._bootstrap = bootstrap.split(",")
        self._producer = KafkaProducer(
            bootstrap_servers=self._bootstrap,
            transactional_id=name,
            transaction_timeout_ms=timeout_ms,
            request_timeout_ms=5_000,  # it waits as long for a coordinator that is gone
            max_block_ms=int(CALL_S * 1000),
        )
        self._sends: list[Any] = []

    async def init(self) -> None:
        self._producer.init_transactions()

    async def begin(self) -> None:
        self._sends.clear()
        self._producer.begin_transaction()

    async def send(self, topic: str, partition: int, value: bytes) -> None:
        self._sends.append(self._producer.send(topic, value, partition=partition))

    async def flush(self) -> None:
        self._producer.flush(CALL_S)
        for each in self._sends:
            each.get(CALL_S)

    async def offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        from kafka.structs import OffsetAndMetadata, TopicPartition

        place = {TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)}
        self._producer.send_offsets_to_transaction(place, group)

    async def commit(self) -> None:
        self._producer.commit_transaction()

    async def abort(self) -> None:
        self._producer.abort_transaction()

    async def join(self, group: str, topic: str) -> None:
        from kafka import KafkaConsumer

        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=self._bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            isolation_level="read_committed",
        )

    async def poll(self) -> list[Taken]:
        batches = self._consumer.poll(2_000, max_records=STEP)
        return [
            Taken(place.topic, place.partition, each.offset, each.value)
            for place, records in batches.items()
            for each in records
        ]

    async def offsets(self, taken: list[Taken]) -> None:
        from kafka.structs import OffsetAndMetadata, TopicPartition

        newest = {
            TopicPartition(each.topic, each.partition): OffsetAndMetadata(each.offset + 1, "", -1) for each in taken
        }
        self._producer.send_offsets_to_transaction(newest, self._consumer.group_metadata())


class Aiokafka:
    def __init__(self, bootstrap: str, name: str, timeout_ms: int) -> None:
        from aiokafka import AIOKafkaProducer

        self._bootstrap = bootstrap
        self._group = ""
        self._producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=name, transaction_timeout_ms=timeout_ms
        )
        self._sends: list[Any] = []

    async def init(self) -> None:
        await self._producer.start()

    async def begin(self) -> None:
        self._sends.clear()
        await self._producer.begin_transaction()

    async def send(self, topic: str, partition: int, value: bytes) -> None:
        self._sends.append(await self._producer.send(topic, value, partition=partition))

    async def flush(self) -> None:
        await self._producer.flush()
        await asyncio.wait_for(asyncio.gather(*self._sends), CALL_S)

    async def offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        from aiokafka import TopicPartition

        await self._producer.send_offsets_to_transaction({TopicPartition(topic, partition): offset}, group)

    async def commit(self) -> None:
        await asyncio.wait_for(self._producer.commit_transaction(), CALL_S)

    async def abort(self) -> None:
        await asyncio.wait_for(self._producer.abort_transaction(), CALL_S)

    async def join(self, group: str, topic: str) -> None:
        from aiokafka import AIOKafkaConsumer

        self._group = group
        self._consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=self._bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            isolation_level="read_committed",
        )
        await self._consumer.start()

    async def poll(self) -> list[Taken]:
        batches = await self._consumer.getmany(timeout_ms=200, max_records=STEP)
        return [
            Taken(place.topic, place.partition, each.offset, each.value)
            for place, records in batches.items()
            for each in records
        ]

    async def offsets(self, taken: list[Taken]) -> None:
        from aiokafka import TopicPartition

        newest = {TopicPartition(each.topic, each.partition): each.offset + 1 for each in taken}
        await self._producer.send_offsets_to_transaction(newest, self._group)


CLIENTS: dict[str, Callable[[str, str, int], Client]] = {
    "confluent": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}


def say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


async def line() -> str:
    return await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


async def produce(client: Client) -> None:
    while words := (await line()).split():
        try:
            match words:
                case ["send", topic, partition, value]:
                    await client.send(topic, int(partition), value.encode())
                case ["offset", group, topic, partition, offset]:
                    await client.offset(group, topic, int(partition), int(offset))
                case [call]:
                    await getattr(client, call)()
            say({"ok": True})
        except Exception as error:  # whatever it is, the test is told
            told = error.__cause__ or error  # librdkafka's binding wraps a fatal error that it tells during flush
            inner = told.args[0] if told.args else ""
            name = inner.name() if hasattr(inner, "name") else type(told).__name__
            say({"error": name, "text": str(error)})


async def process(client: Client, group: str, source: str, target: str, count: int) -> None:
    await client.init()
    await client.join(group, source)
    done = 0
    while done < count:
        taken = await client.poll()
        if not taken:
            continue
        await client.begin()
        for each in taken:
            await client.send(target, each.partition, each.value)
        await client.offsets(taken)
        await client.flush()
        say({"sent": len(taken)})
        await line()
        await client.commit()
        done += len(taken)
        say({"committed": done})


async def main() -> None:
    name, bootstrap, mode, transactional_id, *rest = sys.argv[1:]
    client = CLIENTS[name](bootstrap, transactional_id, int(rest[0]) if mode == "produce" else 60_000)
    if mode == "produce":
        await produce(client)
    else:
        group, source, target, count = rest
        await process(client, group, source, target, int(count))


if __name__ == "__main__":
    asyncio.run(main())
