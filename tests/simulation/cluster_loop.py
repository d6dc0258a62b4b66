"""An asyncio event loop in virtual time, shared by many simulated processes.

Every callback belongs to the process in whose context it was scheduled, and so does all that it schedules in turn.
That makes faults exact: a killed process never runs another callback and cleans nothing up; a stopped one
(SIGSTOP) gets all it missed, in order, when it goes on. Its threads are those of `threads.py`.
"""

import asyncio
import warnings
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from heapq import heappop, heappush
from random import Random
from typing import Any

from tests.simulation.threads import Killed, Threads

__all__ = ["Killed", "PROCESS", "Process", "SimHandle", "SimLoop", "SimTask", "current"]
Callback = Callable[..., Any]


class Process:
    """One life of a simulated process."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.alive = True
        self.paused = False
        self.missed: deque[SimHandle] = deque()
        self.context: Context = copy_context()
        self.context.run(PROCESS.set, self)


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


def current() -> Process:
    """The process whose callback runs now."""
    process = PROCESS.get()
    if process is None:
        raise RuntimeError("no simulated process is running")
    return process


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


class SimLoop(asyncio.AbstractEventLoop):
    """`executor_delay_s` draws how long work takes that is given to a thread; `pauses` is the chance that a thread
    gives way at a disk operation, drawn from `rng`."""

    def __init__(
        self, executor_delay_s: Callable[[], float], pauses: float = 0.0, rng: Random | None = None
    ) -> None:
        self.threads = Threads(self, rng or Random(0), executor_delay_s, pauses)
        self._now = 0.0
        self._ready: deque[SimHandle] = deque()
        self._timers: list[tuple[float, int, SimHandle]] = []
        self._sequence = 0
        self._tasks = 0
        self.events = 0
        self.failures: list[tuple[str, BaseException | None]] = []
        """What nobody caught: (message, exception)."""

    # --- time and callbacks ----------------------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Callback, *args: Any, context: Context | None = None
    ) -> SimHandle:
        handle = SimHandle(callback, args, context if context is not None else copy_context())
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callback, *args: Any, context: Context | None = None
    ) -> SimHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callback, *args: Any, context: Context | None = None
    ) -> SimHandle:
        handle = SimHandle(callback, args, context if context is not None else copy_context())
        self._sequence += 1
        heappush(self._timers, (max(when, self._now), self._sequence, handle))
        return handle

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
            ready, timers = self._ready, self._timers
            while True:
                while ready:
                    self._run(ready.popleft())
                if stop is not None and stop():
                    return
                while timers and timers[0][2].callback is None:
                    heappop(timers)  # it was cancelled
                if not timers or timers[0][0] > end:
                    break
                self._now, _, handle = heappop(timers)
                self._run(handle)
            self._now = max(self._now, end)
        finally:
            asyncio._set_running_loop(None)

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
        self._timers.clear()
