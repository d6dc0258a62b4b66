import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import uvloop

from rookery.core.net.http import CONNECTIONS_MAX, HttpServer, Page, Query
from rookery.core.net.tls import read_tls, server_context
from tests.certificates import Authority


async def hello(query: Query) -> Page:
    return Page(f"hello {query.get('name', '')}".encode())


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    http = HttpServer("127.0.0.1", 0, {"/hello": hello})
    await http.start()
    yield http
    await http.stop()


async def ask(server: HttpServer, request: bytes) -> bytes:
    async with asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request)
        answer = await reader.read()
        writer.close()
        return answer


@pytest.mark.parametrize(
    ("request_head", "status", "says"),
    [
        (b"GET /hello?name=jackdaw HTTP/1.1\r\nhost: x\r\n\r\n", b"200 OK", b"hello jackdaw"),
        (b"GET /nothing HTTP/1.1\r\n\r\n", b"404 Not Found", b"there are /hello"),
        (b"POST /hello HTTP/1.1\r\n\r\n", b"405 Method", b"only GET"),
        (b"nonsense\r\n\r\n", b"400 Bad Request", b"could not be read"),
        (b"\xff\xfe a b\r\n\r\n", b"400 Bad Request", b"could not be read"),
        (
            b"GET /hello HTTP/1.1\r\nx: " + b"y" * 20_000 + b"\r\n\r\n",
            b"400 Bad Request",
            b"could not be read",
        ),
    ],
)
async def test_answers(server: HttpServer, request_head: bytes, status: bytes, says: bytes) -> None:
    answer = await ask(server, request_head)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert says in answer


async def test_a_client_that_leaves_harms_nobody(server: HttpServer) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /hel")
    writer.close()
    assert b"hello" in await ask(server, b"GET /hello HTTP/1.1\r\n\r\n")


LARGE = bytes(20 << 20)
GET = b"GET /hello HTTP/1.1\r\n\r\n"


async def test_half_sent_requests_keep_nobody_out(server: HttpServer) -> None:
    slow = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(2 * CONNECTIONS_MAX)]
    for _, writer in slow:
        writer.write(GET[:-2])
    for _ in range(3):
        assert b"hello" in await ask(server, GET)
    async with asyncio.timeout(30):
        with suppress(ConnectionResetError):
            assert await slow[0][0].read() == b"", "the first of them made place"
    reader, writer = slow[-1]
    writer.write(GET[-2:])
    async with asyncio.timeout(30):
        assert b"hello" in await reader.read(), "one that is not the slowest may still finish"
    for _, writer in slow:
        writer.close()


async def test_peers_that_do_not_take_their_answers_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rookery.core.net.http.CONNECTIONS_MAX", 3)

    async def large(_: Query) -> Page:
        return Page(LARGE)

    http = HttpServer("127.0.0.1", 0, {"/hello": hello, "/large": large})
    await http.start()
    slow = [await asyncio.open_connection("127.0.0.1", http.port, limit=1) for _ in range(3)]
    for _, writer in slow:
        writer.write(b"GET /large HTTP/1.1\r\n\r\n")
    assert b"hello" in await ask(http, GET)
    for _, writer in slow:
        writer.close()
    await http.stop()


async def test_who_is_about_to_be_answered_is_not_closed_for_others() -> None:
    entered, go = asyncio.Semaphore(0), asyncio.Event()

    async def working(_: Query) -> Page:
        entered.release()
        await go.wait()
        return Page(b"done")

    http = HttpServer("127.0.0.1", 0, {"/hello": hello, "/working": working})
    await http.start()
    work = [asyncio.create_task(ask(http, b"GET /working HTTP/1.1\r\n\r\n")) for _ in range(CONNECTIONS_MAX)]
    async with asyncio.timeout(30):
        for _ in work:
            await entered.acquire()
        with suppress(ConnectionResetError):
            assert await ask(http, GET) == b""
        go.set()
        assert all(b"done" in answer for answer in await asyncio.gather(*work))
    await http.stop()


TOKEN = "a token"


