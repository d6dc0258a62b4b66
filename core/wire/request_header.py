"""The header of a request, as a server reads it: which versions have tagged fields depends on the API."""

from struct import error as LayoutError
from typing import NamedTuple

from rookery.core.wire.api_table import ALL
from rookery.core.wire.header import REQUEST
from rookery.core.wire.primitives import SHORT, Buffer, WireError, bytes_at, skip_tags

_FLEXIBLE = frozenset(
    (api.key, version)
    for api in ALL
    for version in range(api.min_version, api.max_version + 1)
    if api.flexible(version)
)


class RequestHeader(NamedTuple):
    """The fields before every request; tagged fields, of which none is defined yet, are dropped."""

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
        key, version, correlation, length = REQUEST.unpack_from(buf)
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
