import asyncio
from collections.abc import AsyncIterator

import pytest

from rookery.core.net.http import HttpServer, Page, Query


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
