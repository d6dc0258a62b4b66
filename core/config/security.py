"""Options of encryption, authentication and authorisation: Kafka's keys, types and defaults.

Keys of ``ssl.`` and ``sasl.`` can be given for one listener as ``listener.name.<listener>.<key>``, with the
listener in lower case, and then win over the bare key. A few take the SASL mechanism, too:
``listener.name.<listener>.<mechanism>.sasl.jaas.config``.

An operator who sets one of these keys relies on it, so nothing here is ignored: a key under one of `GUARDED` that is
not in the table, or that would have no effect, stops the start (`refusal`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from rookery.core.config.options import (
    Boolean,
    Int,
    Option,
    Password,
    Settings,
    String,
    Table,
    UpdateMode,
    WordList,
    as_text,
    int32,
)

T = TypeVar("T")

PREFIX = "listener.name."
GUARDED = (
    "ssl.", "sasl.", PREFIX, "listener.security.", "security.", "authorizer.", "super.", "principal.", "delegation.",
    "rookery.http.",
)  # fmt: skip
"""Unknown keys that begin so, in small letters or large ones, stop the start."""
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
NO_GSSAPI = "GSSAPI (Kerberos) is not supported: name PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"

# --- TLS --------------------------------------------------------------------------------------------------

SSL_KEYSTORE_TYPE = Option(
    "ssl.keystore.type",
    String(("JKS", "PKCS12", "PEM")),
    "JKS",
    "Format of the key store. The file itself decides; JKS is accepted only for files that are PKCS12 or PEM.",
)
SSL_KEYSTORE_LOCATION = Option(
    "ssl.keystore.location",
    String(),
    "",
    "File with this node's private key and certificate chain: PEM or PKCS12. It is read again when it changes.",
    nullable=True,
)
SSL_KEYSTORE_PASSWORD = Option(
    "ssl.keystore.password", Password(), "", "Password of a PKCS12 key store.", nullable=True
)
SSL_KEYSTORE_KEY = Option(
    "ssl.keystore.key", Password(), "", "Private key as PEM text (PKCS#8).", nullable=True
)
SSL_KEYSTORE_CERTIFICATE_CHAIN = Option(
    "ssl.keystore.certificate.chain", Password(), "", "Certificate chain as PEM text.", nullable=True
)
SSL_KEY_PASSWORD = Option("ssl.key.password", Password(), "", "Password of the private key.")
SSL_TRUSTSTORE_TYPE = Option(
    "ssl.truststore.type",
    String(("JKS", "PKCS12", "PEM")),
    "JKS",
    "Format of the trust store; see ssl.keystore.type.",
)
SSL_TRUSTSTORE_LOCATION = Option(
    "ssl.truststore.location",
    String(),
    "",
    "File with the certificates this node trusts: PEM or PKCS12. It is read again when it changes.",
    nullable=True,
)
SSL_TRUSTSTORE_PASSWORD = Option(
    "ssl.truststore.password", Password(), "", "Password of a PKCS12 trust store.", nullable=True
)
SSL_TRUSTSTORE_CERTIFICATES = Option(
    "ssl.truststore.certificates", Password(), "", "Trusted certificates as PEM text.", nullable=True
)
SSL_CLIENT_AUTH = Option(
    "ssl.client.auth",
    String(("required", "requested", "none")),
    "none",
    "Whether clients must present a certificate; for SASL_SSL only the key with a listener's name counts. Between "
    "controllers, and from brokers to controllers, TLS is always mutual.",
)
SSL_ENABLED_PROTOCOLS = Option(
    "ssl.enabled.protocols", WordList(("TLSv1.2", "TLSv1.3"), at_least=1), ("TLSv1.2", "TLSv1.3"), "Versions of TLS."
)
SSL_PROTOCOL = Option(
    "ssl.protocol",
    String(("TLS", "TLSv1.2", "TLSv1.3")),
    "TLSv1.3",
    "Accepted as in Kafka; ssl.enabled.protocols decides.",
)
SSL_CIPHER_SUITES = Option(
    "ssl.cipher.suites",
    WordList(),
    (),
    "Cipher suites of TLS 1.2 by their IANA names; those with ECDHE and an AEAD cipher are known.",
)
SSL_ENDPOINT_IDENTIFICATION_ALGORITHM = Option(
    "ssl.endpoint.identification.algorithm",
    String(("https", "HTTPS", "")),
    "https",
    "How this broker checks the host names of others: https, or empty for no check.",
)
SSL_PRINCIPAL_MAPPING_RULES = Option(
    "ssl.principal.mapping.rules",
    String(),
    "DEFAULT",
    "How the subject of a client's certificate becomes a user's name.",
)
# --- SASL -------------------------------------------------------------------------------------------------

SASL_ENABLED_MECHANISMS = Option(
    "sasl.enabled.mechanisms",
    WordList(),
    ("GSSAPI",),
    f"SASL mechanisms that clients can use: {', '.join(MECHANISMS)}. Kafka's default, GSSAPI, is not supported.",
)
SASL_MECHANISM_INTER_BROKER_PROTOCOL = Option(
    "sasl.mechanism.inter.broker.protocol",
    String(),
    "GSSAPI",
    "SASL mechanism by which this broker authenticates to other brokers: PLAIN or SCRAM.",
)
SASL_JAAS_CONFIG = Option(
    "sasl.jaas.config",
    Password(),
    "",
    "Login of a listener and mechanism, as listener.name.<listener>.<mechanism>.sasl.jaas.config.",
    nullable=True,
)
JAAS_FILE = Option(
    "rookery.jaas.file",
    String(),
    "",
    "JAAS file with logins of listeners, as -Djava.security.auth.login.config in KAFKA_OPTS names it.",
    nullable=True,
)
SASL_SERVER_CALLBACK_HANDLER_CLASS = Option(
    "sasl.server.callback.handler.class",
    String(
        (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
            "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
            "",
        )
    ),
    "",
    "Accepted for OAUTHBEARER with Kafka's validator of signed tokens, which is what is built in. No class is loaded.",
    nullable=True,
)
SASL_SERVER_MAX_RECEIVE_SIZE = Option(
    "sasl.server.max.receive.size", int32(1), 524_288, "Largest request before a client has authenticated."
)
CONNECTIONS_MAX_REAUTH_MS = Option(
    "connections.max.reauth.ms",
    Int(0),
    0,
    "Longest time until a client must authenticate again; 0 means never.",
)
CONNECTION_FAILED_AUTHENTICATION_DELAY_MS = Option(
    "connection.failed.authentication.delay.ms",
    int32(0),
    100,
    "How long a client waits for the answer that its authentication failed.",
)
AUTHENTICATION_TIMEOUT_MS = Option(
    "rookery.authentication.timeout.ms",
    int32(100),
    10_000,
    "Close a connection that has not authenticated this long after it was accepted; also the time for a TLS handshake.",
)
MAX_UNAUTHENTICATED_CONNECTIONS = Option(
    "rookery.max.unauthenticated.connections",
    int32(1),
    2000,
    "Maximum number of connections that have not authenticated; the oldest of them gives way. Handshakes of TLS count "
    "for themselves.",
)
MAX_UNAUTHENTICATED_CONNECTIONS_PER_IP = Option(
    "rookery.max.unauthenticated.connections.per.ip",
    int32(1),
    500,
    "Maximum number of connections from one IP address that have not authenticated; more are refused.",
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_URL = Option(
    "sasl.oauthbearer.jwks.endpoint.url",
    String(),
    "",
    "https address of the keys that sign tokens. OAUTHBEARER needs it.",
    nullable=True,
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS = Option(
    "sasl.oauthbearer.jwks.endpoint.refresh.ms", Int(1000), 3_600_000, "How often the keys are fetched again."
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS = Option(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", Int(1), 100, "First pause after a failed fetch of the keys."
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS = Option(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", Int(1), 10_000, "Longest pause after a failed fetch."
)
SASL_OAUTHBEARER_EXPECTED_AUDIENCE = Option(
    "sasl.oauthbearer.expected.audience", WordList(), (), "Audiences, one of which a token must name.", nullable=True
)
SASL_OAUTHBEARER_EXPECTED_ISSUER = Option(
    "sasl.oauthbearer.expected.issuer", String(), "", "Issuer that a token must name.", nullable=True
)
SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS = Option(
    "sasl.oauthbearer.clock.skew.seconds", int32(0, 86_400), 30, "How far clocks may be apart."
)
SASL_OAUTHBEARER_SUB_CLAIM_NAME = Option(
    "sasl.oauthbearer.sub.claim.name", String(), "sub", "Claim of a token with the user's name."
)
SASL_OAUTHBEARER_SCOPE_CLAIM_NAME = Option(
    "sasl.oauthbearer.scope.claim.name", String(), "scope", "Claim of a token with its scope."
)

# --- HTTP ---------------------------------------------------------------------------------------------------

HTTP_SSL_KEYSTORE_LOCATION = Option(
    "rookery.http.ssl.keystore.location",
    String(),
    "",
    "PEM or PKCS12 file with key and certificate: rookery.http.listener speaks HTTPS. Read again when it changes.",
)
HTTP_SSL_KEYSTORE_PASSWORD = Option(
    "rookery.http.ssl.keystore.password", Password(), "", "Password of a PKCS12 store.", nullable=True
)
HTTP_SSL_KEY_PASSWORD = Option(
    "rookery.http.ssl.key.password", Password(), "", "Password of the key.", nullable=True
)
HTTP_TOKEN = Option(
    "rookery.http.token",
    Password(),
    "",
    "Requests need it as Authorization: Bearer TOKEN; only /livez and /readyz are answered without.",
    nullable=True,
)

# --- listeners between nodes, principals, authorisation -----------------------------------------------------

SECURITY_INTER_BROKER_PROTOCOL = Option(
    "security.inter.broker.protocol",
    String(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    "PLAINTEXT",
    "Protocol between brokers: the first listener with it is used. Not together with inter.broker.listener.name.",
)
ALLOW_PLAINTEXT_CONTROLLER = Option(
    "rookery.allow.plaintext.controller",
    Boolean(),
    False,
    "Start although clients must authenticate while the controller listener is PLAINTEXT and not on loopback: all that "
    "reach it can change the cluster.",
)
CONTROLLER_PLAINTEXT = Option(
    "rookery.controller.plaintext",
    String(("no", "accept", "use")),
    "no",
    "While controllers go from PLAINTEXT to SSL without downtime. use: this node accepts calls with and without TLS, "
    "and calls others without. accept: it accepts both and calls with TLS. no: TLS alone.",
)
PRINCIPAL_BUILDER_CLASS = Option(
    "principal.builder.class",
    String(("org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",)),
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    "Kafka's own, whose rules are built in. No class is loaded.",
)
AUTHORIZER_CLASS_NAME = Option(
    "authorizer.class.name",
    String(),
    "",
    "With org.apache.kafka.metadata.authorizer.StandardAuthorizer ACLs decide who may do what; empty: all is allowed.",
)
ALLOW_EVERYONE_IF_NO_ACL_FOUND = Option(
    "allow.everyone.if.no.acl.found",
    Boolean(),
    False,
    "Allow everybody everything with resources that no ACL names.",
)
SUPER_USERS = Option(
    "super.users", String(), "", "Principals who may do everything, separated by semicolons: User:admin;User:CN=ops."
)

_ANY_LISTENER = {
    option.name: option
    for option in (
        SSL_KEYSTORE_TYPE,
        SSL_KEYSTORE_LOCATION,
        SSL_KEYSTORE_PASSWORD,
        SSL_KEYSTORE_KEY,
        SSL_KEYSTORE_CERTIFICATE_CHAIN,
        SSL_KEY_PASSWORD,
        SSL_TRUSTSTORE_TYPE,
        SSL_TRUSTSTORE_LOCATION,
        SSL_TRUSTSTORE_PASSWORD,
        SSL_TRUSTSTORE_CERTIFICATES,
        SSL_CLIENT_AUTH,
        SSL_ENABLED_PROTOCOLS,
        SSL_PROTOCOL,
        SSL_CIPHER_SUITES,
        SSL_ENDPOINT_IDENTIFICATION_ALGORITHM,
        SSL_PRINCIPAL_MAPPING_RULES,
        SASL_ENABLED_MECHANISMS,
        SASL_SERVER_MAX_RECEIVE_SIZE,
        SASL_OAUTHBEARER_JWKS_ENDPOINT_URL,
        SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS,
        SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS,
        SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS,
        SASL_OAUTHBEARER_EXPECTED_AUDIENCE,
        SASL_OAUTHBEARER_EXPECTED_ISSUER,
        SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS,
        SASL_OAUTHBEARER_SUB_CLAIM_NAME,
        SASL_OAUTHBEARER_SCOPE_CLAIM_NAME,
    )
}
_ANY_MECHANISM = {
    option.name: option
    for option in (SASL_JAAS_CONFIG, SASL_SERVER_CALLBACK_HANDLER_CLASS, CONNECTIONS_MAX_REAUTH_MS)
}
"""These take a listener and a mechanism."""
_DYNAMIC = (
    SSL_KEYSTORE_LOCATION.name,
    SSL_KEYSTORE_TYPE.name,
    SSL_TRUSTSTORE_LOCATION.name,
    SSL_TRUSTSTORE_TYPE.name,
)
"""With a listener's name these can change at run time. Keys, passwords and PEM texts cannot: they would stand in the
metadata log in clear."""


@dataclass(frozen=True, slots=True)
class ListenerKey:
    """``listener.name.x.scram-sha-256.sasl.jaas.config`` in its parts."""

    listener: str
    mechanism: str
    option: Option[object]


def listener_key(name: str) -> ListenerKey | None:
    """The parts of a key with a listener's name; None if it is none that is known."""
    if not name.startswith(PREFIX):
        return None
    rest = name.removeprefix(PREFIX)
    for known, takes_mechanism in ((_ANY_LISTENER, False), (_ANY_MECHANISM, True)):
        for suffix, option in known.items():
            if not rest.endswith(f".{suffix}"):
                continue
            listener = rest.removesuffix(f".{suffix}")
            for mechanism in (each.lower() for each in MECHANISMS) if takes_mechanism else ():
                if listener.endswith(f".{mechanism}"):
                    return ListenerKey(listener.removesuffix(f".{mechanism}"), mechanism, option)
            return ListenerKey(listener, "", option)
    return None


