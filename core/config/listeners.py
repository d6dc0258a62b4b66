"""Listeners: what a node binds, what it advertises, and which protocol each speaks."""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from rookery.core.config import node, security
from rookery.core.config.options import ConfigError, Settings

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


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
    """A listener of this node: its bind address, its advertised address, its protocol."""

    name: str
    bind: Endpoint
    advertised: Endpoint
    protocol: str

    @property
    def speaks_tls(self) -> bool:
        return self.protocol in (SSL, SASL_SSL)

    @property
    def speaks_sasl(self) -> bool:
        return self.protocol in (SASL_PLAINTEXT, SASL_SSL)

    @property
    def on_loopback(self) -> bool:
        return self.bind.host == "localhost" or _is_loopback(self.bind.host)


@dataclass(frozen=True, slots=True)
class Listeners:
    """All listeners of a node, by what they are for."""

    clients: tuple[Listener, ...]
    controllers: tuple[Listener, ...]
    inter_broker: str

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
    for name, end in bound.items():
        if name not in for_controllers and name not in protocols and name not in PROTOCOLS:
            raise ConfigError(
                node.LISTENERS.name,
                f"{name}://{end.host}:{end.port}",
                f"is {name} to be plain or secured? Say so in {node.LISTENER_SECURITY_PROTOCOL_MAP.name}, "
                f"e.g. {name}:PLAINTEXT",
            )
    clients = tuple(listener for listener in described if listener.name not in for_controllers)
    return Listeners(
        clients=clients,
        controllers=tuple(listener for listener in described if listener.name in for_controllers),
        inter_broker=_inter_broker(settings, clients),
    )


def controller_protocol(settings: Settings) -> tuple[str, str]:
    """Name and protocol of the listener by which controllers are reached, on a node that has none itself, too."""
    name = _controller_names(settings)[0]
    return name, _protocol(name, _protocols(settings))


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
        if not separator or protocol.upper() not in PROTOCOLS:
            raise ConfigError(
                node.LISTENER_SECURITY_PROTOCOL_MAP.name,
                pair,
                f"NAME:PROTOCOL with one of {', '.join(PROTOCOLS)} is needed",
            )
        protocols[name.upper()] = protocol.upper()
    return protocols


def _protocol(name: str, protocols: Mapping[str, str]) -> str:
    return protocols.get(name) or (name if name in PROTOCOLS else PLAINTEXT)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _inter_broker(settings: Settings, clients: tuple[Listener, ...]) -> str:
    named = settings[node.INTER_BROKER_LISTENER_NAME].upper()
    names = [listener.name for listener in clients]
    if named and named not in names:
        raise ConfigError(
            node.INTER_BROKER_LISTENER_NAME.name, named, f"it must be one of the listeners {', '.join(names)}"
        )
    if settings.is_set(security.SECURITY_INTER_BROKER_PROTOCOL):
        return _by_protocol(settings, named, clients)
    return named or (PLAINTEXT if PLAINTEXT in names else names[0] if names else "")


def _by_protocol(settings: Settings, named: str, clients: tuple[Listener, ...]) -> str:
    option, wanted = security.SECURITY_INTER_BROKER_PROTOCOL, settings[security.SECURITY_INTER_BROKER_PROTOCOL]
    if named:
        raise ConfigError(option.name, wanted, f"{node.INTER_BROKER_LISTENER_NAME.name} is set, too: keep one of them")
    found = next((listener.name for listener in clients if listener.protocol == wanted), None)
    if found is None and clients:
        raise ConfigError(option.name, wanted, "no listener speaks it: add one to listeners, or correct the protocol")
    return found or ""
