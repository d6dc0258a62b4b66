"""TLS material in PEM form, by Kafka's ssl.* keys.

Supported: ``ssl.keystore.type=PEM`` with ``ssl.keystore.certificate.chain`` and ``ssl.keystore.key`` (the
text itself) or ``ssl.keystore.location`` (one file with both); ``ssl.truststore.type=PEM`` with
``ssl.truststore.certificates`` or ``ssl.truststore.location``; ``ssl.client.auth``. JKS and PKCS12 stores are
not read: convert them with ``openssl pkcs12``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from rookery.core.config.options import ConfigError

ClientAuth = Literal["none", "requested", "required"]
NODE_NAME = "node-{}"
"""The subject alternative name (DNS) by which a node's certificate tells its id."""
ADMIN_NAME = "admin"
"""The subject alternative name (DNS) of a certificate that may change the quorum."""


@dataclass(frozen=True, slots=True)
class Tls:
    """What one side of a connection presents and trusts."""

    trusted: bytes
    chain: bytes | None = None
    key: bytes | None = None
    client_auth: ClientAuth = "none"

    def __repr__(self) -> str:
        return f"Tls(client_auth={self.client_auth!r})"  # a key has no place in a log


def read_tls(settings: Mapping[str, str]) -> Tls:
    """The material named by ssl.* keys; raises ConfigError for what is missing or not PEM."""
    for store in ("keystore", "truststore"):
        kind = settings.get(f"ssl.{store}.type", "PEM")
        if kind != "PEM":
            raise ConfigError(f"ssl.{store}.type", kind, "only PEM is read; convert the store with openssl")
    if settings.get("ssl.key.password"):
        raise ConfigError("ssl.key.password", "(hidden)", "encrypted keys are not read; store the key in plain PEM")
    chain = _text(settings, "ssl.keystore.certificate.chain", "ssl.keystore.location")
    key = _text(settings, "ssl.keystore.key", "ssl.keystore.location")
    trusted = _text(settings, "ssl.truststore.certificates", "ssl.truststore.location")
    if trusted is None:
        raise ConfigError("ssl.truststore.location", None, "TLS needs the certificates of those it trusts")
    if (chain is None) != (key is None):
        raise ConfigError("ssl.keystore.key", None, "a certificate chain and its key go together")
    auth = settings.get("ssl.client.auth", "none")
    if auth not in ("none", "requested", "required"):
        raise ConfigError("ssl.client.auth", auth, "one of none, requested, required is needed")
    return Tls(trusted, chain, key, cast(ClientAuth, auth))


def _text(settings: Mapping[str, str], inline: str, location: str) -> bytes | None:
    name, text = inline, settings.get(inline, "")
    if not text and settings.get(location):
        name, path = location, Path(settings[location])
        try:
            text = path.read_text()
        except OSError as error:
            raise ConfigError(location, str(path), f"the file cannot be read ({error.strerror})") from error
    if not text:
        return None
    if "-----BEGIN" not in text:
        raise ConfigError(name, "(hidden)", "PEM text is needed")
    return text.encode()
