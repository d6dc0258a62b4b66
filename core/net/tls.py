"""TLS by Kafka's ``ssl.*`` keys: what one side of a connection presents and trusts, and the contexts made of it."""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, cast

from rookery.core.config.options import HIDDEN, ConfigError

ClientAuth = Literal["none", "requested", "required"]
Plaintext = Literal["no", "accept", "use"]
CONTROLLER_PLAINTEXT = "rookery.controller.plaintext"
NODE_NAME = "node-{}"
"""The subject alternative name (DNS) that carries a node's id in its certificate."""
ADMIN_NAME = "admin"
"""The subject alternative name (DNS) of a certificate that may change the quorum, and read its log."""
READER_ID = 2**31 - 1
"""In whose name an administrator reads that log: no node has this id."""
_ALERT = "tls_alert"
_VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_SUITES = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
_SUITES_13 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")


@dataclass(frozen=True, slots=True)
class Tls:
    """What one side of a connection presents and trusts."""

    trusted: bytes = b""
    """Empty: a server that asks clients for no certificate, or a client that trusts what the system trusts."""
    chain: bytes | None = None
    key: bytes | None = field(default=None)
    client_auth: ClientAuth = "none"
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()
    verify_host: bool = True
    """Of a client: whether the certificate must name the host that was connected to."""
    plaintext: Plaintext = "no"
    """Of the control plane, while a cluster goes from plain to TLS: whether callers without TLS are accepted, and
    whether this node calls others without."""

    @property
    def current(self) -> "Tls":
        """This object itself: it never changes."""
        return self

    def __repr__(self) -> str:
        return f"Tls(client_auth={self.client_auth!r})"  # a key has no place in a log


class CurrentTls(Protocol):
    """TLS whose certificates may be exchanged while it is used."""

    @property
    def current(self) -> Tls:
        """What holds now; another object after an exchange."""


def read_tls(settings: Mapping[str, str]) -> Tls:
    """What the ``ssl.*`` keys name; raises ConfigError for what is missing or cannot be read."""
    from rookery.core.net.keystores import (  # loads cryptography: only for TLS
        read_key_store,
        read_trust_store,
    )

    own = read_key_store(settings)
    trusted = read_trust_store(settings)
    auth = settings.get("ssl.client.auth") or "none"
    if auth not in _VERIFY:
        raise ConfigError("ssl.client.auth", auth, f"one of {', '.join(_VERIFY)} is needed")
    if trusted is None and auth != "none":
        raise ConfigError(
            "ssl.truststore.location", None, f"ssl.client.auth={auth} needs the certificates of those who are trusted"
        )
    chain, key = own or (None, None)
    return Tls(
        trusted or b"",
        chain,
        key,
        cast(ClientAuth, auth),
        tuple(filter(None, map(str.strip, settings.get("ssl.enabled.protocols", "").split(",")))) or tuple(_VERSIONS),
        tuple(filter(None, map(str.strip, settings.get("ssl.cipher.suites", "").split(",")))),
        bool(settings.get("ssl.endpoint.identification.algorithm", "https")),
        cast(Plaintext, settings.get(CONTROLLER_PLAINTEXT, "no")),
    )


def server_context(tls: Tls) -> ssl.SSLContext:
    """For listeners; clients show certificates as ssl.client.auth demands."""
    if tls.chain is None or tls.key is None:
        raise ConfigError("ssl.keystore.location", "", "a listener with SSL needs a key and its certificate")
    context = _ListenerContext(ssl.PROTOCOL_TLS_SERVER)
    _restrict(context, tls)
    context.verify_mode = _VERIFY[tls.client_auth]
    if tls.client_auth != "none":
        context.num_tickets = 0  # a resumed session would outlive an authority that is trusted no longer
        context.options |= ssl.OP_NO_TICKET
        _trust(context, tls.trusted)
    _present(context, tls.chain, tls.key)
    return context


class _KeepsAlert(ssl.SSLObject):
    """Event loops close a connection whose handshake fails without sending the alert that TLS made of it: this keeps
    it with the error."""

    outgoing: ssl.MemoryBIO

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            error.__dict__[_ALERT] = self.outgoing.read()
            raise


class _ListenerContext(ssl.SSLContext):
    sslobject_class = _KeepsAlert

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *more: Any, **others: Any) -> ssl.SSLObject:
        made = super().wrap_bio(incoming, outgoing, *more, **others)
        assert isinstance(made, _KeepsAlert)
        made.outgoing = outgoing
        return made


def alert_of(error: Exception) -> bytes:
    """What a client should still be sent whose handshake with a listener failed with this error: why, in TLS."""
    found = error.__dict__.get(_ALERT, b"")
    return found if isinstance(found, bytes) else b""


def client_context(tls: Tls) -> ssl.SSLContext:
    """For connections to other nodes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _restrict(context, tls)
    context.check_hostname = tls.verify_host
    if tls.trusted:
        _trust(context, tls.trusted)
    else:
        context.load_default_certs()
    if tls.chain is not None and tls.key is not None:
        _present(context, tls.chain, tls.key)
    return context


def own_refusal(tls: Tls) -> str:
    """Why a broker with these stores would refuse another one with the same; empty if both connect. Nothing is sent:
    the handshake is made in memory. Names of hosts are not looked at."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context(replace(tls, verify_host=False)).wrap_bio(to_client, to_server)
    server = server_context(tls).wrap_bio(to_server, to_client, server_side=True)
    try:
        while not all([_handshake_done(client), _handshake_done(server)]):
            if not to_client.pending and not to_server.pending:
                return "the handshake does not end"
    except ssl.SSLError as error:
        return getattr(error, "verify_message", None) or error.reason or "the handshake fails"
    return ""


def _handshake_done(side: ssl.SSLObject) -> bool:
    """Go on with a handshake as far as what has come allows; whether it is done."""
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _restrict(context: ssl.SSLContext, tls: Tls) -> None:
    versions = [_VERSIONS[each] for each in tls.protocols if each in _VERSIONS]
    if len(versions) != len(tls.protocols):
        raise ConfigError("ssl.enabled.protocols", ",".join(tls.protocols), f"{' and '.join(_VERSIONS)} are known")
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_RENEGOTIATION
    if not tls.cipher_suites:
        return
    unknown = [each for each in tls.cipher_suites if each not in _SUITES and each not in _SUITES_13]
    if unknown:
        raise ConfigError("ssl.cipher.suites", unknown[0], f"known are {', '.join((*_SUITES_13, *_SUITES))}")
    older = [_SUITES[each] for each in tls.cipher_suites if each in _SUITES]
    if older:
        context.set_ciphers(":".join(older))
    else:
        context.minimum_version = ssl.TLSVersion.TLSv1_3


def _trust(context: ssl.SSLContext, trusted: bytes) -> None:
    try:
        context.load_verify_locations(cadata=trusted.decode())
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or "damaged"
        raise ConfigError(
            "ssl.truststore.location", HIDDEN, f"a certificate in it cannot be read ({reason})"
        ) from None


def _present(context: ssl.SSLContext, chain: bytes, key: bytes) -> None:
    """Python loads keys from files only, so this uses a file in memory, without a name."""
    handle = os.memfd_create("key", os.MFD_CLOEXEC)
    try:
        with os.fdopen(handle, "wb", closefd=False) as file:
            file.write(chain + key)
        context.load_cert_chain(f"/proc/self/fd/{handle}")
    except ssl.SSLError as error:
        reason = f"a private key and the certificates that belong to it are needed ({error.reason})"
        raise ConfigError("ssl.keystore.location", HIDDEN, reason) from None
    finally:
        os.close(handle)
