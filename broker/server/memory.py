"""The memory of requests that are arriving (`queued.max.request.bytes`), and who may go on sending when it is used up.

What counts is what has arrived, never what was announced. Once the budget is used up, senders wait, but for one: the
sender whose turn it is may overdraw the budget until its request is complete. So a request larger than the whole
budget is served too, and many half-sent ones cannot block each other. A turn is short, and while somebody waits,
senders that are too slow are dropped: their memory is what the others wait for.
"""

from collections.abc import Callable
from typing import Protocol

TURN_S = 1.0
"""After so long the next one gets the turn."""


class Sender(Protocol):
    """A connection on which a large request is arriving."""

    def memory_is_back(self) -> None:
        """It may go on sending."""

    def is_slow(self) -> bool:
        """Whether it may send and does not, or hardly does."""

    def drop_slow(self) -> None:
        """Somebody else needs its memory."""


class RequestMemory:
    """While somebody waits, the budget is used up and somebody else has the turn."""

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        self._limit = limit if limit > 0 else None
        self._clock = clock
        self._held: dict[Sender, int] = {}
        self._waiting: dict[Sender, None] = {}
        self._slow: dict[Sender, None] = {}
        self._turn: Sender | None = None
        self._turn_since = 0.0
        self.used = 0

    def count(self, sender: Sender, size: int) -> None:
        """So many bytes of its request are here now; 0 when it is complete, or the sender is gone."""
        self.used += size - self._held.pop(sender, 0)
        if size:
            self._held[sender] = size
        else:
            self._waiting.pop(sender, None)
            if self._turn is sender:
                self._turn = None
        self._resume()

    def may_go_on(self, sender: Sender) -> bool:
        """Whether it may send more now; if not, it is notified when it may. First come, first served."""
        if not self._is_used_up() or self._turn is sender:
            return True
        if self._turn is None:
            self._give_turn(sender)
            return True
        self._waiting[sender] = None
        return False

    def look(self) -> None:
        """Called a few times a second. A sender that is slow at two looks in a row is slow itself; after one look this
        process may have stood still."""
        slow = {sender: None for sender in self._held if sender.is_slow()} if self._waiting else {}
        for sender in slow:
            if sender in self._slow:
                sender.drop_slow()
        self._slow = slow
        if self._waiting and self._clock() - self._turn_since > TURN_S:
            self._turn = None
            self._resume()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def _is_used_up(self) -> bool:
        return self._limit is not None and self.used >= self._limit

    def _give_turn(self, sender: Sender) -> None:
        self._turn, self._turn_since = sender, self._clock()

    def _resume(self) -> None:
        while self._waiting and (self._turn is None or not self._is_used_up()):
            sender = next(iter(self._waiting))
            del self._waiting[sender]
            if self._is_used_up():
                self._give_turn(sender)
            sender.memory_is_back()
