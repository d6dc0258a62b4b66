"""Random faults from a seed."""

import asyncio
import threading
from collections.abc import Callable
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING

from rookery.testing.faults import Fault, UnsupportedFault

if TYPE_CHECKING:
    from rookery.testing.cluster import Cluster

KINDS = ("kill", "stop", "pause", "partition", "slow", "drop_answers")
"""Faults that cost a program nothing if it retries and its producer is idempotent with acks=all."""
MORE_KINDS = ("disk_full", "clock_jump", "lose_power")
"""By name only: dates go wrong, and a cluster that loses power before its replicas are in sync loses records."""
SLOW_MS = (5, 100)
JUMP_MS = (-600_000, 600_000)
ANSWERS = ("Produce", "Fetch", "OffsetCommit", "Heartbeat", "Metadata")


class Chaos:
    """Faults one at a time, in a thread: drawn, held for a while, undone. At the end everything is undone and every
    node runs. `kinds` names the faults, `lasting_s` and `between_s` bound how long they last and pause."""

    def __init__(
        self,
        cluster: "Cluster",
        seed: int,
        *,
        kinds: tuple[str, ...] = KINDS,
        lasting_s: tuple[float, float] = (0.2, 2.0),
        between_s: tuple[float, float] = (0.2, 1.0),
    ) -> None:
        known = KINDS + MORE_KINDS
        wrong = set(kinds) - set(known)
        if wrong:
            raise ValueError(f"unknown kinds of faults: {', '.join(sorted(wrong))}; known are {', '.join(known)}")
        self._cluster = cluster
        self._rng = Random(seed)
        self._kinds = list(kinds)
        self._lasting_s, self._between_s = lasting_s, between_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"chaos {seed}", daemon=True)
        self._failure: BaseException | None = None
        self.faults: list[str] = []
        """What was done so far."""

    def __enter__(self) -> "Chaos":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()
        if self._failure is not None and error is None:
            raise self._failure

    async def __aenter__(self) -> "Chaos":
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._rng.uniform(*self._between_s)):
                fault = self._draw()
                if fault is None:
                    continue
                self.faults.append(fault.what)
                try:
                    self._stopping.wait(self._rng.uniform(*self._lasting_s))
                finally:
                    fault.undo()
        except BaseException as error:
            self._failure = error

    def _draw(self) -> Fault | None:
        cluster, rng = self._cluster, self._rng
        kind, node_id = rng.choice(self._kinds), rng.choice(cluster.ids)
        others = [each for each in cluster.ids if each != node_id]
        acts: dict[str, Callable[[], Fault]] = {
            "kill": lambda: cluster.kill(node_id),
            "stop": lambda: cluster.stop_node(node_id),
            "pause": lambda: cluster.pause(node_id),
            "partition": lambda: cluster.partition([node_id], others),
            "slow": lambda: cluster.slow(node_id, rng.randint(*SLOW_MS)),
            "drop_answers": lambda: cluster.drop_answers(rng.choice(ANSWERS), node_id=node_id),
            "disk_full": lambda: cluster.disk_full(node_id),
            "clock_jump": lambda: cluster.clock_jump(node_id, rng.randint(*JUMP_MS)),
            "lose_power": lambda: cluster.lose_power(node_id),
        }
        try:
            return acts[kind]()
        except UnsupportedFault:
            self._kinds.remove(kind)
            if not self._kinds:
                raise
            return None
