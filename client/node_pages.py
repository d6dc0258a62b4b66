"""What nodes serve over HTTP, for clients: pages of JSON, and streams of server-sent events.

Only nodes of Rookery have them. Each broker's address is found with the option `rookery.http.listener`; nodes that are
controllers alone have to be named.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from rookery.client.admin import Admin
from rookery.client.errors import CliError
from rookery.core.net.cluster import parse_bootstrap

HTTP_LISTENER = "rookery.http.listener"
EVERYWHERE = ("", "0.0.0.0", "::", "[::]")
CONNECT_S = 5.0
ANSWER_S = 30.0
SILENCE_S = 60.0
"""A stream says something every 15 seconds; one that says nothing for this long has ended."""
LINE_BYTES_MAX = 1 << 16
PAGE_BYTES_MAX = 64 << 20


class PageError(CliError):
    """A node does not serve the page."""


async def http_addresses(admin: Admin) -> dict[int, str]:
    """By broker: where it serves its pages. Brokers without are left out."""
    found = {}
    for broker in (await admin.describe_cluster()).brokers:
        entry = (await admin.describe_broker_config(broker.id, [HTTP_LISTENER])).get(HTTP_LISTENER)
        host, colon, port = ((entry.value if entry is not None else None) or "").rpartition(":")
        if colon and port.isdigit() and int(port):
            found[broker.id] = f"{broker.host if host in EVERYWHERE else host}:{port}"
    return found


@asynccontextmanager
async def _opened(address: str, target: str, headers: Mapping[str, str]) -> AsyncGenerator[asyncio.StreamReader, None]:
    """The body of an answer, from its first byte on."""
    ((host, port),) = parse_bootstrap(address)
    try:
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(host, port, limit=LINE_BYTES_MAX)
    except (OSError, TimeoutError) as error:
        raise PageError(f"http://{address}{target}: {error or 'no connection in time'}") from error
    try:
        asked = [f"GET {target} HTTP/1.1", f"Host: {address}", *(f"{name}: {text}" for name, text in headers.items())]
        writer.write("\r\n".join([*asked, "Connection: close", "", ""]).encode())
        async with asyncio.timeout(ANSWER_S):
            status = (await reader.readline()).split()[1:2]
            while (await reader.readline()).strip():
                pass
            if status != [b"200"]:
                said = (await reader.read(1000)).decode(errors="replace").strip()
                code = status[0].decode(errors="replace") if status else "nothing"
                raise PageError(f"http://{address}{target} answered {code}: {said}")
        yield reader
    except (OSError, TimeoutError, ValueError) as error:
        raise PageError(f"http://{address}{target}: {error or 'no answer in time'}") from error
    finally:
        writer.close()


async def page(address: str, target: str) -> Any:
    """A page of JSON."""
    async with _opened(address, target, {}) as reader, asyncio.timeout(ANSWER_S):
        body = bytearray()
        while piece := await reader.read(LINE_BYTES_MAX):
            body += piece
            if len(body) > PAGE_BYTES_MAX:
                raise PageError(f"http://{address}{target}: the page has more than {PAGE_BYTES_MAX} bytes")
        return json.loads(body)


async def stream(address: str, target: str, last_id: int | None) -> AsyncGenerator[dict[str, Any], None]:
    """Server-sent events, from the one after `last_id` on; ends when the node ends it."""
    headers = {"Accept": "text/event-stream"}
    if last_id is not None:
        headers["Last-Event-ID"] = str(last_id)
    async with _opened(address, target, headers) as reader:
        while True:
            async with asyncio.timeout(SILENCE_S):
                line = await reader.readline()
            if not line:
                return
            if line.startswith(b"data: "):
                yield json.loads(line[6:])
