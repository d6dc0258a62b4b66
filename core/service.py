"""The life of a service: start, serve, stop, under one TaskGroup.

`start` returns when the service is ready to be used; `serve` runs until it is cancelled; `stop` gives back
what `start` took. Services start in the order given and stop in reverse. When one fails while serving, all
stop, and the failure is raised.
"""

import asyncio
from collections.abc import Callable, Sequence

from rookery.core.logs import get_logger

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
    """A service ended although nobody asked it to."""


class ServiceGroup:
    """Runs services together: all of them, or none."""

    def __init__(self, services: Sequence[Service], *, stop_timeout_s: float = 30.0) -> None:
        self._services = list(services)
        self._stop_timeout_s = stop_timeout_s
        self._stopping = asyncio.Event()

    def request_stop(self) -> None:
        """Ask the group to stop in order; safe to call from a signal handler on the loop."""
        self._stopping.set()

    async def run(self, on_ready: Callable[[], None] | None = None) -> None:
        """Start all, serve until `request_stop` or a failure, stop all in reverse order."""
        started: list[Service] = []
        try:
            for service in self._services:
                await service.start()
                started.append(service)
            if on_ready is not None:
                on_ready()
            await self._serve()
        finally:
            await self._stop(started)

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._watch(service), name=service.name) for service in self._services]
            await self._stopping.wait()
            for task in tasks:
                task.cancel()

    async def _watch(self, service: Service) -> None:
        await service.serve()
        if not self._stopping.is_set():
            raise ServiceError(f"the service {service.name!r} ended by itself")

    async def _stop(self, started: list[Service]) -> None:
        """Stop in reverse; one that fails or hangs does not keep the others from stopping."""
        failures: list[BaseException] = []
        for service in reversed(started):
            try:
                async with asyncio.timeout(self._stop_timeout_s):
                    await service.stop()
            except TimeoutError:
                _log.error("service.stop.timeout", service=service.name, waited_s=self._stop_timeout_s)
            except Exception as error:
                _log.exception("service.stop.failed", error, service=service.name)
                failures.append(error)
        if failures:
            raise failures[0]
