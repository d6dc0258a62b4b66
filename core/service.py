"""The life of a service: start, serve, stop, under one TaskGroup.

`start` returns when the service is ready to be used; `serve` then runs until it is cancelled; `stop` gives back
what `start` took. Services start in the order given, each serving before the next one starts, and end in reverse:
one by one they cease to serve and are stopped. When one fails while serving, all end, and the failure is raised.
"""

import asyncio
from collections.abc import Callable, Sequence

from rookery.core.event_logging import get_logger

_log = get_logger("core.service")


class Service:
    """One long-lived part of a node. Override what the part needs."""

    name: str = "service"

    async def start(self) -> None:
        """Acquire what is needed; when this returns, the service can be used."""

    async def serve(self) -> None:
        """Do the ongoing work until cancelled."""
        await asyncio.Event().wait()

    async def stop(self) -> None:
        """Give everything back. Called once for each successful `start`, also after a failure."""


class ServiceError(Exception):
    """A service ended without a request to stop."""


class ServiceGroup:
    """Runs services together: all of them, or none."""

    def __init__(self, services: Sequence[Service], *, stop_timeout_s: float = 30.0) -> None:
        self._services = list(services)
        self._stop_timeout_s = stop_timeout_s
        self._stopping = asyncio.Event()
        self._serving: list[tuple[Service, asyncio.Task[None]]] = []

    def request_stop(self) -> None:
        """Ask the group to stop in order; safe to call from a signal handler on the loop."""
        self._stopping.set()

    async def run(self, on_ready: Callable[[], None] | None = None) -> None:
        """Start all, serve until `request_stop` or a failure, stop all in reverse order."""
        failures: list[Exception] = []
        async with asyncio.TaskGroup() as group:
            try:
                await self._start_all(group)
                if on_ready is not None:
                    on_ready()
                await self._stopping.wait()
            except Exception as error:
                failures.append(error)
            finally:
                failures += await self._stop_all()
        if failures:
            raise failures[0]

    async def _start_all(self, group: asyncio.TaskGroup) -> None:
        """Start one after the other; a request to stop is noticed while one of them starts."""
        for service in self._services:
            if await self._start(service):
                self._serving.append((service, group.create_task(self._watch(service), name=service.name)))
            if self._stopping.is_set():
                return

    async def _start(self, service: Service) -> bool:
        """False when a stop was asked for before the service had started: it is stopped again."""
        start = asyncio.ensure_future(service.start())
        stop = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((start, stop), return_when=asyncio.FIRST_COMPLETED)
            if start.done():
                start.result()
                return True
        finally:
            stop.cancel()
            if not start.done():
                start.cancel()
                await asyncio.wait((start,))
        await service.stop()
        return False

    async def _watch(self, service: Service) -> None:
        await service.serve()
        if not self._stopping.is_set():
            raise ServiceError(f"the service {service.name!r} ended by itself")

    async def _stop_all(self) -> list[Exception]:
        """End in reverse; one that fails or hangs does not keep the others from stopping."""
        self._stopping.set()
        failures: list[Exception] = []
        while self._serving:
            service, task = self._serving.pop()
            task.cancel()
            try:
                async with asyncio.timeout(self._stop_timeout_s):
                    await asyncio.wait((task,))
                    await service.stop()
            except TimeoutError:
                _log.error("service.stop.timeout", service=service.name, waited_s=self._stop_timeout_s)
            except Exception as error:
                _log.exception("service.stop.failed", error, service=service.name)
                failures.append(error)
        return failures
