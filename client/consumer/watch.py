"""Watches that the user polls in time: a warning before the group loses patience, and the end of membership after."""

import asyncio
from typing import Protocol

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


class Watched(Protocol):
    @property
    def watched(self) -> bool:
        """Whether the consumer is a member and the user is busy with records."""

    @property
    def progress(self) -> object:
        """Differs when the user has asked for something since."""

    def commit_now(self) -> None:
        """Auto-commit is due: let the next call see to it."""

    def expired(self) -> None:
        """The user did not poll in time."""


class PollWatch:
    def __init__(self, consumer: Watched, interval_s: float) -> None:
        self._consumer = consumer
        self._interval_s = interval_s
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
            if stalled_s > STALL_S and self._consumer.watched:
                log.warning("loop.stalled", stalled_s=round(stalled_s, 1), hint=STALL_HINT)
            self._consumer.commit_now()
            progress = self._consumer.progress
            if progress != self._seen or not self._consumer.watched:
                self._seen = progress
                self.polled()
                continue
            self._look(asyncio.get_running_loop().time() - self._last)

    def _look(self, busy_s: float) -> None:
        if busy_s >= self._interval_s:
            log.error("poll.interval_exceeded", busy_s=round(busy_s, 1), limit_s=self._interval_s, hint=HINT)
            self._consumer.expired()
            self.polled()
        elif self._warned < len(WARN_AT) and busy_s >= WARN_AT[self._warned] * self._interval_s:
            self._warned += 1
            log.warning("poll.late", busy_s=round(busy_s, 1), limit_s=self._interval_s, hint=HINT)
