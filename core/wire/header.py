"""Headers, and whole frames made of a header and a message's segments. Headers of requests are read by
`request_header.py`, which has to know all APIs; clients do without."""

from struct import Struct as Layout
from struct import error as LayoutError
from typing import Any

from rookery.core.wire.api import Api
from rookery.core.wire.primitives import Buffer, WireError, skip_tags

REQUEST = Layout(">hhih")
_SIZE_AND_CORRELATION = Layout(">ii")
_SIZE_CORRELATION_NO_TAGS = Layout(">iix")
_CORRELATION = Layout(">i")

def request_header_bytes(
    api: Api[Any, Any], version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """The header for a request in this version, without the frame's size. The client id is never compact."""
    name = b"" if client_id is None else client_id.encode()
    head = REQUEST.pack(api.key, version, correlation_id, -1 if client_id is None else len(name))
    return head + name + (b"\0" if api.flexible(version) else b"")


def read_response_header(api: Api[Any, Any], version: int, buf: Buffer) -> tuple[int, int]:
    """The correlation id at the start of a frame and where the body begins."""
    try:
        (correlation,) = _CORRELATION.unpack_from(buf)
        pos = 4
        if api.header_flexible(version):
            tags = buf[pos]
            pos += 1
            if tags:
                pos = skip_tags(buf, pos, tags)
    except (LayoutError, IndexError) as error:
        raise WireError(f"malformed response header: {error}") from error
    return correlation, pos


def request_frame(
    api: Api[Any, Any], version: int, correlation_id: int, client_id: str | None, request: Any
) -> list[Buffer]:
    """A request ready to be written: size, header, body. No segment is empty: asyncio's transport keeps an empty last
    one and stays busy with it, since Python 3.12."""
    body = api.encode_request(version, request)
    header = request_header_bytes(api, version, correlation_id, client_id)
    return [_CORRELATION.pack(len(header) + sum(map(len, body))) + header, *filter(len, body)]


def response_frame(
    api: Api[Any, Any], version: int, correlation_id: int, response: Any
) -> list[Buffer]:
    """A response ready to be written: size, header, body; no segment is empty."""
    body = api.encode_response(version, response)
    size = sum(map(len, body))
    if api.header_flexible(version):
        head = _SIZE_CORRELATION_NO_TAGS.pack(size + 5, correlation_id)
    else:
        head = _SIZE_AND_CORRELATION.pack(size + 4, correlation_id)
    return [head, *filter(len, body)]
