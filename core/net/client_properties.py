"""How a client's connections are secured, by the names that Java's clients or librdkafka use.

Files written for either are taken as they are: ``sasl.jaas.config`` or ``sasl.username`` and ``sasl.password``,
``ssl.truststore.location`` or ``ssl.ca.location``, and so on. Keys of security that are not known are refused.
What only secured connections need is imported when there is one: a command without is quicker.
"""

from collections.abc import Mapping
from ssl import SSLContext
from typing import TYPE_CHECKING

from rookery.core.config.options import HIDDEN, ConfigError
from rookery.core.net.security import PLAINTEXT, Security, Transport

if TYPE_CHECKING:
    from rookery.core.net.tls import Tls

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
RENAMED = {
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
    "sasl.mechanisms": "sasl.mechanism",
}
"""librdkafka's names for what Java's clients name otherwise."""
_KNOWN = {
    "security.protocol",
    "sasl.mechanism",
    "sasl.jaas.config",
    "sasl.username",
    "sasl.password",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "ssl.endpoint.identification.algorithm",
    "ssl.enabled.protocols",
    "ssl.protocol",
    "ssl.cipher.suites",
}
GUARDED = ("ssl.", "sasl.", "security.", "enable.ssl.")


def security_of(properties: Mapping[str, str]) -> Security:
    """Raises ConfigError for what contradicts itself, is missing, or is not known."""
    given, protocol = _checked(properties)
    if protocol == "PLAINTEXT":
        return PLAINTEXT
    context = None
    if protocol.endswith("SSL"):
        from rookery.core.net.tls import client_context, read_tls

        context = client_context(read_tls(_stores(given)))
    return Transport(context) if protocol == "SSL" else _with_sasl(given, context)


def tls_of(properties: Mapping[str, str]) -> "Tls | None":
    """For controllers, who know their callers by certificates: None if the properties name neither TLS nor stores.
    Raises ConfigError like `security_of`."""
    given, protocol = _checked(properties)
    if not protocol.endswith("SSL") and not any(key.startswith("ssl.") for key in given):
        return None
    from rookery.core.net.tls import read_tls

    return read_tls(_stores(given))


def _checked(properties: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """The options of security by Java's names, and the protocol."""
    given = {
        RENAMED.get(key, key): value if key == "sasl.password" else value.strip()
        for key, value in properties.items()
        if key.startswith(GUARDED)
    }
    for key in given:
        if key not in _KNOWN:
            raise ConfigError(key, HIDDEN, "there is no such option here, and options of security are not passed over")
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise ConfigError("security.protocol", protocol, f"one of {', '.join(PROTOCOLS)} is needed")
    return given, protocol


def _with_sasl(given: Mapping[str, str], context: SSLContext | None) -> Security:
    from rookery.core.net.sasl import Sasl, exchange_of
    from rookery.core.security.sasl import SaslError

    mechanism = given.get("sasl.mechanism", "GSSAPI")
    user, password = _login(given, mechanism)
    try:
        return Sasl(exchange_of(mechanism, user, password), lambda: context)
    except SaslError as error:
        raise ConfigError("sasl.mechanism", mechanism, str(error)) from None


def _stores(given: Mapping[str, str]) -> dict[str, str]:
    """Certificate and key in two files, as librdkafka has them, become texts."""
    stores = dict(given)
    if stores.get("ssl.endpoint.identification.algorithm") == "none":
        stores["ssl.endpoint.identification.algorithm"] = ""
    for location, inline in (
        ("ssl.certificate.location", "ssl.keystore.certificate.chain"),
        ("ssl.key.location", "ssl.keystore.key"),
    ):
        path = stores.pop(location, "")
        if path:
            try:
                with open(path, encoding="utf-8") as file:
                    stores[inline] = file.read()
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or "it is not text"
                raise ConfigError(location, path, f"the file cannot be read ({reason})") from error
    return stores


def _login(given: Mapping[str, str], mechanism: str) -> tuple[str, str]:
    text = given.get("sasl.jaas.config", "")
    if not text:
        return given.get("sasl.username", ""), given.get("sasl.password", "")
    from rookery.core.security.jaas import JaasError, check_module, parse, plain_login, scram_login
    from rookery.core.security.sasl import PLAIN
    from rookery.core.security.scram import ScramMechanism

    try:
        login = parse(text)
        check_module(login, mechanism)
        scram = ScramMechanism.named(mechanism)
        found = plain_login(login) if mechanism == PLAIN else scram_login(login, scram) if scram is not None else None
    except JaasError as error:
        raise ConfigError("sasl.jaas.config", HIDDEN, str(error)) from None
    return ("", "") if found is None else (found.username or "", found.password or "")
