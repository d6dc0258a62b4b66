"""Listeners that speak SSL, and those that must not pretend to."""

import asyncio
import logging
import ssl
import threading
import time
from pathlib import Path

import pytest

from rookery.broker.server.secured import Protection
from rookery.broker.server.server import Server
from rookery.broker.server.settings import ServerSettings
from rookery.broker.server.tls import EXPIRY, ListenerTls, TlsReload, publish_expiry
from rookery.core.config.listeners import Endpoint, Listener
from rookery.core.config.options import ConfigError
from rookery.core.metrics import Metrics
from rookery.core.net.network import SocketNetwork
from tests.certificates import Authority
from tests.unit.broker.server.rig import Scripted, at_once, frame_of


def server_with(protocol: str, tls: ListenerTls | None) -> Server:
    end = Endpoint("SECURE", "127.0.0.1", 0)
    listeners = [Listener("SECURE", end, end, protocol)]
    protections = {"SECURE": Protection(tls=tls)} if tls is not None else {}
    return Server(
        listeners,
        lambda _: [Scripted(at_once)],
        ServerSettings(),
        SocketNetwork(),
        Metrics(),
        protections=protections,
    )


def material(folder: Path, **options: str) -> tuple[Authority, ListenerTls]:
    authority = Authority(folder)
    texts = {
        "ssl.keystore.location": str(authority.issue("broker", "127.0.0.1", "localhost")),
        "ssl.truststore.location": str(authority.path),
        **{key.replace("_", "."): value for key, value in options.items()},
    }
    return authority, ListenerTls("SECURE", texts)


async def ask(port: int, context: ssl.SSLContext) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        writer.write(frame_of("secret"))
        size = int.from_bytes(await reader.readexactly(4), "big")
        return await reader.readexactly(size)
    finally:
        writer.transport.abort()


async def test_a_listener_with_ssl_serves_encrypted(tmp_path: Path) -> None:
    authority, tls = material(tmp_path)
    server = server_with("SSL", tls)
    await server.start()
    context = ssl.create_default_context(cafile=str(authority.path))
    assert b"secret" in await ask(server.port("SECURE"), context)
    await server.stop()


async def test_clients_without_a_certificate_are_refused_where_one_is_required(tmp_path: Path) -> None:
    authority, tls = material(tmp_path, ssl_client_auth="required")
    server = server_with("SSL", tls)
    await server.start()
    context = ssl.create_default_context(cafile=str(authority.path))
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        await ask(server.port("SECURE"), context)
    context.load_cert_chain(str(authority.issue("client")))
    assert b"secret" in await ask(server.port("SECURE"), context)
    await server.stop()


async def test_plain_bytes_get_nothing_from_a_listener_with_ssl(tmp_path: Path) -> None:
    _, tls = material(tmp_path)
    server = server_with("SSL", tls)
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port("SECURE"))
    writer.write(frame_of("secret"))
    assert b"secret" not in await reader.read()
    writer.close()
    await server.stop()


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_a_protocol_that_cannot_be_served_as_configured_refuses_to_start(protocol: str) -> None:
    with pytest.raises(ConfigError, match=f"SECURE:{protocol}"):
        server_with(protocol, None)


def test_a_file_that_is_finished_while_its_first_half_is_refused_is_read_again(tmp_path: Path) -> None:
    authority, tls = material(tmp_path)
    location = authority.issue("broker", "127.0.0.1")
    whole = location.read_text()
    location.write_text(whole[: len(whole) // 2])
    with pytest.raises(ConfigError):
        tls.prepare()
    location.write_text(whole)
    tls.unusable()
    assert tls.changed()


async def test_of_two_changes_of_options_the_last_one_holds(tmp_path: Path) -> None:
    authority, tls = material(tmp_path)
    before = {
        "ssl.keystore.location": str(authority.issue("broker", "127.0.0.1", "localhost")),
        "ssl.truststore.location": str(authority.path),
    }
    other = {**before, "ssl.keystore.location": str(authority.issue("other", "127.0.0.1"))}
    slow, prepare = threading.Event(), tls.prepare

    def slowly(texts: dict[str, str] | None = None) -> object:
        if texts == other:
            slow.wait(5)
        return prepare(texts)

    tls.prepare = slowly  # type: ignore[method-assign,assignment]
    reload = TlsReload([tls])
    reload.reconfigure(lambda _: other)
    await asyncio.sleep(0)
    reload.reconfigure(lambda _: before)
    slow.set()
    await asyncio.gather(*reload._work)
    assert tls.has(before)


async def test_the_same_file_named_again_is_read_again_if_it_has_changed(tmp_path: Path) -> None:
    """As with Kafka: who has renewed a certificate in place names its file once more."""
    authority = Authority(tmp_path)
    location = authority.issue("broker", "127.0.0.1", "localhost")
    texts = {"ssl.keystore.location": str(location), "ssl.truststore.location": str(authority.path)}
    tls = ListenerTls("SECURE", texts)
    reload, before = TlsReload([tls]), tls.tls
    reload.reconfigure(lambda _: texts)
    await asyncio.gather(*reload._work)
    assert tls.tls is before, "nothing has changed"
    location.write_bytes(authority.issue("renewed", "127.0.0.1").read_bytes())
    reload.reconfigure(lambda _: texts)
    await asyncio.gather(*reload._work)
    assert tls.tls.chain != before.chain


def events(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, object]]:
    return [getattr(record, "fields", {}) for record in caplog.records if record.getMessage() == event]


async def test_the_end_of_a_certificate_is_a_metric_and_is_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    day = 86_400
    authority, tls = material(tmp_path)
    metrics = Metrics()
    publish_expiry(metrics, [tls])

    def left_days() -> int:
        found = metrics.value(EXPIRY, {"listener": "SECURE"})
        assert found is not None
        return round(found / day)

    assert left_days() == 2
    def warned() -> list[dict[str, object]]:
        return events(caplog, "tls.expires")

    look_s = 0.01
    reload = TlsReload([tls], look_s)
    watching = asyncio.create_task(reload.serve())
    async with asyncio.timeout(10):
        while not warned():
            await asyncio.sleep(look_s)
        location = tmp_path / "broker.pem"
        location.write_bytes(authority.issue("renewed", "127.0.0.1", days=90).read_bytes())
        while left_days() != 90:
            await asyncio.sleep(look_s)
    watching.cancel()
    assert [(each["listener"], each["days"]) for each in warned()] == [("SECURE", pytest.approx(2, abs=0.1))]
    assert tls.expires - time.time() == pytest.approx(90 * day, abs=60)


@pytest.mark.attack(60)
async def test_a_key_that_others_can_read_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _, tls = material(tmp_path)
    location = tmp_path / "broker.pem"
    for mode, files in ((0o600, 0), (0o400, 0), (0o640, 1), (0o604, 1)):
        location.chmod(mode)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            await TlsReload([tls]).start()
        assert [each["file"] for each in events(caplog, "tls.key.readable")] == [str(location)] * files


def test_a_missing_key_is_named() -> None:
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location"):
        ListenerTls("SECURE", {})
