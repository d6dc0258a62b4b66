"""A pause after a write that blocked the event loop.

A write goes into the page cache and takes microseconds, until the device cannot keep up: then the kernel makes
the writer wait, and with it everything else on the loop, heartbeats and elections too. The writer then pauses
for as long as it blocked the loop. The loop's other work gets at least half of the time, and clients get
back-pressure from the slow device. Pure: times come with each call, in seconds of one clock.
"""

HELD_UP_S = 0.05
"""What the work of one request never takes by itself."""
PAUSE_S_MAX = 1.0


def pause_after_s(held_s: float) -> float:
    """How long to pause after work that kept the loop for `held_s`."""
    return min(held_s, PAUSE_S_MAX) if held_s > HELD_UP_S else 0.0


class WritePause:
    """Shared by all who feed one device from one loop."""

    __slots__ = ("until",)

    def __init__(self) -> None:
        self.until = 0.0

    def held_up(self, held_s: float, now: float) -> None:
        """Work that ended `now` kept the loop for `held_s`."""
        pause = pause_after_s(held_s)
        if pause:
            self.until = now + pause
