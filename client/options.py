"""The options of the clients: Kafka's names, each declared once with type, default and range.

Users give them as keywords (``linger_ms=5``), as a mapping of Kafka's names (``{"linger.ms": 5}``), or both. An option
that is unknown is refused with the nearest name. The tables of the producer and the consumer stand with them and
contain `COMMON`; what options mean together is checked there.

    BATCH_SIZE = Option("batch.size", int32(0), 16384, "Largest size of a batch.")
    settings = read_options("Producer", TABLE, {"linger_ms": 5}, {})
    settings[BATCH_SIZE]     # an int, for mypy too
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, cast

from rookery.client.errors import ConfigurationError
from rookery.core.config.options import (
    INT_MAX,
    LONG_MAX,
    Boolean,
    ConfigError,
    Double,
    Int,
    Option,
    Password,
    Settings,
    String,
    Table,
    WordList,
    int32,
    options_of,
    table_of,
)
from rookery.core.net.cluster import parse_bootstrap

__all__ = [
    "COMMON",
    "INT_MAX",
    "LONG_MAX",
    "Boolean",
    "Double",
    "Int",
    "Object",
    "Option",
    "Password",
    "Settings",
    "String",
    "WordList",
    "contradiction",
    "int32",
    "read_options",
    "table_with_common",
]


@dataclass(frozen=True, slots=True)
class Object:
    """A Python value that `accept` allows, such as a function; `what` describes it."""

    what: str
    accept: Callable[[Any], bool]
    type_name: str = "object"

    def parse(self, text: str) -> Any:
        if not self.accept(text):
            raise ValueError(text)
        return text

    def allowed(self) -> str:
        return f"{self.what} is needed"


@dataclass(frozen=True, slots=True)
class Addresses:
    """``host:port,host:port``."""

    type_name: str = "list"

    def parse(self, text: str) -> str:
        parse_bootstrap(text)
        return text

    def allowed(self) -> str:
        return "addresses host:port, separated by commas, are needed"


# --- options of every client --------------------------------------------------------------------------------

BOOTSTRAP_SERVERS = Option("bootstrap.servers", Addresses(), "", "Addresses of some nodes of the cluster.")
CLIENT_ID = Option("client.id", String(), "rookery", "The name brokers log and count quotas by.")
REQUEST_TIMEOUT_MS = Option(
    "request.timeout.ms",
    int32(1),
    30_000,
    "Longest wait for the answer to one request; the connection is closed then.",
)
DEFAULT_API_TIMEOUT_MS = Option(
    "default.api.timeout.ms",
    int32(1),
    60_000,
    "Longest time of a call that has no own limit, retries included.",
)
RETRY_BACKOFF_MS = Option(
    "retry.backoff.ms", Int(1), 100, "Pause before the first retry; doubles with each further one."
)
RETRY_BACKOFF_MAX_MS = Option("retry.backoff.max.ms", Int(1), 1000, "Longest pause between retries.")
RECONNECT_BACKOFF_MS = Option(
    "reconnect.backoff.ms", Int(1), 50, "Pause before a node is connected to again."
)
RECONNECT_BACKOFF_MAX_MS = Option("reconnect.backoff.max.ms", Int(1), 1000, "Longest such pause.")
CONNECTION_SETUP_TIMEOUT_MS = Option(
    "socket.connection.setup.timeout.ms", Int(1), 10_000, "Longest time to connect, TLS and SASL included."
)
METADATA_MAX_AGE_MS = Option(
    "metadata.max.age.ms", Int(1), 300_000, "Age at which the leaders and the nodes are asked for again."
)
SECURITY_PROTOCOL = Option(
    "security.protocol",
    String(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    "PLAINTEXT",
    "Whether connections are encrypted, and whether the client authenticates by SASL.",
)
SSL_TRUSTSTORE_LOCATION = Option(
    "ssl.truststore.location", String(), "", "File of trusted certificates; empty: those of the system."
)
SSL_TRUSTSTORE_TYPE = Option("ssl.truststore.type", String(), "", "PEM or PKCS12; empty: as the file is.")
SSL_TRUSTSTORE_PASSWORD = Option("ssl.truststore.password", Password(), "", "Password of a PKCS12 file.")
SSL_TRUSTSTORE_CERTIFICATES = Option(
    "ssl.truststore.certificates", String(), "", "Trusted certificates as PEM text."
)
SSL_CA_LOCATION = Option("ssl.ca.location", String(), "", "librdkafka's name of ssl.truststore.location.")
SSL_KEYSTORE_LOCATION = Option(
    "ssl.keystore.location", String(), "", "File with the client's certificate chain and key."
)
SSL_KEYSTORE_TYPE = Option("ssl.keystore.type", String(), "", "PEM or PKCS12; empty: as the file is.")
SSL_KEYSTORE_PASSWORD = Option("ssl.keystore.password", Password(), "", "Password of a PKCS12 file.")
SSL_KEYSTORE_CERTIFICATE_CHAIN = Option(
    "ssl.keystore.certificate.chain", String(), "", "The client's certificate chain as PEM text."
)
SSL_KEYSTORE_KEY = Option("ssl.keystore.key", Password(), "", "The client's key as PEM text.")
SSL_CERTIFICATE_LOCATION = Option(
    "ssl.certificate.location", String(), "", "librdkafka's name of a PEM file with the client's certificate."
)
SSL_KEY_LOCATION = Option("ssl.key.location", String(), "", "librdkafka's name of a PEM file with the key.")
SSL_KEY_PASSWORD = Option("ssl.key.password", Password(), "", "Password of the key.")
SSL_ENDPOINT_IDENTIFICATION_ALGORITHM = Option(
    "ssl.endpoint.identification.algorithm",
    String(("https", "", "none")),
    "https",
    "Whether the certificate must be that of the host; empty: not checked.",
)
SASL_MECHANISM = Option(
    "sasl.mechanism",
    String(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")),
    "PLAIN",
    "How the client authenticates.",
)
SASL_USERNAME = Option("sasl.username", String(), "", "The user of PLAIN and SCRAM.")
SASL_PASSWORD = Option("sasl.password", Password(), "", "The password of PLAIN and SCRAM.")
SASL_JAAS_CONFIG = Option(
    "sasl.jaas.config", Password(), "", "User and password as Kafka's login modules have them."
)
SASL_OAUTHBEARER_TOKEN: Option[Any] = Option(
    "sasl.oauthbearer.token",
    Object(
        "a token, or a function that returns one", lambda value: isinstance(value, str) or callable(value)
    ),
    None,
    "The token of OAUTHBEARER, or a function called for each connection.",
)

SECURITY: tuple[Option[Any], ...] = (
    SECURITY_PROTOCOL,
    SSL_TRUSTSTORE_LOCATION,
    SSL_TRUSTSTORE_TYPE,
    SSL_TRUSTSTORE_PASSWORD,
    SSL_TRUSTSTORE_CERTIFICATES,
    SSL_CA_LOCATION,
    SSL_KEYSTORE_LOCATION,
    SSL_KEYSTORE_TYPE,
    SSL_KEYSTORE_PASSWORD,
    SSL_KEYSTORE_CERTIFICATE_CHAIN,
    SSL_KEYSTORE_KEY,
    SSL_CERTIFICATE_LOCATION,
    SSL_KEY_LOCATION,
    SSL_KEY_PASSWORD,
    SSL_ENDPOINT_IDENTIFICATION_ALGORITHM,
    SASL_MECHANISM,
    SASL_USERNAME,
    SASL_PASSWORD,
    SASL_JAAS_CONFIG,
)
"""What secures connections, but for tokens."""

COMMON = table_of(vars())

NO_EFFECT = {
    "send.buffer.bytes": "the system sizes its buffers",
    "receive.buffer.bytes": "the system sizes its buffers",
    "connections.max.idle.ms": "brokers close idle connections, and the client opens them again",
    "client.dns.lookup": "all addresses of a name are tried",
    "metric.reporters": "`metrics()` returns the metrics",
    "metrics.num.samples": "`metrics()` returns the metrics",
    "metrics.recording.level": "`metrics()` returns the metrics",
    "metrics.sample.window.ms": "`metrics()` returns the metrics",
    "enable.metrics.push": "`metrics()` returns the metrics",
    "interceptor.classes": "wrap `send` or the iteration instead",
    "allow.auto.create.topics": "give it to the consumer or the producer as `auto_create_topics`",
    "auto.include.jmx.reporter": "there is no JMX in Python",
    "security.providers": "TLS is that of Python",
    "ssl.provider": "TLS is that of Python",
    "metadata.recovery.strategy": "the client always starts again from bootstrap_servers",
    "metadata.recovery.rebootstrap.trigger.ms": "the client always starts again from bootstrap_servers",
    "socket.connection.setup.timeout.max.ms": "the limit does not grow",
}
"""Options of Kafka's Java client that do not exist here, and why."""


