"""Connections of listeners with SASL and TLS: nothing is served before the client is known, and then as that client."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from struct import pack

import pytest

from rookery.broker.handlers.api_versions import ApiVersionsHandler
from rookery.broker.handlers.sasl import SaslAuthenticateHandler, SaslHandshakeHandler
from rookery.broker.server.authentication import AuthenticationSettings
from rookery.broker.server.client import Call
from rookery.broker.server.dispatch import Handler
from rookery.broker.server.pending import Pending
from rookery.broker.server.secured import Protection, joined
from rookery.broker.server.server import Server
from rookery.broker.server.settings import ServerSettings
from rookery.broker.server.tls import ListenerTls, TlsReload
from rookery.core.config.listeners import Endpoint, Listener
from rookery.core.errors import SaslAuthenticationFailedError, UnsupportedSaslMechanismError
from rookery.core.metadata.image import EMPTY
from rookery.core.metrics import Metrics
from rookery.core.net.connection import Connection, ConnectionLostError
from rookery.core.net.network import SocketNetwork
from rookery.core.net.sasl import Sasl, exchange_of
from rookery.core.net.security import Transport
from rookery.core.net.tls import client_context, read_tls
from rookery.core.security.principal import MappingRules
from rookery.core.security.sasl import PlainServer, PlainUsers, SaslServer
from rookery.core.security.scram import Decoys, ScramCredential, ScramMechanism, ScramServer
from rookery.core.wire.apis.metadata import METADATA, MetadataRequest, MetadataRequestTopic
from rookery.core.wire.apis.sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticateRequest
from rookery.core.wire.apis.sasl_handshake import SASL_HANDSHAKE, SaslHandshakeRequest
from rookery.core.wire.header import request_frame
from tests.certificates import Authority
from tests.unit.broker.server.rig import Scripted, answer

KIND = ScramMechanism.SCRAM_SHA_256
CREDENTIAL = ScramCredential.of_password(KIND, "secret", b"salt of ann")
USERS = PlainUsers.of({"ann": "secret"})
TIMEOUT_S = 5.0
LATER: list[Pending[object]] = []
"""Answers that a test gives itself."""


class _Cluster:
    node_id, image, cluster_id, controller_id = 1, EMPTY, "c", 1


def mechanisms() -> dict[str, Callable[[], SaslServer]]:
    def scram() -> SaslServer:
        return ScramServer(KIND, lambda user: CREDENTIAL if user == "ann" else None, Decoys(b"s"), "nonce")

    return {"PLAIN": lambda: PlainServer(USERS), KIND.mechanism: scram}


def sasl(reauth_ms: int = 0, timeout_ms: int = 10_000) -> AuthenticationSettings:
    offered = mechanisms()
    return AuthenticationSettings(
        offered, dict.fromkeys(offered, reauth_ms), receive_bytes_max=1000, timeout_ms=timeout_ms
    )


def told(name: str, call: Call) -> object:
    if name == "later":
        LATER.append(Pending(blocks=False))
        return LATER[-1]
    return answer(f"{call.client.principal} asks {name}")


class Running:
    def __init__(self, server: Server, scripted: Scripted, protection: Protection) -> None:
        self.server, self.scripted, self.protection = server, scripted, protection
        self.port = server.port("SECURE")

    async def ask(self, connection: Connection, name: str = "x") -> str:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        return (await connection.request(METADATA, 5, asked, TIMEOUT_S)).cluster_id or ""

    async def open(self, security: Sasl | Transport) -> Connection:
        return await Connection.open("127.0.0.1", self.port, client_id="t", security=security, timeout_s=TIMEOUT_S)

    async def raw(self, *frames: bytes) -> bytes:
        """What comes back for these bytes until the server closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.writelines(frames)
        async with asyncio.timeout(TIMEOUT_S):
            received = await reader.read()
        writer.close()
        return received


@asynccontextmanager
async def running(protection: Protection, settings: ServerSettings | None = None) -> AsyncIterator[Running]:
    scripted = Scripted(told)

    def handlers(_: object) -> list[Handler]:
        versions = ApiVersionsHandler(_Cluster())  # type: ignore[arg-type]
        made: list[Handler] = [versions, SaslHandshakeHandler(), SaslAuthenticateHandler(), scripted]
        versions.advertise(each.served for each in made)
        return made

    end = Endpoint("SECURE", "127.0.0.1", 0)
    tls, gate = protection.tls is not None, protection.sasl is not None
    protocol = f"{'SASL_' if gate else ''}{'SSL' if tls else 'PLAINTEXT'}"
    server = Server(
        [Listener("SECURE", end, end, protocol)],
        handlers,
        settings or ServerSettings(),
        SocketNetwork(),
        Metrics(),
        protections={"SECURE": protection},
    )
    await server.start()
    try:
        yield Running(server, scripted, protection)
    finally:
        await server.stop()


