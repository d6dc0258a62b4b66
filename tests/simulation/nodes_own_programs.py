"""Programs that use the Python client as it is, in seeds of the kind `clients`: its producer, consumer and transactions
meet simulated nodes that fail. A program that crashes is started again; nothing else helps it.

Whatever passes must be waited out by the client: a delivery or a poll that raises is a violation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

from rookery.client.consumer import RebalanceListener
from rookery.client.consumer.consumer import Consumer
from rookery.client.errors import CommitFailedError, KafkaTimeoutError, NoBrokersError, is_fatal
from rookery.client.producer.producer import Producer
from rookery.client.types import Record, RecordMetadata
from rookery.core.errors import KafkaError
from rookery.core.testing.control import NO_PROCESS
from rookery.core.testing.hosts import HostNetwork
from rookery.core.types import TopicPartition
from tests.simulation.controller_rules import Violation, require
from tests.simulation.loop import Killed, Process
from tests.simulation.nodes_host import EPOCH_MS, KAFKA, SimClock

if TYPE_CHECKING:
    from tests.simulation.nodes_own_load import OwnLoad

KEYS = 5
POLL_MS = 200
ABORTS = 0.1
RESTARTS = 0.01
"""How often in a round a program ends in order and starts again."""
Records = list[Record[Any, Any]]


class AbortError(Exception):
    """The program's own reason to abort a transaction."""


class Program:
    """One process after the other with the same name."""

    def __init__(self, load: OwnLoad, name: str) -> None:
        self.load = load
        self.world = load.world
        self.name = name
        self.rng = Random(f"{self.world.seed} own {name}")
        self.lives = 0
        self._sessions = 0
        """How often it began to work; a process may do so several times."""
        self.done = False
        self.process = Process(name)

    def start(self) -> None:
        self.lives += 1
        self.process = process = Process(self.name)
        process.context.run(self.world.loop.create_task, self._main(process), name=f"{self.name} {self.lives}")

    def crash(self) -> None:
        """kill -9, and another start soon."""
        if self.process.alive and not self.done:
            self.world.trace("crash", self.name)
            self.world.oracles.count("crashes of clients")
            self.process.alive = False
            self.world.network.killed(self.process)
            self.world.loop.call_later(self.rng.random() * 2.0, self.start, context=NO_PROCESS)

    async def _main(self, process: Process) -> None:
        try:
            while not self.done:
                self._sessions += 1
                with suppress(NoBrokersError):  # nobody is there yet: try again, as a supervisor would
                    await self.work()
                await asyncio.sleep(0.1 + self.rng.random() * 0.2)
                self._left_over(process)
        except Killed:
            raise
        except BaseException as error:
            if not self.world.over:
                self.world.loop.failures.append((f"{self.name} {self.lives}", error))
                raise

    def _left_over(self, process: Process) -> None:
        """A closed client leaves no task behind."""
        tasks = [each for each in asyncio.all_tasks(self.world.loop) if getattr(each, "process", None) is process]
        left = [each.get_name() for each in tasks if each is not asyncio.current_task()]
        require(not left, "own-leak", f"{self.name} left tasks behind", left)

    async def work(self) -> None:
        raise NotImplementedError

    @property
    def goes_on(self) -> bool:
        return not self.load.closing and (self.world.quiet or self.rng.random() >= RESTARTS)

    # --- clients ---------------------------------------------------------------------------------------------

    def _common(self) -> dict[str, Any]:
        hosts = [f"n{number}:{KAFKA}" for number in self.world.brokers]
        self.rng.shuffle(hosts)
        return {
            "bootstrap_servers": ",".join(hosts),
            "network": HostNetwork(self.world.network),
            "client_id": self.name,
            "request_timeout_ms": max(3000, self.world.swarm.request_timeout_ms),
            "socket_connection_setup_timeout_ms": 2000,
        }

    def producer(self, **more: Any) -> Producer:
        options: dict[str, Any] = {
            "linger_ms": self.rng.choice((0, 5, 50)),
            "batch_size": self.rng.choice((200, 16_384)),
            "compression_type": self.rng.choice(("none", "gzip", "zstd")),
            "max_in_flight_requests_per_connection": self.rng.choice((1, 5, 5)),
            "delivery_timeout_ms": 300_000,
        }
        return Producer(**self._common(), **options, **more)

    def consumer(self, *topics: str, **more: Any) -> Consumer:
        options: dict[str, Any] = {
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": self.rng.choice((200, 500)),
            "max_partition_fetch_bytes": self.rng.choice((300, 1 << 20)),
            "max_poll_records": self.rng.choice((3, 500)),
        }
        return Consumer(*topics, **self._common(), clock=SimClock(self.world.loop), **{**options, **more})

    def member_options(self, group: str) -> dict[str, Any]:
        """A member of one of the two protocols; all members of a group have an assignor in common."""
        plan = self.load.plan
        if plan.protocol == "consumer":
            return {"group_id": group, "group_protocol": "consumer"}
        return {
            "group_id": group,
            "partition_assignment_strategy": plan.protocol,
            "session_timeout_ms": plan.session_ms,
            "heartbeat_interval_ms": plan.heartbeat_ms,
        }

    def new_value(self, topic: str, index: int, numbers: dict[int, int], what: str) -> bytes:
        """A value that no other record has; for each session and partition they are numbered."""
        number = numbers[index] = numbers.get(index, -1) + 1
        value = f"{self.name}x{self._sessions}.{topic}.{index}-{number}/{what}".encode()
        self.world.oracles.sent[value] = (TopicPartition(topic, index), EPOCH_MS + int(self.world.loop.time() * 1000))
        return value


