"""The outgoing half of Raft over gRPC: sends the core's requests and hands the answers back.

One channel per peer. A call that fails is reported, never repeated here: the core decides when to try again.
When the call that the leader holds open breaks because its connection closed, that is reported at once, since it
is the first sign of the leader's death.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Protocol, TypeVar

import grpc
import grpc.aio

from rookery.controller.raft import messages as m
from rookery.controller.raft import translation as to_wire
from rookery.controller.raft.ready import Send
from rookery.controller.raft.settings import RaftConfig
from rookery.core.errors import CorruptMessageError
from rookery.core.event_logging import get_logger
from rookery.core.net.control import GRPC, Control, Exchange, name_is_unknown
from rookery.core.net.tls import CurrentTls
from rookery.proto.raft_pb2_grpc import RaftStub

_log = get_logger("controller.raft.transport")
FETCH_BYTES_MAX = 8 << 20
FETCH_BYTES_MIN = 64 << 10
CHANNELS_MAX = 64
T = TypeVar("T")
Spawn = Callable[[Coroutine[Any, Any, None]], object]
"""Starts a task in the owner's task group."""


class Inbox(Protocol):
    """What happened to requests; the node takes it."""

    def received(self, response: m.Response) -> None: ...

    def request_failed(self, to: int, correlation: int) -> None: ...

    def leader_connection_closed(self, leader_id: int) -> None: ...