def login(mechanism: str, user: str = "ann", password: str = "secret") -> Sasl:
    return Sasl(exchange_of(mechanism, user, password))


def metadata_frame(name: str = "x") -> bytes:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    return b"".join(bytes(each) for each in request_frame(METADATA, 5, 7, "t", asked))


def handshake_frame(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    frame = request_frame(SASL_HANDSHAKE, version, 1, "t", SaslHandshakeRequest(mechanism=mechanism))
    return b"".join(bytes(each) for each in frame)


def token_frame(token: bytes) -> bytes:
    frame = request_frame(SASL_AUTHENTICATE, 1, 2, "t", SaslAuthenticateRequest(auth_bytes=token))
    return b"".join(bytes(each) for each in frame)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_who_knows_the_password_is_served_as_that_user(mechanism: str) -> None:
    async with running(Protection(sasl=sasl())) as it:
        connection = await it.open(login(mechanism))
        assert await it.ask(connection) == "User:ann asks x"
        assert (it.protection.counts.succeeded, it.protection.counts.failed) == (1, 0)
        connection.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize(("user", "password"), [("ann", "wrong"), ("nobody", "secret")])
@pytest.mark.attack(15)
async def test_who_does_not_is_refused_after_a_pause_and_closed(mechanism: str, user: str, password: str) -> None:
    async with running(Protection(sasl=sasl(), failure_delay_s=0.1)) as it:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        with pytest.raises(SaslAuthenticationFailedError, match="invalid credentials"):
            await it.open(login(mechanism, user, password))
        assert 0.1 <= loop.time() - begun < TIMEOUT_S
        assert it.protection.counts.failed == 1
        assert it.scripted.handled == []


async def test_a_mechanism_that_is_not_offered_is_named_with_those_that_are() -> None:
    async with running(Protection(sasl=sasl())) as it:
        with pytest.raises(UnsupportedSaslMechanismError, match="PLAIN, SCRAM-SHA-256"):
            await it.open(login("SCRAM-SHA-512"))


@pytest.mark.parametrize(
    "frames",
    [
        (metadata_frame(),),
        (token_frame(b"\0ann\0secret"),),
        (handshake_frame(), metadata_frame()),
        (pack(">i", 1001),),
        (pack(">i", -1),),
        (pack(">i", 2**31 - 1),),
    ],
)
@pytest.mark.attack(1, 2, 4, 5, 12)
async def test_what_is_not_allowed_before_authentication_closes_without_an_answer(frames: tuple[bytes, ...]) -> None:
    async with running(Protection(sasl=sasl(), failure_delay_s=0.0)) as it:
        received = await it.raw(*frames)
        assert b"asks" not in received
        assert it.scripted.handled == []


@pytest.mark.attack(10, 11)
async def test_what_is_sent_behind_a_failed_authentication_is_never_served_and_behind_a_good_one_it_is() -> None:
    async with running(Protection(sasl=sasl(), failure_delay_s=0.0)) as it:
        await it.raw(handshake_frame(), token_frame(b"\0ann\0wrong"), metadata_frame())
        assert it.scripted.handled == []
        reader, writer = await asyncio.open_connection("127.0.0.1", it.port)
        writer.write(handshake_frame() + token_frame(b"\0ann\0secret") + metadata_frame())
        async with asyncio.timeout(TIMEOUT_S):
            received = await reader.readuntil(b"asks x")
        assert b"User:ann" in received
        writer.close()


@pytest.mark.attack(6)
async def test_a_client_that_takes_too_long_is_closed() -> None:
    async with running(Protection(sasl=sasl(timeout_ms=50))) as it:
        assert await it.raw(pack(">i", 20) + b"\0") == b""
        assert it.protection.counts.failed == 1


@pytest.mark.attack(28)
async def test_a_session_that_is_over_ends_with_the_next_request() -> None:
    async with running(Protection(sasl=sasl(reauth_ms=50))) as it:
        reader, writer = await asyncio.open_connection("127.0.0.1", it.port)
        writer.write(handshake_frame() + token_frame(b"\0ann\0secret"))
        async with asyncio.timeout(TIMEOUT_S):
            await reader.readexactly(8)
            await asyncio.sleep(0.1)  # the session's life
            writer.write(metadata_frame())
            assert b"asks" not in await reader.read()
        assert (it.protection.counts.expired, it.protection.counts.failed) == (1, 0)
        writer.close()


async def test_bare_tokens_authenticate_again_behind_an_answer_that_is_owed() -> None:
    """SaslHandshake 0: the token has no API key, and its answer waits for its turn all the same."""
    bare = pack(">i", 11) + b"\0ann\0secret"
    async with running(Protection(sasl=sasl(reauth_ms=60_000))) as it:
        reader, writer = await asyncio.open_connection("127.0.0.1", it.port)
        writer.write(handshake_frame(version=0) + bare + metadata_frame("later"))
        writer.write(handshake_frame(version=0) + bare + metadata_frame("x"))
        async with asyncio.timeout(TIMEOUT_S):
            while "x" not in it.scripted.handled:
                await asyncio.sleep(0.01)
            LATER.pop().complete(answer("owed"))
            received = await reader.readuntil(b"asks x")
        assert received.index(b"owed") < received.rindex(b"SCRAM-SHA-256") < received.index(b"User:ann asks x")
        writer.close()


async def test_our_client_authenticates_again_and_its_requests_go_on() -> None:
    async with running(Protection(sasl=sasl(reauth_ms=1500))) as it:
        connection = await it.open(login("PLAIN"))
        loop = asyncio.get_running_loop()
        end, asked = loop.time() + 2.2, 0
        while loop.time() < end:
            assert await it.ask(connection) == "User:ann asks x"
            asked += 1
        assert it.protection.counts.succeeded_again == 1
        assert it.protection.counts.expired == 0
        connection.close()


async def test_a_request_without_an_answer_waits_while_our_client_authenticates_again() -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="x")])
    async with running(Protection(sasl=sasl())) as it:
        connection = await it.open(login("PLAIN"))
        go_on, begun = asyncio.Event(), asyncio.Event()

        async def authenticate() -> None:
            begun.set()
            await go_on.wait()

        connection.renew_after(0, authenticate)
        await begun.wait()
        sending = asyncio.create_task(connection.send(METADATA, 5, asked, TIMEOUT_S))
        await asyncio.sleep(0.05)
        assert not sending.done()
        go_on.set()
        await sending
        connection.close()


