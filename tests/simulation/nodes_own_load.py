"""The load of a seed of the kind `clients`: programs that use the Python client, and what they must get."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from rookery.client.types import Record
from rookery.core.testing.control import NO_PROCESS
from tests.simulation.nodes_host import EPOCH_MS, Place
from tests.simulation.nodes_kinds import kept_topic
from tests.simulation.nodes_own_programs import Judge, Member, Processor, Program, Reader, Writer

if TYPE_CHECKING:
    from tests.simulation.nodes_swarm import OwnPlan, TopicPlan
    from tests.simulation.nodes_world import World


class OwnLoad:
    topic, results = "own", "own-out"
    group, workers = "own-readers", "own-workers"

    def __init__(self, world: World, plan: OwnPlan) -> None:
        self.world = world
        self.plan = plan
        self.closing = False
        self._handled: dict[int, set[int]] = defaultdict(set)
        self._prefix: dict[int, int] = {}
        self.writers: list[Writer] = [Writer(self, f"ow{n}") for n in range(plan.writers)]
        self.readers: list[Reader] = [Reader(self, "or0")]
        members = [Member(self, f"om{n}") for n in range(plan.members)]
        processors = [Processor(self, f"op{n}") for n in range(plan.processors)]
        self._programs: list[Program] = [*self.writers, *self.readers, *members, *processors]
        self._judge: Judge | None = None
        self._rng = Random(f"{world.seed} own crashes")

    def plans(self) -> dict[str, TopicPlan]:
        return {name: kept_topic(self.world.swarm, self.plan.partitions, 3000) for name in (self.topic, self.results)}

    @contextmanager
    def installed(self) -> Iterator[None]:
        """The client reads chance, ids and the time of records from the simulation."""
        streams, loop = count(), self.world.loop

        def rng() -> Random:
            return Random(f"{self.world.seed} own chance {next(streams)}")

        with ExitStack() as stack:
            for target, value in (
                ("rookery.client.producer.producer.Random", rng),
                ("rookery.client.producer.transactions.Random", rng),
                ("rookery.client.consumer.consumer.Random", rng),
                ("rookery.core.net.peers.Random", rng),
                ("rookery.client.consumer.engine.uuid4", self.world.new_id),
                ("rookery.client.producer.producer.time_ns", lambda: int((EPOCH_MS + loop.time() * 1000) * 1e6)),
            ):
                stack.enter_context(patch(target, value))
            yield

    def start(self) -> None:
        for program in self._programs:
            program.start()
        self._crash_later()

    def _crash_later(self) -> None:
        pause_s = self._rng.expovariate(1.0) * self.plan.crash_s
        self.world.loop.call_later(pause_s, self._crash, context=NO_PROCESS)

    def _crash(self) -> None:
        if not self.world.quiet:
            self._rng.choice(self._programs).crash()
            self._crash_later()

    # --- what programs tell ----------------------------------------------------------------------------------

    def place(self, index: int) -> Place:
        return next(each for each in self.world.places() if (each.topic, each.index) == (self.topic, index))

    def acked(self, index: int, offset: int, value: bytes) -> None:
        self.world.oracles.acked(self.place(index), offset, [value])
        self.world.trace("own ack", index, offset)

    def saw(self, record: Record[Any, Any]) -> None:
        self.world.oracles.saw(self.place(record.partition), record.offset, record.value, "read by a client")
        self.world.trace("own read", record.partition, record.offset)

    def handled(self, record: Record[Any, Any]) -> None:
        self.saw(record)
        self.world.oracles.count("handled by clients")
        self._handled[record.partition].add(record.offset)

    def prefix(self, index: int) -> int:
        """All records before it were handled by some member."""
        found = self._prefix.get(index, 0)
        while found in self._handled[index]:
            found += 1
        self._prefix[index] = found
        return found

    # --- the end ---------------------------------------------------------------------------------------------

    def resting(self) -> bool:
        return all(writer.done for writer in self.writers)

    def begin_verdict(self) -> None:
        self._judge = Judge(self, "oj")
        self._judge.start()

    def unread(self) -> list[str]:
        """What somebody has not got yet."""
        found = []
        for index in range(self.plan.partitions):
            place = self.place(index)
            log = self.world.nodes[self.world.partition(place).leader].log(place)  # type: ignore[union-attr]
            end = log.end_offset if log is not None else -1
            seen = {reader.name: reader.next.get(index, 0) for reader in self.readers}
            if self.plan.members:
                seen["members"] = self.prefix(index)
            judge = self._judge
            if judge is not None:
                seen |= {group: by.get(index, 0) for group, by in judge.committed.items() if self._has(group)}
                if self.plan.processors:
                    seen["results"] = sum(place[0] == index for place in judge.results)
            found += [f"{who} has {at} of {end} in {index}" for who, at in seen.items() if at != end]
            if judge is None or not judge.looked:
                found.append("nobody has looked yet")
        return found

    def _has(self, group: str) -> bool:
        return bool(self.plan.members if group == self.group else self.plan.processors)

    def done(self) -> bool:
        judged = self._judge is None or self._judge.done
        return judged and all(program.done for program in self._programs)

    def state(self) -> str:
        return str({each.name: (each.lives, each.done, each.process.alive) for each in self._programs})
