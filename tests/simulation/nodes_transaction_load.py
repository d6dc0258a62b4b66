"""The load of a seed of transactions: who works, who reads along, and the verdict of the checker of histories."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rookery.core.errors import ErrorCode
from rookery.core.wire.apis.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from rookery.core.wire.apis.offset_fetch import OFFSET_FETCH, OffsetFetchRequest, OffsetFetchRequestTopic
from rookery.core.wire.markers import read_marker
from rookery.core.wire.records import batches, read_records
from tests.cluster.transaction_history import (
    COMMITTED,
    UNCOMMITTED,
    Assign,
    Complete,
    Ends,
    GroupOffset,
    Read,
    check,
)
from tests.simulation.controller_rules import require
from tests.simulation.nodes_admin import SCRATCH
from tests.simulation.nodes_clients import Failed
from tests.simulation.nodes_kinds import kept_topic
from tests.simulation.nodes_transaction_oracles import TransactionOracles
from tests.simulation.nodes_transactions import GROUP, Aborts, Coordinated, History, Instance, Over

if TYPE_CHECKING:
    from tests.simulation.nodes_host import Place
    from tests.simulation.nodes_swarm import TopicPlan, TransactionPlan
    from tests.simulation.nodes_world import World

INPUT, OUTPUT, THE_GROUP = "orders", "results", "processors"
PROBE = b"p9"
"""Values of probes, which are no part of the history."""
LEVELS = {UNCOMMITTED: 0, COMMITTED: 1}
SILENT, SLOW, HEIR, ABORTS = 0.03, 0.03, 0.06, 0.15
"""How often an instance crashes in a transaction, is too slow, goes on beside an heir, or aborts."""


class Worker:
    """A transactional id and its instances: mostly one, now and then an old one that does not know of its heir."""

    def __init__(self, load: TransactionLoad, id: str, life: Callable[[Instance], Any], kind: type[Instance]) -> None:
        self._load = load
        self._id = id
        self._life = life
        self._kind = kind
        self._count = 0
        self._living = 0
        self._newest: Instance | None = None
        self.done = False
        self.spawn()

    def spawn(self) -> None:
        self._count += 1
        self._living += 1
        self._newest = instance = self._kind(self._load, self._id, f"{self._id}i{self._count}")
        instance.run(self._live(instance))

    async def _live(self, instance: Instance) -> None:
        world = self._load.world
        try:
            await self._life(instance)
        except Over as over:
            world.trace("over", instance.name, over)
        self._living -= 1
        if instance is self._newest and not world.quiet:
            await asyncio.sleep(instance.rng.random() * 1.0)
            if instance is self._newest and not world.quiet:
                self.spawn()
        if world.quiet and not self._living:
            await self._end()
        instance.close()

    async def _end(self) -> None:
        """Whatever the last one left open is aborted; its commit is finished."""
        self._living += 1
        last = self._kind(self._load, self._id, f"{self._id}last")
        while not self.done:
            try:
                await last.init()
                self.done = True
            except Over:
                await asyncio.sleep(0.5)
        last.close()


class Reader(Coordinated):
    """Reads partitions with one isolation level, from their leaders and sometimes from a follower."""

    def __init__(self, load: TransactionLoad, name: str, isolation: str, *, recorded: bool = True) -> None:
        super().__init__(load.world, name)
        self._load = load
        self._isolation = isolation
        self._recorded = recorded
        self.positions: dict[Place, int] = {}
        if recorded:
            load.history.write(Assign, name)

    async def follow(self) -> None:
        while not self.world.quiet:
            await asyncio.sleep(self.rng.random() * 0.4)
            for place in self._load.places():
                if self.world.quiet:
                    break
                await self.read(place, anywhere=True)
        self.close()

    async def read_to(self, ends: dict[Place, int]) -> None:
        for place, end in ends.items():
            while self.positions.get(place, 0) < end:
                if not await self.read(place):
                    await asyncio.sleep(0.1)
            self._load.history.write(Complete, self.name, self._isolation, f"{place.topic}-{place.index}")
        self.close()

    async def read(self, place: Place, *, anywhere: bool = False) -> list[tuple[int, bytes]]:
        """What is new, with offsets; nothing where the partition cannot be read now."""
        found = self.leader(place)
        if found is None:
            return []
        node, position = found[0], self.positions.get(place, 0)
        partition = self.world.partition(place)
        if anywhere and partition is not None and self.rng.random() < 0.25:
            node = self.rng.choice(partition.replicas)
        asked = FetchPartition(
            partition=place.index, fetch_offset=position, partition_max_bytes=self.rng.choice((200, 100_000))
        )
        request = FetchRequest(
            max_wait_ms=self.rng.choice((0, 100)),
            min_bytes=1,
            isolation_level=LEVELS[self._isolation],
            topics=[FetchTopic(topic_id=place.id, partitions=[asked])],
        )
        try:
            answer = await self.ask(node, FETCH, 13, request)
        except Failed:
            return []
        if not answer.responses or answer.responses[0].partitions[0].error_code:
            return []
        data = answer.responses[0].partitions[0]
        return self._take(place, position, data)

    def _take(self, place: Place, position: int, data: Any) -> list[tuple[int, bytes]]:
        content, taken = bytes(data.records or b""), []
        aborted = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
        dropped: set[int] = set()
        for at, header in batches(content):
            require(header.last_offset < data.high_watermark, "P14", f"{place}: read past the high watermark", header)
            while aborted and aborted[0][0] <= header.last_offset:
                dropped.add(aborted.pop(0)[1])
            if header.control:
                marker = read_marker(content, at)
                if marker is not None and not marker.commit:
                    dropped.discard(header.producer_id)
            elif not (header.transactional and header.producer_id in dropped):
                taken += [
                    (each.offset, each.value or b"") for each in read_records(content, at) if each.offset >= position
                ]
            self.positions[place] = max(self.positions.get(place, 0), header.next_offset)
        if self._isolation == COMMITTED and content:
            left_out = {(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()}
            self._load.oracles.check_fetched(place, position, self.positions[place], left_out)
        name = f"{place.topic}-{place.index}"
        for offset, value in taken:
            if self._recorded and not value.startswith(PROBE):
                self._load.history.write(Read, self.name, self._isolation, name, offset, value.decode())
                self.world.oracles.count(f"read {self._isolation}")
        return taken


class Watcher(Coordinated):
    """Asks for the offsets of the group, now and then."""

    def __init__(self, load: TransactionLoad, name: str) -> None:
        super().__init__(load.world, name)
        self._load = load

    async def follow(self) -> None:
        while not self.world.quiet:
            await asyncio.sleep(self.rng.random() * 0.5)
            for place in self._load.places(INPUT):
                try:
                    await self.note(place, stable=self.rng.random() < 0.7, attempts=1)
                except Over:
                    continue
        self.close()

    async def note(self, place: Place, *, stable: bool, attempts: int = 1000, final: bool = False) -> int:
        request = OffsetFetchRequest(
            group_id=self._load.group,
            topics=[OffsetFetchRequestTopic(name=place.topic, partition_indexes=[place.index])],
            require_stable=stable,
        )

        def code_of(answer: Any) -> int:
            return int(answer.error_code or answer.topics[0].partitions[0].error_code)

        code, answer = await self.coordinate(
            GROUP, self._load.group, OFFSET_FETCH, 7, request, code_of, attempts=attempts
        )
        require(code == ErrorCode.NONE, "error", f"OffsetFetch was answered with {code.name}")
        offset = int(answer.topics[0].partitions[0].committed_offset)
        if offset >= 0:
            name = f"{place.topic}-{place.index}"
            self._load.history.write(GroupOffset, self._load.group, name, offset, final)
        return offset


class Writer(Instance):
    takes_late_ends = True


class TransactionLoad:
    """Everything about transactions in one simulation."""

    group = THE_GROUP

    def __init__(self, world: World, plan: TransactionPlan, oracles: TransactionOracles) -> None:
        self.world = world
        self.plan = plan
        self.oracles = oracles
        self.history = History(world)
        self.newest: dict[str, tuple[int, int]] = {}
        """The highest producer id and epoch that instances of a transactional id were given."""
        self.workers: dict[str, Worker] = {}
        """By transactional id."""
        self._ended = False

    def topics(self) -> dict[str, TopicPlan]:
        swarm, plan = self.world.swarm, self.plan
        segment_bytes = self.world.rng.choice((700, 3000))
        topics = {
            INPUT: kept_topic(swarm, plan.processors, segment_bytes),
            OUTPUT: kept_topic(swarm, plan.partitions, segment_bytes),
        }
        return topics | ({SCRATCH: kept_topic(swarm, plan.scratch, segment_bytes)} if plan.scratch else {})

    def places(self, *topics: str) -> list[Place]:
        return [place for place in self.world.places() if place.topic in (topics or (INPUT, OUTPUT))]

    def start(self) -> None:
        for number in range(self.plan.writers):
            self.workers[f"w{number}"] = Worker(self, f"w{number}", self._write, Writer)
        for place in self.places(INPUT):

            def life(instance: Instance, place: Place = place) -> Any:
                return self._process(instance, place)

            self.workers[f"x{place.index}"] = Worker(self, f"x{place.index}", life, Instance)
        for number, isolation in enumerate((COMMITTED, COMMITTED, UNCOMMITTED)):
            reader = Reader(self, f"reader{number}", isolation)
            reader.run(reader.follow())
        watcher = Watcher(self, "watcher")
        watcher.run(watcher.follow())

    def resting(self) -> bool:
        return all(worker.done for worker in self.workers.values())

    # --- lives -----------------------------------------------------------------------------------------------

    async def _write(self, instance: Instance) -> None:
        """Some records to some partitions of the input, over and over."""
        await instance.init()
        while not self.world.quiet:
            await asyncio.sleep(instance.rng.expovariate(1.0) * self.plan.pause_s)
            await self._rest(instance)
            txn = await instance.begin()
            try:
                places = instance.rng.sample(self.places(INPUT), instance.rng.randint(1, self.plan.processors))
                aside = self._aside(instance)
                await instance.add_partitions(places + aside)
                for place in aside:
                    await instance.send_aside(place)
                for place in places:
                    for _ in range(instance.rng.choice((1, 1, 2))):
                        await instance.send(txn, place, [None] * instance.rng.choice((1, 2)))
                    await asyncio.sleep(instance.rng.random() * self.plan.pause_s)
            except Aborts:
                await instance.abort(txn)
                continue
            await self._finish(instance, txn)

    async def _rest(self, instance: Instance) -> None:
        """Now and then, where that is soon: until the transactional id has expired."""
        plan = self.world.swarm.expiry
        if plan is not None and instance.rng.random() < 0.03:
            await asyncio.sleep((plan.ids_ms + plan.check_ms) / 1000 * (0.5 + instance.rng.random()))

    def _aside(self, instance: Instance) -> list[Place]:
        """Where else a transaction writes: in a topic that comes and goes."""
        places = self.places(SCRATCH) if self.plan.scratch else []
        return [instance.rng.choice(places)] if places and instance.rng.random() < 0.4 else []

    async def _process(self, instance: Instance, place: Place) -> None:
        """A result of each record of one partition, from where the group is."""
        await instance.init()
        reader = await self._reader(instance, place)
        while not self.world.quiet:
            await asyncio.sleep(instance.rng.expovariate(1.0) * self.plan.pause_s)
            await self._rest(instance)
            taken = (await reader.read(place))[:4]
            if not taken:
                await asyncio.sleep(0.05)
                continue
            reader.positions[place] = taken[-1][0] + 1
            orders = [(offset, value) for offset, value in taken if not value.startswith(PROBE)]
            txn = await instance.begin()
            try:
                await self._answer(instance, txn, place, orders)
                await instance.commit_offset(txn, place, taken[-1][0] + 1)
            except Aborts:
                await instance.abort(txn)
                reader = await self._reader(instance, place)
                continue
            if not await self._finish(instance, txn):
                reader = await self._reader(instance, place)

    async def _answer(self, instance: Instance, txn: str, place: Place, orders: list[tuple[int, bytes]]) -> None:
        outputs, source = self.places(OUTPUT), f"{place.topic}-{place.index}"
        by_target: dict[Place, list[tuple[str, int] | None]] = {}
        for offset, _ in orders:
            by_target.setdefault(outputs[offset % len(outputs)], []).append((source, offset))
        await instance.add_partitions(list(by_target))
        if instance.rng.random() < 0.3:
            sending = [instance.send(txn, target, sources) for target, sources in by_target.items()]
            for outcome in await asyncio.gather(*sending, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome
            return
        for target, sources in by_target.items():
            await instance.send(txn, target, sources)

    async def _reader(self, instance: Instance, place: Place) -> Reader:
        """Reads on from the group's offset; what it reads is not part of the history."""
        watcher = Watcher(self, f"{instance.name}o{len(self.history.events)}")
        reader = Reader(self, f"{instance.name}r{len(self.history.events)}", COMMITTED, recorded=False)
        reader.positions[place] = max(await watcher.note(place, stable=True, attempts=100), 0)
        watcher.close()
        return reader

    async def _finish(self, instance: Instance, txn: str) -> bool:
        """Whether it was a commit; raises where the instance crashes."""
        rng, chance = instance.rng, instance.rng.random()
        if chance < SILENT:
            raise Over("crashed in a transaction")
        if chance < SILENT + SLOW:
            await asyncio.sleep(self.plan.timeout_ms * 1.5 / 1000)
        elif chance < SILENT + SLOW + HEIR and not self.world.quiet:
            self.workers[instance.id].spawn()
            await asyncio.sleep(rng.random() * 0.5)
        if rng.random() < ABORTS:
            await instance.abort(txn)
            return False
        await instance.end(txn, commit=True)
        return True

    # --- the end ---------------------------------------------------------------------------------------------

    def begin_verdict(self) -> None:
        watcher = Watcher(self, "last watcher")
        watcher.run(self._look(watcher))

    @property
    def looked(self) -> bool:
        return self._ended

    async def _look(self, watcher: Watcher) -> None:
        """Read everything once more with both isolation levels."""
        ends: dict[Place, int] = {}
        for place in self.places():
            partition = self.world.partition(place)
            log = self.world.nodes[partition.leader].open_log(place) if partition is not None else None
            if log is not None:
                ends[place] = log.high_watermark
                name = f"{place.topic}-{place.index}"
                self.history.write(Ends, name, log.high_watermark, log.last_stable_offset)
        for isolation in (COMMITTED, UNCOMMITTED):
            await Reader(self, f"last {isolation}", isolation).read_to(ends)
        for place in self.places(INPUT):
            await watcher.note(place, stable=True, final=True)
        watcher.close()
        self._ended = True

    def judge(self) -> None:
        self.oracles.check_end()
        report = check(self.history.events)
        for kind, number in report.counts.items():
            self.world.oracles.count(f"history: {kind}", number)
        for finding in report.findings:
            require(False, finding.kind.replace(" ", "-"), finding.text)
