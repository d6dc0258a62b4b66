"""What has to fit together before a node starts: listeners, their options, and the control plane."""

from collections.abc import Iterator
from ipaddress import ip_address

from rookery.core.config import node
from rookery.core.config import security as keys
from rookery.core.config.listeners import (
    PLAINTEXT,
    SASL_SSL,
    Listener,
    Listeners,
    controller_protocol,
    listeners_of,
    parse_address,
)
from rookery.core.config.options import HIDDEN, ConfigError, Settings
from rookery.core.config.security import listener_key, of_listener
from rookery.core.security.principal import ANONYMOUS

_GRPC_DECIDES = (
    keys.SSL_ENABLED_PROTOCOLS.name,
    keys.SSL_CIPHER_SUITES.name,
    keys.SSL_PRINCIPAL_MAPPING_RULES.name,
    keys.SSL_ENDPOINT_IDENTIFICATION_ALGORITHM.name,
)
_GRPC = (
    "controllers are reached by gRPC, which has TLS 1.2 and 1.3 with ciphers of its own, checks hosts, and knows nodes "
    "by node-<id> in their certificates; remove the key"
)


def check_security(settings: Settings) -> tuple[str, ...]:
    """Notes for the operator. Raises ConfigError where the node would be less safe than its options ask for."""
    listeners = listeners_of(settings)
    if settings.is_set(keys.SASL_JAAS_CONFIG):
        raise ConfigError(
            keys.SASL_JAAS_CONFIG.name,
            HIDDEN,
            "a broker has logins by listener and mechanism: listener.name.<listener>.<mechanism>.sasl.jaas.config",
        )
    _check_prefixes(settings, listeners)
    _check_effect(settings, listeners)
    _check_control_plane(settings, listeners)
    notes = [note for listener in listeners.clients for note in _notes(settings, listener)]
    return (*notes, *_notes_on_anonymous(settings, listeners))


def asks_for_security(settings: Settings) -> bool:
    """Whether a listener has SASL or TLS, that of a node which is only a controller, too, or there is an authorizer."""
    found = listeners_of(settings)
    secured = any(each.protocol != PLAINTEXT for each in (*found.clients, *found.controllers))
    return secured or bool(settings[keys.AUTHORIZER_CLASS_NAME])


def _check_prefixes(settings: Settings, listeners: Listeners) -> None:
    known = {each.name.lower() for each in (*listeners.clients, *listeners.controllers)}
    known |= {name.lower() for name in settings[node.CONTROLLER_LISTENER_NAMES]}
    known |= {pair.partition(":")[0].strip().lower() for pair in settings[node.LISTENER_SECURITY_PROTOCOL_MAP]}
    for name in settings.given:
        found = listener_key(name)
        if found is not None and found.listener not in known:
            raise ConfigError(
                name, HIDDEN, f"there is no listener {found.listener}; the listeners are {', '.join(sorted(known))}"
            )


def _check_effect(settings: Settings, listeners: Listeners) -> None:
    """An operator who sets an option to protect a listener relies on it: the listener's protocol must not ignore it."""
    name, protocol = controller_protocol(settings)
    protocols = {each.name.lower(): each.protocol for each in (*listeners.clients, *listeners.controllers)}
    protocols.setdefault(name.lower(), protocol)
    for key in settings.given:
        found = listener_key(key)
        if found is None or found.listener not in protocols:
            continue
        spoken = protocols[found.listener]
        if found.listener == name.lower() and found.option.name in _GRPC_DECIDES:
            raise ConfigError(key, HIDDEN, _GRPC)
        wanted = "SSL" if found.option.name.startswith("ssl.") else "SASL"
        if wanted not in spoken:
            raise ConfigError(
                key,
                HIDDEN,
                f"listener {found.listener.upper()} is {spoken}, so this would have no effect: map it to a protocol "
                f"with {wanted} in {node.LISTENER_SECURITY_PROTOCOL_MAP.name}, or remove the key",
            )


