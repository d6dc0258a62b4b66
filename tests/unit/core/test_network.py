import asyncio

import pytest

from rookery.core.net.network import Network, SocketNetwork
from rookery.core.testing.network import MemoryNetwork


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Collect(asyncio.BufferedProtocol):
    """Reads three bytes at a time, as a small receive buffer would."""

    def __init__(self) -> None:
        self._room = bytearray(3)
        self.got = b""
        self.changed = asyncio.Event()
        self.lost = asyncio.Event()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        self.got += self._room[:nbytes]
        self.changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()

    async def wait_for(self, expected: bytes) -> None:
        async with asyncio.timeout(30):
            while len(self.got) < len(expected):
                self.changed.clear()
                await self.changed.wait()
        assert self.got == expected


@pytest.mark.parametrize("network", [SocketNetwork(), MemoryNetwork(), MemoryNetwork(lambda a, b: 0.001)])
async def test_bytes_arrive_in_order_and_close_is_seen(network: Network) -> None:
    listening = await network.listen(Echo, "127.0.0.1", 0)
    collect = Collect()
    transport = await network.connect(lambda: collect, *listening.address)
    for part in (b"jackdaw ", b"", b"in a rookery"):
        transport.write(part)
    await collect.wait_for(b"jackdaw in a rookery")
    transport.close()
    async with asyncio.timeout(30):
        await collect.lost.wait()
    await listening.close()


async def test_nobody_listens() -> None:
    with pytest.raises(ConnectionRefusedError, match="nothing answers at"):
        await MemoryNetwork().connect(Echo, "127.0.0.1", 1)


async def test_a_cut_silences_one_direction_only() -> None:
    network = MemoryNetwork()
    heard: list[bytes] = []

    class Listen(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            heard.append(data)

    await network.listen(Listen, "b", 1)
    transport = network.connect_from("a", Collect, "b", 1)
    network.cut("a", "b")
    transport.write(b"lost")
    await asyncio.sleep(0)
    network.heal()
    transport.write(b"heard")
    await asyncio.sleep(0)
    assert heard == [b"heard"]


async def test_a_paused_reader_gets_everything_later() -> None:
    network = MemoryNetwork()
    listening = await network.listen(Echo, "b", 1)
    collect = Collect()
    transport = await network.connect(lambda: collect, *listening.address)
    transport.pause_reading()
    transport.write(b"abcdef")
    for _ in range(5):
        await asyncio.sleep(0)
    assert collect.got == b""
    transport.resume_reading()
    await collect.wait_for(b"abcdef")
