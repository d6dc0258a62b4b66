"""Files of Java's clients and of librdkafka say the same, and nothing of security in them is passed over."""

from pathlib import Path

import pytest

from rookery.core.config.options import ConfigError
from rookery.core.net.client_properties import security_of, tls_of
from rookery.core.net.sasl import Sasl
from rookery.core.net.security import PLAINTEXT
from rookery.core.security.jaas import PLAIN_MODULE, SCRAM_MODULE
from tests.certificates import Authority

JAVA = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": f'{SCRAM_MODULE} required username="ann" password="pw-ann";',
}
LIBRDKAFKA = {
    "security.protocol": "sasl_plaintext",
    "sasl.mechanisms": "PLAIN",
    "sasl.username": "ann",
    "sasl.password": "pw-ann",
}


@pytest.mark.parametrize("properties", [JAVA, LIBRDKAFKA])
def test_both_dialects_are_understood(properties: dict[str, str]) -> None:
    assert isinstance(security_of(properties), Sasl)


def test_without_keys_of_security_nothing_is_secured() -> None:
    assert security_of({"bootstrap.servers": "h:1", "acks": "all"}) is PLAINTEXT


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"sasl.kerberos.service.name": "kafka"}, "not passed over"),
        ({"enable.ssl.certificate.verification": "false"}, "not passed over"),
        ({"security.protocol": "TLS"}, "one of PLAINTEXT"),
        ({"sasl.mechanism": "GSSAPI"}, "GSSAPI"),
        ({"sasl.mechanism": "PLAIN"}, "PlainLoginModule"),
        ({"sasl.jaas.config": ""}, "needs a user and a password"),
        ({"sasl.jaas.config": f'{PLAIN_MODULE} required username="ann" password="pw-ann";'}, "ScramLoginModule"),
    ],
)
def test_what_cannot_be_meant_is_refused_without_showing_secrets(keys: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        security_of({**JAVA, **keys})
    assert "pw-ann" not in str(caught.value)


def test_controllers_are_called_with_tls_where_the_properties_have_it(tmp_path: Path) -> None:
    assert tls_of({}) is None
    assert tls_of(JAVA) is None
    authority = Authority(tmp_path)
    own = authority.issue("admin")
    java = tls_of({"ssl.truststore.location": str(authority.path), "ssl.keystore.location": str(own)})
    librdkafka = tls_of(
        {
            "security.protocol": "ssl",
            "ssl.ca.location": str(authority.path),
            "ssl.certificate.location": str(own),
            "ssl.key.location": str(own),
        }
    )
    assert java == librdkafka
    assert java is not None
    assert java.chain
    with pytest.raises(ConfigError, match="not passed over"):
        tls_of({"ssl.truststore.lokation": "x"})
