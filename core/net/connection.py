"""One Kafka connection on the client side: requests out in order, answers back in order.

`call` hands the decoded answer to a function at once, with its records still views into the receive buffer: what a
follower appends is never copied. `request` is the awaitable form and keeps its answer.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from rookery.core.net.conversation import Conversation, Receive
from rookery.core.net.network import Network, SocketNetwork
from rookery.core.net.security import PLAINTEXT, Security
from rookery.core.wire.api import Api
from rookery.core.wire.apis.api_versions import API_VERSIONS, ApiVersionsRequest
from rookery.core.wire.primitives import WireError
from rookery.core.wire.schema import Struct

CONNECT_TIMEOUT_S = 10.0

Req = TypeVar("Req", bound=Struct)
Resp = TypeVar("Resp", bound=Struct)


class ConnectionLostError(Exception):
    """The connection ended before the answer came; whether the request was carried out is not known."""


class Connection(asyncio.BufferedProtocol):
    """One connection to one node. Not shared between event loops."""

    def __init__(self, address: str, client_id: str) -> None:
        self.address = address
        self._conversation = Conversation(address, client_id)
        self._transport: asyncio.Transport | None = None
        self._failure: BaseException | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._authenticated = asyncio.Event()  # not while authenticating again
        self._authenticated.set()
        self.on_lost: Callable[[], None] | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._held: deque[tuple[Api[Any, Any], int, Struct, Receive, bool]] | None = None  # while authenticating again

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        client_id: str,
        network: Network | None = None,
        security: Security = PLAINTEXT,
        timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> "Connection":
        """Connect, learn which versions the node serves, and authenticate. Raises OSError or ConnectionLostError."""
        connection = cls(f"{host}:{port}", client_id)
        try:
            async with asyncio.timeout(timeout_s):
                await (network or SocketNetwork()).connect(lambda: connection, host, port, security.tls)
                await connection._learn_versions(timeout_s)
                await security.authenticate(connection, timeout_s)
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
        self.versions.update({key.api_key: (key.min_version, key.max_version) for key in answer.api_keys})

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        """The range the node serves, by API key."""
        return self._conversation.versions

    @property
    def certificate(self) -> dict[str, Any]:
        """What the node's certificate says, as of `ssl.SSLSocket.getpeercert`; empty without TLS, or unchecked."""
        tls = self._transport.get_extra_info("ssl_object") if self._transport is not None else None
        return (tls.getpeercert() if tls is not None else None) or {}

    def version_for(self, api: Api[Any, Any], at_most: int | None = None) -> int:
        """The highest version that both sides speak."""
        return self._conversation.version_for(api, at_most)

    async def request(
        self, api: Api[Req, Resp], version: int, request: Req, timeout_s: float, *, authenticates: bool = False
    ) -> Resp:
        """Send and wait for the answer. A node that does not answer in time is given up: the connection closes."""
        answered: asyncio.Future[Resp] = asyncio.get_running_loop().create_future()

        def receive(response: Any, error: BaseException | None) -> None:
            if answered.done():
                return
            if error is not None:
                answered.set_exception(error)
            else:
                answered.set_result(response)

        (self._send if authenticates else self.call)(api, version, request, receive, keep=True)
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
        if self._held is not None:
            self._held.append((api, version, request, receive, keep))
            return
        self._send(api, version, request, receive, keep=keep)

    def _send(
        self, api: Api[Any, Any], version: int, request: Struct, receive: Receive, *, keep: bool
    ) -> None:
        if self._transport is None or self._transport.is_closing():
            receive(None, self._lost())
            return
        self._transport.writelines(self._conversation.ask(api, version, request, receive, keep=keep))

    async def send(self, api: Api[Any, Any], version: int, request: Struct, timeout_s: float) -> None:
        """Send a request that has no answer (Produce with acks=0), when the node has taken what was sent before."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._writable.wait()
                await self._authenticated.wait()
        except TimeoutError:
            self.close()
            raise ConnectionLostError(f"{self.address} took nothing for {timeout_s:g} s") from None
        if self._transport is None or self._transport.is_closing():
            raise self._lost()
        self._transport.writelines(self._conversation.send_only(api, version, request))

    def renew_after(self, seconds: float, authenticate: Callable[[], Awaitable[None]]) -> None:
        """Authenticate again after some time; requests that come meanwhile wait. If it fails the connection closes."""

        async def renew() -> None:
            await asyncio.sleep(seconds)
            self._held = deque()
            self._authenticated.clear()
            try:
                await authenticate()  # sets up the next renewal
            except Exception as error:  # of the function that gives tokens, too
                self._failure = self._failure or error
                self.close()
            finally:
                held, self._held = self._held, None
                self._authenticated.set()
                for api, version, request, receive, keep in held or ():
                    self._send(api, version, request, receive, keep=keep)

        self._renewal = asyncio.get_running_loop().create_task(renew(), name=f"renew {self.address}")

    @property
    def closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    @property
    def waiting(self) -> int:
        """Requests whose answer has not come."""
        return self._conversation.waiting

    def close(self) -> None:
        transport = self._transport
        if transport is None:
            return
        if transport.get_extra_info("ssl_object") is not None and not transport.get_write_buffer_size():
            transport.abort()  # a farewell of TLS would outlive the loop of a program that ends
        else:
            transport.close()

    # --- asyncio's side -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._conversation.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            self._conversation.received(nbytes)
        except WireError as error:
            self._failure = error
            if self._transport is not None:
                self._transport.abort()  # not close: callers get the error now, whatever is left to be sent

    def connection_lost(self, exc: Exception | None) -> None:
        self._failure = self._failure or exc
        self._writable.set()
        if self._renewal is not None:
            self._renewal.cancel()
        self._conversation.fail(self._lost())
        if self.on_lost is not None:
            self.on_lost()

    def _lost(self) -> ConnectionLostError:
        reason = f": {self._failure}" if self._failure else ""
        return ConnectionLostError(f"the connection to {self.address} is closed{reason}")
