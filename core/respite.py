"""Respite for an event loop that the disk held up.

A write goes into the page cache and takes microseconds, until the device cannot keep up: then the kernel makes
the writer wait, and with it everything else on the loop, heartbeats and elections too. Whoever was held up so
pauses for as long again. The loop's other work gets half of the time at least, and clients feel the slow device as
back-pressure. Pure: times come with each call, in seconds of one clock.
"""

HELD_UP_S = 0.05
"""What the work of one request never takes by itself."""
RESPITE_S_MAX = 1.0


def respite_s(held_s: float) -> float:
    """How long to pause after work that kept the loop for `held_s`."""
    return min(held_s, RESPITE_S_MAX) if held_s > HELD_UP_S else 0.0


class Respite:
    """Shared by all who feed one device from one loop."""

    __slots__ = ("until",)

    def __init__(self) -> None:
        self.until = 0.0

    def held_up(self, held_s: float, now: float) -> None:
        """Work that ended `now` kept the loop for `held_s`."""
        pause = respite_s(held_s)
        if pause:
            self.until = now + pause
