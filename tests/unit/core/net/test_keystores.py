"""Key stores of several forms give the same, and what cannot be read says why without showing it."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
    serialize_key_and_certificates,
)
from cryptography.x509 import load_pem_x509_certificate

from rookery.core.config.options import ConfigError
from rookery.core.net.tls import client_context, read_tls, server_context
from tests.certificates import Authority

PASSWORD = "pass of the store"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pem(authority: Authority) -> Path:
    return authority.issue("broker", "localhost")


def encrypted(pem: Path) -> str:
    key = load_pem_private_key(pem.read_bytes(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(PASSWORD.encode())).decode()


def certificate(text: str) -> str:
    return text[text.index("-----BEGIN CERTIFICATE") :]


def usable(settings: dict[str, str]) -> None:
    tls = read_tls(settings)
    server_context(tls)
    client_context(tls)
    assert b"ENCRYPTED" not in (tls.key or b"")


def test_pem_by_file_and_inline_and_on_one_line(authority: Authority, pem: Path) -> None:
    text = pem.read_text()
    key = text[: text.index("-----BEGIN CERTIFICATE")]
    usable({"ssl.keystore.location": str(pem), "ssl.truststore.location": str(authority.path)})
    usable({"ssl.keystore.certificate.chain": certificate(text), "ssl.keystore.key": key})
    usable(
        {
            "ssl.keystore.certificate.chain": certificate(text).replace("\n", " "),
            "ssl.keystore.key": key.replace("\n", " "),
        }
    )


def test_an_encrypted_key_is_read_with_its_password(pem: Path) -> None:
    texts = {"ssl.keystore.certificate.chain": certificate(pem.read_text()), "ssl.keystore.key": encrypted(pem)}
    usable({**texts, "ssl.key.password": PASSWORD})
    with pytest.raises(ConfigError, match=r"ssl\.key\.password") as caught:
        usable({**texts, "ssl.key.password": "another secret"})
    assert "another secret" not in str(caught.value)


def test_pkcs12_stores(authority: Authority, pem: Path, tmp_path: Path) -> None:
    key = load_pem_private_key(pem.read_bytes(), None)
    own, trusted = load_pem_x509_certificate(pem.read_bytes()), load_pem_x509_certificate(authority.path.read_bytes())
    encryption = BestAvailableEncryption(PASSWORD.encode())
    store, trust = tmp_path / "store.p12", tmp_path / "trust.p12"
    store.write_bytes(serialize_key_and_certificates(b"broker", key, own, [trusted], encryption))  # type: ignore[arg-type]
    trust.write_bytes(serialize_java_truststore([PKCS12Certificate(trusted, b"ca")], encryption))
    texts = {
        "ssl.keystore.type": "JKS",
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": str(trust),
        "ssl.truststore.password": PASSWORD,
        "ssl.client.auth": "required",
    }
    usable(texts)
    for wrong in ("ssl.keystore.password", "ssl.truststore.password"):
        with pytest.raises(ConfigError, match=wrong):
            usable({**texts, wrong: "no"})


def test_what_cannot_be_read_is_refused_with_what_to_do(pem: Path, tmp_path: Path) -> None:
    java = tmp_path / "store.jks"
    java.write_bytes(bytes.fromhex("feedfeed00000002"))
    with pytest.raises(ConfigError, match=r"keytool -importkeystore -srckeystore .*store.jks"):
        usable({"ssl.keystore.location": str(java)})
    java.write_bytes(b"nonsense")
    with pytest.raises(ConfigError, match="neither PEM nor PKCS12"):
        usable({"ssl.keystore.location": str(java)})
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.password"):
        usable({"ssl.keystore.location": str(pem), "ssl.keystore.password": PASSWORD})
    with pytest.raises(ConfigError, match="keep one of them"):
        usable({"ssl.keystore.location": str(pem), "ssl.keystore.key": "x"})
    with pytest.raises(ConfigError, match="known are TLS_AES_128_GCM_SHA256"):
        usable({"ssl.keystore.location": str(pem), "ssl.cipher.suites": "TLS_RSA_WITH_RC4_128_SHA"})


def test_a_key_that_is_of_another_certificate_is_refused(authority: Authority, pem: Path) -> None:
    other = authority.issue("other", "localhost").read_text()
    key = pem.read_text()[: pem.read_text().index("-----BEGIN CERTIFICATE")]
    with pytest.raises(ConfigError, match="the certificates that belong to it"):
        usable({"ssl.keystore.certificate.chain": certificate(other), "ssl.keystore.key": key})
