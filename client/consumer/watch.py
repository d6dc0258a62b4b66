"""Watches that the user polls in time: a warning before `max.poll.interval.ms` is over, and the end of the membership
after it."""

import asyncio
from collections.abc import Callable

from rookery.core.event_logging import get_logger

log = get_logger("client.consumer")
WARN_AT = (0.5, 0.8)
LOOKS = 20
"""How often in a max.poll.interval.ms the watch looks."""
LOOK_MIN_S, LOOK_MAX_S = 0.02, 0.5
STALL_S = 3.0
"""As long as the time between two heartbeats: a loop that stands still longer sends none."""
STALL_HINT = (
    "code that blocks the event loop stops heartbeats: await, use asyncio.to_thread, or use rookery.sync"
)
HINT = (
    "process faster, or set max_poll_records lower or max_poll_interval_ms higher, or process beside the polls with "
    "consumer.run(handler)"
)


class PollWatch:
    """`is_busy`: whether the consumer is a member and the user is busy with records. `progress` returns something else
    when the user has asked for something since. `commit`: auto-commit may be due, and the user's call is to see to it.
    `expire`: the user did not poll in time."""

    def __init__(
        self,
        interval_s: float,
        *,
        is_busy: Callable[[], bool],
        progress: Callable[[], object],
        commit: Callable[[], None],
        expire: Callable[[], None],
    ) -> None:
        self._interval_s = interval_s
        self._is_busy = is_busy
        self._progress = progress
        self._commit = commit
        self._expire = expire
        self._last = 0.0
        self._warned = 0
        self._seen: object = None

    def polled(self) -> None:
        self._last = asyncio.get_running_loop().time()
        self._warned = 0

    async def run(self) -> None:
        self.polled()
        look_s = min(LOOK_MAX_S, max(LOOK_MIN_S, self._interval_s / LOOKS))
        while True:
            before = asyncio.get_running_loop().time()
            await asyncio.sleep(look_s)
            stalled_s = asyncio.get_running_loop().time() - before - look_s
            if stalled_s > STALL_S and self._is_busy():
                log.warning("loop.stalled", stalled_s=round(stalled_s, 1), hint=STALL_HINT)
            self._commit()
            progress = self._progress()
            if progress != self._seen or not self._is_busy():
                self._seen = progress
                self.polled()
                continue
            self._look(asyncio.get_running_loop().time() - self._last)

    def _look(self, busy_s: float) -> None:
        if busy_s >= self._interval_s:
            log.error("poll.interval_exceeded", busy_s=round(busy_s, 1), limit_s=self._interval_s, hint=HINT)
            self._expire()
            self.polled()
        elif self._warned < len(WARN_AT) and busy_s >= WARN_AT[self._warned] * self._interval_s:
            self._warned += 1
            log.warning("poll.late", busy_s=round(busy_s, 1), limit_s=self._interval_s, hint=HINT)
