"""The client side of a Kafka connection: requests out in order, answers back in order.

Used by followers towards their leader and by everything in `client/`. `call` hands the decoded answer to a
function at once, with its records still views into the receive buffer: what a follower appends is never copied.
`request` is the awaitable form and keeps its answer.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

from rookery.core.errors import UnsupportedVersionError
from rookery.core.net.network import Network, SocketNetwork
from rookery.core.wire.api import Api
from rookery.core.wire.apis.api_versions import API_VERSIONS, ApiVersionsRequest
from rookery.core.wire.framing import FrameReader
from rookery.core.wire.header import read_response_header, request_frame
from rookery.core.wire.primitives import Buffer, WireError
from rookery.core.wire.schema import Struct

RESPONSE_BYTES_MAX = 256 * 1024 * 1024
CONNECT_TIMEOUT_S = 10.0
_CORRELATION_MAX = 2**31 - 1

Req = TypeVar("Req", bound=Struct)
Resp = TypeVar("Resp", bound=Struct)
Receive = Callable[[Any, BaseException | None], None]


class ConnectionLostError(Exception):
    """The connection ended before the answer came; whether the request was carried out is not known."""


class _Awaited(NamedTuple):
    correlation_id: int
    api: Api[Any, Any]
    version: int
    receive: Receive
    keep: bool


class Connection(asyncio.BufferedProtocol):
    """One connection to one node. Not shared between event loops."""

    def __init__(self, address: str, client_id: str) -> None:
        self.address = address
        self.versions: dict[int, tuple[int, int]] = {}
        """The range the node serves, by API key; filled by `open`."""
        self._client_id = client_id
        self._frames = FrameReader(RESPONSE_BYTES_MAX)
        self._awaited: deque[_Awaited] = deque()
        self._next_correlation = 0
        self._transport: asyncio.Transport | None = None
        self._failure: BaseException | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self.on_lost: Callable[[], None] | None = None

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        client_id: str,
        network: Network | None = None,
        timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> "Connection":
        """Connect and learn which versions the node serves. Raises OSError or ConnectionLostError."""
        connection = cls(f"{host}:{port}", client_id)
        try:
            async with asyncio.timeout(timeout_s):
                await (network or SocketNetwork()).connect(lambda: connection, host, port)
                await connection._learn_versions(timeout_s)
        except TimeoutError:
            connection.close()
            raise ConnectionLostError(f"{connection.address} did not answer within {timeout_s:g} s") from None
        except BaseException:
            connection.close()
            raise
        return connection

    async def _learn_versions(self, timeout_s: float) -> None:
        """Ask in v0, which every node understands."""
        answer = await self.request(API_VERSIONS, 0, ApiVersionsRequest(), timeout_s)
        self.versions = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}

    def version_for(self, api: Api[Any, Any], at_most: int | None = None) -> int:
        """The highest version that both sides speak."""
        low, high = self.versions.get(api.key, (0, -1))
        version = min(high, api.max_version, api.max_version if at_most is None else at_most)
        if version < max(low, api.min_version):
            raise UnsupportedVersionError(f"{self.address} serves {api.name} in versions {low} to {high}")
        return version

    async def request(self, api: Api[Req, Resp], version: int, request: Req, timeout_s: float) -> Resp:
        """Send and wait for the answer. A node that does not answer in time is given up: the connection closes."""
        answered: asyncio.Future[Resp] = asyncio.get_running_loop().create_future()

        def receive(response: Any, error: BaseException | None) -> None:
            if answered.done():
                return
            if error is not None:
                answered.set_exception(error)
            else:
                answered.set_result(response)

        self.call(api, version, request, receive, keep=True)
        try:
            async with asyncio.timeout(timeout_s):
                return await answered
        except TimeoutError:
            self.close()
            message = f"{self.address} did not answer {api.name} within {timeout_s:g} s"
            raise ConnectionLostError(message) from None

    def call(
        self, api: Api[Any, Any], version: int, request: Struct, receive: Receive, *, keep: bool = False
    ) -> None:
        """Send; `receive(response, None)` or `receive(None, error)` is called when the outcome is there. Unless
        `keep` is set, what the response holds is valid only during that call."""
        if self._transport is None or self._transport.is_closing():
            receive(None, self._lost())
            return
        correlation = self._next_correlation
        self._next_correlation = (correlation + 1) & _CORRELATION_MAX
        self._awaited.append(_Awaited(correlation, api, version, receive, keep))
        self._transport.writelines(request_frame(api, version, correlation, self._client_id, request))

    async def send(self, api: Api[Any, Any], version: int, request: Struct, timeout_s: float) -> None:
        """Send a request that has no answer (Produce with acks=0), when the node has taken what was sent before."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._writable.wait()
        except TimeoutError:
            self.close()
            raise ConnectionLostError(f"{self.address} took nothing for {timeout_s:g} s") from None
        if self._transport is None or self._transport.is_closing():
            raise self._lost()
        correlation = self._next_correlation
        self._next_correlation = (correlation + 1) & _CORRELATION_MAX
        self._transport.writelines(request_frame(api, version, correlation, self._client_id, request))

    @property
    def closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    @property
    def waiting(self) -> int:
        """Requests whose answer has not come."""
        return len(self._awaited)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    # --- asyncio's side -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._frames.received(nbytes)
        try:
            for frame in self._frames.frames():
                self._answered(frame)
        except WireError as error:
            self._failure = error
            if self._transport is not None:
                self._transport.abort()  # nothing more is to be sent: whoever waits is told now

    def _answered(self, frame: Buffer) -> None:
        """A request is awaited until its answer is understood: whatever goes wrong before fails it with the
        connection."""
        if not self._awaited:
            raise WireError(f"{self.address} sent an answer that nobody asked for")
        awaited = self._awaited[0]
        correlation, position = read_response_header(awaited.api, awaited.version, frame)
        if correlation != awaited.correlation_id:
            raise WireError(f"{self.address} answered {correlation} instead of {awaited.correlation_id}")
        body = bytes(frame) if awaited.keep else frame
        response = awaited.api.decode_response(awaited.version, body, position)
        self._awaited.popleft()
        awaited.receive(response, None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._failure = self._failure or exc
        self._writable.set()
        error = self._lost()
        while self._awaited:
            self._awaited.popleft().receive(None, error)
        if self.on_lost is not None:
            self.on_lost()

    def _lost(self) -> ConnectionLostError:
        reason = f": {self._failure}" if self._failure else ""
        return ConnectionLostError(f"the connection to {self.address} is closed{reason}")
