"""The control plane of nodes in one process: gRPC's channels and servers at the level of serialised messages.

The product's stubs and servicers are used as they are. Between them lies one ordered connection for each channel, as
gRPC has it here: what cannot pass waits; a caller whose peer is silent finds out by keepalive after seconds, a server
much later; a process that dies closes its connections, a host without power says nothing until it is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any

import grpc
import grpc.aio

from rookery.core.testing.hosts import SimNetwork
from rookery.core.testing.process import Process, current

KEEPALIVE_S = 4.0
"""A caller gives up a connection that has been silent for this long."""
SERVER_KEEPALIVE_S = 60.0
CONNECT_S = 2.0
BACKOFF_S = (0.1, 0.5)
CLIENT, SERVER = 0, 1
NO_PROCESS = Process("none").context
"""For callbacks that belong to no process."""


def failure(code: grpc.StatusCode, details: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)


class Aborted(Exception):
    """A servicer refused a call."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(code, details)
        self.status = (code, details)


class Context:
    """What a servicer asks of gRPC."""

    def __init__(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        self._loop = loop
        self._deadline = deadline

    def time_remaining(self) -> float:
        return max(0.0, self._deadline - self._loop.time())

    async def abort(self, code: grpc.StatusCode, details: str = "") -> None:
        raise Aborted(code, details)


class Call:
    """One call under way: what has arrived for the caller, and the task that serves it."""

    def __init__(self, link: Link, path: str, deadline: float) -> None:
        self.link = link
        self.path = path
        self.deadline = deadline
        self.pieces: list[bytes] = []
        self.ended = False
        self.error: grpc.aio.AioRpcError | None = None
        self.news: asyncio.Future[None] | None = None
        self.serving: asyncio.Task[None] | None = None
        self.overdue: Any = None

    def arrived(self, piece: bytes) -> None:
        self.pieces.append(piece)
        self._wake()

    def finish(self, error: grpc.aio.AioRpcError | None = None) -> None:
        """For the caller the call is over."""
        if not self.ended:
            self.ended, self.error = True, error
            self.link.calls.pop(self, None)
            self._wake()

    def _wake(self) -> None:
        if self.news is not None and not self.news.done():
            self.news.set_result(None)

    async def next(self) -> bytes | None:
        """The next message of the answer; None at its end."""
        while not self.pieces:
            if self.error is not None:
                raise self.error
            if self.ended:
                return None
            self.news = asyncio.get_running_loop().create_future()
            await self.news
        return self.pieces.pop(0)


class Link:
    """One connection between a channel and a server."""

    def __init__(self, control: SimControl, client: Process, server: SimServer) -> None:
        self.control = control
        self.server = server
        self.ends = (client, server.process)
        self.open = [True, True]
        self.calls: dict[Call, None] = {}
        """As the caller knows them."""
        self.served: dict[Call, None] = {}
        """As the server knows them."""
        self._arrives = [0.0, 0.0]
        self._waiting: list[tuple[int, Callable[..., None], tuple[Any, ...]]] = []
        self.silent_since: float | None = None

    def send(self, to: int, act: Callable[..., None], *args: Any) -> None:
        """Let `act` happen at one end, in the order of sending."""
        control = self.control
        delay = control.network.delay_s(self.ends[1 - to].host, self.ends[to].host)
        at = self._arrives[to] = max(control.loop.time() + delay, self._arrives[to])
        control.loop.call_at(at, self._arrive, to, act, args, context=self.ends[to].context)

    def _arrive(self, to: int, act: Callable[..., None], args: tuple[Any, ...]) -> None:
        if not self.open[to]:
            return
        if self._waiting or self.control.network.is_cut(self.ends[1 - to].host, self.ends[to].host):
            self._waiting.append((to, act, args))
        else:
            act(*args)

    def resend(self) -> None:
        """The link is whole again: what waited goes on its way."""
        waiting, self._waiting = self._waiting, []
        for to, act, args in waiting:
            self.send(to, act, *args)

    def broke(self, end: int) -> None:
        """One end learns that the connection is gone."""
        if not self.open[end]:
            return
        self.open[end] = False
        if end == CLIENT:
            for call in list(self.calls):
                call.finish(failure(grpc.StatusCode.UNAVAILABLE, "the connection broke"))
        else:
            for call in list(self.served):
                if call.serving is not None:
                    call.serving.cancel()
        self.control.review(self)


class SimChannel:
    """grpc.aio.Channel, as far as nodes use it; belongs to the process that opened it."""

    def __init__(self, control: SimControl, address: str) -> None:
        self._control = control
        self._process = current()
        self._address = address
        self._link: Link | None = None
        self._connecting: asyncio.Task[Link] | None = None
        self._failures = 0
        self._retry_at = 0.0

    def unary_unary(
        self, path: str, request_serializer: Callable[[Any], bytes], response_deserializer: Callable[[bytes], Any],
        _registered_method: bool = False,
    ) -> Callable[..., Any]:  # fmt: skip
        async def ask(message: Any, timeout: float) -> Any:
            async for piece in self._stream(path, request_serializer(message), timeout):
                return response_deserializer(piece)
            raise failure(grpc.StatusCode.UNKNOWN, "no answer")

        return ask

    def unary_stream(
        self, path: str, request_serializer: Callable[[Any], bytes], response_deserializer: Callable[[bytes], Any],
        _registered_method: bool = False,
    ) -> Callable[..., Any]:  # fmt: skip
        async def ask(message: Any, timeout: float) -> AsyncIterator[Any]:
            async for piece in self._stream(path, request_serializer(message), timeout):
                yield response_deserializer(piece)

        return ask

    async def _stream(self, path: str, data: bytes, timeout_s: float) -> AsyncIterator[bytes]:
        loop = self._control.loop
        deadline = loop.time() + timeout_s
        call: Call | None = None
        try:
            async with asyncio.timeout(timeout_s):
                link = await self._connected()
                call = Call(link, path, deadline)
                link.calls[call] = None
                link.send(SERVER, link.server.serve, call, data)
            while True:
                async with asyncio.timeout_at(deadline):
                    piece = await call.next()
                if piece is None:
                    return
                yield piece
        except TimeoutError:
            raise failure(grpc.StatusCode.DEADLINE_EXCEEDED, "deadline exceeded") from None
        finally:
            if call is not None and not call.ended:
                call.finish()
                call.link.send(SERVER, call.link.server.cancel, call)

    async def _connected(self) -> Link:
        if self._link is not None and self._link.open[CLIENT]:
            return self._link
        loop = self._control.loop
        if loop.time() < self._retry_at:
            await asyncio.sleep(0)
            raise failure(grpc.StatusCode.UNAVAILABLE, f"no connection to {self._address} yet")
        if self._connecting is None:
            self._connecting = loop.create_task(self._connect(), name=f"connect to {self._address}")
            self._connecting.add_done_callback(self._done)
        return await asyncio.shield(self._connecting)

    def _done(self, task: asyncio.Task[Link]) -> None:
        self._connecting = None
        if task.cancelled():
            return
        if task.exception() is None:
            self._link, self._failures = task.result(), 0
            return
        first, longest = BACKOFF_S
        pause = min(first * 1.6**self._failures, longest) * self._control.rng.uniform(0.8, 1.2)
        self._failures = min(self._failures + 1, 10)
        self._retry_at = self._control.loop.time() + pause

    async def _connect(self) -> Link:
        control, host = self._control, self._address.partition(":")[0]
        here = self._process.host
        await asyncio.sleep(control.network.delay_s(here, host) + control.network.delay_s(host, here))
        if not control.network.resolves(here, host):
            raise failure(grpc.StatusCode.UNAVAILABLE, f"DNS resolution failed for {self._address}")
        server = control.servers.get(self._address)
        silent = not control.network.linked(here, host) or (server is not None and server.process.paused)
        if silent:
            await asyncio.sleep(CONNECT_S)
        if silent or server is None:
            raise failure(grpc.StatusCode.UNAVAILABLE, f"nothing answers at {self._address}")
        return control.connected(Link(control, self._process, server))

    async def close(self, grace: float | None = None) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        if self._link is not None:
            self._link.broke(CLIENT)


class SimServer:
    """grpc.aio.Server, as far as a node uses it; belongs to the process that made it."""

    def __init__(self, control: SimControl) -> None:
        self._control = control
        self.process = current()
        self._handlers: list[Any] = []
        self._methods: dict[str, Any] = {}
        self._address = ""
        self._calls: dict[Call, None] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    def add_generic_rpc_handlers(self, handlers: tuple[Any, ...]) -> None:
        self._handlers += handlers

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        """The same that was added as generic handlers."""

    def add_insecure_port(self, address: str) -> int:
        if address in self._control.servers:
            return 0
        self._address = address
        return int(address.rpartition(":")[2])

    async def start(self) -> None:
        self._control.servers[self._address] = self

    async def stop(self, grace: float | None) -> None:
        """No new calls; what is under way has `grace` seconds."""
        self._control.servers.pop(self._address, None)
        if grace:
            try:
                async with asyncio.timeout(grace):
                    await self._idle.wait()
            except TimeoutError:
                pass
        for link in [link for link in self._control.links if link.server is self]:
            link.broke(SERVER)
        await self._idle.wait()

    def serve(self, call: Call, data: bytes) -> None:
        if call.link.open[SERVER]:
            call.link.served[call] = self._calls[call] = None
            self._idle.clear()
            call.serving = self._control.loop.create_task(self._serve(call, data), name=f"serve {call.path}")
            call.serving.add_done_callback(lambda _: self._served(call))
            call.overdue = self._control.loop.call_at(call.deadline, call.serving.cancel)

    def _served(self, call: Call) -> None:
        """Also when it was cancelled before it began."""
        call.overdue.cancel()
        call.link.served.pop(call, None)
        self._calls.pop(call, None)
        if not self._calls:
            self._idle.set()

    def cancel(self, call: Call) -> None:
        """The caller gave up."""
        if call.serving is not None:
            call.serving.cancel()

    def _handler(self, path: str) -> Any:
        if path not in self._methods:
            details = _Details(path)
            found = [handler.service(details) for handler in self._handlers]
            self._methods[path] = next(filter(None, found))
        return self._methods[path]

    async def _serve(self, call: Call, data: bytes) -> None:
        link, control = call.link, self._control
        error: grpc.aio.AioRpcError | None = None
        try:
            handler = self._handler(call.path)
            request = handler.request_deserializer(data)
            context = Context(control.loop, call.deadline)
            if handler.response_streaming:
                async for reply in handler.unary_stream(request, context):
                    link.send(CLIENT, call.arrived, handler.response_serializer(reply))
            else:
                reply = await handler.unary_unary(request, context)
                link.send(CLIENT, call.arrived, handler.response_serializer(reply))
        except Aborted as aborted:
            error = failure(*aborted.status)
        except Exception as raised:
            control.loop.call_exception_handler({"message": f"in {call.path}", "exception": raised})
            error = failure(grpc.StatusCode.UNKNOWN, repr(raised))
        if control.loses_reply(call.path):
            control.cut_short(link)
            return
        link.send(CLIENT, call.finish, error)


class _Details:
    invocation_metadata = ()

    def __init__(self, method: str) -> None:
        self.method = method


class SimControl:
    """All channels and servers of a simulation: what nodes are given as their control plane."""

    def __init__(self, loop: asyncio.AbstractEventLoop, network: SimNetwork, rng: Random) -> None:
        self.loop = loop
        self.network = network
        self.rng = rng
        self.servers: dict[str, SimServer] = {}
        self.links: dict[Link, None] = {}
        self.loses_reply: Callable[[str], bool] = lambda path: False
        self.carried = 0
        network.changed.append(self.review_all)

    def open_channel(self, address: str, tls: object = None) -> Any:
        return SimChannel(self, address)

    def server(self, concurrent_calls_max: int) -> Any:
        return SimServer(self)

    def connected(self, link: Link) -> Link:
        self.links[link] = None
        return link

    def killed(self, process: Process) -> None:
        """The kernel closes what the process had open."""
        for address in [a for a, server in self.servers.items() if server.process is process]:
            del self.servers[address]
        for link in [link for link in self.links if process in link.ends]:
            link.open[link.ends.index(process)] = False
        self.review_all()

    def cut_short(self, link: Link) -> None:
        """The connection breaks, for both ends."""
        for end in (CLIENT, SERVER):
            self.loop.call_soon(link.broke, end, context=link.ends[end].context)

    def review_all(self) -> None:
        for link in list(self.links):
            self.review(link)

    def review(self, link: Link) -> None:
        """Something changed: who will learn what about this connection, and when."""
        if not any(link.open):
            self.links.pop(link, None)
            return
        whole = self.network.linked(link.ends[CLIENT].host, link.ends[SERVER].host)
        if whole and not all(link.open):
            end = link.open.index(True)
            delay = self.network.delay_s(link.ends[1 - end].host, link.ends[end].host)
            self.loop.call_later(delay, link.broke, end, context=link.ends[end].context)
        elif whole and not any(process.paused for process in link.ends):
            link.silent_since = None
            link.resend()
        elif link.silent_since is None:
            link.silent_since = since = self.loop.time()
            for end, patience_s in ((CLIENT, KEEPALIVE_S), (SERVER, SERVER_KEEPALIVE_S)):
                self.loop.call_later(patience_s, self._silent, link, end, since, context=link.ends[end].context)

    def _silent(self, link: Link, end: int, since: float) -> None:
        if link.silent_since == since:
            link.broke(end)
