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
        self._codecs: dict[tuple[str, int], Callable[..., Any]] = {}

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
        request: Request = self._codec("decode_request", version)(buf, pos)
        return request

    def decode_response(self, version: int, buf: Buffer, pos: int = 0) -> Response:
        """The response that starts at `pos`."""
        response: Response = self._codec("decode_response", version)(buf, pos)
        return response

    def encode_request(self, version: int, request: Request) -> list[Buffer]:
        """The request as segments."""
        segments: list[Buffer] = self._codec("encode_request", version)(request)
        return segments

    def encode_response(self, version: int, response: Response) -> list[Buffer]:
        """The response as segments."""
        segments: list[Buffer] = self._codec("encode_response", version)(response)
        return segments

    def _codec(self, what: str, version: int) -> Callable[..., Any]:
        try:
            return self._codecs[what, version]
        except KeyError:
            return self._compile(what, version)

    def _compile(self, what: str, version: int) -> Callable[..., Any]:
        if not self.supports(version):
            raise WireError(
                f"{self.name} has versions {self.min_version} to {self.max_version}, not {version}"
            )
        action, _, side = what.partition("_")
        title = f"{self.name} v{version} {side}"
        message = self.request if side == "request" else self.response
        make = compile_reader if action == "decode" else compile_writer
        codec = make(title, message, version, self.flexible(version))
        self._codecs[what, version] = codec
        return codec

    def __repr__(self) -> str:
        return f"Api({self.key} {self.name} v{self.min_version}-{self.max_version})"