@dataclass(slots=True)
class _Peer:
    channel: grpc.aio.Channel
    stub: Any  # the generated stub has no types
    answered: bool = False
    """Whether the last call was answered: only then does a failure mean that a connection closed, rather than
    that there still is none."""
    fetch_bytes: int = FETCH_BYTES_MAX
    """How much to ask for at a time: less after an answer that did not arrive in time, more after one that did."""

    def fetched(self) -> None:
        self.fetch_bytes = min(2 * self.fetch_bytes, FETCH_BYTES_MAX)

    def fetch_timed_out(self) -> None:
        self.fetch_bytes = max(self.fetch_bytes // 2, FETCH_BYTES_MIN)


class Transport:
    """Sends requests to the other nodes of one cluster."""

    def __init__(
        self,
        caller: Callable[[], to_wire.CallerIdentity],
        config: RaftConfig,
        inbox: Inbox,
        *,
        me: int,
        endpoints: Mapping[int, str],
        bootstrap: Sequence[str] = (),
        tls: CurrentTls | None = None,
        control: Control = GRPC,
    ) -> None:
        """`caller` gives the sender's identity and the protocol version of now; `endpoints` serve for node ids whose
        address the core does not know (yet); `bootstrap` are addresses of nodes that may know the leader."""
        self._caller = caller
        self._config = config
        self._inbox = inbox
        self._endpoints = endpoints
        others = [endpoint for node_id, endpoint in endpoints.items() if node_id != me]
        self._bootstrap = cycle(bootstrap or others or [""])
        self._exchange = Exchange(tls)
        self._control = control
        self._peers: OrderedDict[str, _Peer] = OrderedDict()
        self._complained: set[str] = set()
        self._end_epochs = 0
        self._all_answered = asyncio.Event()
        self._all_answered.set()

    def send(self, send: Send, spawn: Spawn) -> None:
        """Start one request; its answer or failure comes to the inbox later."""
        endpoint = send.endpoint or self._endpoints.get(send.to, "")
        if send.to == m.ANY_BOOTSTRAP:
            endpoint = next(self._bootstrap)
        if isinstance(send.message, m.EndEpochRequest):
            self._end_epochs += 1
            self._all_answered.clear()
        spawn(self._call(send.to, endpoint, send.message, spawn))

    async def drain(self, timeout_s: float) -> None:
        """Wait until every peer was informed that this leader resigned, or could not be reached."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._all_answered.wait()
        except TimeoutError:
            _log.warning("raft.end_epoch.unanswered", peers=self._end_epochs)

    async def close(self) -> None:
        peers = [peer.channel.close() for peer in self._peers.values()]
        self._peers.clear()
        await asyncio.gather(*peers)

    async def _call(self, to: int, endpoint: str, request: m.Message, spawn: Spawn) -> None:
        peer = self._peer(endpoint, spawn) if endpoint else None
        try:
            if peer is None:
                raise ConnectionError(f"no address of node {to} is known")
            response = await self._ask(peer, to, request)
        except grpc.aio.AioRpcError as error:
            self._failed(to, endpoint, request, f"{error.code().name}: {error.details()}")
            if peer is not None:
                self._note(peer, to, request, error.code())
                if name_is_unknown(error) and self._peers.get(endpoint) is peer:
                    del self._peers[endpoint]
        except (ConnectionError, TimeoutError, CorruptMessageError, ValueError) as error:
            self._failed(to, endpoint, request, str(error) or type(error).__name__)
        else:
            if peer is not None:
                peer.answered = True
            self._complained.discard(endpoint)
            self._inbox.received(response)
        finally:
            if isinstance(request, m.EndEpochRequest):
                self._end_epochs -= 1
                if self._end_epochs == 0:
                    self._all_answered.set()

    def _note(self, peer: _Peer, to: int, request: m.Message, code: grpc.StatusCode) -> None:
        """Handle a failed call."""
        if code == grpc.StatusCode.DEADLINE_EXCEEDED and isinstance(request, m.FetchRequest):
            peer.fetch_timed_out()
        elif code == grpc.StatusCode.UNAVAILABLE:
            closed, peer.answered = peer.answered, False
            if closed and to >= 0:
                self._inbox.leader_connection_closed(to)

    async def _ask(self, peer: _Peer, to: int, request: m.Message) -> m.Response:
        caller, stub = self._caller(), peer.stub
        patience_s = self._config.request_timeout_ms / 1000
        match request:
            case m.VoteRequest():
                vote = await stub.Vote(to_wire.vote_request(caller, request, to), timeout=patience_s)
                return to_wire.read_vote_response(request, vote)
            case m.BeginEpochRequest():
                begun = await stub.BeginEpoch(to_wire.begin_request(caller, request, to), timeout=patience_s)
                return to_wire.read_begin_response(request, begun)
            case m.EndEpochRequest():
                ended = await stub.EndEpoch(to_wire.end_request(caller, request, to), timeout=patience_s)
                return to_wire.read_end_response(request, ended)
            case m.FetchRequest():
                wish = to_wire.fetch_request(caller, request, to, peer.fetch_bytes)
                fetched = await stub.Fetch(wish, timeout=patience_s + request.max_wait_ms / 1000)
                peer.fetched()
                return to_wire.read_fetch_response(request, fetched)
            case m.FetchSnapshotRequest():
                stream = stub.FetchSnapshot(to_wire.snapshot_request(caller, request, to), timeout=patience_s)
                return to_wire.read_snapshot_pieces(request, await self._arrived(stream))
            case _:
                raise TypeError(f"{type(request).__name__} is not a request")

    async def _arrived(self, stream: AsyncIterable[T]) -> list[T]:
        """The pieces that arrive before the core gives the request up: on a slow link not all that were sent. The core
        goes on behind them."""
        pieces: list[T] = []
        try:
            async with asyncio.timeout(0.8 * self._config.answer_wait_ms / 1000):
                async for piece in stream:
                    pieces.append(piece)
        except (TimeoutError, grpc.aio.AioRpcError):
            if not pieces:
                raise
        return pieces

    def _peer(self, endpoint: str, spawn: Spawn) -> _Peer:
        if self._exchange.happened():
            self._peers.clear()
        if endpoint not in self._peers:
            channel = self._control.open_channel(endpoint, self._exchange.current)
            self._peers[endpoint] = _Peer(channel, RaftStub(channel))  # type: ignore[no-untyped-call]
            if len(self._peers) > CHANNELS_MAX:
                _, oldest = self._peers.popitem(last=False)
                spawn(oldest.channel.close())
        self._peers.move_to_end(endpoint)
        return self._peers[endpoint]

    def _failed(self, to: int, endpoint: str, request: m.Message, why: str) -> None:
        """Report it to the core; log it once, when a peer begins to fail, not at each attempt."""
        self._inbox.request_failed(to, request.correlation)
        if endpoint not in self._complained:
            self._complained.add(endpoint)
            _log.warning("raft.peer.failed", peer=to, endpoint=endpoint, why=why)
