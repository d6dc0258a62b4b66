"""Requests that wait for a partition to move: acks=all for the high watermark, a fetch for data.

A request is parked under every partition it waits for, with one timer. What it waits for may have happened between the
moment it was decided to wait and this one, and then nothing would wake it: so it is asked at once whether it can be
answered, by what has changed since its decision. `wake` only notes that a partition has changed; once per pass of the
loop each request touched by a change is asked, once, whether it can be answered now. So a thousand appends in one pass
cost a parked fetch one look, and nothing is ever answered from inside an append.

Requests say what they wait for: a follower for what is appended, others for what is committed. Under acks=all both
happen for each batch, one after the other, and neither is asked because of the other.

Who waits for many keys in which mostly nothing happens does not park under each of them each time. It watches them: a
watch lasts until the key changes, over any number of waits, and may let a parked request `join` the key then.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from itertools import islice
from typing import Generic, Protocol, TypeVar

from rookery.core.clock import Scheduler, Timer
from rookery.core.event_logging import get_logger
from rookery.core.metrics import Metrics

RECENT = 64
"""Changes that are remembered; who has missed more is asked about all it waits for."""
LONG_AGO = -RECENT - 1
PURGATORY = "kafka_server_delayedoperationpurgatory_purgatorysize"
_log = get_logger("broker.replication.waiters")
APPENDED, COMMITTED, OTHERWISE = 1, 2, 4
"""What has changed of a partition: batches were appended that are yet to be replicated; the high watermark moved;
anything else. Plain numbers, since flags of `enum` are slow."""
ANYTHING = APPENDED | COMMITTED | OTHERWISE
FOR_APPENDED, FOR_COMMITTED = APPENDED | OTHERWISE, COMMITTED | OTHERWISE

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class Waiter(Protocol[K_contra]):
    """A parked request. Exactly one of its calls answers the request."""

    kind: str
    """Which purgatory it counts for, as Kafka names it: Produce, Fetch."""

    def try_complete(self, changed: Sequence[K_contra]) -> bool:
        """Answer if possible now that the keys `changed` have moved; False keeps it parked."""

    def expire(self) -> None:
        """The time is up: answer with what there is."""

    def fail(self, error: Exception) -> None:
        """`try_complete` or `expire` broke."""


class Watcher(Protocol[K_contra]):
    """Is notified of the next change of a key."""

    def on_change(self, key: K_contra) -> None:
        """The key changes now, or another watches it for the same owner: this watch is over. Must not fail."""


class Parked(Generic[K]):
    """A place in the waiters: give it back with `Waiters.forget`."""

    __slots__ = ("as_of", "keys", "timer", "waiter", "waits_for")

    def __init__(self, waiter: Waiter[K], keys: list[K], as_of: int, waits_for: int) -> None:
        self.waiter = waiter
        self.waits_for = waits_for
        self.keys = keys
        self.as_of = as_of
        """`Waiters.changes` when all of its keys were looked at last."""
        self.timer: Timer | None = None


class Waiters(Generic[K]):
    """All parked requests of a broker, by what they wait for."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._by_key: dict[K, dict[Parked[K], None]] = {}
        self._watched: dict[K, dict[Hashable, Watcher[K]]] = {}
        self._changed: dict[K, int] = {}  # and what of it
        self._sizes: dict[str, int] = {}
        self.changes = 0
        """How often any key has changed."""
        self._recent: deque[K] = deque(maxlen=RECENT)

    def publish(self, metrics: Metrics, kinds: Iterable[str]) -> None:
        text = "Requests that wait for a partition to move."
        metrics.read(
            PURGATORY, text, lambda: [((kind,), self.size(kind)) for kind in kinds], labels=("delayedOperation",)
        )

    def size(self, kind: str) -> int:
        """How many requests of this kind are parked: the purgatory's size."""
        return self._sizes.get(kind, 0)

    def park(
        self,
        waiter: Waiter[K],
        keys: Iterable[K],
        timeout_s: float,
        *,
        as_of: int = LONG_AGO,
        waits_for: int = ANYTHING,
    ) -> Parked[K] | None:
        """Keep `waiter` until it is answered; None if it was answered at once, because its wait was over already.
        `as_of` is what `changes` was before it was decided to wait; without it, all keys may have changed since.
        `waits_for` says which changes concern it."""
        parked = Parked(waiter, list(dict.fromkeys(keys)), as_of, waits_for)
        for key in parked.keys:
            self._by_key.setdefault(key, {})[parked] = None
        self._sizes[waiter.kind] = self._sizes.get(waiter.kind, 0) + 1
        parked.timer = self._scheduler.call_later(max(0.0, timeout_s), self.expire, parked)
        if self._try_all(parked):
            self.forget(parked)
            return None
        return parked

    def wake(self, key: K, what: int = ANYTHING) -> None:
        """`key` has changed. Cheap where nothing waits for it."""
        self.changes += 1
        self._recent.append(key)
        if key in self._watched:
            for watcher in self._watched.pop(key).values():
                watcher.on_change(key)
        if key in self._by_key:
            if not self._changed:
                self._scheduler.call_soon(self._pass)
            self._changed[key] = self._changed.get(key, 0) | what

    def watch(self, key: K, owner: Hashable, watcher: Watcher[K]) -> None:
        """Notify `watcher` of the next change of `key`, from within it. An owner has one watcher for a key."""
        watched = self._watched.setdefault(key, {})
        before, watched[owner] = watched.get(owner), watcher
        if before is not None and before is not watcher:
            before.on_change(key)

    def unwatch(self, key: K, owner: Hashable, watcher: Watcher[K]) -> None:
        """End a watch, if it is this one."""
        watched = self._watched.get(key)
        if watched is not None and watched.get(owner) is watcher:
            del watched[owner]
            if not watched:
                del self._watched[key]

    def join(self, parked: Parked[K], key: K) -> None:
        """Let a parked request wait for one more key, which changes now."""
        if parked.timer is None:
            return
        waiting = self._by_key.setdefault(key, {})
        if parked not in waiting:
            waiting[parked] = None
            parked.keys.append(key)

    def forget(self, parked: Parked[K] | None) -> bool:
        """Take a request out; False if it had left already."""
        if parked is None or parked.timer is None:
            return False
        parked.timer.cancel()
        parked.timer = None
        for key in parked.keys:
            waiting = self._by_key[key]
            del waiting[parked]
            if not waiting:
                del self._by_key[key]
        self._sizes[parked.waiter.kind] -= 1
        return True

    def _pass(self) -> None:
        changed, self._changed = self._changed, {}
        touched: dict[Parked[K], list[K]] = {}
        for key, what in changed.items():
            for parked in self._by_key.get(key, ()):
                if parked.waits_for & what:
                    touched.setdefault(parked, []).append(key)
        for parked, keys in touched.items():
            if parked.timer is not None and self._try(parked, keys):
                self.forget(parked)

    def _try_all(self, parked: Parked[K]) -> bool:
        """Ask whether it can be answered by what has changed since all of its keys were looked at last."""
        count, keys = self.changes - parked.as_of, list(parked.keys)
        parked.as_of = self.changes
        if count <= len(self._recent):
            changed = dict.fromkeys(islice(reversed(self._recent), count))
            keys = [key for key in changed if parked in self._by_key.get(key, ())]
            if not keys:
                return False
        return self._try(parked, keys)

    def _try(self, parked: Parked[K], keys: Sequence[K]) -> bool:
        """One broken waiter must not keep the others from being looked at: this is their supervisor."""
        try:
            return parked.waiter.try_complete(keys)
        except Exception as error:
            _log.exception("waiter.failed", error, kind=parked.waiter.kind)
            parked.waiter.fail(error)
            return True

    def expire(self, parked: Parked[K]) -> None:
        """End a wait: its time is up, or it is ended early. What has happened by then counts, even if it was not
        checked yet: after a stall the timers fire first."""
        if parked.timer is None:
            return
        done = self._try_all(parked)
        if self.forget(parked) and not done:
            try:
                parked.waiter.expire()
            except Exception as error:
                _log.exception("waiter.failed", error, kind=parked.waiter.kind)
                parked.waiter.fail(error)
