"""One API of the protocol: its key, its versions, and its two messages with their compiled codecs."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rookery.core.wire.primitives import Buffer, WireError
from rookery.core.wire.reader import compile_reader
from rookery.core.wire.schema import Struct, Versions
from rookery.core.wire.writer import compile_writer

Request = TypeVar("Request", bound=Struct)
Response = TypeVar("Response", bound=Struct)

API_VERSIONS_KEY = 18


class Api(Generic[Request, Response]):
    """Codecs are compiled at the first use of a version and direction, then kept.

    `decode_*` accept any buffer and leave `records` as views into it; bytes after the message are ignored.
    `encode_*` return segments to be written one after the other.
    """

    def __init__(
        self, key: int, name: str, request: type[Request], response: type[Response],
        versions: str, flexible: str = "",
    ) -> None:
        self.key = key
        self.name = name
        self.request = request
        self.response = response
        self.min_version, self.max_version = Versions.parse(versions)
        flexible_from = Versions.parse(flexible)
        self.flexible_from: int | None = flexible_from.first if flexible else None
        self._decode_request = _Codecs(self, "decode", "request")
        self._decode_response = _Codecs(self, "decode", "response")
        self._encode_request = _Codecs(self, "encode", "request")
        self._encode_response = _Codecs(self, "encode", "response")

    def flexible(self, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields, in body and header."""
        return self.flexible_from is not None and version >= self.flexible_from

    def header_flexible(self, version: int) -> bool:
        """Whether the *response* header has tagged fields: never for ApiVersions, which is read blind."""
        return self.key != API_VERSIONS_KEY and self.flexible(version)

    def supports(self, version: int) -> bool:
        """Whether the version is declared at all."""
        return self.min_version <= version <= self.max_version

    def decode_request(self, version: int, buf: Buffer, pos: int = 0) -> Request:
        """The request that starts at `pos`."""
        return self._decode_request[version](buf, pos)  # type: ignore[no-any-return]

    def decode_response(self, version: int, buf: Buffer, pos: int = 0) -> Response:
        """The response that starts at `pos`."""
        return self._decode_response[version](buf, pos)  # type: ignore[no-any-return]

    def encode_request(self, version: int, request: Request) -> list[Buffer]:
        """The request as segments."""
        return self._encode_request[version](request)  # type: ignore[no-any-return]

    def encode_response(self, version: int, response: Response) -> list[Buffer]:
        """The response as segments."""
        return self._encode_response[version](response)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"Api({self.key} {self.name} v{self.min_version}-{self.max_version})"


class _Codecs(dict[int, Callable[..., Any]]):
    """The functions of one message by version, each made when it is first asked for."""

    def __init__(self, api: Api[Any, Any], action: str, side: str) -> None:
        super().__init__()
        self._api = api
        self._make = compile_reader if action == "decode" else compile_writer
        self._side = side

    def __missing__(self, version: int) -> Callable[..., Any]:
        api = self._api
        if not api.supports(version):
            raise WireError(f"{api.name} has versions {api.min_version} to {api.max_version}, not {version}")
        message = api.request if self._side == "request" else api.response
        codec = self._make(f"{api.name} v{version} {self._side}", message, version, api.flexible(version))
        self[version] = codec
        return codec
