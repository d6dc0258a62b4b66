"""A network of one process: it joins a client's and a server's protocol with transports in memory.

Deliveries go through the event loop, so under a simulated loop they happen in virtual time. `cut` and `delay_s` are
where faults are injected.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from ssl import SSLContext

from rookery.core.net.network import Address, Listening, ProtocolFactory
from rookery.core.net.tls_listener import TlsAdmission


class MemoryTransport(asyncio.Transport):
    """One end of a connection in memory. Bytes written here arrive at the other end's protocol, in order."""

    def __init__(self, network: "MemoryNetwork", protocol: asyncio.BaseProtocol, here: Address) -> None:
        self._addresses: dict[str, object] = {"sockname": here}
        super().__init__(self._addresses)
        self._network = network
        self._protocol = protocol
        self._here = here
        self._other: MemoryTransport | None = None
        self._inbox: deque[bytes] = deque()
        self._reading = True
        self._closing = False
        self._ended = False

    def pair(self, other: "MemoryTransport") -> None:
        self._other, other._other = other, self
        self._addresses["peername"], other._addresses["peername"] = other._here, self._here

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or self._other is None or not data:
            return
        self._network.deliver(self._here, self._other._here, self._other.receive, bytes(data))

    def writelines(self, list_of_data: "list[bytes | bytearray | memoryview]") -> None:  # type: ignore[override]
        self.write(b"".join(list_of_data))

    def receive(self, data: bytes) -> None:
        self._inbox.append(data)
        self._drain()

    def _drain(self) -> None:
        while self._inbox and self._reading and not self._closing:
            self._hand_over(self._inbox.popleft())

    def _hand_over(self, data: bytes) -> None:
        if not isinstance(self._protocol, asyncio.BufferedProtocol):
            self._protocol.data_received(data)  # type: ignore[attr-defined]
            return
        rest = memoryview(data)
        while rest and not self._closing:
            room = memoryview(self._protocol.get_buffer(len(rest)))
            taken = min(len(room), len(rest))
            room[:taken] = rest[:taken]
            self._protocol.buffer_updated(taken)
            rest = rest[taken:]

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        asyncio.get_running_loop().call_soon(self._drain)

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._end(None)

    def abort(self) -> None:
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        if self._ended:
            return
        self._closing = self._ended = True
        asyncio.get_running_loop().call_soon(self._protocol.connection_lost, error)
        if self._other is not None:
            self._network.deliver(self._here, self._other._here, self._other.peer_closed, b"")

    def peer_closed(self, _: bytes) -> None:
        self._end(None)

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is buffered here: bytes are handed to the network at once."""


class _MemoryListening:
    def __init__(self, network: "MemoryNetwork", address: Address) -> None:
        self._network, self._address = network, address

    @property
    def address(self) -> Address:
        return self._address

    async def close(self) -> None:
        self._network.forget(self._address)


class MemoryNetwork:
    """A network of one process. `delay_s` holds each delivery back; `cut` silences a direction."""

    def __init__(self, delay_s: Callable[[Address, Address], float] | None = None) -> None:
        self._delay_s = delay_s
        self._listeners: dict[Address, ProtocolFactory] = {}
        self._cut: set[tuple[str, str]] = set()
        self._last_port = 50_000
        self._last_arrival: dict[tuple[Address, Address], float] = {}

    def cut(self, from_host: str, to_host: str) -> None:
        """From now on nothing sent by `from_host` reaches `to_host`; one direction only."""
        self._cut.add((from_host, to_host))

    def heal(self) -> None:
        self._cut.clear()

    def forget(self, address: Address) -> None:
        self._listeners.pop(address, None)

    async def listen(
        self,
        factory: ProtocolFactory,
        host: str,
        port: int,
        backlog: int = 50,
        tls: TlsAdmission | None = None,
    ) -> Listening:
        _refuse_tls(tls)
        address = (host, port or self._free_port())
        if address in self._listeners:
            raise OSError(f"the address {host}:{port} is in use")
        self._listeners[address] = factory
        return _MemoryListening(self, address)

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, tls: SSLContext | None = None
    ) -> asyncio.Transport:
        _refuse_tls(tls)
        return self.connect_from("127.0.0.1", factory, host, port)

    def connect_from(
        self, from_host: str, factory: ProtocolFactory, host: str, port: int
    ) -> asyncio.Transport:
        """Connect as a named host would, so that cuts between hosts apply."""
        accept = self._listeners.get((host, port))
        if accept is None or (from_host, host) in self._cut or (host, from_host) in self._cut:
            raise ConnectionRefusedError(f"nothing answers at {host}:{port}")
        near = MemoryTransport(self, factory(), (from_host, self._free_port()))
        far = MemoryTransport(self, accept(), (host, port))
        near.pair(far)
        far._protocol.connection_made(far)
        near._protocol.connection_made(near)
        return near

    def deliver(self, source: Address, target: Address, arrive: Callable[[bytes], None], data: bytes) -> None:
        if (source[0], target[0]) in self._cut:
            return
        loop = asyncio.get_running_loop()
        if self._delay_s is None:
            loop.call_soon(arrive, data)
            return
        link = (source, target)
        at = max(loop.time() + self._delay_s(source, target), self._last_arrival.get(link, 0.0))
        self._last_arrival[link] = at
        loop.call_at(at, arrive, data)

    def _free_port(self) -> int:
        self._last_port += 1
        return self._last_port


def _refuse_tls(tls: object) -> None:
    if tls is not None:
        raise ValueError("connections in memory are not encrypted")
