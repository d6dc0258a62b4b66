"""The server: listeners, the connections they accept, and the tasks of requests that go elsewhere."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from functools import partial
from time import perf_counter
from types import MappingProxyType
from typing import Any

from rookery.broker.quotas.client_quotas import ClientQuotas
from rookery.broker.server.access import Guard
from rookery.broker.server.connection import Connection, Shared
from rookery.broker.server.dispatch import Dispatch, Handler, StartTask
from rookery.broker.server.memory import RequestMemory
from rookery.broker.server.pending import Pending
from rookery.broker.server.request_metrics import RequestMetrics
from rookery.broker.server.secured import ListenerAdmission, Protection, publish_authentication, secured
from rookery.broker.server.settings import ConnectionLimits, ServerSettings
from rookery.broker.server.sweep import Sweep
from rookery.core.config.listeners import Listener
from rookery.core.config.options import ConfigError
from rookery.core.event_logging import get_logger
from rookery.core.metrics import Metrics
from rookery.core.net.network import Listening, Network
from rookery.core.service import Service

_log = get_logger("broker.server")

CONNECTIONS = "kafka_server_socket_server_metrics_connection_count"
SWEEP_ROUND_S_MAX = 5.0
DRAIN_S = 5.0


def _check_protocol(listener: Listener, protection: Protection | None) -> None:
    """Raise ConfigError rather than serve a listener less safely than it was configured."""
    tls = protection is not None and protection.tls is not None
    sasl = protection is not None and protection.sasl is not None
    if listener.speaks_tls != tls or listener.speaks_sasl != sasl:
        pair = f"{listener.name}:{listener.protocol}"
        raise ConfigError("listener.security.protocol.map", pair, "this broker cannot speak it as configured")


class RequestTasks:
    """Owns the tasks of handlers that are coroutines; each completes the `Pending` its connection waits
    for."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], None] = {}

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> Pending[Any]:
        pending: Pending[Any] = Pending()
        task = asyncio.get_running_loop().create_task(self._run(work, pending), name=f"request {name}")
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return pending

    async def _run(self, work: Coroutine[Any, Any, Any], pending: Pending[Any]) -> None:
        """The supervisor of one request: whatever goes wrong in it ends its own connection."""
        try:
            outcome = await work
        except Exception as error:
            pending.fail(error)
        else:
            pending.follow(outcome) if isinstance(outcome, Pending) else pending.complete(outcome)

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Server(Service):
    """Serves the Kafka protocol on every client listener of a node."""

    name = "kafka server"

    def __init__(
        self,
        listeners: Iterable[Listener],
        handlers: Callable[[StartTask], Iterable[Handler]],
        settings: ServerSettings,
        network: Network,
        metrics: Metrics,
        backlog: int = 50,
        protections: Mapping[str, Protection] = MappingProxyType({}),
        quotas: ClientQuotas | None = None,
        guard: Guard | None = None,
        inter_broker: str = "",
    ) -> None:
        """`protections` are for listeners with SSL or SASL, by name: there can be no such listener without. Without
        `quotas` no client is throttled. Without `guard` everybody may do everything. `inter_broker` is the listener by
        which other brokers come."""
        self._listeners = tuple(listeners)
        self._protections = dict(protections)
        for listener in self._listeners:
            _check_protocol(listener, self._protections.get(listener.name))
        publish_authentication(metrics, self._protections)
        self._network = network
        self._backlog = backlog
        self._tasks = RequestTasks()
        self._listening: dict[str, Listening] = {}
        self.requests = RequestMetrics(perf_counter)
        self.limits = ConnectionLimits(settings)
        self.memory = RequestMemory(settings.queued_request_bytes_max, perf_counter)
        self.quotas = quotas or ClientQuotas(perf_counter)
        self.guard = guard
        self.settings = settings
        self._reserved = inter_broker if len(self._listeners) > 1 else ""
        self.dispatch = Dispatch(handlers(self._tasks.start), self.requests, self._tasks.start)
        self._shared: Shared | None = None
        self.requests.publish(metrics)
        metrics.read_value(CONNECTIONS, "Open connections.", lambda: self.limits.count)
        for event, text in (("refused", "limits of connections refused"), ("dropped", "the broker ended for a fault")):
            metrics.read(
                f"rookery_connections_{event}",
                f"Connections that {text}.",
                partial(self._happened, f"connection.{event}"),
                labels=("listener",),
                kind="counter",
            )

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        settings = self.settings
        timeout_ms = min(settings.connections_idle_ms_max, settings.frame_timeout_ms)
        sweep = Sweep(loop, min(SWEEP_ROUND_S_MAX, timeout_ms / 2000), self.memory.look)
        shared = Shared(
            self.dispatch,
            settings,
            self.limits,
            self.memory,
            sweep,
            loop,
            self.requests,
            perf_counter,
            self.quotas,
            guard=self.guard,
            reserved=self._reserved,
        )
        self._shared = shared
        sweep.start()
        for listener in self._listeners:
            await self._listen(shared, listener)

    async def _listen(self, shared: Shared, listener: Listener) -> None:
        bind, protection = listener.bind, self._protections.get(listener.name)
        tls = None
        if protection is not None and protection.tls:
            tls = ListenerAdmission(listener.name, protection, shared)
        try:
            listening = await self._network.listen(
                secured(shared, listener.name, protection),
                bind.host,
                bind.port,
                self._backlog,
                tls,
            )
        except OSError as error:
            raise OSError(error.errno, f"cannot listen on {bind}: {error.strerror or error}") from error
        self._listening[listener.name] = listening
        host, port = listening.address
        _log.info("server.listening", listener=listener.name, host=host, port=port)

    def _happened(self, event: str) -> list[tuple[tuple[str, ...], float]]:
        counts = self._shared.sparing.counts(event) if self._shared is not None else {}
        return [((listener.name,), counts.get(listener.name, 0)) for listener in self._listeners]

    @property
    def connections(self) -> list[Connection]:
        return list(self._shared.open) if self._shared is not None else []

    def port(self, listener: str) -> int:
        """The port a listener got; what was asked for may have been 0."""
        return self._listening[listener].address[1]

    async def stop(self) -> None:
        """Take no new connections, let the answers under way leave, then close."""
        for listening in self._listening.values():
            await listening.close()
        shared = self._shared
        if shared is None:
            return
        shared.sweep.stop()
        for connection in list(shared.open):
            connection.finish()
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await shared.all_closed()
        for connection in list(shared.open):
            connection.abort()
        await self._tasks.stop()
