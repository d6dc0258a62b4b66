"""What happened in a cluster, in the order it happened: faults, and what the nodes reported."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import groupby

from rookery.core.event_logging import ROOT
from rookery.core.testing.process import PROCESS

ENTRIES_MAX = 10_000
RUN_MAX = 10
"""Entries of one node and one kind, one after the other, that are shown each."""
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
        self._more: Callable[[], Iterable[Entry]] = list

    def follow(self, more: Callable[[], Iterable[Entry]]) -> None:
        """Ask `more` for entries that were made elsewhere, each time before entries are shown."""
        self._more = more

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
            merged = sorted([*self._entries, *self._more()], key=lambda entry: entry.at_s)
            self._entries = deque(merged, maxlen=ENTRIES_MAX)
            return list(self._entries)

    def since(self, at_s: float) -> list[Entry]:
        return [entry for entry in self.entries() if entry.at_s >= at_s]

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._began

    def at_monotonic(self, monotonic_s: float) -> float:
        """When that was, by the machine's clock that never jumps."""
        return monotonic_s - self._began

    def at_wall(self, wall_ms: int) -> float:
        """When that was, by the machine's clock at the start."""
        return (wall_ms - self._began_wall_ms) / 1000

    def __str__(self) -> str:
        return text_of(self.entries())


def text_of(entries: Iterable[Entry]) -> str:
    """A line for each entry. Of a long run of one kind, as when a topic of many partitions is created, the ends."""
    lines: list[str] = []
    for _, alike in groupby(entries, key=lambda entry: (entry.who, entry.what.partition(" ")[0])):
        run = list(alike)
        if len(run) > RUN_MAX + 1:
            left_out = replace(run[-2], what=f"... {len(run) - RUN_MAX - 1} more like these")
            run[RUN_MAX:-1] = [left_out]
        lines += map(str, run)
    return "\n".join(lines)


class NodeEvents(logging.Filter):
    """Takes what nodes of this process log and puts it on the timeline of their cluster. It reaches no handler: a
    test's own log stays readable. What clients of this process log passes, as if no cluster ran.

    It is a filter of each logger of ours. A handler would have to keep records from those above it, and pytest attaches
    its own to every logger that does so."""

    def __init__(self) -> None:
        super().__init__()
        self._timelines: dict[int, Timeline] = {}
        self._level_before: int | None = None
        self._guard = threading.Lock()

    def install(self, cluster: int, timeline: Timeline) -> None:
        with self._guard:
            self._timelines[cluster] = timeline
            root = logging.getLogger(ROOT)
            if self._level_before is None:
                self._level_before = root.level
                if root.level == logging.NOTSET or root.level > logging.INFO:
                    root.setLevel(logging.INFO)
        self.cover()

    def cover(self) -> None:
        """Loggers are made when modules are imported, some only when they are used first."""
        with self._guard:
            for logger in _our_loggers():
                logger.addFilter(self)

    def remove(self, cluster: int) -> None:
        with self._guard:
            self._timelines.pop(cluster, None)
            if self._timelines or self._level_before is None:
                return
            for logger in _our_loggers():
                logger.removeFilter(self)
            logging.getLogger(ROOT).setLevel(self._level_before)
            self._level_before = None

    def filter(self, record: logging.LogRecord) -> bool:
        process = PROCESS.get()
        if process is None:
            return record.levelno >= self._level_without(record.name)
        timeline = self._timelines.get(process.cluster)
        if timeline is not None and record.levelno >= logging.INFO and record.getMessage() not in QUIET:
            fields = getattr(record, "fields", {})
            shown = " ".join(f"{key}={value}" for key, value in fields.items() if key != "node")
            timeline.add(process.host, f"{record.getMessage()} {shown}".rstrip())
        return False

    def _level_without(self, name: str) -> int:
        """From which level on a logger would report if no cluster ran."""
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            level = logger.level
            if logger.name == ROOT and level == logging.INFO and self._level_before is not None:
                level = self._level_before
            if level:
                return level
            logger = logger.parent
        return logging.NOTSET


def _our_loggers() -> list[logging.Logger]:
    known = list(logging.Logger.manager.loggerDict.items())
    return [each for name, each in known if isinstance(each, logging.Logger) and name.partition(".")[0] == ROOT]


NODE_EVENTS = NodeEvents()
