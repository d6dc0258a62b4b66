"""One API of the protocol: its key, its versions, and its two messages."""

from typing import Generic, TypeVar

from rookery.core.wire.message import Message
from rookery.core.wire.primitives import Buffer
from rookery.core.wire.reader import compile_request_reader
from rookery.core.wire.schema import Struct

Request = TypeVar("Request", bound=Struct)
Response = TypeVar("Response", bound=Struct)

API_VERSIONS_KEY = 18


class Api(Generic[Request, Response]):
    """A request and its response, in the same versions.

    `decode_*` accept any buffer and leave `records` as views into it; bytes after the message are ignored.
    `encode_*` return segments to be written one after the other. Either fails with `WireError` and nothing else.
    The functions behind them are in `request_readers` and its like, by version.
    """

    def __init__(
        self, key: int, name: str, request: type[Request], response: type[Response],
        versions: str, flexible: str = "",
    ) -> None:
        requests = Message(f"{name} request", request, versions, flexible, read=compile_request_reader)
        responses = Message(f"{name} response", response, versions, flexible)
        self.key = key
        self.name = name
        self.request = request
        self.response = response
        self.min_version = requests.min_version
        self.max_version = requests.max_version
        self.flexible_from = requests.flexible_from
        self.supports = requests.supports
        self.flexible = requests.flexible
        self.request_readers, self.request_writers = requests.readers, requests.writers
        self.response_readers, self.response_writers = responses.readers, responses.writers

    def header_flexible(self, version: int) -> bool:
        """Whether the *response* header has tagged fields: never for ApiVersions, which clients read before they know
        the version."""
        return self.key != API_VERSIONS_KEY and self.flexible(version)

    def decode_request(self, version: int, buf: Buffer, pos: int = 0) -> Request:
        """The request that starts at `pos`."""
        return self.request_readers[version](buf, pos)  # type: ignore[no-any-return]

    def decode_response(self, version: int, buf: Buffer, pos: int = 0) -> Response:
        """The response that starts at `pos`."""
        return self.response_readers[version](buf, pos)  # type: ignore[no-any-return]

    def encode_request(self, version: int, request: Request) -> list[Buffer]:
        """The request as segments."""
        return self.request_writers[version](request)  # type: ignore[no-any-return]

    def encode_response(self, version: int, response: Response) -> list[Buffer]:
        """The response as segments."""
        return self.response_writers[version](response)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"Api({self.key} {self.name} v{self.min_version}-{self.max_version})"
