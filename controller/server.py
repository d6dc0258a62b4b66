"""The gRPC server of a controller node: one port for Raft and for what brokers ask of the controller; its listener
and its TLS."""

from collections.abc import Callable, Sequence

import grpc.aio

from rookery.core.config import node as keys
from rookery.core.config.listeners import PLAINTEXT, SSL, Listener, controller_protocol, listeners_of
from rookery.core.config.options import ConfigError, Settings
from rookery.core.config.security import (
    CONTROLLER_PLAINTEXT,
    SSL_CLIENT_AUTH,
    SSL_KEYSTORE_KEY,
    SSL_KEYSTORE_LOCATION,
    ssl_texts,
)
from rookery.core.event_logging import get_logger
from rookery.core.net.control import GRPC, Control, bind
from rookery.core.net.front_door import FrontDoor
from rookery.core.net.tls import CurrentTls
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
        tls: CurrentTls | None = None,
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
        self._door: FrontDoor | None = None
        self.port = 0

    async def start(self) -> None:
        server = self._control.server(self._concurrent_calls_max)
        for register in self._services:
            register(server)
        self._server = server
        if self._tls is not None and self._tls.current.plaintext != "no":
            door = self._door = FrontDoor()
            bind(server, door.plain)
            bind(server, door.secured, self._tls)
            await server.start()
            self.port = await door.start(self._address)
            _log.warning("controller.accepts.plaintext", address=self._address, because=CONTROLLER_PLAINTEXT.name)
        else:
            self.port = bind(server, self._address, self._tls)
            await server.start()
        _log.info("controller.listening", address=self._address, port=self.port, tls=self._tls is not None)

    async def stop(self) -> None:
        if self._door is not None:
            await self._door.stop()
            self._door = None
        if self._server is not None:
            await self._server.stop(self._grace_s)
            self._server = None


def controller_listener(settings: Settings) -> Listener:
    found = listeners_of(settings).controllers
    if not found:
        names = ",".join(settings[keys.CONTROLLER_LISTENER_NAMES])
        raise ConfigError(keys.LISTENERS.name, settings[keys.LISTENERS], f"a controller needs a listener {names}")
    return found[0]


def control_texts(settings: Settings) -> dict[str, str] | None:
    """The ``ssl.*`` keys by which controllers are reached, by others and by this node; None without TLS. Between nodes
    it is always mutual."""
    name, protocol = controller_protocol(settings)
    plaintext = settings[CONTROLLER_PLAINTEXT]
    if protocol == PLAINTEXT:
        if plaintext != "no":
            reason = f"{name} is PLAINTEXT already: map it to SSL, or do not set this"
            raise ConfigError(CONTROLLER_PLAINTEXT.name, plaintext, reason)
        return None
    if protocol != SSL:
        raise ConfigError(
            keys.LISTENER_SECURITY_PROTOCOL_MAP.name,
            f"{name}:{protocol}",
            f"nodes know each other by their certificates: map {name} to SSL",
        )
    texts = {**ssl_texts(settings, name), SSL_CLIENT_AUTH.name: "required", CONTROLLER_PLAINTEXT.name: plaintext}
    if not (texts[SSL_KEYSTORE_LOCATION.name] or texts[SSL_KEYSTORE_KEY.name]):
        key = f"listener.name.{name.lower()}.{SSL_KEYSTORE_LOCATION.name}"
        raise ConfigError(key, "", f"{name} speaks SSL: a key and its certificate are needed")
    return texts
