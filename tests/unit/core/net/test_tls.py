"""TLS material is read from Kafka's keys, and what is wrong with it is said."""

from pathlib import Path

import pytest

from rookery.core.config.options import ConfigError
from rookery.core.net.tls import read_tls

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nBB==\n-----END PRIVATE KEY-----\n"


def test_inline_text_and_files_give_the_same(tmp_path: Path) -> None:
    (tmp_path / "node.pem").write_text(KEY + CERTIFICATE)
    (tmp_path / "ca.pem").write_text(CERTIFICATE)
    inline = read_tls(
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": CERTIFICATE,
            "ssl.keystore.key": KEY,
            "ssl.truststore.certificates": CERTIFICATE,
            "ssl.client.auth": "required",
        }
    )
    files = read_tls(
        {
            "ssl.keystore.location": str(tmp_path / "node.pem"),
            "ssl.truststore.location": str(tmp_path / "ca.pem"),
        }
    )
    assert (inline.chain, inline.key, inline.client_auth) == (CERTIFICATE.encode(), KEY.encode(), "required")
    assert files.trusted == inline.trusted
    assert (files.key, files.chain) == (KEY.encode(), CERTIFICATE.encode())
    assert "PRIVATE" not in repr(inline)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"ssl.client.auth": "required"}, "ssl.truststore.location"),
        ({"ssl.truststore.certificates": "not pem"}, "ssl.truststore.certificates"),
        ({"ssl.truststore.location": "/nonexistent/ca.pem"}, "ssl.truststore.location"),
        ({"ssl.truststore.certificates": CERTIFICATE, "ssl.keystore.key": KEY}, "ssl.keystore.key"),
        ({"ssl.truststore.certificates": CERTIFICATE, "ssl.client.auth": "maybe"}, "ssl.client.auth"),
    ],
)
def test_what_is_wrong_is_named(settings: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_tls(settings)
    assert caught.value.key == named
    assert KEY not in str(caught.value)
