"""Strangers at the door of a listener: other protocols, old ciphers, certificates that do not belong, and what the log
says of them. The numbers are those of docs/attacks.md."""

import asyncio
import gc
import logging
import ssl
from pathlib import Path
from struct import pack
from typing import Any
from weakref import WeakSet

import pytest
import uvloop

from rookery.broker.server.secured import Protection
from rookery.broker.server.tls import ListenerTls, TlsReload
from rookery.core.errors import SaslAuthenticationFailedError
from rookery.core.net.connection import ConnectionLostError
from rookery.core.net.security import Transport
from rookery.core.security.scram import ScramMechanism
from tests.certificates import Authority
from tests.unit.broker.server.test_secured import (
    CREDENTIAL,
    TIMEOUT_S,
    Running,
    login,
    metadata_frame,
    running,
    sasl,
    stores,
    trusting,
)

HTTP = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


def client_hello() -> bytes:
    """The first bytes of a client with TLS."""
    outgoing = ssl.MemoryBIO()
    made = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        made.do_handshake()
    return outgoing.read()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged of connections, with all fields."""
    kept = [record for record in caplog.records if record.levelno >= logging.WARNING]
    return [f"{record.getMessage()} {getattr(record, 'fields', {})}" for record in kept]


async def closed(it: Running, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", it.port)
    writer.write(data)
    async with asyncio.timeout(TIMEOUT_S):
        try:
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


@pytest.mark.attack(9)
@pytest.mark.parametrize(
    ("speaks_tls", "sent", "says"),
    [
        (True, metadata_frame(), "does not speak TLS"),
        (True, HTTP, "does not speak TLS"),
        (False, client_hello(), "how TLS begins"),
        (False, HTTP, "how HTTP begins"),
    ],
    ids=["plain to TLS", "HTTP to TLS", "TLS to plain", "HTTP to plain"],
)
async def test_another_protocol_is_closed_with_one_line_that_says_what_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, speaks_tls: bool, sent: bytes, says: str
) -> None:
    tls = ListenerTls("SECURE", stores(Authority(tmp_path))) if speaks_tls else None
    async with running(Protection(tls=tls, sasl=sasl())) as it:
        with caplog.at_level(logging.DEBUG, "rookery"):
            assert b"asks" not in await closed(it, sent)
            async with asyncio.timeout(TIMEOUT_S):
                while it.server.limits.count:
                    await asyncio.sleep(0.01)
        [line] = lines(caplog)
        assert says in line
        assert "SECURE" in line
        assert "127.0.0.1" in line
        assert it.scripted.handled == []


def old(ciphers: str, version: ssl.TLSVersion) -> ssl.SSLContext:
    """A client that would take anything."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    return context


@pytest.mark.attack(33)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize(
    ("ciphers", "version"),
    [
        ("ALL", ssl.TLSVersion.TLSv1),
        ("ALL", ssl.TLSVersion.TLSv1_1),
        ("eNULL", ssl.TLSVersion.TLSv1_2),
        ("aNULL", ssl.TLSVersion.TLSv1_2),
    ],
    ids=["TLS 1.0", "TLS 1.1", "no cipher", "no certificate"],
)
async def test_old_versions_and_ciphers_are_refused(tmp_path: Path, ciphers: str, version: ssl.TLSVersion) -> None:
    async with running(Protection(tls=ListenerTls("SECURE", stores(Authority(tmp_path))))) as it:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", it.port, ssl=old(ciphers, version))
        assert it.protection.counts.handshakes_failed == 1
        good = old("ALL", ssl.TLSVersion.TLSv1_2)
        _, writer = await asyncio.open_connection("127.0.0.1", it.port, ssl=good)
        writer.close()


async def refused(it: Running, context: ssl.SSLContext) -> bool:
    """With TLS 1.3 a client believes that it is in until it reads."""
    try:
        connection = await it.open(Transport(context))
        await it.ask(connection)
    except (ConnectionLostError, OSError):
        return True
    connection.close()
    return False


