"""What happened in a cluster, in the order it happened: faults, and what the nodes reported."""

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from rookery.core.event_logging import ROOT
from rookery.core.testing.process import PROCESS

ENTRIES_MAX = 10_000
QUIET = frozenset({"raft.peer.failed", "follower.disconnected", "broker.heartbeat.failed", "connection.dropped"})
"""Events that repeat while a fault lasts and add nothing to it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: `at_s` counts from the start of the cluster, `who` is a node, a client or "test"."""

    at_s: float
    who: str
    what: str

    def __str__(self) -> str:
        return f"{self.at_s:9.3f} s  {self.who:<8} {self.what}"


class Timeline:
    """Bounded; the oldest entries go first. For any thread."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._began_wall_ms = time.time_ns() // 1_000_000
        self._entries: deque[Entry] = deque(maxlen=ENTRIES_MAX)
        self._advanced: dict[tuple[str, str], tuple[float, int, int]] = {}
        self._guard = threading.Lock()

    def add(self, who: str, what: str) -> None:
        with self._guard:
            self._settle()
            self._entries.append(Entry(self.now_s, who, what))

    def committed(self, who: str, partition: str, before: int, after: int) -> None:
        """The high watermark of a partition moved. What moved between two other entries becomes one line."""
        with self._guard:
            _, first, _ = self._advanced.get((who, partition), (0.0, before, 0))
            self._advanced[who, partition] = (self.now_s, first, after)

    def _settle(self) -> None:
        for (who, partition), (at_s, first, end) in sorted(self._advanced.items(), key=lambda item: item[1]):
            what = f"committed {partition} offsets {first} to {end - 1}: acks=all is acknowledged"
            self._entries.append(Entry(at_s, who, what))
        self._advanced.clear()

    def entries(self) -> list[Entry]:
        with self._guard:
            self._settle()
            return list(self._entries)

    def since(self, at_s: float) -> list[Entry]:
        return [entry for entry in self.entries() if entry.at_s >= at_s]

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._began

    def at_wall(self, wall_ms: int) -> float:
        """When that was, by the machine's clock at the start."""
        return (wall_ms - self._began_wall_ms) / 1000

    def __str__(self) -> str:
        return text_of(self.entries())


def text_of(entries: Iterable[Entry]) -> str:
    return "\n".join(map(str, entries))


class NodeEvents(logging.Handler):
    """Takes what nodes of this process log and puts it on the timeline of their cluster. While it is installed nothing
    of it reaches other handlers: a test's own log stays readable."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._timelines: dict[int, Timeline] = {}
        self._before: tuple[int, bool] | None = None
        self._guard = threading.Lock()

    def install(self, cluster: int, timeline: Timeline) -> None:
        with self._guard:
            logger = logging.getLogger(ROOT)
            if not self._timelines:
                self._before = (logger.level, logger.propagate)
                logger.addHandler(self)
                logger.propagate = False
                if logger.level == logging.NOTSET or logger.level > logging.INFO:
                    logger.setLevel(logging.INFO)
            self._timelines[cluster] = timeline

    def remove(self, cluster: int) -> None:
        with self._guard:
            self._timelines.pop(cluster, None)
            if not self._timelines and self._before is not None:
                logger = logging.getLogger(ROOT)
                logger.removeHandler(self)
                level, logger.propagate = self._before
                logger.setLevel(level)
                self._before = None

    def emit(self, record: logging.LogRecord) -> None:
        process = PROCESS.get()
        if process is None or record.getMessage() in QUIET:
            return
        timeline = self._timelines.get(process.cluster)
        if timeline is not None:
            fields = getattr(record, "fields", {})
            shown = " ".join(f"{key}={value}" for key, value in fields.items() if key != "node")
            timeline.add(process.host, f"{record.getMessage()} {shown}".rstrip())


NODE_EVENTS = NodeEvents()