class NodeTable(Table):
    """All options of a node; options of listeners also by their names with a listener in them."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and listener_key(name) is not None)

    def __getitem__(self, name: str) -> Option[object]:
        found = listener_key(name)
        if found is None:
            return super().__getitem__(name)
        reach = UpdateMode.PER_BROKER if found.option.name in _DYNAMIC else UpdateMode.READ_ONLY
        return replace(found.option, name=name, reach=reach)


def of_listener(settings: Settings, option: Option[T], listener: str, mechanism: str = "") -> T:
    """What holds for a listener: its own key, with the mechanism or without, else the bare key."""
    own = own_of_listener(settings, option, listener, mechanism)
    return settings[option] if own is None else own


def own_of_listener(settings: Settings, option: Option[T], listener: str, mechanism: str = "") -> T | None:
    """What was set for this listener alone; None if nothing was."""
    prefix = f"{PREFIX}{listener.lower()}."
    names = (f"{prefix}{mechanism.lower()}.{option.name}",) if mechanism else ()
    for name in (*names, f"{prefix}{option.name}"):
        if name in settings.given:
            return settings.given[name]  # type: ignore[return-value]
    return None


def ssl_texts(settings: Settings, listener: str) -> dict[str, str]:
    """All ``ssl.*`` keys as they hold for a listener, as text."""
    keys = (option for name, option in _ANY_LISTENER.items() if name.startswith("ssl."))
    return {option.name: as_text(of_listener(settings, option, listener)) or "" for option in keys}


# --- what is refused ----------------------------------------------------------------------------------------

_PEM = "convert the store to PEM or PKCS12 and name it in ssl.keystore.location or ssl.truststore.location"
_REMEDIES: Mapping[str, str] = {
    "ssl.provider": "TLS is OpenSSL's; remove the key",
    "ssl.keymanager.algorithm": "TLS is OpenSSL's; remove the key",
    "ssl.trustmanager.algorithm": "TLS is OpenSSL's; remove the key",
    "ssl.secure.random.implementation": "TLS is OpenSSL's; remove the key",
    "ssl.engine.factory.class": f"no class is loaded; {_PEM}",
    "ssl.allow.dn.changes": "a certificate may be exchanged for any other; remove the key",
    "ssl.allow.san.changes": "a certificate may be exchanged for any other; remove the key",
    "sasl.login.class": "no class is loaded; remove the key",
    "sasl.login.callback.handler.class": "no class is loaded; remove the key",
    "sasl.client.callback.handler.class": "no class is loaded; remove the key",
    "sasl.mechanism": "this key is for clients; brokers use sasl.mechanism.inter.broker.protocol",
    "sasl.oauthbearer.token.endpoint.url": "brokers authenticate to each other with PLAIN or SCRAM; remove the key",
    "sasl.mechanism.controller.protocol": "controllers are reached by mutual TLS: map the controller listener to SSL",
    "security.protocol": "this key is for clients; name protocols in listener.security.protocol.map",
    "security.providers": "no class is loaded; remove the key",
}
_REMEDIES_BY_PREFIX: Mapping[str, str] = {
    "sasl.kerberos.": f"{NO_GSSAPI}, and remove the key",
    "sasl.login.": "logins do not expire here but for tokens of clients; remove the key",
    "delegation.": "delegation tokens are not supported; remove the key",
    "authorizer.": "only authorizer.class.name is known; remove the key",
}


def refusal(key: str) -> str | None:
    """Why a key that is not in the table stops the start, and what to do; None if it may be passed over."""
    if not key.lower().startswith(GUARDED):
        return None
    bare = key
    if key.startswith(PREFIX):
        parts = key.removeprefix(PREFIX).split(".")
        bare = next(
            (".".join(parts[at:]) for at in range(1, len(parts)) if parts[at] in ("ssl", "sasl")), key
        )
    remedy = _REMEDIES.get(bare)
    if remedy is None:
        remedy = next((text for start, text in _REMEDIES_BY_PREFIX.items() if bare.startswith(start)), None)
    if remedy is None:
        remedy = "there is no such option here, and options of security are not passed over; correct or remove the key"
    return remedy

