"""TLS for the listeners that speak SSL."""

import ssl
import tempfile

from rookery.core.config import node
from rookery.core.config.options import ConfigError, Settings
from rookery.core.net.tls import Tls, read_tls

_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def client_tls(settings: Settings) -> Tls:
    """The material that listeners show to clients; raises ConfigError for what is missing."""
    return read_tls(
        {
            "ssl.keystore.location": settings[node.SSL_KEYSTORE_LOCATION],
            "ssl.truststore.location": settings[node.SSL_TRUSTSTORE_LOCATION]
            or settings[node.SSL_KEYSTORE_LOCATION],
            "ssl.key.password": settings[node.SSL_KEY_PASSWORD],
            "ssl.client.auth": settings[node.SSL_CLIENT_AUTH],
        }
    )


def server_context(tls: Tls) -> ssl.SSLContext:
    """TLS 1.2 or later; clients show certificates as ssl.client.auth says."""
    if tls.chain is None or tls.key is None:
        raise ConfigError(node.SSL_KEYSTORE_LOCATION.name, "", "a listener with SSL needs a key and its certificate")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = _CLIENT_AUTH[tls.client_auth]
    try:
        with tempfile.NamedTemporaryFile() as pem:  # the only way in for a key is a file
            pem.write(tls.chain if tls.chain == tls.key else tls.chain + tls.key)
            pem.flush()
            context.load_cert_chain(pem.name)
        context.load_verify_locations(cadata=tls.trusted.decode())
    except ssl.SSLError as error:
        key = node.SSL_KEYSTORE_LOCATION.name
        raise ConfigError(key, "(hidden)", f"a PEM key and certificates are needed ({error.reason})") from error
    return context
