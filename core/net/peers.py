"""Connections to the nodes of a cluster: one for each address, opened when needed and shared by who asks.

All clients of the Kafka protocol use this: followers, the lag meter, and the client library. Requests of one connection
are pipelined and answered in order, so callers whose requests wait at the node for long (a follower's fetch) have peers
of their own.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from rookery.core.errors import KafkaError, UnsupportedVersionError
from rookery.core.net.backoff import Backoff, BackoffSettings
from rookery.core.net.connection import CONNECT_TIMEOUT_S, Connection, ConnectionLostError
from rookery.core.net.network import Address, Network, SocketNetwork
from rookery.core.net.security import PLAINTEXT, Security
from rookery.core.wire.api import Api
from rookery.core.wire.schema import Struct

Req = TypeVar("Req", bound=Struct)
Resp = TypeVar("Resp", bound=Struct)


@dataclass(frozen=True, slots=True)
class PeerLimits:
    """Bounds of all connections together and of each one."""

    connections_max: int = 1000
    in_flight_max: int = 1000
    """Requests that wait for an answer on one connection; further ones wait for their turn."""
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    backoff: BackoffSettings = field(default_factory=BackoffSettings)


class _Peer:
    """One address."""

    def __init__(self, backoff: Backoff, in_flight_max: int) -> None:
        self.connection: Connection | None = None
        self.opening = asyncio.Lock()
        self.turns = asyncio.Semaphore(in_flight_max)
        self.backoff = backoff
        self.not_before = 0.0
        self.reason = ""

    @property
    def idle(self) -> bool:
        connection = self.connection
        return not self.opening.locked() and (connection is None or connection.closed or not connection.waiting)


class Peers:
    """The connections of one user to one cluster, all with one client id and one way of being secured."""

    def __init__(
        self,
        client_id: str,
        *,
        network: Network | None = None,
        security: Security = PLAINTEXT,
        limits: PeerLimits | None = None,
        rng: Random | None = None,
    ) -> None:
        self._client_id = client_id
        self._network = network or SocketNetwork()
        self._security = security
        self._limits = limits or PeerLimits()
        self._rng = rng or Random()
        self._peers: OrderedDict[Address, _Peer] = OrderedDict()
        self.opened = 0
        """Connections opened."""
        self.failed = 0
        """Attempts to connect that failed, and connections of no use."""
        self.requests = 0

    @property
    def connections(self) -> int:
        """Open now."""
        return sum(p.connection is not None and not p.connection.closed for p in self._peers.values())

    async def ask(
        self,
        address: Address,
        api: Api[Req, Resp],
        request: Req,
        *,
        timeout_s: float,
        at_least: int = 0,
        at_most: int | None = None,
    ) -> Resp:
        """Ask one node, in the highest version that both speak. Raises OSError, ConnectionLostError, or
        UnsupportedVersionError; a node that does not answer in time loses its connection."""
        peer = self._peer(address)
        try:
            async with asyncio.timeout(timeout_s):
                await peer.turns.acquire()
        except TimeoutError:
            host, port = address
            raise ConnectionLostError(f"{host}:{port} has too many requests to answer") from None
        try:
            connection = await self.connection(address)
            version = connection.version_for(api, at_most)
            if version < at_least:
                host, port = address
                raise UnsupportedVersionError(f"{host}:{port} serves {api.name} up to version {version}")
            self.requests += 1
            answer = await connection.request(api, version, request, timeout_s)
            peer.backoff.succeeded()
            return answer
        finally:
            peer.turns.release()

    async def connection(self, address: Address) -> Connection:
        """The connection to an address. While one is being opened others wait for it; after a failure no other
        attempt is made for a while, and callers get the reason at once."""
        peer = self._peer(address)
        if peer.connection is not None and not peer.connection.closed:
            return peer.connection
        async with peer.opening:
            if peer.connection is None or peer.connection.closed:
                peer.connection = await self._open(address, peer)
            return peer.connection

    def pause_s(self, address: Address) -> float:
        """How long until another attempt to connect may be made."""
        return max(0.0, self._peer(address).not_before - asyncio.get_running_loop().time())

    def served(self, address: Address) -> None:
        """The node answered a caller that has a connection of its own: the next failure counts as the first one."""
        self._peer(address).backoff.succeeded()

    def gave_up(self, address: Address, reason: Exception) -> float:
        """A connection was opened and could not be used; returns how long to wait before the next attempt."""
        peer = self._peer(address)
        self._failed(peer, reason)
        return self.pause_s(address)

    def close(self) -> None:
        for peer in self._peers.values():
            if peer.connection is not None:
                peer.connection.close()
        self._peers.clear()

    async def _open(self, address: Address, peer: _Peer) -> Connection:
        host, port = address
        wait_s = self.pause_s(address)
        if wait_s:
            raise ConnectionLostError(f"{host}:{port} is tried again in {wait_s * 1000:.0f} ms: {peer.reason}")
        try:
            connection = await Connection.open(
                host,
                port,
                client_id=self._client_id,
                network=self._network,
                security=self._security,
                timeout_s=self._limits.connect_timeout_s,
            )
        except (OSError, ConnectionLostError, KafkaError) as error:
            self._failed(peer, error)
            raise
        self.opened += 1
        return connection

    def _failed(self, peer: _Peer, reason: Exception) -> None:
        self.failed += 1
        peer.reason = str(reason) or type(reason).__name__
        peer.not_before = asyncio.get_running_loop().time() + peer.backoff.failed()

    def _peer(self, address: Address) -> _Peer:
        peer = self._peers.get(address)
        if peer is None:
            self._make_room()
            peer = _Peer(Backoff(self._limits.backoff, self._rng), self._limits.in_flight_max)
            self._peers[address] = peer
        self._peers.move_to_end(address)
        return peer

    def _make_room(self) -> None:
        """Close the connection that was used longest ago and is not waited for."""
        if len(self._peers) < self._limits.connections_max:
            return
        oldest = next((address for address, peer in self._peers.items() if peer.idle), None)
        if oldest is None:
            raise ConnectionLostError(f"{len(self._peers)} connections are in use, and no more are allowed")
        connection = self._peers.pop(oldest).connection
        if connection is not None:
            connection.close()
