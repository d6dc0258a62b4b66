"""A loop that moves only when told to, and a transport that keeps what was written."""

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any

from rookery.core.wire.primitives import Buffer
from tests.unit.core.wire.frames import split_frames


class FakeTimer:
    def __init__(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.callback, self.args, self.cancelled = callback, args, False

    def cancel(self) -> None:
        self.cancelled = True

    def run(self) -> None:
        if not self.cancelled:
            self.callback(*self.args)


class FakeScheduler:
    """`call_soon` runs at the next `run`, `call_later` when `advance` has come that far."""

    def __init__(self) -> None:
        self.now = 100.0
        self._soon: list[FakeTimer] = []
        self._later: list[tuple[float, int, FakeTimer]] = []
        self._number = count()
        self.passes = 0

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> FakeTimer:
        timer = FakeTimer(callback, args)
        self._soon.append(timer)
        return timer

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> FakeTimer:
        timer = FakeTimer(callback, args)
        heapq.heappush(self._later, (self.now + delay, next(self._number), timer))
        return timer

    @property
    def timers(self) -> int:
        return sum(not timer.cancelled for _, _, timer in self._later)

    @property
    def is_idle(self) -> bool:
        return not self._soon

    def run(self, passes_max: int = 1000) -> None:
        """Run what is due until nothing is."""
        for _ in range(passes_max):
            if not self._soon:
                return
            ready, self._soon = self._soon, []
            self.passes += 1
            for timer in ready:
                timer.run()
        raise AssertionError(f"callbacks kept coming for {passes_max} passes")

    def advance(self, seconds: float) -> None:
        until = self.now + seconds
        self.run()
        while self._later and self._later[0][0] <= until:
            self.now, _, timer = heapq.heappop(self._later)
            timer.run()
            self.run()
        self.now = until


class FakeTransport:
    """The server's end of a connection."""

    def __init__(self, peer: str = "10.0.0.9") -> None:
        self.peer = peer
        self.writes: list[bytes] = []
        self.reading = True
        self.closed = False
        self.aborted = False
        self.high_water = 0
        self.buffered = 0

    def writelines(self, segments: list[Buffer]) -> None:
        self.writes.append(b"".join(bytes(segment) for segment in segments))

    def pause_reading(self) -> None:
        assert self.reading, "reading is paused already"
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading, "reading goes on already"
        self.reading = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def get_extra_info(self, name: str) -> Any:
        return (self.peer, 50_000) if name == "peername" else None

    def get_write_buffer_size(self) -> int:
        return self.buffered

    def set_write_buffer_limits(self, high: int) -> None:
        self.high_water = high

    def frames(self) -> list[bytes]:
        """Everything written, as whole frames without their sizes."""
        whole, rest = split_frames(b"".join(self.writes), 1 << 30)
        assert not rest, f"{len(rest)} bytes are left over"
        return [bytes(frame) for frame in whole]

    def take_frames(self) -> list[bytes]:
        frames = self.frames()
        self.writes.clear()
        return frames
