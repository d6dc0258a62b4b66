"""Simulated hosts on one network: byte streams between the processes of one event loop.

A stream loses nothing and keeps its order: what cannot pass waits, and when the link is whole again it passes, or the
connection is reset. A killed process closes its connections, as its kernel would; a host without power says nothing,
and its peers learn of it when it is back.
"""

import asyncio
import socket
from collections.abc import Callable
from random import Random
from typing import Any, Generic, TypeVar

from rookery.core.net.network import Address, Listening, ProtocolFactory
from rookery.core.testing.network import MemoryTransport
from rookery.core.testing.process import Process, current

RESET = 0.3
"""How often a connection that was cut off is reset when the link is whole again."""
NEVER_S = 10_000.0
Host = TypeVar("Host")


class Links(Generic[Host]):
    """Who reaches whom: links are cut one way or both ways."""

    def __init__(self) -> None:
        self._cut: dict[tuple[Host, Host], None] = {}

    def cut(self, source: Host, target: Host) -> None:
        """From now on nothing gets from `source` to `target`."""
        self._cut[source, target] = None

    def heal(self) -> None:
        """All links are whole again."""
        self._cut.clear()

    def is_cut(self, source: Host, target: Host) -> bool:
        return (source, target) in self._cut

    def linked(self, one: Host, other: Host) -> bool:
        """Whether requests and answers can pass."""
        return one == other or not (self.is_cut(one, other) or self.is_cut(other, one))


class SimTransport(MemoryTransport):
    """One end of a connection; belongs to a process and dies with it."""

    def __init__(
        self, network: "SimNetwork", protocol: asyncio.BaseProtocol, here: Address, process: Process
    ) -> None:
        super().__init__(network, protocol, here)  # type: ignore[arg-type]
        self.process = process
        self.waiting: list[tuple[Callable[[bytes], None], bytes]] = []
        """What has not got through to this end."""
        self.last_arrival = 0.0

    @property
    def other(self) -> "SimTransport":
        if not isinstance(self._other, SimTransport):
            raise RuntimeError("not connected")
        return self._other

    @property
    def ended(self) -> bool:
        return self._ended

    def _end(self, error: Exception | None) -> None:
        if self.process.alive:
            super()._end(error)

    def reset(self) -> None:
        """The other end is gone."""
        if not self._ended and self.process.alive:
            self._closing = self._ended = True
            self._protocol.connection_lost(ConnectionResetError("connection reset by peer"))

    def accept(self) -> None:
        self._protocol.connection_made(self)


class _SimListening:
    def __init__(self, network: "SimNetwork", address: Address) -> None:
        self._network = network
        self._address = address

    @property
    def address(self) -> Address:
        return self._address

    async def close(self) -> None:
        self._network.listeners.pop(self._address, None)


class HostNetwork:
    """The network as the running process sees it."""

    def __init__(self, network: "SimNetwork") -> None:
        self._network = network

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, *buffers: object
    ) -> asyncio.Transport:
        return await self._network.connect(current(), factory, (host, port))

    async def listen(
        self, factory: ProtocolFactory, host: str, port: int, backlog: int = 50, *buffers: object
    ) -> Listening:
        return self._network.listen(current(), factory, (host, port))


