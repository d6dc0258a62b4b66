"""What happened to a group: who came, went and why, what moved, how long a rebalance took."""

from collections.abc import Mapping
from typing import NamedTuple

from rookery.broker.groups.consumer.member import Current, Places
from rookery.broker.groups.group_state import GroupState
from rookery.broker.groups.step import Instant

KEPT = 100
"""Events that wait to be told; a group whose writes fail does not gather more."""


class Event(NamedTuple):
    """`member` is empty for what happened to the whole group."""

    what: str
    member: str
    why: str


class History:
    """Gathers events until they are taken, which is when their records are written."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._since: int | None = None
        """When the group left its last stable state."""

    def add(self, event: Event) -> None:
        if len(self._events) < KEPT:
            self._events.append(event)

    def assigned(self, epoch: int, before: Mapping[str, Places], after: Mapping[str, Places]) -> None:
        """A target was computed."""
        owners = {place: id for id, places in before.items() for place in places}
        moved = sum(owners.get(place, id) != id for id, places in after.items() for place in places)
        new = sum(place not in owners for places in after.values() for place in places)
        self.add(Event("assigned", "", f"epoch {epoch}: {moved} partitions move, {new} are new"))

    def moved(self, member: str, before: Current, after: Current) -> None:
        gained = len(after.assigned.keys() - before.assigned.keys())
        lost = len(before.assigned.keys() - after.assigned.keys())
        if gained or lost:
            state = after.state.name.lower()
            self.add(Event("moved", member, f"epoch {after.epoch}: {gained} gained, {lost} to give up, {state}"))

    def settled(self, state: GroupState, now: Instant) -> None:
        """The group is in this state now."""
        if state in (GroupState.STABLE, GroupState.EMPTY):
            if self._since is not None:
                self.add(Event(state.value.lower(), "", f"after {now.ms - self._since} ms"))
            self._since = None
        elif self._since is None:
            self._since = now.ms

    def forget(self) -> None:
        """What was decided could not be written."""
        self._events.clear()

    def take(self) -> list[Event]:
        events, self._events = self._events, []
        return events
