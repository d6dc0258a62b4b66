"""A cluster inside a test. Each kind of fault in production is a call."""

import asyncio
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from rookery.core.errors import KafkaError
from rookery.core.net.cluster import BootstrapError
from rookery.core.net.connection import ConnectionLostError
from rookery.testing.chaos import Chaos
from rookery.testing.embedded import EmbeddedNodes
from rookery.testing.faults import Fault
from rookery.testing.history import History
from rookery.testing.questions import Questions, StoredRecord
from rookery.testing.separate import SeparateNodes
from rookery.testing.timeline import Entry, Timeline
from rookery.testing.tracing import Trace, trace

T = TypeVar("T")
WAIT_S = 30.0
POLL_S = 0.01
STORY = "what happened:"
_running: "weakref.WeakSet[Cluster]" = weakref.WeakSet()


def running() -> "list[Cluster]":
    """The clusters of this process that run now."""
    return list(_running)


class Cluster:
    """``with Cluster(nodes=3) as c:`` or ``async with``: nodes run in a thread of this process, or, with
    `processes`, as processes of their own. `data` is a folder to keep their data in; by default it is in memory (for
    processes in a temporary folder). Nodes listen on free ports, or from `port` on."""

    def __init__(
        self,
        nodes: int = 3,
        *,
        config: Mapping[str, Any] | None = None,
        data: str | Path | None = None,
        processes: bool = False,
        port: int = 0,
        seed: int = 0,
    ) -> None:
        if nodes < 1:
            raise ValueError(f"nodes={nodes}: a cluster has at least one")
        self.timeline = Timeline()
        self._nodes = nodes
        self._config = {key: _text(value) for key, value in (config or {}).items()}
        self._data = Path(data) if data is not None else None
        self._processes = processes
        self._port = port
        self._seed = seed
        self._backend: EmbeddedNodes | SeparateNodes | None = None
        self._questions = Questions(lambda: self.nodes.answering)
        self._faults: list[Fault] = []
        self._guard = threading.RLock()

    # --- life ------------------------------------------------------------------------------------------------

    def start(self) -> "Cluster":
        """Start all nodes and wait until each is ready."""
        if self._backend is not None:
            raise RuntimeError("the cluster runs already")
        if self._processes:
            self._backend = SeparateNodes(self._nodes, self._config, self._data, self.timeline, self._port)
        else:
            self._backend = EmbeddedNodes(
                self._nodes, self._config, self._data, self.timeline, port=self._port, seed=self._seed
            )
        try:
            self._backend.start()
        except BaseException:
            self.stop()
            raise
        _running.add(self)
        return self

    def stop(self) -> None:
        """End all nodes; calling it again does nothing."""
        backend, self._backend = self._backend, None
        _running.discard(self)
        self._faults.clear()
        if backend is not None:
            backend.close()

    def __enter__(self) -> "Cluster":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._explain(error)
        self.stop()

    async def __aenter__(self) -> "Cluster":
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._explain(error)
        await asyncio.to_thread(self.stop)

    def _explain(self, error: BaseException | None) -> None:
        """An error that ends the block gets the timeline as a note, which is shown with its traceback."""
        if isinstance(error, Exception) and STORY not in str(error):
            error.add_note(self.story())

    @property
    def nodes(self) -> EmbeddedNodes | SeparateNodes:
        """What runs them."""
        if self._backend is None:
            raise RuntimeError("the cluster does not run: use `with Cluster() as c`, or call start()")
        return self._backend

    @property
    def bootstrap(self) -> str:
        """``host:port,...`` for any Kafka client."""
        return self.nodes.bootstrap

    @property
    def ids(self) -> list[int]:
        return self.nodes.ids

    # --- faults ----------------------------------------------------------------------------------------------

    def kill(self, node_id: int) -> Fault:
        """kill -9; undone by a start on its data."""
        self._known(node_id)
        return self._fault(f"kill node {node_id}", lambda: self.nodes.kill(node_id), lambda: self.nodes.start(node_id))

    def stop_node(self, node_id: int) -> Fault:
        """Controlled shutdown, as by SIGTERM; undone by a start."""
        self._known(node_id)
        return self._fault(f"stop node {node_id}", lambda: self.nodes.stop(node_id), lambda: self.nodes.start(node_id))

    def start_node(self, node_id: int) -> None:
        """Start a node that is down, and wait until it is ready."""
        self._known(node_id)
        self.timeline.add("test", f"start node {node_id}")
        self.nodes.start(node_id)

    def restart(self, node_id: int, *, kill: bool = False) -> None:
        """Stop a node (or kill it) and start it again."""
        (self.kill if kill else self.stop_node)(node_id).undo()

    def pause(self, node_id: int) -> Fault:
        """SIGSTOP: it does nothing, and its connections stay open."""
        self._known(node_id)
        return self._fault(
            f"pause node {node_id}", lambda: self.nodes.pause(node_id), lambda: self.nodes.resume(node_id)
        )

    def partition(self, *sides: Iterable[int]) -> Fault:
        """Nodes of different sides do not reach each other any more: ``partition([1], [2, 3])``. Clients reach all."""
        groups = [list(side) for side in sides]
        for node_id in (each for side in groups for each in side):
            self._known(node_id)
        pairs = [
            (one, other)
            for number, side in enumerate(groups)
            for others in groups[number + 1 :]
            for one in side
            for other in others
        ]

        def cut() -> None:
            for one, other in pairs:
                self.nodes.cut(one, other)

        def mend() -> None:
            for one, other in pairs:
                self.nodes.mend(one, other)

        return self._fault(f"partition {' | '.join(map(str, groups))}", cut, mend)

    def slow(self, node_id: int, ms: float) -> Fault:
        """All that passes between this node and the others takes `ms` longer each way."""
        self._known(node_id)
        return self._fault(
            f"slow node {node_id} by {ms} ms",
            lambda: self.nodes.slow(node_id, ms / 1000),
            lambda: self.nodes.slow(node_id, -ms / 1000),
        )

    def disk_full(self, node_id: int) -> Fault:
        """Writes of the node fail with ENOSPC: it takes its log dir offline and ends. Undone by room and a start."""
        self._known(node_id)
        return self._fault(
            f"disk of node {node_id} is full",
            lambda: self.nodes.set_full(node_id, True),
            lambda: self.nodes.set_full(node_id, False),
        )

    def clock_jump(self, node_id: int, ms: int) -> Fault:
        """The node's clock jumps by `ms`, ahead or back."""
        self._known(node_id)
        return self._fault(
            f"clock of node {node_id} jumps by {ms} ms",
            lambda: self.nodes.shift_clock(node_id, ms),
            lambda: self.nodes.shift_clock(node_id, -ms),
        )

    def corrupt(self, topic: str, partition: int, node_id: int | None = None) -> Fault:
        """Flip a bit in the newest segment of a replica, of the leader by default. The node finds it when it reads,
        scrubs or starts. Undone by flipping it back, unless the node has cut or replaced the segment by then."""
        victim = node_id if node_id is not None else self.leader(topic, partition)
        self._known(victim)
        nodes, path = self.nodes, self.nodes.replica_files(victim, f"{topic}-{partition}")[-1]
        size = len(nodes.contents(victim, path))
        if not size:
            raise ValueError(f"{path} of node {victim} is empty: there is nothing to corrupt")
        place, damaged = size * 3 // 4, b""

        def flip() -> None:
            nonlocal damaged
            nodes.flip(victim, path, place)
            damaged = nodes.contents(victim, path)[:size]

        def flip_back() -> None:
            with suppress(FileNotFoundError):
                if nodes.contents(victim, path)[:size] == damaged:
                    nodes.flip(victim, path, place)

        return self._fault(f"corrupt {topic}-{partition} on node {victim}", flip, flip_back)

    def drop_answers(self, api: str, *, times: int = 1, node_id: int | None = None) -> Fault:
        """The next `times` requests of one kind (``"Produce"``, ``"OffsetCommit"`` ...) are carried out, but their
        answers get lost with the connection."""
        left = [times]
        undone: list[Callable[[], None]] = []

        def take() -> bool:
            if left[0] <= 0:
                return False
            left[0] -= 1
            self.timeline.add("test", f"an answer to {api} is lost")
            return True

        def arm() -> None:
            for each in self.ids if node_id is None else [node_id]:
                undone.append(self.nodes.lose_answers(each, api, take))

        def disarm() -> None:
            for undo in undone:
                undo()

        return self._fault(f"drop the next {times} answer(s) to {api}", arm, disarm)

    def lose_power(self, node_id: int) -> Fault:
        """The machine goes dark: what was not fsynced is gone, in part or wholly. Undone by a start."""
        self._known(node_id)
        return self._fault(
            f"node {node_id} loses power",
            lambda: self.nodes.lose_power(node_id),
            lambda: self.nodes.start(node_id),
        )

    def chaos(self, seed: int = 0, **options: Any) -> Chaos:
        """Random faults, one after the other, while the ``with`` block lasts; the same seed draws the same ones.
        `kinds`, `lasting_s` and `between_s` are those of `Chaos`."""
        return Chaos(self, seed, **options)

    def undo_all(self) -> None:
        """End every fault that lasts, the newest first. One that cannot be undone keeps none of the others."""
        with self._guard:
            faults, self._faults = self._faults, []
        failures = []
        for fault in reversed(faults):
            try:
                fault.undo()
            except Exception as error:
                failures.append(error)
        if failures:
            raise ExceptionGroup("faults could not be undone", failures)

    def _fault(self, what: str, act: Callable[[], object], undo: Callable[[], object]) -> Fault:
        def undone() -> None:
            self.timeline.add("test", f"undo: {what}")
            undo()

        self.timeline.add("test", what)
        try:
            act()
        except Exception as error:
            self.timeline.add("test", f"could not: {what}: {error}")
            raise
        fault = Fault(what, undone)
        with self._guard:
            self._faults = [each for each in self._faults if each.lasts] + [fault]
        return fault

    def _known(self, node_id: int) -> None:
        if node_id not in self.ids:
            raise ValueError(f"there is no node {node_id}; the nodes are {self.ids}")

    # --- questions -------------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = -1,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        """A new topic that every node knows when this returns, but for nodes that are down, paused or cut off."""
        options = {key: _text(value) for key, value in (config or {}).items()}
        self._answer(self._questions.create_topic(name, partitions, replication_factor, options))
        self.wait_for(lambda: self.nodes.know(name), f"every node to know {name}")

    def topics(self) -> list[str]:
        return self._answer(self._questions.topics())

    def leader(self, topic: str, partition: int = 0) -> int:
        """The node that leads a partition; waits while there is none."""

        def led() -> int | None:
            found = self._answer(self._questions.partition(topic, partition)).leader
            return found if found >= 0 and self.nodes.is_up(found) else None

        return self.wait_for(led, f"a leader of {topic}-{partition}")

    def isr(self, topic: str, partition: int = 0) -> list[int]:
        """The replicas in sync."""
        return sorted(self._answer(self._questions.partition(topic, partition)).isr)

    def high_watermark(self, topic: str, partition: int = 0) -> int:
        return self._answer(self._questions.ends(topic))[partition][1]

    def records(self, topic: str, *, read_committed: bool = False) -> list[StoredRecord]:
        """Every record below the high watermark, partition by partition."""
        return self._answer(self._questions.records(topic, read_committed=read_committed))

    def trace(self, topic: str, partition: int, offset: int) -> Trace:
        """What became of a record: when it was appended, on which replicas it is since when, when it was committed,
        and which groups have read it."""
        return self._answer(trace(self._questions, self.nodes, self.timeline, topic, partition, offset))

    def wait_for(self, condition: Callable[[], T | None], what: str = "", timeout_s: float = WAIT_S) -> T:
        """Call `condition` until it returns something true, and return that. What it raises counts as not yet. When the
        time is over, the error has the last answer and what happened meanwhile."""
        began, last = self.timeline.now_s, "nothing was asked"
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                found = condition()
                if found:
                    return found
                last = f"the last answer was {found!r}"
            except (AssertionError, KafkaError, OSError, BootstrapError, ConnectionLostError) as error:
                last = f"the last answer was {type(error).__name__}: {error}"
            if time.monotonic() > deadline:
                name = what or getattr(condition, "__name__", "the condition")
                raise AssertionError(f"waited {timeout_s:g} s for {name}; {last}\n{self.story(began)}")
            time.sleep(POLL_S)

    async def until(self, condition: Callable[[], T | None], what: str = "", timeout_s: float = WAIT_S) -> T:
        """`wait_for` for a coroutine: the caller's loop goes on meanwhile."""
        return await asyncio.to_thread(self.wait_for, condition, what, timeout_s)

    def wait_in_sync(self, topic: str, partition: int | None = None, timeout_s: float = WAIT_S) -> None:
        """Until every replica of the topic (or partition) is in sync."""

        def complete() -> bool:
            view = self._answer(self._questions.topic(topic))
            return all(
                set(each.isr) == set(each.replicas) and each.leader >= 0
                for index, each in view.partitions.items()
                if partition is None or index == partition
            )

        self.wait_for(complete, f"all replicas of {topic} to be in sync", timeout_s)

    def assert_nothing_lost(self, history: History, topic: str) -> None:
        """Every record that `history` saw acknowledged is in the log, once, at its offset and in order."""
        history.read.clear()
        for record in self.records(topic):
            history.on_read(record.partition, record.offset, record.value or b"")
        found = history.anomalies()
        if found:
            raise AssertionError("\n".join([*found, self.story()]))

    def story(self, since_s: float = 0.0) -> str:
        """The timeline as text."""
        entries: list[Entry] = self.timeline.since(since_s)
        return f"{STORY}\n" + "\n".join(map(str, entries)) if entries else "nothing happened meanwhile"

    def _answer(self, question: Coroutine[Any, Any, T]) -> T:
        return self.nodes.call(question, WAIT_S + 5)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