class SimNetwork(Links[str]):
    def __init__(self, loop: asyncio.AbstractEventLoop, rng: Random, delay_mean_s: float) -> None:
        super().__init__()
        self._loop = loop
        self._rng = rng
        self._delay_mean_s = delay_mean_s
        self._slow: dict[tuple[str, str], float] = {}
        self._dark: dict[str, None] = {}
        self._unnamed: dict[str, None] = {}
        self._last_port = 50_000
        self._ends: dict[SimTransport, None] = {}
        self.listeners: dict[Address, tuple[ProtocolFactory, Process]] = {}
        self.changed: list[Callable[[], None]] = []
        """Called when links or hosts went down or came back."""

    # --- faults ----------------------------------------------------------------------------------------------

    def cut(self, source: str, target: str) -> None:
        super().cut(source, target)
        self._announce()

    def slow(self, source: str, target: str, delay_s: float) -> None:
        self._slow[source, target] = delay_s

    def forget_name(self, host: str) -> None:
        """Other hosts cannot resolve its name: connections stay, but no new one is made to it."""
        self._unnamed[host] = None

    def resolves(self, source: str, target: str) -> bool:
        return source == target or target not in self._unnamed

    def heal(self) -> None:
        """All links are whole and quick again, and names are known."""
        super().heal()
        self._slow.clear()
        self._unnamed.clear()
        for end in [end for end in self._ends if end.waiting]:
            if not self._cannot_arrive(end):
                self._pass_on(end)
        self._announce()

    def mend(self, one: str, other: str) -> None:
        """The link between two hosts is whole again, both ways."""
        for way in ((one, other), (other, one)):
            self._cut.pop(way, None)
            self._slow.pop(way, None)
        for end in [end for end in self._ends if end.waiting]:
            if {end.process.host, end.other.process.host} == {one, other} and not self._cannot_arrive(end):
                self._pass_on(end)
        self._announce()

    def is_cut(self, source: str, target: str) -> bool:
        return super().is_cut(source, target) or source in self._dark or target in self._dark

    def power_off(self, host: str) -> None:
        self._dark[host] = None
        self._announce()

    def power_on(self, host: str) -> None:
        """The host answers for what it had before: nothing is known of those connections."""
        self._dark.pop(host, None)
        self._announce()
        for end in list(self._ends):
            if end.other.process.host == host and not end.other.process.alive:
                self._loop.call_later(self.delay_s(host, end.process.host), end.reset, context=end.process.context)

    def _announce(self) -> None:
        for react in self.changed:
            react()

    def killed(self, process: Process) -> None:
        """The kernel closes what the process had open."""
        for address in [a for a, (_, owner) in self.listeners.items() if owner is process]:
            del self.listeners[address]
        for end in [end for end in self._ends if end.process is process]:
            del self._ends[end]
            peer = end.other
            if process.host not in self._dark and peer.process.alive:
                self._arrive_later(end, peer, lambda _, peer=peer: peer.reset(), b"")  # type: ignore[misc]

    # --- connections -----------------------------------------------------------------------------------------

    def listen(self, process: Process, factory: ProtocolFactory, address: Address) -> Listening:
        if address in self.listeners:
            raise OSError(f"the address {address} is in use")
        self.listeners[address] = (factory, process)
        return _SimListening(self, address)

    async def connect(self, process: Process, factory: ProtocolFactory, address: Address) -> asyncio.Transport:
        host = address[0]
        await asyncio.sleep(self.delay_s(process.host, host) + self.delay_s(host, process.host))
        if not self.resolves(process.host, host):
            raise socket.gaierror(socket.EAI_NONAME, f"the name {host} is not known")
        if not self.linked(process.host, host):
            await asyncio.sleep(NEVER_S)
        found = self.listeners.get(address)
        if found is None:
            raise ConnectionRefusedError(f"nothing answers at {address}")
        accept, owner = found
        self._last_port += 1
        near = SimTransport(self, factory(), (process.host, self._last_port), process)
        far = SimTransport(self, owner.context.copy().run(accept), address, owner)
        near.pair(far)
        self._ends[near] = self._ends[far] = None
        self._loop.call_soon(far.accept, context=owner.context.copy())
        near.accept()
        return near

    def delay_s(self, source: str, target: str) -> float:
        drawn = self._rng.expovariate(1.0) * self._delay_mean_s
        return drawn + self._slow.get((source, target), 0.0) * self._rng.random()

    def deliver(self, source: Address, target: Address, arrive: Callable[[bytes], None], data: bytes) -> None:
        """Called by transports."""
        end: Any = arrive.__self__  # type: ignore[attr-defined]
        if end.other.process.alive:
            self._arrive_later(end.other, end, arrive, data)

    def _arrive_later(
        self, sender: SimTransport, end: SimTransport, arrive: Callable[[bytes], None], data: bytes
    ) -> None:
        at = max(self._loop.time() + self.delay_s(sender.process.host, end.process.host), end.last_arrival)
        end.last_arrival = at
        self._loop.call_at(at, self._arrive, end, arrive, data, context=end.process.context)

    def _arrive(self, end: SimTransport, arrive: Callable[[bytes], None], data: bytes) -> None:
        if end.ended:
            self._ends.pop(end, None)
        elif end.waiting or self.is_cut(end.other.process.host, end.process.host):
            end.waiting.append((arrive, data))
        else:
            arrive(data)

    def _cannot_arrive(self, end: SimTransport) -> bool:
        return self.is_cut(end.other.process.host, end.process.host)

    def _pass_on(self, end: SimTransport) -> None:
        """What waited passes, or the connection is reset: then both ends learn of it."""
        waiting, end.waiting = end.waiting, []
        if self._rng.random() < RESET:
            for side in (end, end.other):
                side.waiting = []
                self._loop.call_soon(side.reset, context=side.process.context)
            return
        for arrive, data in waiting:
            self._arrive_later(end.other, end, arrive, data)