class Writer(Program):
    """Sends without waiting, one by one and in bulk. Everything is delivered, however long it takes."""

    async def work(self) -> None:
        numbers: dict[int, int] = {}
        async with self.producer() as producer:
            while not self.world.quiet and self.goes_on:
                await asyncio.sleep(self.rng.expovariate(1.0) * self.load.plan.pause_s)
                index, amount = self.rng.randrange(self.load.plan.partitions), self.rng.choice((1, 1, 2, 7))
                key = f"k{self.rng.randrange(KEYS)}"
                values = [self.new_value(self.load.topic, index, numbers, key) for _ in range(amount)]
                if self.rng.random() < 0.3:
                    sent = await producer.send_many(self.load.topic, values, partition=index)
                    self.world.loop.create_task(self._delivered_all(index, values, sent), name="deliveries")
                    continue
                for value in values:
                    delivery = await producer.send(self.load.topic, value, key=key.encode(), partition=index)
                    delivery.add_callback(lambda place, error, v=value, i=index: self._delivered(i, v, place, error))  # type: ignore[misc]
            await producer.flush()
        self.done = self.world.quiet

    async def _delivered_all(self, index: int, values: list[bytes], sent: Any) -> None:
        for value, place in zip(values, await sent, strict=True):
            self._delivered(index, value, place, None)

    def _delivered(self, index: int, value: bytes, place: RecordMetadata | None, error: Exception | None) -> None:
        try:
            require(error is None and place is not None, "own-delivery", f"{value!r} was not delivered: {error!r}")
            if place is not None:
                require(place.partition == index, "own-delivery", f"{value!r} went to", place)
                self.load.acked(index, place.offset, value)
        except Violation as violation:  # callbacks must not raise
            self.world.loop.failures.append(("own", violation))


class Reader(Program):
    """Reads everything from the beginning, without a group: once, in order, nothing left out."""

    def __init__(self, load: OwnLoad, name: str) -> None:
        super().__init__(load, name)
        self.next: dict[int, int] = {}

    async def work(self) -> None:
        self.next = {}
        async with self.consumer() as consumer:
            consumer.assign([TopicPartition(self.load.topic, index) for index in range(self.load.plan.partitions)])
            while self.goes_on:
                for record in await consumer.getmany(timeout_ms=POLL_MS):
                    expected = self.next.get(record.partition, 0)
                    what = f"{self.name}: {record.partition}@{record.offset} instead of"
                    require(record.offset == expected, "own-order", what, expected)
                    self.next[record.partition] = record.offset + 1
                    self.load.saw(record)
        self.done = self.load.closing