@pytest.mark.attack(34)
async def test_certificates_that_do_not_belong_are_refused(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    tls = ListenerTls("SECURE", stores(authority, ssl_client_auth="required"))
    async with running(Protection(tls=tls)) as it:
        server_only = authority.issue("server-only", more="extendedKeyUsage=serverAuth\n")
        for_clients = authority.issue("for-clients", more="extendedKeyUsage=clientAuth\n")
        assert not await refused(it, trusting(authority, for_clients))
        for context in (
            trusting(authority),
            trusting(authority, stranger.issue("ann")),
            trusting(authority, authority.issue("expired", days=-1)),
            trusting(authority, server_only),
        ):
            assert await refused(it, context)
        assert it.protection.counts.handshakes_failed == 4
        assert it.scripted.handled == ["x"]


async def _told(folder: Path, version: ssl.TLSVersion) -> list[str]:
    """What clients hear that come without a certificate, with one that has expired, and with one of a stranger."""
    authority, stranger = Authority(folder / "ours"), Authority(folder / "theirs")
    heard = []
    async with running(Protection(tls=ListenerTls("SECURE", stores(authority, ssl_client_auth="required")))) as it:
        for own in (None, authority.issue("expired", days=-1), stranger.issue("ann")):
            context = trusting(authority, own)
            context.maximum_version = context.minimum_version = version
            with pytest.raises(ssl.SSLError) as refused:
                await _answered(it.port, context)
            heard.append(refused.value.reason)
    return heard


async def _answered(port: int, context: ssl.SSLContext) -> bytes:
    async with asyncio.timeout(TIMEOUT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(metadata_frame())
        return await reader.read()


@pytest.mark.attack(34)
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_who_is_refused_is_told_why(tmp_path: Path, run: Any, version: ssl.TLSVersion) -> None:
    """Else clients take the node for one that is away, and try again and again."""
    none, expired, strange = run(_told(tmp_path, version))
    missing = "TLSV13_ALERT_CERTIFICATE_REQUIRED" if version is ssl.TLSVersion.TLSv1_3 else "HANDSHAKE_FAILURE"
    assert missing in none
    assert expired.endswith("ALERT_CERTIFICATE_EXPIRED")
    assert strange.endswith("ALERT_UNKNOWN_CA")


@pytest.mark.attack(37)
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_an_authority_that_is_removed_is_trusted_no_longer_and_no_session_outlives_it(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(ours.path.read_text() + theirs.path.read_text())
    texts = {**stores(ours, ssl_client_auth="required"), "ssl.truststore.location": str(trusted)}
    tls = ListenerTls("SECURE", texts)
    context = trusting(ours, theirs.issue("guest"))
    context.maximum_version = context.minimum_version = version
    async with running(Protection(tls=tls)) as it:
        reader, writer = await asyncio.open_connection("127.0.0.1", it.port, ssl=context)
        writer.write(metadata_frame())
        async with asyncio.timeout(TIMEOUT_S):
            await reader.readuntil(b"asks x")
        made = writer.get_extra_info("ssl_object")
        assert made.session is None or not made.session.has_ticket
        writer.close()
        before, watching = tls.context, asyncio.create_task(TlsReload([tls], look_s=0.02).serve())
        trusted.write_text(ours.path.read_text())
        async with asyncio.timeout(TIMEOUT_S):
            while tls.context is before:
                await asyncio.sleep(0.01)
        watching.cancel()
        assert await refused(it, context)
        assert not await refused(it, trusting(ours, ours.issue("member")))


@pytest.mark.attack(55)
async def test_no_log_shows_what_a_login_is_made_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "rookery"):
        async with running(Protection(sasl=sasl(), failure_delay_s=0.0)) as it:
            for mechanism in ("PLAIN", "SCRAM-SHA-256"):
                connection = await it.open(login(mechanism))
                await it.ask(connection)
                connection.close()
                for user, password in (("ann", "wrong-pass-word"), ("eve-the-stranger", "secret")):
                    with pytest.raises(SaslAuthenticationFailedError):
                        await it.open(login(mechanism, user, password))
            await it.raw(pack(">i", 4) + b"\0\x24\0\0")
    kind = ScramMechanism.SCRAM_SHA_256
    salted = kind.salted_password("secret", CREDENTIAL.salt, CREDENTIAL.iterations)
    secrets = [b"secret", b"wrong-pass-word", b"eve-the-stranger", salted, CREDENTIAL.salt, CREDENTIAL.stored_key]
    text = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert "authentication.failed" in text
    assert "authentication.succeeded" in text
    for secret in secrets:
        for form in (secret.decode("latin-1"), secret.hex(), repr(secret)[2:-1]):
            assert form not in text


async def _come_and_go(folder: Path) -> int:
    """How many of the connections that came and went are still in memory."""
    authority = Authority(folder)
    protection = Protection(tls=ListenerTls("SECURE", stores(authority)), sasl=sasl())
    seen: WeakSet[Any] = WeakSet()
    async with running(protection) as it:
        context = trusting(authority)
        for _ in range(5):
            _, writer = await asyncio.open_connection("127.0.0.1", it.port, ssl=context)
            writer.write(pack(">i", 900) + bytes(500))
            async with asyncio.timeout(TIMEOUT_S):
                while not any(each.is_busy for each in it.server.connections):
                    await asyncio.sleep(0.01)
                seen.update(it.server.connections)
                writer.transport.abort()
                while it.server.connections:
                    await asyncio.sleep(0.01)
        await asyncio.sleep(0)
        return len(seen)


@pytest.mark.attack(7)
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_strangers_leave_nothing_behind(tmp_path: Path, run: Any) -> None:
    """The garbage collector comes late: what they sent, and the buffers of TLS, are given back before."""
    gc.collect()
    gc.disable()
    try:
        assert run(_come_and_go(tmp_path)) == 0
    finally:
        gc.enable()
