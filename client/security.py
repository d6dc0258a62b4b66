"""TLS and SASL of the client's connections: its options are those of `core/net/client_properties.py`, and a token for
OAUTHBEARER besides."""

from typing import Any

from rookery.client.errors import ConfigurationError
from rookery.client.options import (
    SASL_JAAS_CONFIG,
    SASL_MECHANISM,
    SASL_OAUTHBEARER_TOKEN,
    SASL_USERNAME,
    SECURITY,
    SECURITY_PROTOCOL,
    Settings,
)
from rookery.core.config.options import ConfigError
from rookery.core.net import client_properties
from rookery.core.net.security import Security


def security_of(client: str, settings: Settings) -> Security:
    """How the connections are secured. Raises ConfigurationError."""
    given = {option.name: settings[option] for option in SECURITY if settings[option] != option.default}
    protocol, token = settings[SECURITY_PROTOCOL], settings[SASL_OAUTHBEARER_TOKEN]
    mechanism = settings[SASL_MECHANISM]
    try:
        if protocol.startswith("SASL") and mechanism == "OAUTHBEARER":
            return _with_token(client, given, token)
        if protocol.startswith("SASL"):
            _check_login(client, settings)
            given.setdefault("sasl.mechanism", mechanism)
        return client_properties.security_of(given)
    except ConfigError as error:
        raise ConfigurationError(f"{client}: {error}", error.key) from None


def _check_login(client: str, settings: Settings) -> None:
    user, jaas = settings[SASL_USERNAME], settings[SASL_JAAS_CONFIG]
    if user and jaas:
        raise ConfigurationError(f"{client}: sasl_jaas_config contradicts sasl_username", "sasl.jaas.config")
    if not user and not jaas:
        name = settings[SASL_MECHANISM]
        raise ConfigurationError(f"{client}: {name} needs sasl_username and sasl_password", "sasl.username")


def _with_token(client: str, given: dict[str, str], token: Any) -> Security:
    if token is None:
        raise ConfigurationError(
            f"{client}: OAUTHBEARER needs sasl_oauthbearer_token", "sasl.oauthbearer.token"
        )
    from rookery.core.net.sasl import Sasl
    from rookery.core.security.oauthbearer import OAuthBearerClient

    below = {key: value for key, value in given.items() if not key.startswith("sasl.")}
    below["security.protocol"] = given["security.protocol"].removeprefix("SASL_")
    transport = client_properties.security_of(below)
    return Sasl(lambda: OAuthBearerClient(str(token() if callable(token) else token)), lambda: transport.tls)
