"""An event loop of real time and real sockets for several processes that can be killed and stopped one by one.

Callbacks of a killed process do not run any more, and its sockets are closed, as a kernel would do it. Those of a
stopped one (SIGSTOP) run, in their order, when it goes on; meanwhile its sockets fill up.
"""

import asyncio
import warnings
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context
from typing import Any

from rookery.core.testing.process import PROCESS, Process

Callback = Callable[..., Any]
CLOSE_TRIES = 50


class _Call:
    """A callback of a process."""

    __slots__ = ("args", "callback", "handle", "process")

    def __init__(self, process: Process, callback: Callback, args: tuple[Any, ...]) -> None:
        self.process = process
        self.callback = callback
        self.args = args
        self.handle: asyncio.Handle | None = None

    def __call__(self) -> None:
        process = self.process
        if not process.alive or (self.handle is not None and self.handle.cancelled()):
            return
        if process.paused:
            process.missed.append(self)
        else:
            self.callback(*self.args)


class _Belongings:
    """What a process has of the loop."""

    def __init__(self) -> None:
        self.tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self.sockets: weakref.WeakSet[Any] = weakref.WeakSet()
        self.servers: weakref.WeakSet[asyncio.Server] = weakref.WeakSet()
        self.executors: weakref.WeakSet[ThreadPoolExecutor] = weakref.WeakSet()
        self.suspended: list[tuple[Callable[..., object], int, Callback, tuple[Any, ...]]] = []
        """Descriptors that were ready while it was stopped, and how to watch them again."""


class ProcessLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self._of: weakref.WeakKeyDictionary[Process, _Belongings] = weakref.WeakKeyDictionary()

    def _has(self, process: Process) -> _Belongings:
        found = self._of.get(process)
        if found is None:
            found = self._of[process] = _Belongings()
        return found

    # --- callbacks -------------------------------------------------------------------------------------------

    def call_soon(  # type: ignore[override]
        self, callback: Callback, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        process = PROCESS.get() if context is None else context.get(PROCESS)
        if process is None:
            return super().call_soon(callback, *args, context=context)
        call = _Call(process, callback, args)
        call.handle = handle = super().call_soon(call, context=context)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callback, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        process = PROCESS.get() if context is None else context.get(PROCESS)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        call = _Call(process, callback, args)
        call.handle = handle = super().call_at(when, call, context=context)
        return handle

    def create_task(self, coro: Coroutine[Any, Any, Any], **more: Any) -> asyncio.Task[Any]:  # type: ignore[override]
        task = super().create_task(coro, **more)
        context = more.get("context")
        process = PROCESS.get() if context is None else context.get(PROCESS)
        if process is not None:
            self._has(process).tasks.add(task)
            if not process.alive:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
        return task

    def run_in_executor(self, executor: Any, func: Callback, *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        process = PROCESS.get()
        if process is not None and executor is not None:
            self._has(process).executors.add(executor)
        return super().run_in_executor(executor, func, *args)

    # --- descriptors -----------------------------------------------------------------------------------------

    def _add_reader(self, fd: int, callback: Callback, *args: Any) -> Any:
        parent: Any = super()
        return parent._add_reader(fd, self._watched(self._add_reader, parent._remove_reader, fd, callback, args))

    def _add_writer(self, fd: int, callback: Callback, *args: Any) -> Any:
        parent: Any = super()
        return parent._add_writer(fd, self._watched(self._add_writer, parent._remove_writer, fd, callback, args))

    def _watched(
        self, add: Callback, remove: Callback, fd: int, callback: Callback, args: tuple[Any, ...]
    ) -> Callable[[], None]:
        process = PROCESS.get()

        def ready() -> None:
            if process is None or (process.alive and not process.paused):
                callback(*args)
                return
            remove(fd)  # it would be ready again and again
            if process.alive:
                self._has(process).suspended.append((add, fd, callback, args))

        return ready

    def _make_socket_transport(self, *args: Any, **more: Any) -> Any:
        parent: Any = super()
        return self._owned(parent._make_socket_transport(*args, **more))

    def _make_ssl_transport(self, *args: Any, **more: Any) -> Any:
        parent: Any = super()
        return self._owned(parent._make_ssl_transport(*args, **more))

    def _owned(self, transport: Any) -> Any:
        process = PROCESS.get()
        if process is not None:
            self._has(process).sockets.add(transport)
        return transport

    async def create_server(self, *args: Any, **more: Any) -> asyncio.Server:
        server = await super().create_server(*args, **more)
        process = PROCESS.get()
        if process is not None:
            self._has(process).servers.add(server)
        return server

    # --- faults ----------------------------------------------------------------------------------------------

    def pause(self, process: Process) -> None:
        process.paused = True

    def resume(self, process: Process) -> None:
        process.paused = False
        belongings = self._has(process)
        suspended, belongings.suspended = belongings.suspended, []
        for add, fd, callback, args in suspended:
            with suppress(ValueError, OSError):  # the socket was closed meanwhile
                process.context.copy().run(add, fd, callback, *args)
        missed, process.missed = list(process.missed), type(process.missed)()
        for call in missed:
            super().call_soon(call, context=call.handle._context)

    def kill(self, process: Process) -> None:
        """End `process` where it stands. Its coroutines are closed, so that none ends by itself later."""
        process.alive = False
        process.missed.clear()
        belongings = self._has(process)
        belongings.suspended.clear()
        for server in list(belongings.servers):
            server.close()
        for transport in list(belongings.sockets):
            transport.set_protocol(asyncio.Protocol())
            transport.abort()
            super().call_soon(_close_socket, transport)
        process.context.copy().run(self._close_coroutines, belongings)
        for executor in list(belongings.executors):
            executor.shutdown(wait=False, cancel_futures=True)

    def _close_coroutines(self, belongings: _Belongings) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for task in list(belongings.tasks):
                if task.done():
                    _ignore_outcome(task)
                    continue
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                waited_for = task._fut_waiter  # type: ignore[attr-defined]
                if waited_for is not None:  # its failure has no receiver any more
                    waited_for.add_done_callback(_ignore_outcome, context=Context())
                _close_coroutine(task.get_coro())


def _ignore_outcome(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()


def _close_coroutine(outer: Any) -> None:
    """From the inside out: one that awaits something while it ends is closed there, too, before those that wait for
    it."""
    for _ in range(CLOSE_TRIES):
        chain = [outer]
        while asyncio.iscoroutine(inner := getattr(chain[-1], "cr_await", None)):
            chain.append(inner)
        try:
            for coroutine in reversed(chain):
                coroutine.close()
            return
        except BaseException:
            continue


def _close_socket(transport: Any) -> None:
    """It was closing already, by a callback of the process that is gone."""
    if getattr(transport, "_sock", None) is not None:
        transport._call_connection_lost(None)
