"""Threads of simulated processes: work that stops between two disk operations and goes on when the seed says so.

Each piece of work given to an executor is a greenlet. At a disk operation it may give way: the event loop and other
threads go on, and it resumes some virtual time later. So a topic can be deleted between two steps of a cleaner, and
a run is still a function of its seed. A killed process resumes none of its threads: they clean nothing up.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context, copy_context
from random import Random
from typing import Any, Protocol

from greenlet import getcurrent, greenlet

DEFAULT_SIZE = 6
"""Threads of the default executor: asyncio's own choice on two cores."""
POLL_S = 0.01


class Killed(BaseException):
    """Ends what a process is doing at this very point."""


class Loop(Protocol):
    """What threads need of the event loop."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any: ...

    def create_future(self) -> "asyncio.Future[Any]": ...


class _Work:
    """One call in a thread."""

    __slots__ = ("context", "due", "future", "handle", "pool", "run", "thread")

    def __init__(self, pool: "_Pool", run: Callable[[], Any], future: "asyncio.Future[Any]", due: float) -> None:
        self.pool = pool
        self.run = run
        self.due = due
        self.future = future
        self.context = copy_context()
        self.thread: greenlet | None = None
        self.handle: Any = None


class _Pool:
    """An executor's queue, and the work of it that is under way."""

    def __init__(self, executor: object, size: int) -> None:
        self.executor = executor  # kept, so that its id stays taken
        self.size = size
        self.waiting: deque[_Work] = deque()
        self.running: dict[_Work, None] = {}


class Threads:
    """All threads of all simulated processes.

    `delay_s` draws how long a piece of work, or a pause within it, takes; `chance` is that of a pause at a disk
    operation. With a chance of 0 each piece of work happens at one moment.
    """

    def __init__(self, loop: Loop, rng: Random, delay_s: Callable[[], float], chance: float) -> None:
        self._loop = loop
        self._rng = rng
        self._delay_s = delay_s
        self._chance = chance
        self._pools: dict[object, _Pool] = {}
        self._current: _Work | None = None
        self._hurried = False
        self._over = False
        self.pauses = 0

    # --- for the event loop ----------------------------------------------------------------------------------

    def submit(self, owner: object, executor: object, func: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        """Work of `owner`'s executor; None is the default one."""
        key = (id(owner), None) if executor is None else id(executor)
        if key not in self._pools:
            size = DEFAULT_SIZE if executor is None else getattr(executor, "_max_workers", 1)
            self._pools[key] = _Pool(owner if executor is None else executor, size)
        pool = self._pools[key]
        due = self._loop.time() + self._delay_s()
        work = _Work(pool, lambda: func(*args), self._loop.create_future(), due)
        pool.waiting.append(work)
        self._fill(pool)
        return work.future

    def finish(self, executor: object, *, cancel_waiting: bool = False) -> None:
        """Whoever shuts an executor down waits until its work is done: it happens now, without pauses."""
        pool = self._pools.get(id(executor))
        if pool is None:
            return
        while cancel_waiting and pool.waiting:
            pool.waiting.popleft().future.cancel()
        outer, self._hurried = self._hurried, True
        try:
            while pool.running:
                work = next(iter(pool.running))
                work.handle.cancel()
                self._switch(work)
        finally:
            self._hurried = outer

    def abandon(self) -> None:
        """Nothing runs any more; what stands somewhere is ended there."""
        self._over = True
        for pool in self._pools.values():
            for work in pool.running:
                if work.thread is not None and not work.thread.dead:
                    work.thread.throw(Killed)
        self._pools.clear()

    def _fill(self, pool: _Pool) -> None:
        while pool.waiting and len(pool.running) < pool.size:
            work = pool.waiting.popleft()
            if not work.future.cancelled():
                pool.running[work] = None
                self._at(work.due, work)

    def _at(self, when: float, work: _Work) -> None:
        work.handle = self._loop.call_at(when, self._switch, work, context=work.context)

    def _switch(self, work: _Work) -> None:
        """Let the thread run until its next pause or its end."""
        if work.thread is None:
            work.thread = greenlet(self._main)
            work.thread.gr_context = work.context.copy()
        else:
            work.thread.parent = getcurrent()
        outer, self._current = self._current, work
        try:
            pause_s = work.thread.switch(work)
        finally:
            self._current = outer
        if work.thread.dead:
            work.pool.running.pop(work, None)
            self._fill(work.pool)
        else:
            self._at(self._loop.time() + pause_s, work)

    def _main(self, work: _Work) -> None:
        try:
            result = work.run()
        except Killed:
            return
        except BaseException as error:
            if not work.future.done():
                work.future.set_exception(error)
        else:
            if not work.future.done():
                work.future.set_result(result)

    # --- for code that runs in a thread ----------------------------------------------------------------------

    def point(self) -> None:
        """A disk operation is about to happen: others may come first. On the event loop it happens at once."""
        if self._over:
            raise Killed
        if self._current is None or self._hurried or self._rng.random() >= self._chance:
            return
        self._pause(self._delay_s())

    def sleep(self, seconds: float) -> None:
        if self._current is not None and not self._hurried:
            self._pause(seconds)

    def _pause(self, seconds: float) -> None:
        self.pauses += 1
        parent = getcurrent().parent
        if parent is None:
            raise RuntimeError("the event loop cannot pause")
        parent.switch(seconds)
        if self._over:
            raise Killed

    def event(self) -> "SimEvent":
        return SimEvent(self, self._loop)

    def executor(self, size: int | None = None, thread_name_prefix: str = "") -> "SimExecutor":
        return SimExecutor(self, size or DEFAULT_SIZE)

    @property
    def waits(self) -> bool:
        """Whether the code that runs now is in a thread that may wait."""
        return self._current is not None and not self._hurried


class SimEvent:
    """`threading.Event` in virtual time."""

    def __init__(self, threads: Threads, loop: Loop) -> None:
        self._threads = threads
        self._loop = loop
        self._set = False

    def set(self) -> None:
        self._set = True

    def clear(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        deadline = float("inf") if timeout is None else self._loop.time() + timeout
        while not self._set and self._threads.waits and (left := deadline - self._loop.time()) > 0:
            self._threads.sleep(min(left, POLL_S))
        return self._set


class SimExecutor(Executor):
    """`ThreadPoolExecutor` in virtual time: whoever shuts it down waits for its threads."""

    def __init__(self, threads: Threads, size: int) -> None:
        self._threads = threads
        self._max_workers = size

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if wait:
            self._threads.finish(self, cancel_waiting=cancel_futures)