def table_with_common(namespace: Mapping[str, object]) -> Table:
    """The table of a client: `COMMON` and the options declared in its module."""
    return Table([*COMMON, *(option for option in options_of(namespace) if option.name not in COMMON)])


def read_options(
    client: str, table: Table, keywords: Mapping[str, Any], dotted: Mapping[str, Any] | None = None
) -> Settings:
    """The settings of a client made with these keywords and Kafka's names. Raises ConfigurationError."""
    given: dict[str, object] = {}
    names = {option.name.replace(".", "_"): option.name for option in table}
    for written, value in [*(dotted or {}).items(), *keywords.items()]:
        name = written if written in table else names.get(written, "")
        if not name:
            raise ConfigurationError(_unknown(client, names, written), written)
        if name in given:
            raise ConfigurationError(f"{client}: {name} is given twice, as {written!r} and otherwise", name)
        if value is not None:
            given[name] = _value(client, table[name], value)
    if "bootstrap.servers" in table and "bootstrap.servers" not in given:
        raise ConfigurationError(
            f"{client}: bootstrap_servers is needed, such as 'localhost:9092'", "bootstrap.servers"
        )
    return Settings(table, given)


def contradiction(client: str, one: str, other: str, why: str) -> ConfigurationError:
    """Two options that cannot be used together, each as ``name=value``."""
    return ConfigurationError(f"{client}: {one} contradicts {other}: {why}", one.partition("=")[0])


