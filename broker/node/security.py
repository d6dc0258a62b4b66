"""From the options of security to what listeners and connections to other brokers need; checked at the start.

Nothing fails open: what cannot be served as configured raises ConfigError, which names the key and what to do.
"""

import secrets
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from rookery.broker.server.authentication import AuthenticationSettings
from rookery.broker.server.jwks import Jwks
from rookery.broker.server.secured import Protection
from rookery.broker.server.tls import ListenerTls, TlsReload, listener_texts
from rookery.core.clock import Clock
from rookery.core.config import security as keys
from rookery.core.config.listeners import Listener, Listeners
from rookery.core.config.options import HIDDEN, ConfigError, Settings
from rookery.core.config.security import of_listener, own_of_listener, ssl_texts
from rookery.core.metadata.image import Image
from rookery.core.net.sasl import NONCE_BYTES, Sasl, exchange_of
from rookery.core.net.security import PLAINTEXT, Security, Transport
from rookery.core.net.tls import client_context, read_tls
from rookery.core.security import credentials, jaas
from rookery.core.security.oauthbearer import OAUTHBEARER, KeyRefresh, TokenRules
from rookery.core.security.principal import (
    ANONYMOUS,
    USER,
    KafkaPrincipal,
    MappingRules,
    PrincipalError,
    certificate_subject,
)
from rookery.core.security.sasl import GSSAPI, PLAIN, PlainServer, PlainUsers, SaslError, SaslServer
from rookery.core.security.scram import ScramMechanism, ScramServer
from rookery.core.service import Service

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NodeSecurity:
    """What a broker's options of security come to."""

    listeners: Listeners
    protections: dict[str, Protection]
    inter_broker: Security
    principal: KafkaPrincipal
    """Who this broker is for the other brokers."""
    reload: TlsReload
    services: list[Service]

    def reconfigure(self, settings: Settings) -> None:
        """Options were changed while the broker runs."""
        self.reload.reconfigure(lambda name: listener_texts(settings, self.listeners.client(name)))


def secure(
    settings: Settings, listeners: Listeners, image: Callable[[], Image], cluster_id: str, clock: Clock
) -> NodeSecurity:
    """Raises ConfigError for what is missing or cannot be used."""
    made: dict[str, Protection] = {}
    services: list[Service] = []
    for listener in listeners.clients:
        if not listener.speaks_tls and not listener.speaks_sasl:
            continue
        tls = None
        if listener.speaks_tls:
            between = listener.name == listeners.inter_broker
            tls = ListenerTls(listener.name, listener_texts(settings, listener), between_brokers=between)
        mechanisms = Mechanisms(settings, listener, image, cluster_id, clock)
        made[listener.name] = Protection(
            tls=tls,
            sasl=mechanisms.authentication() if listener.speaks_sasl else None,
            rules=_rules(settings, listener),
            failure_delay_s=settings[keys.CONNECTION_FAILED_AUTHENTICATION_DELAY_MS] / 1000,
            handshake_timeout_s=settings[keys.AUTHENTICATION_TIMEOUT_MS] / 1000,
            wall_ms=clock.wall_ms,
        )
        services += mechanisms.services
    reload = TlsReload(each.tls for each in made.values() if each.tls is not None)
    if reload.listeners:
        services.append(reload)
    inter_broker, principal = _inter_broker(settings, listeners, made)
    return NodeSecurity(listeners, made, inter_broker, principal, reload, services)


def _rules(settings: Settings, listener: Listener) -> MappingRules:
    text = of_listener(settings, keys.SSL_PRINCIPAL_MAPPING_RULES, listener.name)
    try:
        return MappingRules.parse(text)
    except PrincipalError as error:
        raise ConfigError(keys.SSL_PRINCIPAL_MAPPING_RULES.name, text, str(error)) from None


# --- SASL -----------------------------------------------------------------------------------------------------