async def test_whatever_goes_wrong_when_our_client_authenticates_again_closes_its_connection() -> None:
    async with running(Protection(sasl=sasl())) as it:
        connection = await it.open(login("PLAIN"))

        async def authenticate() -> None:
            raise RuntimeError("no token today")

        connection.renew_after(0, authenticate)
        async with asyncio.timeout(TIMEOUT_S):
            while not connection.closed:
                await asyncio.sleep(0.01)
        with pytest.raises(ConnectionLostError, match="no token today"):
            await it.ask(connection)


# --- TLS ------------------------------------------------------------------------------------------------------


def stores(authority: Authority, name: str = "broker", **more: str) -> dict[str, str]:
    return {
        "ssl.keystore.location": str(authority.issue(name, "127.0.0.1", "localhost")),
        "ssl.truststore.location": str(authority.path),
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def trusting(authority: Authority, certificate: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.path))
    if certificate is not None:
        context.load_cert_chain(str(certificate))
    return context


@pytest.mark.attack(35)
async def test_a_certificate_names_its_owner_by_the_rules(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = ListenerTls("SECURE", stores(authority, ssl_client_auth="requested"))
    rules = MappingRules.parse("RULE:^CN=(ann.*)$/$1/U")
    async with running(Protection(tls=tls, rules=rules)) as it:
        known = await it.open(Transport(trusting(authority, authority.issue("ann-lee"))))
        assert await it.ask(known) == "User:ANN-LEE asks x"
        nameless = await it.open(Transport(trusting(authority)))
        assert await it.ask(nameless) == "User:ANONYMOUS asks x"
        with pytest.raises((ConnectionLostError, OSError)):
            await it.open(Transport(trusting(authority, authority.issue("eve"))))
        known.close()
        nameless.close()


def open_now(it: Running) -> int:
    return it.server.limits.count


@pytest.mark.row(148)
async def test_a_client_takes_no_certificate_of_another_host(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    texts = {**stores(authority), "ssl.keystore.location": str(authority.issue("elsewhere", "other.example"))}
    async with running(Protection(tls=ListenerTls("SECURE", texts))) as it:
        trust = {"ssl.truststore.location": str(authority.path)}
        with pytest.raises(OSError, match=r"certificate is not valid for '127\.0\.0\.1'"):
            await it.open(Transport(client_context(read_tls(trust))))
        unchecked = read_tls({**trust, "ssl.endpoint.identification.algorithm": ""})
        connection = await it.open(Transport(client_context(unchecked)))
        assert await it.ask(connection) == "User:ANONYMOUS asks x"
        connection.close()


@pytest.mark.attack(8)
async def test_of_handshakes_that_do_not_go_on_the_oldest_gives_way(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = ListenerTls("SECURE", stores(authority))
    async with running(Protection(tls=tls), ServerSettings(unauthenticated_max=2)) as it:
        silent = [await asyncio.open_connection("127.0.0.1", it.port) for _ in range(3)]
        async with asyncio.timeout(TIMEOUT_S):
            assert await silent[0][0].read() == b"", "the first is closed long before its deadline"
            connection = await it.open(Transport(trusting(authority)))
            assert await it.ask(connection) == "User:ANONYMOUS asks x"
            assert await silent[1][0].read() == b""
            while it.server.limits.count > 2:
                await asyncio.sleep(0.01)
        assert not silent[2][0].at_eof()
        connection.close()
        for _, writer in silent:
            writer.close()


@pytest.mark.attack(8)
async def test_limits_act_before_the_handshake(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = ListenerTls("SECURE", stores(authority))
    limits = ServerSettings(connections_per_ip_max=2)
    async with running(Protection(tls=tls, handshake_timeout_s=0.3), limits) as it:
        silent = [await asyncio.open_connection("127.0.0.1", it.port) for _ in range(2)]
        async with asyncio.timeout(TIMEOUT_S):
            while it.server.limits.count < 2:
                await asyncio.sleep(0.01)
            assert await it.raw() == b"", "the third is closed without a word"
            for reader, writer in silent:  # the deadline of the handshake closes them
                assert await reader.read() == b""
                writer.close()
            while open_now(it):
                await asyncio.sleep(0.01)
        connection = await it.open(Transport(trusting(authority)))
        assert open_now(it) == 1
        connection.close()


@pytest.mark.row(149)
async def test_a_certificate_is_exchanged_when_its_file_changes(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "a")
    texts = stores(authority)
    tls = ListenerTls("SECURE", texts)
    reload = TlsReload([tls], look_s=0.02)
    async with running(Protection(tls=tls)) as it:
        kept = await it.open(Transport(trusting(authority)))
        watching = asyncio.create_task(reload.serve())
        location, before = Path(texts["ssl.keystore.location"]), tls.context
        location.write_text("-----BEGIN NONSENSE-----\n-----END NONSENSE-----\n")
        async with asyncio.timeout(TIMEOUT_S):
            while tls.changed():
                await asyncio.sleep(0.01)
        assert tls.context is before, "what cannot be read changes nothing"
        other = Authority(tmp_path / "b")
        location.write_bytes(other.issue("new", "127.0.0.1", "localhost").read_bytes())
        async with asyncio.timeout(TIMEOUT_S):
            while tls.context is before:
                await asyncio.sleep(0.01)
        fresh = await it.open(Transport(trusting(other)))
        assert await it.ask(fresh) == "User:ANONYMOUS asks x"
        with pytest.raises((ConnectionLostError, OSError)):
            await it.open(Transport(trusting(authority)))
        assert await it.ask(kept) == "User:ANONYMOUS asks x", "open connections stay"
        watching.cancel()
        fresh.close()
        kept.close()


async def test_sasl_over_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    protection = Protection(tls=ListenerTls("SECURE", stores(authority)), sasl=sasl())
    async with running(protection) as it:
        context = trusting(authority)
        connection = await it.open(Sasl(exchange_of("SCRAM-SHA-256", "ann", "secret"), lambda: context))
        assert await it.ask(connection) == "User:ann asks x"
        connection.close()


def test_short_segments_are_joined() -> None:
    large = b"l" * 20_000
    assert joined([b"a", b"b", large, b"c"]) == [b"ab", large, b"c"]
    assert joined([large]) == [large]