class Member(Program, RebalanceListener):
    """A member of a group that commits what it handled: nothing is left out by the group as a whole."""

    def __init__(self, load: OwnLoad, name: str) -> None:
        super().__init__(load, name)
        self._next: dict[int, int] = {}

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        for tp in assigned:
            self._next.pop(tp.partition, None)
        self.world.oracles.count("assigned to clients", len(assigned))

    async def work(self) -> None:
        self._next = {}
        style = self.rng.choice(("auto", "sync", "async", "iterate", "run"))
        options = self.member_options(self.load.group)
        self.world.trace("member", self.name, style)
        auto = style in ("auto", "iterate")
        async with self.consumer(
            self.load.topic, listener=self, enable_auto_commit=auto, auto_commit_interval_ms=500, **options
        ) as consumer:
            if style == "run":
                await self._run(consumer)
            elif style == "iterate":
                await self._iterate(consumer)
            else:
                while self.goes_on:
                    await self._round(consumer, style)
        self.done = self.load.closing

    async def _round(self, consumer: Consumer, style: str) -> None:
        records: Records = await consumer.getmany(timeout_ms=POLL_MS)
        for record in records:
            self._took(record)
        if style == "sync" and records:
            try:
                await consumer.commit(timeout_ms=10_000)
                self.world.oracles.count("commits of clients")
            except (CommitFailedError, KafkaTimeoutError):
                self.world.oracles.count("failed commits of clients")
        elif style == "async":  # one attempt each: when nothing comes any more, the last one may have failed
            consumer.commit_async(callback=lambda offsets, error: None)

    async def _iterate(self, consumer: Consumer) -> None:
        """Until somebody closes it: iterations wait for records without an end."""
        closing = self.world.loop.create_task(self._close_later(consumer), name="closer")
        async for record in consumer:
            self._took(record)
        await closing

    async def _close_later(self, consumer: Consumer) -> None:
        while self.goes_on:
            await asyncio.sleep(POLL_MS / 1000)
        await consumer.close()

    async def _run(self, consumer: Consumer) -> None:
        async def handle(record: Record[Any, Any]) -> None:
            if self.rng.random() < 0.2:
                await asyncio.sleep(self.rng.random() * 0.3)
            self.load.handled(record)

        closing = self.world.loop.create_task(self._close_later(consumer), name="closer")
        await consumer.run(handle, concurrency=4, order_by="key", handle_signals=False)
        await closing

    def _took(self, record: Record[Any, Any]) -> None:
        expected = self._next.get(record.partition, record.offset)
        what = f"{self.name}: {record.partition}@{record.offset} instead of"
        require(record.offset == expected, "own-order", what, expected)
        before = self.load.prefix(record.partition)
        require(record.offset <= before, "own-skip", f"{self.name} begins {what}", before)
        self._next[record.partition] = record.offset + 1
        self.load.handled(record)


class Processor(Program):
    """Reads committed records, and writes a result of each with the offsets in one transaction."""

    async def work(self) -> None:
        numbers: dict[int, int] = {}
        timeout_ms = self.load.plan.transaction_timeout_ms
        async with (
            self.consumer(
                self.load.topic,
                enable_auto_commit=False,
                isolation_level="read_committed",
                max_poll_records=self.rng.choice((50, 500)),  # a transaction takes a second where links are slow
                **self.member_options(self.load.workers),
            ) as consumer,
            self.producer(transactional_id=self.name, transaction_timeout_ms=timeout_ms) as producer,
        ):
            while self.goes_on:
                records = await consumer.getmany(timeout_ms=POLL_MS)
                if not records:
                    continue
                try:
                    await self._process(consumer, producer, records, numbers)
                    self.world.oracles.count("transactions of clients")
                except AbortError:
                    consumer.seek_to_committed()
                except KafkaError as error:
                    self.world.oracles.count(f"transaction: {type(error).__name__}")
                    if is_fatal(error):
                        return
                    consumer.seek_to_committed()
        self.done = self.load.closing

    async def _process(
        self, consumer: Consumer, producer: Producer, records: Records, numbers: dict[int, int]
    ) -> None:
        async with producer.transaction() as transaction:
            for record in records:
                index = self.rng.randrange(self.load.plan.partitions)
                what = f"{record.partition}@{record.offset}"
                value = self.new_value(self.load.results, index, numbers, what)
                await transaction.send(self.load.results, value, partition=index)
            if self.rng.random() < ABORTS and not self.world.quiet:
                raise AbortError
            await transaction.send_offsets(consumer.positions(), consumer.group_metadata())


class Judge(Program):
    """Looks at what groups committed and what transactions left, when all is done."""

    def __init__(self, load: OwnLoad, name: str) -> None:
        super().__init__(load, name)
        self.committed: dict[str, dict[int, int]] = {}
        self.results: dict[tuple[int, int], str] = {}
        self.looked = 0

    async def work(self) -> None:
        load, places = self.load, [TopicPartition(self.load.topic, n) for n in range(self.load.plan.partitions)]
        for group in (load.group, load.workers):
            async with self.consumer(group_id=group, group_protocol="classic", enable_auto_commit=False) as consumer:
                consumer.assign(places)
                found = await consumer.committed(*places)
                self.committed[group] = {tp.partition: each.offset if each else 0 for tp, each in found.items()}
        async with self.consumer(isolation_level="read_committed", max_partition_fetch_bytes=1 << 20) as consumer:
            outputs = [TopicPartition(load.results, n) for n in range(load.plan.partitions)]
            consumer.assign(outputs)
            self.results = {}
            ends = await consumer.end_offsets(*outputs)
            while any([await consumer.position(tp) < end for tp, end in ends.items()]):
                for record in await consumer.getmany(timeout_ms=POLL_MS):
                    self._result(record.value)
        self.looked += 1
        self.done = load.closing

    def _result(self, value: bytes) -> None:
        name, _, source = value.decode().partition("/")
        index, at, offset = source.partition("@")
        if at:  # others are of probes
            place = int(index), int(offset)
            other = self.results.setdefault(place, name)
            require(other == name, "own-duplicate", f"{source} was processed by {other} and by {name}")
