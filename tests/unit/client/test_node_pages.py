"""Pages and streams of nodes, as the command line reads them."""

from collections.abc import AsyncGenerator

import pytest

from rookery.client.node_pages import PageError, page, stream
from rookery.core.net.http import HttpServer, Page, Query, Stream


async def served(query: Query) -> Page | Stream:
    if "bad" in query:
        return Page(b"nobody knows\n", status=400)
    if "text" in query:
        return Page(b"not json")

    async def pieces() -> AsyncGenerator[bytes, None]:
        begin = int(query.headers.get("last-event-id", "0"))
        yield b": hello\n\n"
        for number in range(begin + 1, begin + 3):
            yield f"id: {number}\ndata: {{\"number\": {number}}}\n\n".encode()

    if "text/event-stream" in query.headers.get("accept", ""):
        return Stream(pieces(), "text/event-stream")
    return Page(b'{"a": 1}')


async def test_a_page_a_stream_and_their_failures() -> None:
    server = HttpServer("127.0.0.1", 0, {"/events": served})
    await server.start()
    address = f"127.0.0.1:{server.port}"
    assert await page(address, "/events") == {"a": 1}
    assert [row["number"] async for row in stream(address, "/events", None)] == [1, 2]
    assert [row["number"] async for row in stream(address, "/events", 7)] == [8, 9]
    with pytest.raises(PageError, match="answered 400: nobody knows"):
        await page(address, "/events?bad")
    with pytest.raises(PageError, match="Expecting value"):
        await page(address, "/events?text")
    with pytest.raises(PageError, match="answered 404"):
        await page(address, "/other")
    await server.stop()
    with pytest.raises(PageError, match=address):
        await page(address, "/events")
