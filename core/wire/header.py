"""Request and response headers, and whole frames made of a header and a message's segments."""

from struct import Struct as Layout
from struct import error as LayoutError
from typing import Any, NamedTuple

from rookery.core.wire.api import Api
from rookery.core.wire.apis import ALL
from rookery.core.wire.primitives import SHORT, Buffer, WireError, bytes_at, skip_tags

_REQUEST = Layout(">hhih")
_SIZE_AND_CORRELATION = Layout(">ii")
_SIZE_CORRELATION_NO_TAGS = Layout(">iix")
_CORRELATION = Layout(">i")

_FLEXIBLE = frozenset(
    (api.key, version)
    for api in ALL
    for version in range(api.min_version, api.max_version + 1)
    if api.flexible(version)
)


class RequestHeader(NamedTuple):
    """What stands before every request; tagged fields nobody has defined yet are dropped."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def read_request_header(buf: Buffer) -> tuple[RequestHeader, int]:
    """The header at the start of a frame and where the body begins.

    A key or version that is not declared still gives a header, so that the caller can answer or name it; the
    body position then means nothing.
    """
    key, version, correlation, client, pos = read_request_fields(buf)
    return RequestHeader(key, version, correlation, client), pos


def read_request_fields(buf: Buffer) -> tuple[int, int, int, str | None, int]:
    """The same as one plain tuple, which is quicker to make: key, version, correlation id, client id, where
    the body begins."""
    try:
        key, version, correlation, length = _REQUEST.unpack_from(buf)
        pos = 10
        client: str | None = None
        if length >= 0:
            # 9: SHORT steps over one byte, the last of the length
            raw = SHORT[length + 1](buf, 9)[0] if length < 127 else bytes_at(buf, 10, length)
            client = raw.decode()
            pos += length
        if (key, version) in _FLEXIBLE:
            tags = buf[pos]
            pos += 1
            if tags:
                pos = skip_tags(buf, pos, tags)
    except (LayoutError, IndexError, UnicodeDecodeError) as error:
        raise WireError(f"malformed request header: {error}") from error
    return key, version, correlation, client, pos


def request_header_bytes(
    api: Api[Any, Any], version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """The header for a request in this version, without the frame's size. The client id is never compact."""
    name = b"" if client_id is None else client_id.encode()
    head = _REQUEST.pack(api.key, version, correlation_id, -1 if client_id is None else len(name))
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


def response_header_bytes(api: Api[Any, Any], version: int, correlation_id: int) -> bytes:
    """The header for a response in this version, without the frame's size."""
    return _CORRELATION.pack(correlation_id) + (b"\0" if api.header_flexible(version) else b"")


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
