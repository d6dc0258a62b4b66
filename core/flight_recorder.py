"""The last events of a node: a bounded ring, and the lines it is kept in over a restart. No file, clock or socket.

Ids rise for ever: an id is the event's time in milliseconds, or one more than the id before it where that is not lower.
So a reader can go on after the last id it saw even where the ring was lost in between.
"""

import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

EVENTS_MAX = 5_000
EVENT_CHARS_MAX = 4_000
"""An event whose fields are longer keeps its name and says so."""
FROM_OUTSIDE = ("authentication.", "authorization.", "connection.", "request.", "scram.", "session.", "tls.handshake.")
"""What any client can cause as often as it likes: it would push everything else out of the ring."""
REPEATED = frozenset(
    {"raft.peer.failed", "follower.disconnected", "broker.heartbeat.failed", "metadata.fetch.failed", "loop.stalled"}
)
"""What repeats for as long as a fault lasts and adds nothing to it."""


class Event(NamedTuple):
    """Something that happened on a node."""

    id: int
    at_ms: int
    node: int
    level: str
    name: str
    fields: Mapping[str, Any]

    def row(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "at_ms": self.at_ms,
            "node": self.node,
            "level": self.level,
            "event": self.name,
            "fields": dict(self.fields),
        }

    def line(self) -> str:
        return json.dumps(self.row(), separators=(",", ":"), ensure_ascii=False, default=str)


class DamagedEventError(ValueError):
    """A line is not an event."""


def read_event(line: str | bytes) -> Event:
    """The event of a line; DamagedEventError if it is none."""
    try:
        row = json.loads(line)
        event = Event(
            int(row["id"]), int(row["at_ms"]), int(row["node"]), str(row["level"]), str(row["event"]), row["fields"]
        )
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise DamagedEventError(str(error)) from error
    if not isinstance(event.fields, dict) or event.id < 0:
        raise DamagedEventError("an id and fields are needed")
    return event


def is_recorded(name: str) -> bool:
    return not name.startswith(FROM_OUTSIDE) and name not in REPEATED


class Selection(NamedTuple):
    """Which events a reader wants: those whose name begins with one of `names`, and that concern `topic` or `group`."""

    names: tuple[str, ...] = ()
    topic: str = ""
    group: str = ""

    def has(self, event: Event) -> bool:
        if self.names and not event.name.startswith(self.names):
            return False
        if self.group and event.fields.get("group") != self.group:
            return False
        return not self.topic or concerns(event, self.topic)


def concerns(event: Event, topic: str, partition: int | None = None) -> bool:
    """Whether the event is about a topic: it has a field of that name, or a partition of it like ``orders-0``."""
    fields = event.fields
    if "topic" in fields:
        same = fields["topic"] == topic
        return same and (partition is None or "partition" not in fields or fields["partition"] == partition)
    place = str(fields.get("partition", ""))
    name, dash, number = place.rpartition("-")
    return bool(dash) and name == topic and (partition is None or number == str(partition))


EVERYTHING = Selection()


class EventRing:
    """The last `size` events of one node."""

    def __init__(self, node: int, size: int = EVENTS_MAX) -> None:
        self.size = size
        self._node = node
        self._events: deque[Event] = deque(maxlen=size)
        self.dropped = -1
        """The highest id that was pushed out."""

    def __len__(self) -> int:
        return len(self._events)

    @property
    def last_id(self) -> int:
        return self._events[-1].id if self._events else -1

    def add(self, at_ms: int, level: str, name: str, fields: Mapping[str, Any]) -> Event:
        event = Event(max(at_ms, self.last_id + 1), at_ms, self._node, level, name, fields)
        line = event.line()
        if len(line) > EVENT_CHARS_MAX:
            event = event._replace(fields={"truncated": line[: EVENT_CHARS_MAX // 4]})
        self._append(event)
        return event

    def _append(self, event: Event) -> None:
        if len(self._events) == self._events.maxlen:
            self.dropped = self._events[0].id
        self._events.append(event)

    def restore(self, lines: Iterable[str | bytes]) -> int:
        """Take what an earlier process kept, oldest first; returns how many lines were unusable."""
        damaged = 0
        for line in lines:
            try:
                event = read_event(line)
            except DamagedEventError:
                damaged += 1
                continue
            if event.id > self.last_id:
                self._append(event)
            else:
                damaged += 1
        return damaged

    def after(self, event_id: int, limit: int = EVENTS_MAX, selection: Selection = EVERYTHING) -> Sequence[Event]:
        """The first `limit` events after an id, oldest first."""
        found = []
        for event in reversed(self._events):
            if event.id <= event_id:
                break
            if selection.has(event):
                found.append(event)
        found.reverse()
        return found[:limit]

    def latest(self, limit: int, selection: Selection = EVERYTHING) -> Sequence[Event]:
        """The last `limit` events, oldest first."""
        found: list[Event] = []
        for event in reversed(self._events):
            if len(found) >= limit:
                break
            if selection.has(event):
                found.append(event)
        found.reverse()
        return found
