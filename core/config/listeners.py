"""Listeners: what a node binds, what it advertises, and which protocol each speaks."""

from collections.abc import Mapping
from dataclasses import dataclass

from rookery.core.config import node
from rookery.core.config.options import ConfigError, Settings

SUPPORTED_PROTOCOLS = ("PLAINTEXT", "SSL")
KNOWN_PROTOCOLS = (*SUPPORTED_PROTOCOLS, "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One listener's name and address."""

    listener: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.listener}://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Listener:
    """A listener of this node: where it is bound, what clients are told, what it speaks."""

    name: str
    bind: Endpoint
    advertised: Endpoint
    protocol: str


@dataclass(frozen=True, slots=True)
class Listeners:
    """All listeners of a node, by what they are for."""

    clients: tuple[Listener, ...]
    controllers: tuple[Listener, ...]
    inter_broker: str

    @property
    def speak_tls(self) -> bool:
        """Whether any listener for clients does."""
        return any(listener.protocol == "SSL" for listener in self.clients)

    def client(self, name: str) -> Listener:
        return next(listener for listener in self.clients if listener.name == name)


def parse_endpoint(key: str, text: str) -> Endpoint:
    """``NAME://host:port``; the host may be empty (all addresses) or an IPv6 address in brackets."""
    name, separator, address = text.partition("://")
    if not separator or not name:
        raise ConfigError(key, text, "NAME://host:port is needed")
    host, port = parse_address(key, address)
    return Endpoint(name.upper(), host, port)


def parse_address(key: str, text: str) -> tuple[str, int]:
    """``host:port`` as (host, port)."""
    host, separator, port = text.strip().rpartition(":")
    if not separator or not port.isdigit() or int(port) > 65535:
        raise ConfigError(key, text, "host:port with a port from 0 to 65535 is needed")
    return host.removeprefix("[").removesuffix("]"), int(port)


def listeners_of(settings: Settings) -> Listeners:
    """The listeners that the settings describe. Raises ConfigError where they contradict each other."""
    bound = _by_name(node.LISTENERS.name, settings[node.LISTENERS])
    advertised = _by_name(node.ADVERTISED_LISTENERS.name, settings[node.ADVERTISED_LISTENERS])
    if advertised and not settings.is_set(node.LISTENERS):
        controllers = {name: end for name, end in bound.items() if name in _controller_names(settings)}
        bound = {name: Endpoint(name, "0.0.0.0", end.port) for name, end in advertised.items()} | controllers
    protocols = _protocols(settings)
    for name in advertised:
        if name not in bound:
            raise ConfigError(
                node.ADVERTISED_LISTENERS.name, str(advertised[name]), f"{name} is not among listeners"
            )
    described = [
        Listener(name, end, advertised.get(name, end), _protocol(name, protocols))
        for name, end in bound.items()
    ]
    for_controllers = _controller_names(settings)
    clients = tuple(listener for listener in described if listener.name not in for_controllers)
    return Listeners(
        clients=clients,
        controllers=tuple(listener for listener in described if listener.name in for_controllers),
        inter_broker=_inter_broker(settings, clients),
    )


def _controller_names(settings: Settings) -> tuple[str, ...]:
    return tuple(name.upper() for name in settings[node.CONTROLLER_LISTENER_NAMES])


def _by_name(key: str, texts: tuple[str, ...]) -> dict[str, Endpoint]:
    ends: dict[str, Endpoint] = {}
    for text in texts:
        end = parse_endpoint(key, text)
        if end.listener in ends:
            raise ConfigError(key, text, f"the listener {end.listener} is named twice")
        ends[end.listener] = end
    return ends


def _protocols(settings: Settings) -> dict[str, str]:
    protocols: dict[str, str] = {}
    for pair in settings[node.LISTENER_SECURITY_PROTOCOL_MAP]:
        name, separator, protocol = pair.partition(":")
        if not separator or protocol.upper() not in KNOWN_PROTOCOLS:
            raise ConfigError(
                node.LISTENER_SECURITY_PROTOCOL_MAP.name,
                pair,
                f"NAME:PROTOCOL with one of {', '.join(KNOWN_PROTOCOLS)} is needed",
            )
        protocols[name.upper()] = protocol.upper()
    return protocols


def _protocol(name: str, protocols: Mapping[str, str]) -> str:
    protocol = protocols.get(name) or (name if name in KNOWN_PROTOCOLS else "PLAINTEXT")
    if protocol not in SUPPORTED_PROTOCOLS:
        raise ConfigError(
            node.LISTENER_SECURITY_PROTOCOL_MAP.name,
            f"{name}:{protocol}",
            f"{protocol} is not built yet; use one of {', '.join(SUPPORTED_PROTOCOLS)}",
        )
    return protocol


def _inter_broker(settings: Settings, clients: tuple[Listener, ...]) -> str:
    named = settings[node.INTER_BROKER_LISTENER_NAME].upper()
    names = [listener.name for listener in clients]
    if named and named not in names:
        raise ConfigError(
            node.INTER_BROKER_LISTENER_NAME.name, named, f"it must be one of the listeners {', '.join(names)}"
        )
    return named or ("PLAINTEXT" if "PLAINTEXT" in names else names[0] if names else "")
