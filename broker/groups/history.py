"""What happened to a group: who came, went and why, what moved, how long a rebalance took."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from rookery.broker.groups.consumer.member import Current
from rookery.broker.groups.group_state import GroupState
from rookery.broker.groups.step import Instant

P = TypeVar("P")
"""A partition, whatever a protocol calls it by."""
KEPT = 100
"""Events that wait to be logged; a group whose writes fail does not gather more."""
REASON_CHARS_MAX = 100
"""What a member says of its leaving is its own text: the beginning is enough."""
MOVES_NAMED = 20
"""An event names so many partitions that move; of the rest it gives the number."""


class Event(NamedTuple):
    """`member` is empty for what happened to the whole group; `more` are further fields of the log event."""

    what: str
    member: str = ""
    why: str = ""
    more: Mapping[str, object] = {}

    @property
    def is_detail(self) -> bool:
        """There is one for each member in each rebalance: not for a log that people read."""
        return self.what == "moved"


def departure(reason: str | None) -> str:
    """Why a member that asked for it was removed."""
    return f"left: {reason[:REASON_CHARS_MAX]}" if reason else "left"


class History:
    """Gathers events until they are taken, which is when their records are written."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._since: int | None = None
        """When the group left its last stable state."""

    def add(self, event: Event) -> None:
        if len(self._events) < KEPT:
            self._events.append(event)

    def assigned(
        self, before: Mapping[str, Iterable[P]], after: Mapping[str, Iterable[P]], name: Callable[[P], str]
    ) -> None:
        """A new assignment was decided on: the partitions of each member, and how a partition is called."""
        owners = {place: id for id, places in before.items() for place in places}
        new, moves = 0, []
        for id, places in after.items():
            for place in places:
                if place not in owners:
                    new += 1
                elif owners[place] != id:
                    moves.append((place, owners[place], id))
        named = [f"{name(place)}: {old} -> {id}" for place, old, id in moves[:MOVES_NAMED]]
        self.add(Event("assigned", more={"moved": len(moves), "new": new, "moves": named}))

    def moved(self, member: str, before: Current, after: Current) -> None:
        """A member went a step towards its assignment."""
        gained = len(after.assigned.keys() - before.assigned.keys())
        lost = len(before.assigned.keys() - after.assigned.keys())
        if gained or lost:
            state = after.state.name.lower()
            more = {"member_epoch": after.epoch, "gained": gained, "to_give_up": lost, "state": state}
            self.add(Event("moved", member, more=more))

    def settled(self, state: GroupState, now: Instant) -> None:
        """The group is in this state now."""
        if state in (GroupState.STABLE, GroupState.EMPTY):
            if self._since is not None:
                self.add(Event(state.value.lower(), more={"ms": now.ms - self._since}))
            self._since = None
        elif self._since is None:
            self._since = now.ms

    def forget(self) -> None:
        """What was decided could not be written."""
        self._events.clear()

    def take(self) -> list[Event]:
        events, self._events = self._events, []
        return events