class Mechanisms:
    """The SASL mechanisms of one listener."""

    def __init__(
        self,
        settings: Settings,
        listener: Listener,
        image: Callable[[], Image],
        cluster_id: str,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._listener = listener
        self._image = image
        self._decoys = credentials.DecoySource(cluster_id)
        self._clock = clock
        self.services: list[Service] = []

    def authentication(self) -> AuthenticationSettings:
        settings, name = self._settings, self._listener.name
        enabled = of_listener(settings, keys.SASL_ENABLED_MECHANISMS, name)
        check_mechanisms(enabled, name)
        return AuthenticationSettings(
            mechanisms={each: self._begin(each) for each in enabled},
            max_reauth_ms={each: of_listener(settings, keys.CONNECTIONS_MAX_REAUTH_MS, name, each) for each in enabled},
            receive_bytes_max=of_listener(settings, keys.SASL_SERVER_MAX_RECEIVE_SIZE, name),
            timeout_ms=settings[keys.AUTHENTICATION_TIMEOUT_MS],
        )

    def _begin(self, mechanism: str) -> Callable[[], SaslServer]:
        if mechanism == PLAIN:
            return self._plain()
        if mechanism == OAUTHBEARER:
            return self._oauthbearer()
        kind = ScramMechanism.named(mechanism)
        assert kind is not None
        login_of(self._settings, self._listener.name, mechanism)  # wrong even if it is not needed

        def begin() -> SaslServer:
            image = self._image()
            return ScramServer(
                kind,
                partial(credentials.credential, image, kind),
                self._decoys.of(image),
                secrets.token_urlsafe(NONCE_BYTES),
            )

        return begin

    def _plain(self) -> Callable[[], SaslServer]:
        key = jaas_key(self._listener.name, PLAIN)
        login = login_of(self._settings, self._listener.name, PLAIN)
        if login is None:
            raise ConfigError(key, "", "PLAIN needs its users: user_NAME=PASSWORD options of PlainLoginModule")
        users = PlainUsers.of(_jaas(key, lambda: jaas.plain_login(login)).users)
        return lambda: PlainServer(users)

    def _oauthbearer(self) -> Callable[[], SaslServer]:
        settings, name = self._settings, self._listener.name
        login_of(settings, name, OAUTHBEARER)
        url = of_listener(settings, keys.SASL_OAUTHBEARER_JWKS_ENDPOINT_URL, name)
        if not url:
            option = keys.SASL_OAUTHBEARER_JWKS_ENDPOINT_URL.name
            raise ConfigError(option, "", "OAUTHBEARER needs the address of the keys that sign tokens")
        rules = TokenRules(
            audiences=frozenset(of_listener(settings, keys.SASL_OAUTHBEARER_EXPECTED_AUDIENCE, name)),
            issuer=of_listener(settings, keys.SASL_OAUTHBEARER_EXPECTED_ISSUER, name) or None,
            clock_skew_s=of_listener(settings, keys.SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS, name),
            subject_claim=of_listener(settings, keys.SASL_OAUTHBEARER_SUB_CLAIM_NAME, name),
            scope_claim=of_listener(settings, keys.SASL_OAUTHBEARER_SCOPE_CLAIM_NAME, name),
        )
        refresh = KeyRefresh(
            of_listener(settings, keys.SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS, name),
            of_listener(settings, keys.SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS, name),
            of_listener(settings, keys.SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS, name),
        )
        jwks = Jwks(url, rules, refresh, self._clock, partial(_trusting, ssl_texts(settings, name)))
        self.services.append(jwks)
        return jwks.begin


def _trusting(texts: dict[str, str]) -> ssl.SSLContext:
    """Of the listener's trust store, or of the system's; the own key is not shown. Reads files: call it in a thread."""
    return client_context(read_tls({key: text for key, text in texts.items() if key.startswith("ssl.truststore.")}))


def check_mechanisms(enabled: tuple[str, ...], listener: str) -> None:
    key = keys.SASL_ENABLED_MECHANISMS.name
    if not enabled:
        raise ConfigError(key, "", f"{listener} speaks SASL: name {', '.join(keys.MECHANISMS)}")
    for each in enabled:
        if each == GSSAPI:
            raise ConfigError(key, ",".join(enabled), keys.NO_GSSAPI)
        if each not in keys.MECHANISMS:
            raise ConfigError(key, each, f"the SASL mechanisms are {', '.join(keys.MECHANISMS)}")


def jaas_key(listener: str, mechanism: str) -> str:
    return f"{keys.PREFIX}{listener.lower()}.{mechanism.lower()}.{keys.SASL_JAAS_CONFIG.name}"


def login_of(settings: Settings, listener: str, mechanism: str) -> jaas.Login | None:
    """The login of a listener for a mechanism, of its option or of the file that KAFKA_OPTS names."""
    key = jaas_key(listener, mechanism)
    text = own_of_listener(settings, keys.SASL_JAAS_CONFIG, listener, mechanism)
    if text is not None:
        login: jaas.Login | None = _jaas(key, lambda: jaas.parse(text))
    else:
        key, login = keys.JAAS_FILE.name, _login_of_file(settings, listener)
        if login is not None and login.module != jaas.MODULES.get(mechanism):
            login = None  # of another mechanism
    if login is not None:
        found = login
        _jaas(key, lambda: jaas.check_login(found, mechanism))
    return login


def _login_of_file(settings: Settings, listener: str) -> jaas.Login | None:
    path = settings[keys.JAAS_FILE]
    if not path:
        return None
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(keys.JAAS_FILE.name, path, f"the file cannot be read ({error})") from None
    contexts = _jaas(keys.JAAS_FILE.name, lambda: jaas.parse_file(text))
    return contexts.get(f"{listener.lower()}.KafkaServer") or contexts.get("KafkaServer")


def _jaas(key: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except jaas.JaasError as error:
        raise ConfigError(key, HIDDEN, str(error)) from None


# --- between brokers ------------------------------------------------------------------------------------------


class _TlsOfListener(Transport):
    """SSL with the stores that the listener has now."""

    def __init__(self, listener: ListenerTls) -> None:
        self._listener = listener

    @property
    def tls(self) -> ssl.SSLContext:  # type: ignore[override]
        return self._listener.client_context


def _inter_broker(
    settings: Settings, listeners: Listeners, made: dict[str, Protection]
) -> tuple[Security, KafkaPrincipal]:
    """How this broker connects to others, and who it is for them."""
    protection = made.get(listeners.inter_broker)
    if protection is None:
        return PLAINTEXT, ANONYMOUS
    tls = protection.tls
    if protection.sasl is None:
        assert tls is not None
        return _TlsOfListener(tls), _named_by(tls, protection.rules)
    mechanism = settings[keys.SASL_MECHANISM_INTER_BROKER_PROTOCOL]
    key = keys.SASL_MECHANISM_INTER_BROKER_PROTOCOL.name
    if mechanism == GSSAPI:
        raise ConfigError(key, mechanism, f"{keys.NO_GSSAPI.rpartition(',')[0]} for brokers, too")
    if mechanism not in protection.sasl.mechanisms:
        enabled = ", ".join(protection.sasl.mechanisms)
        raise ConfigError(key, mechanism, f"listener {listeners.inter_broker} offers {enabled}: name one of them")
    login = login_of(settings, listeners.inter_broker, mechanism)
    where = jaas_key(listeners.inter_broker, mechanism)
    own = _own_login(where, login, mechanism)
    if own is None:
        raise ConfigError(where, "", "it must name username and password of this broker for the others")
    try:
        begin = exchange_of(mechanism, *own)
    except SaslError as error:
        raise ConfigError(key, mechanism, str(error)) from None
    return Sasl(begin, lambda: None if tls is None else tls.client_context), KafkaPrincipal(USER, own[0])


def _named_by(tls: ListenerTls, rules: MappingRules) -> KafkaPrincipal:
    """Whom the listener's own certificate names, where certificates are asked for. Without a rule for it the others
    refuse this broker, and log it."""
    if tls.tls.client_auth == "none" or tls.tls.chain is None:
        return ANONYMOUS
    try:
        return KafkaPrincipal(USER, rules.name(certificate_subject(ssl.PEM_cert_to_DER_cert(_first(tls.tls.chain)))))
    except PrincipalError:
        return ANONYMOUS


def _first(chain: bytes) -> str:
    text = chain.decode()
    return text[: text.index(ssl.PEM_FOOTER) + len(ssl.PEM_FOOTER)]


def _own_login(key: str, login: jaas.Login | None, mechanism: str) -> tuple[str, str] | None:
    if login is None:
        return None
    kind = ScramMechanism.named(mechanism)
    found = _jaas(key, lambda: jaas.plain_login(login) if kind is None else jaas.scram_login(login, kind))
    return None if not found.username or not found.password else (found.username, found.password)
