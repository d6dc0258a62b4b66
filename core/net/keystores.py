"""Key stores and trust stores: PEM and PKCS12, as text or as files, become PEM without passwords.

The bytes decide what a store is, not ``ssl.*.type``: Java's type JKS opens PKCS12, too. Stores in Java's own JKS format
are refused with the command that converts them. Errors name keys and files, never what is in them.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates, load_pkcs12

from rookery.core.config.options import HIDDEN, ConfigError

LINE = 64
_JKS = bytes.fromhex("feedfeed")
_SEQUENCE = 0x30
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_CERTIFICATES = ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE")


def read_key_store(settings: Mapping[str, str]) -> tuple[bytes, bytes] | None:
    """Certificate chain and private key, both PEM; None if no key store is configured."""
    inline = settings.get("ssl.keystore.certificate.chain", ""), settings.get("ssl.keystore.key", "")
    location = settings.get("ssl.keystore.location", "")
    if any(inline) and location:
        raise ConfigError("ssl.keystore.location", location, "the key is given as text, too: keep one of them")
    if any(inline):
        if not all(inline):
            raise ConfigError("ssl.keystore.key", None, "a certificate chain and its key go together")
        chain, _ = _pem("ssl.keystore.certificate.chain", inline[0])
        _, keys = _pem("ssl.keystore.key", inline[1])
        return _chain_and_key("ssl.keystore.key", chain, keys, settings.get("ssl.key.password", ""))
    if not location:
        return None
    data = _read("ssl.keystore.location", location)
    if _is_pem("ssl.keystore.location", location, data, "keystore"):
        _no_store_password(settings, "ssl.keystore.password")
        chain, keys = _pem("ssl.keystore.location", data.decode(errors="replace"))
        return _chain_and_key("ssl.keystore.location", chain, keys, settings.get("ssl.key.password", ""))
    store = _pkcs12("ssl.keystore.location", location, data, settings.get("ssl.keystore.password", ""))
    if store.key is None or store.cert is None:
        raise ConfigError("ssl.keystore.location", location, "the store has no private key with its certificate")
    own = (store.cert, *store.additional_certs)
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return b"".join(each.certificate.public_bytes(Encoding.PEM) for each in own), key


def read_trust_store(settings: Mapping[str, str]) -> bytes | None:
    """The trusted certificates, PEM; None if no trust store is configured."""
    inline, location = settings.get("ssl.truststore.certificates", ""), settings.get("ssl.truststore.location", "")
    if inline and location:
        raise ConfigError("ssl.truststore.location", location, "certificates are given as text, too: keep one of them")
    name = "ssl.truststore.certificates" if inline else "ssl.truststore.location"
    if not inline and not location:
        return None
    data = inline.encode() if inline else _read(name, location)
    if inline or _is_pem(name, location, data, "truststore"):
        _no_store_password(settings, "ssl.truststore.password")
        certificates, _ = _pem(name, data.decode(errors="replace"))
        found = [each.encode() for each in certificates]
    else:
        store = _pkcs12(name, location, data, settings.get("ssl.truststore.password", ""))
        held = ([store.cert] if store.cert is not None else []) + list(store.additional_certs)
        found = [each.certificate.public_bytes(Encoding.PEM) for each in held]
    if not found:
        raise ConfigError(name, location or HIDDEN, "it holds no certificate")
    return b"".join(found)


def _read(name: str, location: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise ConfigError(name, location, f"the file cannot be read ({error.strerror})") from error


def _is_pem(name: str, location: str, data: bytes, store: str) -> bool:
    if b"-----BEGIN" in data:
        return True
    if data.startswith(_JKS):
        raise ConfigError(
            name,
            location,
            "stores in JKS format are not read; convert it: keytool -importkeystore "
            f"-srckeystore {location} -destkeystore {Path(location).stem}.p12 -deststoretype PKCS12, and name the "
            f"new file with its password in ssl.{store}.password",
        )
    if data[:1] != bytes([_SEQUENCE]):
        raise ConfigError(name, location, "the file is neither PEM nor PKCS12")
    return False


def _no_store_password(settings: Mapping[str, str], name: str) -> None:
    if settings.get(name):
        raise ConfigError(
            name, HIDDEN, "a PEM store has no password of its own; that of an encrypted key is ssl.key.password"
        )


def _pem(name: str, text: str) -> tuple[list[str], list[str]]:
    """The certificates and the keys of a text. Kafka also takes PEM on one line, with blanks in place of new lines."""
    certificates, keys = [], []
    for found in _BLOCK.finditer(text):
        label, body = found[1], found[2]
        if ":" not in body:  # old encrypted keys have headers, and stay as they are
            packed = "".join(body.split())
            body = "\n" + "\n".join(packed[at : at + LINE] for at in range(0, len(packed), LINE)) + "\n"
        block = f"-----BEGIN {label}-----{body}-----END {label}-----\n"
        if label in _CERTIFICATES:
            certificates.append(block)
        elif label.endswith("PRIVATE KEY"):
            keys.append(block)
    if not certificates and not keys:
        raise ConfigError(name, HIDDEN, "PEM text is needed")
    return certificates, keys


def _chain_and_key(name: str, chain: list[str], keys: list[str], password: str) -> tuple[bytes, bytes]:
    if not chain or len(keys) != 1:
        raise ConfigError(
            name, HIDDEN, f"one private key and its certificates are needed; there are {len(keys)} and {len(chain)}"
        )
    key = keys[0]
    if "ENCRYPTED" in key:
        try:
            loaded = load_pem_private_key(key.encode(), password.encode() or None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise ConfigError("ssl.key.password", HIDDEN, "the private key cannot be read with it") from None
        key = loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return "".join(chain).encode(), key.encode()


def _pkcs12(name: str, location: str, data: bytes, password: str) -> PKCS12KeyAndCertificates:
    try:
        return load_pkcs12(data, password.encode() or None)
    except (ValueError, UnsupportedAlgorithm):
        secret = name.replace(".location", ".password")
        raise ConfigError(name, location, f"the PKCS12 file is damaged, or {secret} is wrong") from None
