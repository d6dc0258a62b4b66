"""The client side of a Kafka connection without a socket: requests become frames, received bytes become answers.

A node answers in the order of the requests. `Conversation` gives each request its correlation id, holds who waits for
which answer, and cuts what arrives into frames. The shell around it owns the transport.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from rookery.core.errors import UnsupportedVersionError
from rookery.core.wire.api import Api
from rookery.core.wire.framing import FrameReader
from rookery.core.wire.header import read_response_header, request_frame
from rookery.core.wire.primitives import Buffer, WireError
from rookery.core.wire.schema import Struct

RESPONSE_BYTES_MAX = 256 * 1024 * 1024
_CORRELATION_MAX = 2**31 - 1

Receive = Callable[[Any, BaseException | None], None]
"""Called once with the response and None, or with None and the reason why there is none."""


class _Awaited(NamedTuple):
    correlation_id: int
    api: Api[Any, Any]
    version: int
    receive: Receive
    keep: bool


class Conversation:
    """With one node. A broken answer raises WireError: nothing after it can be trusted."""

    def __init__(self, address: str, client_id: str, response_bytes_max: int = RESPONSE_BYTES_MAX) -> None:
        self.address = address
        self.versions: dict[int, tuple[int, int]] = {}
        """The range the node serves, by API key."""
        self._client_id = client_id
        self._frames = FrameReader(response_bytes_max)
        self._awaited: deque[_Awaited] = deque()
        self._next_correlation = 0

    def version_for(self, api: Api[Any, Any], at_most: int | None = None) -> int:
        """The highest version that both sides speak."""
        low, high = self.versions.get(api.key, (0, -1))
        version = min(high, api.max_version, api.max_version if at_most is None else at_most)
        if version < max(low, api.min_version):
            raise UnsupportedVersionError(f"{self.address} serves {api.name} in versions {low} to {high}")
        return version

    @property
    def waiting(self) -> int:
        """Requests whose answer has not come."""
        return len(self._awaited)

    # --- out ------------------------------------------------------------------------------------------------

    def ask(
        self, api: Api[Any, Any], version: int, request: Struct, receive: Receive, *, keep: bool
    ) -> list[Buffer]:
        """The frame of a request. Unless `keep` is set, what its response holds is valid only while `receive` runs."""
        correlation = self._correlation()
        self._awaited.append(_Awaited(correlation, api, version, receive, keep))
        return request_frame(api, version, correlation, self._client_id, request)

    def send_only(self, api: Api[Any, Any], version: int, request: Struct) -> list[Buffer]:
        """The frame of a request that has no answer."""
        return request_frame(api, version, self._correlation(), self._client_id, request)

    def _correlation(self) -> int:
        correlation = self._next_correlation
        self._next_correlation = (correlation + 1) & _CORRELATION_MAX
        return correlation

    # --- in -------------------------------------------------------------------------------------------------

    def get_buffer(self) -> memoryview:
        return self._frames.get_buffer()

    def received(self, count: int) -> None:
        """`count` bytes are in the buffer handed out last: hand over the answers that are complete."""
        self._frames.received(count)
        for frame in self._frames.frames():
            self._answered(frame)

    def _answered(self, frame: Buffer) -> None:
        if not self._awaited:
            raise WireError(f"{self.address} sent a response without a request")
        awaited = self._awaited[0]
        correlation, position = read_response_header(awaited.api, awaited.version, frame)
        if correlation != awaited.correlation_id:
            raise WireError(f"{self.address} answered {correlation} instead of {awaited.correlation_id}")
        body = bytes(frame) if awaited.keep else frame
        response = awaited.api.decode_response(awaited.version, body, position)
        self._awaited.popleft()  # not before: an answer that cannot be decoded fails its waiter too
        awaited.receive(response, None)

    def fail(self, error: BaseException) -> None:
        """No more answers come: all waiting callers get the error."""
        while self._awaited:
            self._awaited.popleft().receive(None, error)