def _check_control_plane(settings: Settings, listeners: Listeners) -> None:
    """A client that reaches the controllers without TLS can change users and ACLs, whatever else is secured."""
    secured = next((each for each in listeners.clients if each.protocol != PLAINTEXT), None)
    if secured is None and not settings[keys.AUTHORIZER_CLASS_NAME]:
        return
    name, protocol = controller_protocol(settings)
    spoken = protocol == PLAINTEXT or settings[keys.CONTROLLER_PLAINTEXT] != "no"
    if not spoken or settings[keys.ALLOW_PLAINTEXT_CONTROLLER]:
        return
    exposed = next(_exposed(settings, listeners), None)
    if exposed is None:
        return
    why = keys.AUTHORIZER_CLASS_NAME.name if secured is None else f"listener {secured.name}"
    if protocol != PLAINTEXT:
        raise ConfigError(
            keys.CONTROLLER_PLAINTEXT.name,
            settings[keys.CONTROLLER_PLAINTEXT],
            f"{why} asks for security, and controllers still take calls without TLS at {exposed}: until that is "
            f"over, set {keys.ALLOW_PLAINTEXT_CONTROLLER.name}=true if the network keeps other hosts away from it",
        )
    raise ConfigError(
        node.LISTENER_SECURITY_PROTOCOL_MAP.name,
        f"{name}:{PLAINTEXT}",
        f"{why} asks for security, and controllers are reached without any at {exposed}: map {name} to SSL with "
        f"listener.name.{name.lower()}.ssl.keystore.location and .ssl.truststore.location, bind it to 127.0.0.1, or "
        f"set {keys.ALLOW_PLAINTEXT_CONTROLLER.name}=true if the network keeps other hosts away from it",
    )


def _exposed(settings: Settings, listeners: Listeners) -> Iterator[str]:
    """Addresses of controllers that others than this machine can reach."""
    for listener in listeners.controllers:
        if "controller" in settings[node.PROCESS_ROLES] and not listener.on_loopback:
            yield str(listener.bind)
    if "controller" in settings[node.PROCESS_ROLES]:
        return
    named = settings[node.CONTROLLER_QUORUM_BOOTSTRAP_SERVERS] or tuple(
        text.partition("@")[2] for text in settings[node.CONTROLLER_QUORUM_VOTERS]
    )
    for text in named:
        host, _ = parse_address(node.CONTROLLER_QUORUM_BOOTSTRAP_SERVERS.name, text)
        if not _on_loopback(host):
            yield text


def _on_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _notes(settings: Settings, listener: Listener) -> Iterator[str]:
    name = listener.name
    if listener.speaks_sasl and not listener.speaks_tls and not listener.on_loopback:
        enabled = of_listener(settings, keys.SASL_ENABLED_MECHANISMS, name)
        if "PLAIN" in enabled or "OAUTHBEARER" in enabled:
            yield f"listener {name} takes passwords or tokens without encryption: use SASL_SSL"
    asks = of_listener(settings, keys.SSL_CLIENT_AUTH, name)
    if listener.speaks_tls and not listener.speaks_sasl and asks == "requested":
        yield f"listener {name}: with ssl.client.auth=requested clients without a certificate are User:ANONYMOUS"
    if listener.protocol == SASL_SSL and settings[keys.SSL_CLIENT_AUTH] != "none":
        own = f"{keys.PREFIX}{name.lower()}.{keys.SSL_CLIENT_AUTH.name}"
        if own not in settings.given:
            yield f"listener {name} asks for no certificates: for SASL_SSL only {own} counts, not ssl.client.auth"
    if listener.speaks_tls and not of_listener(settings, keys.SSL_ENDPOINT_IDENTIFICATION_ALGORITHM, name):
        yield f"listener {name}: ssl.endpoint.identification.algorithm is empty, so host names are not checked"


def _notes_on_anonymous(settings: Settings, listeners: Listeners) -> Iterator[str]:
    """What anonymous clients can do, on a node that is secured otherwise."""
    if not asks_for_security(settings):
        return
    supers = {each.strip() for each in settings[keys.SUPER_USERS].split(";")}
    if settings[keys.AUTHORIZER_CLASS_NAME] and str(ANONYMOUS) in supers:
        for listener in listeners.clients:
            if not listener.speaks_sasl and not listener.on_loopback and not _knows_all(settings, listener):
                reached = f"whoever reaches listener {listener.name} may do everything"
                yield f"{keys.SUPER_USERS.name} has {ANONYMOUS}: {reached}"
    if settings[node.HTTP_LISTENER] and not settings[keys.HTTP_TOKEN]:
        host, _ = parse_address(node.HTTP_LISTENER.name, settings[node.HTTP_LISTENER])
        if not _on_loopback(host):
            yield (
                f"{node.HTTP_LISTENER.name} shows metrics and events, with names of topics, groups and users, to "
                f"everybody who reaches it: set {keys.HTTP_TOKEN.name}, or bind it to 127.0.0.1"
            )


def _knows_all(settings: Settings, listener: Listener) -> bool:
    """Whether every client has to show a certificate."""
    return listener.speaks_tls and of_listener(settings, keys.SSL_CLIENT_AUTH, listener.name) == "required"
