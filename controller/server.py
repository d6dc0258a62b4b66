"""The gRPC server of a controller node: one port for Raft and for what brokers ask of the controller; its listener
and its TLS."""

from collections.abc import Callable, Sequence

import grpc.aio

from rookery.core.config import node as keys
from rookery.core.config.listeners import Listener, listeners_of
from rookery.core.config.options import ConfigError, Settings
from rookery.core.event_logging import get_logger
from rookery.core.net.control import GRPC, Control, bind
from rookery.core.net.tls import Tls, read_tls
from rookery.core.service import Service

_log = get_logger("controller.server")
Register = Callable[[grpc.aio.Server], None]
"""Adds one gRPC service to the server."""


class ControlServer(Service):
    """Listens while it runs. Register everything before `start`."""

    name = "control-server"

    def __init__(
        self,
        address: str,
        services: Sequence[Register],
        *,
        tls: Tls | None = None,
        concurrent_calls_max: int = 4096,
        grace_s: float = 0.2,
        control: Control = GRPC,
    ) -> None:
        self._address = address
        self._services = services
        self._tls = tls
        self._concurrent_calls_max = concurrent_calls_max
        self._grace_s = grace_s
        self._control = control
        self._server: grpc.aio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        server = self._control.server(self._concurrent_calls_max)
        for register in self._services:
            register(server)
        self.port = bind(server, self._address, self._tls)
        await server.start()
        self._server = server
        _log.info("controller.listening", address=self._address, port=self.port, tls=self._tls is not None)

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(self._grace_s)
            self._server = None


def controller_listener(settings: Settings) -> Listener:
    found = listeners_of(settings).controllers
    if not found:
        names = ",".join(settings[keys.CONTROLLER_LISTENER_NAMES])
        raise ConfigError(keys.LISTENERS.name, settings[keys.LISTENERS], f"a controller needs a listener {names}")
    return found[0]


def control_tls(settings: Settings, listener: Listener) -> Tls | None:
    """Between nodes TLS is always mutual."""
    if listener.protocol != "SSL":
        return None
    return read_tls(
        {
            "ssl.keystore.location": settings[keys.SSL_KEYSTORE_LOCATION],
            "ssl.truststore.location": settings[keys.SSL_TRUSTSTORE_LOCATION],
            "ssl.key.password": settings[keys.SSL_KEY_PASSWORD],
            "ssl.client.auth": "required",
        }
    )
