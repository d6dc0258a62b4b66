"""Virtual time. `VirtualLoop` is a heap of callbacks, in which Raft's core is simulated; `SimLoop` makes an asyncio
event loop of it, shared by many simulated processes. Whole runs depend on the seed alone.

In a `SimLoop` every callback belongs to the process in whose context it was scheduled, and so does all that it
schedules in turn. That makes faults exact: a killed process never runs another callback and cleans nothing up; a
stopped one (SIGSTOP) gets all it missed, in order, when it goes on. Its threads are those of `threads.py`.
"""

import asyncio
import sys
import warnings
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from contextvars import Context, copy_context
from heapq import heappop, heappush
from random import Random
from typing import Any

from rookery.core.testing.process import PROCESS, Process, current
from tests.simulation.threads import Killed, Threads

__all__ = ["PROCESS", "Killed", "Livelock", "Process", "SimHandle", "SimLoop", "SimTask", "VirtualLoop", "current"]
Callback = Callable[..., Any]
STEPS_MAX = 2_000_000
AT_ONCE_MAX = 1_000_000


class Livelock(AssertionError):
    """Time no longer advances."""


class VirtualLoop:
    """Runs callbacks in the order of their time; those of one moment in the order they were scheduled. The unit of
    time is the simulator's: milliseconds for Raft, seconds for whole nodes."""

    def __init__(self, steps_max: int = STEPS_MAX) -> None:
        self._steps_max = steps_max
        self.now = 0.0
        self.steps = 0
        self._heap: list[tuple[float, int, Callback, tuple[Any, ...]]] = []
        self._sequence = 0

    def at(self, when: float, callback: Callback, *arguments: Any) -> None:
        self._sequence += 1
        heappush(self._heap, (max(when, self.now), self._sequence, callback, arguments))

    def after(self, delay: float, callback: Callback, *arguments: Any) -> None:
        self.at(self.now + delay, callback, *arguments)

    def run_until(self, end: float, stop: Callable[[], bool] | None = None) -> None:
        """Run what is due before `end`, or until `stop` says so."""
        while self._step(end):
            if stop is not None and stop():
                return
        self.now = max(self.now, end)

    def _step(self, end: float) -> bool:
        """Run the next callback; False if none is due before `end`."""
        heap = self._heap
        if not heap or heap[0][0] > end:
            return False
        self.now, _, callback, arguments = heappop(heap)
        self.steps += 1
        if self.steps > self._steps_max:
            raise Livelock(f"{self.steps} events until {self.now:.3f}, now {callback}")
        callback(*arguments)
        return True


class SimHandle:
    __slots__ = ("args", "callback", "cancelled_", "context")

    def __init__(self, callback: Callback, args: tuple[Any, ...], context: Context) -> None:
        self.callback: Callback | None = callback
        self.args = args
        self.context = context
        self.cancelled_ = False

    def cancel(self) -> None:
        self.cancelled_ = True
        self.callback, self.args = None, ()

    def cancelled(self) -> bool:
        return self.cancelled_


class SimTask(asyncio.Task[Any]):
    """Hashed by its number: sets of tasks have the same order in every run."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, Any], loop: "SimLoop", **more: Any) -> None:
        self.number = number
        context = more.get("context")
        self.process = PROCESS.get() if context is None else context.get(PROCESS)
        super().__init__(coro, loop=loop, **more)
        self._log_destroy_pending = False

    def __hash__(self) -> int:
        return self.number


class SimLoop(VirtualLoop, asyncio.AbstractEventLoop):
    """`executor_delay_s` draws how long work takes that is given to a thread; `pauses` is the chance that a thread
    gives way at a disk operation, drawn from `rng`."""

    def __init__(
        self, executor_delay_s: Callable[[], float], pauses: float = 0.0, rng: Random | None = None
    ) -> None:
        super().__init__(sys.maxsize)
        self.threads = Threads(self, rng or Random(0), executor_delay_s, pauses)
        self._ready: deque[SimHandle] = deque()
        self._at_once = 0
        self._tasks = 0
        self.events = 0
        """Callbacks that ran."""
        self.failures: list[tuple[str, BaseException | None]] = []
        """What nobody caught: (message, exception)."""

    # --- time and callbacks ----------------------------------------------------------------------------------

    def time(self) -> float:
        return self.now

    def call_soon(  # type: ignore[override]
        self, callback: Callback, *args: Any, context: Context | None = None
    ) -> SimHandle:
        handle = SimHandle(callback, args, context if context is not None else copy_context())
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callback, *args: Any, context: Context | None = None
    ) -> SimHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callback, *args: Any, context: Context | None = None
    ) -> SimHandle:
        handle = SimHandle(callback, args, context if context is not None else copy_context())
        self.at(when, self._run, handle)
        return handle

    def timers(self) -> Iterator[SimHandle]:
        """What is to happen later."""
        return (handle for _, _, _, (handle,) in self._heap)

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callback, *args: Any, context: Context | None = None
    ) -> SimHandle:
        return self.call_soon(callback, *args, context=context)

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: Context | None = None
    ) -> SimTask:
        self._tasks += 1
        return SimTask(self._tasks, coro, self, name=name or f"task {self._tasks}", context=context)

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callback, *args: Any
    ) -> "asyncio.Future[Any]":
        return self.threads.submit(PROCESS.get(), executor, func, *args)

    # --- running ---------------------------------------------------------------------------------------------

    def run_until(self, end: float, stop: Callable[[], bool] | None = None) -> None:
        """Run what is due before `end`, or until `stop` says so."""
        asyncio._set_running_loop(self)
        try:
            super().run_until(end, stop)
        finally:
            asyncio._set_running_loop(None)

    def _step(self, end: float) -> bool:
        """What is to happen at once comes first."""
        self._at_once += 1
        if self._at_once > AT_ONCE_MAX:
            raise Livelock(f"livelock: {self._at_once} events at {self.now:.3f}, the next {list(self._ready)[:1]}")
        if self._ready:
            self._run(self._ready.popleft())
            return True
        before, heap = self.now, self._heap
        while heap and heap[0][3][0].callback is None:
            heappop(heap)  # it was cancelled
        ran = super()._step(end)
        if self.now > before or not ran:
            self._at_once = 0
        return ran

    def _run(self, handle: SimHandle) -> None:
        callback = handle.callback
        if callback is None:
            return
        process = handle.context.get(PROCESS)
        if process is not None:
            if not process.alive:
                return
            if process.paused:
                process.missed.append(handle)
                return
        self.events += 1
        try:
            handle.context.run(callback, *handle.args)
        except Killed:
            return
        except Exception as error:
            self.failures.append((f"in {callback}", error))

    def resume(self, process: Process) -> None:
        process.paused = False
        self._ready.extend(process.missed)
        process.missed.clear()

    # --- what asyncio asks besides ---------------------------------------------------------------------------

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, Killed):
            self.failures.append((str(context.get("message")), error))

    def abandon(self) -> None:
        """Nothing runs any more: end all tasks where they stand, so that none ends by itself later."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for task in asyncio.all_tasks(self):
                with suppress(BaseException):
                    task.get_coro().close()
        self.threads.abandon()
        self._ready.clear()
        self._heap.clear()
