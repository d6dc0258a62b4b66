"""Sending log bytes to a consumer: pread or sendfile, with the socket alone and inside uvloop.

The same bytes go from one file in the page cache to a process that throws them away, over loopback and over a
veth pair into a network namespace. The contestants take turns; CPU time is the sender's own.
"""

import asyncio
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import uvloop

TOTAL = 192 << 20
FILE = 64 << 20
CHUNKS = (16 << 10, 256 << 10, 1 << 20)
ROUNDS = 4
SINK = """
import socket, sys
server = socket.create_server((sys.argv[1], 0))
print(server.getsockname()[1], flush=True)
buffer = bytearray(1 << 20)
while True:
    peer, _ = server.accept()
    left = int.from_bytes(peer.recv(8, socket.MSG_WAITALL), "big")
    while left:
        left -= peer.recv_into(buffer)
    peer.sendall(b"k")
    peer.close()
"""

Sender = Callable[[socket.socket, int, int], None]


def positions(chunk: int) -> Iterator[int]:
    for sent in range(0, TOTAL, chunk):
        yield sent % FILE


def pread_and_send(peer: socket.socket, file: int, chunk: int) -> None:
    ready = select.poll()
    ready.register(peer, select.POLLOUT)
    for position in positions(chunk):
        rest = memoryview(os.pread(file, chunk, position))
        while rest:
            try:
                rest = rest[peer.send(rest) :]
            except BlockingIOError:
                ready.poll()


def sendfile(peer: socket.socket, file: int, chunk: int) -> None:
    ready = select.poll()
    ready.register(peer, select.POLLOUT)
    for position in positions(chunk):
        end = position + chunk
        while position < end:
            try:
                position += os.sendfile(peer.fileno(), file, position, end - position)
            except BlockingIOError:
                ready.poll()


class _Writer(asyncio.Protocol):
    """Writes while the transport's buffer has room, as a connection that answers fetches does."""

    def __init__(self) -> None:
        self.room = asyncio.Event()
        self.room.set()

    def pause_writing(self) -> None:
        self.room.clear()

    def resume_writing(self) -> None:
        self.room.set()


def _through_transport(peer: socket.socket, file: int, chunk: int, *, try_sendfile: bool) -> None:
    """Write by the transport; with `try_sendfile` only what the socket does not take at once."""

    async def send() -> None:
        transport, writer = await asyncio.get_running_loop().create_connection(_Writer, sock=peer.dup())
        transport.pause_reading()  # the sink's answer is for whoever measures
        transport.set_write_buffer_limits(high=1 << 20)
        for position in positions(chunk):
            sent = 0
            if try_sendfile and not transport.get_write_buffer_size():
                with suppress(BlockingIOError):
                    sent = os.sendfile(peer.fileno(), file, position, chunk)
            if sent < chunk:
                transport.write(os.pread(file, chunk - sent, position + sent))
            await writer.room.wait()
        transport.set_write_buffer_limits(high=0)
        while transport.get_write_buffer_size():
            await writer.room.wait()
            await asyncio.sleep(0)
        transport.abort()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(send())


def pread_and_transport(peer: socket.socket, file: int, chunk: int) -> None:
    _through_transport(peer, file, chunk, try_sendfile=False)


def sendfile_else_transport(peer: socket.socket, file: int, chunk: int) -> None:
    _through_transport(peer, file, chunk, try_sendfile=True)


def sendfile_in_loop(peer: socket.socket, file: int, chunk: int) -> None:
    async def send() -> None:
        loop, fd = asyncio.get_running_loop(), peer.fileno()
        for position in positions(chunk):
            end = position + chunk
            while position < end:
                try:
                    position += os.sendfile(fd, file, position, end - position)
                except BlockingIOError:
                    ready = loop.create_future()
                    loop.add_writer(fd, ready.set_result, None)
                    await ready
                    loop.remove_writer(fd)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(send())


CONTESTANTS: dict[str, Sender] = {
    "pread+send": pread_and_send,
    "sendfile": sendfile,
    "pread+uvloop": pread_and_transport,
    "sendfile+uvloop": sendfile_in_loop,
    "either+uvloop": sendfile_else_transport,
}


def one_turn(address: tuple[str, int], sender: Sender, file: int, chunk: int) -> tuple[float, float]:
    """CPU milliseconds of the sender per MB, and MB a second."""
    with socket.create_connection(address, timeout=60) as peer:
        peer.sendall(TOTAL.to_bytes(8, "big"))
        peer.setblocking(False)
        wall, used = time.perf_counter(), time.process_time()
        sender(peer, file, chunk)
        used = time.process_time() - used
        peer.settimeout(60)
        if peer.recv(1) != b"k":
            raise ConnectionError("the sink did not get all bytes")
        return used / TOTAL * 1e9, TOTAL / (time.perf_counter() - wall) / 1e6


@contextmanager
def sink(host: str, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, int]]:
    process = subprocess.Popen([*prefix, sys.executable, "-c", SINK, host], stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout is None:
            raise RuntimeError("the sink has no output")
        yield host, int(process.stdout.readline())
    finally:
        process.kill()
        process.wait(10)


@contextmanager
def namespace() -> Iterator[tuple[str, tuple[str, ...]]]:
    """A network namespace joined by a veth pair: its address, and the command prefix that runs inside."""
    name, pair = f"rk{os.getpid()}", f"rkv{os.getpid()}"
    ip = ("ip", "netns", "exec", name)
    steps = [
        ("ip", "netns", "add", name),
        ("ip", "link", "add", pair, "type", "veth", "peer", "name", "inside", "netns", name),
        ("ip", "addr", "add", "10.213.77.1/30", "dev", pair),
        ("ip", "link", "set", pair, "up"),
        (*ip, "ip", "addr", "add", "10.213.77.2/30", "dev", "inside"),
        (*ip, "ip", "link", "set", "inside", "up"),
    ]
    try:
        for words in steps:
            subprocess.run(words, check=True, capture_output=True, timeout=20)
        yield "10.213.77.2", ip
    finally:
        with suppress(subprocess.CalledProcessError):
            subprocess.run(("ip", "netns", "del", name), check=True, capture_output=True, timeout=20)


def compare(where: str, address: tuple[str, int], file: int) -> None:
    for chunk in CHUNKS:
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in CONTESTANTS}
        for _ in range(ROUNDS):
            for name, sender in CONTESTANTS.items():
                taken[name].append(one_turn(address, sender, file, chunk))
        base = median(used for used, _ in taken["pread+send"])
        for name, results in taken.items():
            used, rate = (median(values) for values in zip(*results, strict=True))
            print(f"{where:<10}{chunk >> 10:>6} KB  {name:<16}{used:>8.3f}{used / base:>8.2f}{rate:>9.0f}", flush=True)


def main() -> None:
    print(f"{'over':<10}{'chunk':>9}  {'way':<16}{'ms/MB':>8}{'ratio':>8}{'MB/s':>9}")
    with TemporaryDirectory(dir=Path(__file__).parents[2] / "build") as folder:
        file = os.open(f"{folder}/segment", os.O_RDWR | os.O_CREAT)
        os.write(file, os.urandom(FILE))
        try:
            with sink("127.0.0.1") as address:
                compare("loopback", address, file)
            if os.geteuid() != 0:
                print("a veth pair needs root")
                return
            with namespace() as (host, prefix), sink(host, prefix) as address:
                compare("veth", address, file)
        finally:
            os.close(file)


if __name__ == "__main__":
    main()