def _value(client: str, option: Option[Any], value: Any) -> Any:
    try:
        if isinstance(option.kind, Object):
            if not option.kind.accept(value):
                raise ConfigError(option.name, value, option.kind.allowed())
            return value
        return option.parse(_text(option, value))
    except ConfigError as error:
        shown = "(hidden)" if option.sensitive else repr(value)
        raise ConfigurationError(
            f"{client}: {option.name}={shown} cannot be used: {error.allowed}", option.name
        ) from None


def _text(option: Option[Any], value: Any) -> str:
    """A Python value as the text of an option; the wrong type is refused as a wrong value is."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        fits = isinstance(option.kind, Boolean)
    elif isinstance(value, int | float):
        fits = isinstance(option.kind, Int | Double | String)
    else:
        fits = isinstance(value, list | tuple) and isinstance(option.kind, WordList | Addresses)
    if not fits:
        raise ConfigError(option.name, cast(object, value), option.kind.allowed())
    if isinstance(value, list | tuple):
        return ",".join(map(str, cast(Sequence[object], value)))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _unknown(client: str, names: Mapping[str, str], written: str) -> str:
    dotted = written.replace("_", ".")
    if dotted in NO_EFFECT:
        return f"{client}: {written!r} is not an option here: {NO_EFFECT[dotted]}"
    near = get_close_matches(written.replace(".", "_"), names, n=1)
    better = (names[near[0]] if "." in written else near[0]) if near else ""
    return f"{client}: {written!r} is not an option" + (f"; did you mean {better!r}?" if better else "")