@pytest.mark.parametrize(
    ("path", "line", "status"),
    [
        (b"/hello", b"", b"401 Unauthorized"),
        (b"/hello", b"authorization: Bearer wrong\r\n", b"401 Unauthorized"),
        (b"/hello", b"authorization: Basic YSB0b2tlbg==\r\n", b"401 Unauthorized"),
        (b"/nothing", b"", b"401 Unauthorized"),
        (b"/hello", b"Authorization: bearer a token\r\n", b"200 OK"),
        (b"/readyz", b"", b"200 OK"),
    ],
)
@pytest.mark.attack(57)
async def test_a_token_is_asked_for(path: bytes, line: bytes, status: bytes) -> None:
    http = HttpServer("127.0.0.1", 0, {"/hello": hello, "/readyz": hello}, token=TOKEN)
    await http.start()
    answer = await ask(http, b"GET " + path + b" HTTP/1.1\r\n" + line + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert (b"www-authenticate: Bearer" in answer) == (status[:3] == b"401")
    await http.stop()


async def test_over_tls_with_the_certificate_of_the_moment(tmp_path: Path) -> None:
    old, new = Authority(tmp_path / "old"), Authority(tmp_path / "new")
    now = [server_context(read_tls({"ssl.keystore.location": str(old.issue("http", "127.0.0.1"))}))]
    http = HttpServer("127.0.0.1", 0, {"/hello": hello}, tls=lambda: now[0])
    await http.start()

    async def trusting(authority: Authority) -> bytes:
        context = ssl.create_default_context(cafile=str(authority.path))
        async with asyncio.timeout(30):
            reader, writer = await asyncio.open_connection("127.0.0.1", http.port, ssl=context)
            writer.write(b"GET /hello HTTP/1.1\r\n\r\n")
            answer = await reader.read()
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            return answer

    assert b"200 OK" in await trusting(old)
    with pytest.raises(ssl.SSLCertVerificationError):
        await trusting(new)
    now[0] = server_context(read_tls({"ssl.keystore.location": str(new.issue("http", "127.0.0.1"))}))
    assert b"200 OK" in await trusting(new)
    assert b"200 OK" not in await ask(http, b"GET /hello HTTP/1.1\r\n\r\n")
    await http.stop()


def test_over_tls_on_the_loop_of_a_node_an_answer_ends_when_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes run on uvloop. Whoever reads until the end is not to wait until the time for an answer is over."""
    monkeypatch.setattr("rookery.core.net.http.REQUEST_SECONDS_MAX", 600.0)
    authority = Authority(tmp_path)
    served = server_context(read_tls({"ssl.keystore.location": str(authority.issue("http", "127.0.0.1"))}))
    trusts = ssl.create_default_context(cafile=str(authority.path))

    async def read(size: int) -> bytes:
        async def page(_: Query) -> Page:
            return Page(bytes(size))

        http = HttpServer("127.0.0.1", 0, {"/page": page}, tls=lambda: served)
        await http.start()
        try:
            async with asyncio.timeout(30):
                reader, writer = await asyncio.open_connection("127.0.0.1", http.port, ssl=trusts)
                writer.write(b"GET /page HTTP/1.1\r\n\r\n")
                answer = await reader.read()
                writer.close()
                return answer
        finally:
            await http.stop()

    for size in (0, 300_000):
        assert len(uvloop.run(read(size))) > size


async def test_handshakes_that_never_begin_keep_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rookery.core.net.http._HandshakeAdmission.handshake_timeout_s", 600.0)
    authority = Authority(tmp_path)
    served = server_context(read_tls({"ssl.keystore.location": str(authority.issue("http", "127.0.0.1"))}))
    http = HttpServer("127.0.0.1", 0, {"/livez": hello}, tls=lambda: served)
    await http.start()
    silent = [await asyncio.open_connection("127.0.0.1", http.port) for _ in range(2 * CONNECTIONS_MAX)]
    context = ssl.create_default_context(cafile=str(authority.path))
    async with asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", http.port, ssl=context)
        writer.write(b"GET /livez HTTP/1.1\r\n\r\n")
        assert b"200 OK" in await reader.read()
        with suppress(ConnectionResetError):
            assert await silent[0][0].read() == b"", "the first of them made place"
    for _, each in (*silent, (reader, writer)):
        each.close()
    await http.stop()
