"""NATS JetStream, Redis Streams and RabbitMQ streams beside Rookery: one publisher, one server, messages on disk.

Whatever of them is in the PATH is measured (Debian: apt install nats-server redis-server rabbitmq-server). What is
missing is noted. A publisher sends encoded messages and counts acknowledgements, at most `WINDOW` of them outstanding,
so that the server is the limit. Not like for like: NATS and Redis handle each message singly, RabbitMQ takes frames of
100, a Kafka client puts thousands into a batch. So Rookery is shown twice, with batches and with one record a request.
"""

import asyncio
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from rookery.client.local.processes import wait_until
from tests.bench import c_load, loaders
from tests.bench.c_load import Load
from tests.cluster.local import local_cluster
from tests.ports import free_ports

HOST = "127.0.0.1"
SIZES = {100: 200_000, 1000: 100_000}
WINDOW = 2000
START_S = 60.0
FRAME = 100


class Figure(NamedTuple):
    rate: float
    cpu_us: float


class Publisher(asyncio.Protocol):
    """Sends `count` messages, at most `WINDOW` unacknowledged."""

    def __init__(self, encode: Callable[[int, int], bytes], acks: Callable[[bytearray], int], count: int) -> None:
        """`encode(first, how_many)` messages; `acks` takes whole acknowledgements out of a buffer and counts them."""
        self._encode, self._acks, self._count = encode, acks, count
        self._sent = self._acked = 0
        self._buffer = bytearray()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def begin(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        transport.set_protocol(self)
        self._send()

    def _send(self) -> None:
        room = min(WINDOW - (self._sent - self._acked), self._count - self._sent)
        if room >= FRAME or (room and self._sent + room == self._count):
            self._transport.write(self._encode(self._sent, room))
            self._sent += room

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._acked += self._acks(self._buffer)
        if self._acked >= self._count:
            if not self.done.done():
                self.done.set_result(None)
        else:
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            text = f"lost after {self._acked} of {self._count}: {self._buffer[:200]!r}"
            self.done.set_exception(ConnectionError(text))


def publish(
    sock: socket.socket, encode: Callable[[int, int], bytes], acks: Callable[[bytearray], int], count: int
) -> float:
    """Seconds for `count` messages over a connection that is ready for them."""

    async def run() -> float:
        sock.setblocking(False)
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=sock)
        publisher = Publisher(encode, acks, count)
        begun = time.monotonic()
        publisher.begin(transport)
        async with asyncio.timeout(120):
            await publisher.done
        seconds = time.monotonic() - begun
        transport.close()
        return seconds

    return asyncio.run(run())


def connect(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), 10)


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


@contextmanager
def server(words: list[str], port: int, environment: dict[str, str] | None = None) -> Iterator[int]:
    """A process that listens; its id."""
    process = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, env=environment
    )
    try:
        if not wait_until(lambda: answers(port) or process.poll() is not None, START_S) or process.poll() is not None:
            raise RuntimeError(f"{words[0]} did not start")
        yield process.pid
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)


# --- Redis ------------------------------------------------------------------------------------------------------


def _redis_acks(buffer: bytearray) -> int:
    """Each is a bulk string, of two lines."""
    lines = buffer.count(b"\r\n")
    whole = lines // 2
    if lines % 2:
        last = buffer.rindex(b"\r\n")
        del buffer[: buffer.rindex(b"\r\n", 0, last) + 2 if whole else 0]
    else:
        del buffer[: buffer.rindex(b"\r\n") + 2 if whole else 0]
    return whole


def redis(folder: Path) -> dict[int, Figure]:
    (port,) = free_ports(1)
    options = {"port": port, "bind": HOST, "dir": folder, "appendonly": "yes", "appendfsync": "everysec", "save": ""}
    command = ["redis-server", *(word for name, value in options.items() for word in (f"--{name}", str(value)))]
    found = {}
    with server(command, port) as pid:
        for size, count in SIZES.items():
            words = (b"XADD", b"b%d" % size, b"*", b"v", os.urandom(size))
            one = b"*5\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
            cpu = loaders.cpu_s(pid)
            seconds = publish(connect(port), lambda first, many, one=one: one * many, _redis_acks, count)  # type: ignore[misc]
            found[size] = Figure(count / seconds, (loaders.cpu_s(pid) - cpu) / count * 1e6)
    return found


# --- NATS -------------------------------------------------------------------------------------------------------


def _nats_acks(buffer: bytearray) -> int:
    """Each is a message on the inbox whose text has one sequence number."""
    end = buffer.rfind(b"}\r\n")
    if end < 0:
        return 0
    whole = buffer.count(b'"seq":', 0, end)
    del buffer[: end + 3]
    return whole


def nats(folder: Path) -> dict[int, Figure]:
    (port,) = free_ports(1)
    found = {}
    with server(["nats-server", "-js", "-sd", str(folder), "-a", HOST, "-p", str(port)], port) as pid:
        for size, count in SIZES.items():
            sock = connect(port)
            create = b'{"name":"b%d","subjects":["s%d"],"storage":"file"}' % (size, size)
            sock.sendall(b'CONNECT {"verbose":false}\r\nSUB made 1\r\n')
            sock.sendall(b"PUB $JS.API.STREAM.CREATE.b%d made %d\r\n%s\r\n" % (size, len(create), create))
            _until(sock, b"stream_create_response")
            sock.sendall(b"UNSUB 1\r\nSUB acks 2\r\n")
            one = b"PUB s%d acks %d\r\n%s\r\n" % (size, size, os.urandom(size))
            cpu = loaders.cpu_s(pid)
            seconds = publish(sock, lambda first, many, one=one: one * many, _nats_acks, count)  # type: ignore[misc]
            found[size] = Figure(count / seconds, (loaders.cpu_s(pid) - cpu) / count * 1e6)
    return found


def _until(sock: socket.socket, what: bytes) -> bytes:
    """Read until an answer has `what` in it, and is whole."""
    data = b""
    while what not in data or not data.endswith(b"\r\n"):
        more = sock.recv(65536)
        if not more:
            raise ConnectionError(f"no {what!r} in {data[:300]!r}")
        data += more
    return data


# --- RabbitMQ ---------------------------------------------------------------------------------------------------


def _frame(key: int, body: bytes) -> bytes:
    return struct.pack(">IHH", len(body) + 4, key, 1) + body


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _read_frame(sock: socket.socket) -> tuple[int, bytes]:
    def exactly(size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = sock.recv(size - len(data))
            if not more:
                raise ConnectionError("RabbitMQ closed the connection")
            data += more
        return data

    (size,) = struct.unpack(">I", exactly(4))
    data = exactly(size)
    return struct.unpack(">H", data[:2])[0] & 0x7FFF, data[4:]


def _ask(sock: socket.socket, key: int, body: bytes) -> None:
    sock.sendall(_frame(key, struct.pack(">I", 1) + body))
    while True:
        found, answer = _read_frame(sock)
        if found == key:
            (code,) = struct.unpack_from(">H", answer, 4)
            if code != 1:
                raise RuntimeError(f"RabbitMQ refused command {key} with code {code}")
            return


def _rabbit_login(port: int) -> socket.socket:
    sock = connect(port)
    _ask(sock, 0x11, struct.pack(">I", 0))
    _ask(sock, 0x12, b"")
    secret = b"\0guest\0guest"
    _ask(sock, 0x13, _text("PLAIN") + struct.pack(">I", len(secret)) + secret)
    key, tune = _read_frame(sock)
    if key != 0x14:
        raise RuntimeError(f"RabbitMQ sent {key}, not tune")
    sock.sendall(_frame(0x14, tune[:4] + struct.pack(">I", 0)))
    _ask(sock, 0x15, _text("/"))
    return sock


def _rabbit_acks(buffer: bytearray) -> int:
    whole = 0
    while len(buffer) >= 4:
        (size,) = struct.unpack_from(">I", buffer)
        if len(buffer) < 4 + size:
            break
        (key,) = struct.unpack_from(">H", buffer, 4)
        if key == 0x03:
            whole += struct.unpack_from(">I", buffer, 9)[0]
        del buffer[: 4 + size]
    return whole


def _rabbit_encode(first: int, many: int, body: bytes) -> bytes:
    frames = []
    for start in range(first, first + many, FRAME):
        ids = range(start, min(start + FRAME, first + many))
        messages = b"".join(struct.pack(">QI", each, len(body)) + body for each in ids)
        frames.append(_frame(0x02, struct.pack(">BI", 1, len(ids)) + messages))
    return b"".join(frames)


def rabbitmq(folder: Path) -> dict[int, Figure]:
    amqp, stream, distribution, epmd = free_ports(4)
    (folder / "plugins").write_text("[rabbitmq_stream].\n")
    (folder / "rabbitmq.conf").write_text(
        f"listeners.tcp.1 = {HOST}:{amqp}\nstream.listeners.tcp.1 = {HOST}:{stream}\n"
        f"stream.advertised_host = {HOST}\nstream.advertised_port = {stream}\n"
    )
    environment = {
        **os.environ,
        "HOME": str(folder),
        "RABBITMQ_NODENAME": "bench@localhost",
        "RABBITMQ_DIST_PORT": str(distribution),
        "ERL_EPMD_PORT": str(epmd),
        "ERL_EPMD_ADDRESS": HOST,
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
    }
    found = {}
    subprocess.run(["epmd", "-daemon"], env=environment, check=True, timeout=20)
    try:
        with server([_rabbit_command() or "rabbitmq-server"], stream, environment):
            pid = int((folder / "pid").read_text())
            for size, count in SIZES.items():
                sock = _rabbit_login(stream)
                _ask(sock, 0x0D, _text(f"b{size}") + struct.pack(">I", 0))
                _ask(sock, 0x01, struct.pack(">B", 1) + _text("") + _text(f"b{size}"))
                body = os.urandom(size)
                cpu = loaders.cpu_s(pid)
                seconds = publish(
                    sock, lambda first, many, body=body: _rabbit_encode(first, many, body), _rabbit_acks, count  # type: ignore[misc]
                )
                found[size] = Figure(count / seconds, (loaders.cpu_s(pid) - cpu) / count * 1e6)
    finally:
        subprocess.run(["epmd", "-kill"], env=environment, capture_output=True, check=False, timeout=20)
    return found


def _rabbit_command() -> str | None:
    """Not the wrapper in the PATH, which changes the user."""
    found = shutil.which("rabbitmq-server")
    return "/usr/lib/rabbitmq/bin/rabbitmq-server" if found == "/usr/sbin/rabbitmq-server" else found


# --- ours -------------------------------------------------------------------------------------------------------


def rookery(**options: object) -> dict[int, Figure]:
    found = {}
    with local_cluster(1) as cluster:
        pid = cluster.file.nodes[0].pid
        for size, count in SIZES.items():
            cluster.create_topic(f"b{size}", 1, 1)
            load = Load(cluster.bootstrap, f"b{size}", size, count)
            cpu = loaders.cpu_s(pid)
            done = c_load.produce(load, acks=1, **options)
            found[size] = Figure(done.records / done.seconds, (loaders.cpu_s(pid) - cpu) / done.records * 1e6)
    return found


UNBATCHED = {"linger.ms": 0, "batch.num.messages": 1, "max.in.flight.requests.per.connection": WINDOW}
OTHERS: tuple[tuple[str, str, Callable[[Path], dict[int, Figure]]], ...] = (
    ("NATS JetStream, file", "nats-server", nats),
    ("Redis Streams, AOF everysec", "redis-server", redis),
    ("RabbitMQ streams, frames of 100", "rabbitmq-server", rabbitmq),
)


def table(notes: list[str]) -> str:
    """A Markdown table of what is installed; what is not is noted."""
    found: list[tuple[str, dict[int, Figure]]] = [
        ("Rookery, batches, page cache", rookery()),
        ("Rookery, one record a request, page cache", rookery(**UNBATCHED)),
    ]
    for title, command, measure in OTHERS:
        if shutil.which(command) is None:
            notes.append(f"{title}: not measured, {command} is not installed (Debian: apt install {command})")
            continue
        with tempfile.TemporaryDirectory(prefix="bench-peer-", ignore_cleanup_errors=True) as folder:
            found.append((title, measure(Path(folder))))
            print(f"{title}: {found[-1][1]}", flush=True)
    head = "| one publisher, one server | 100 B, msg/s | µs/msg | 1 KB, msg/s | µs/msg |\n|---|---|---|---|---|\n"
    cells = (
        f"| {title} | " + " | ".join(f"{each.rate:,.0f} | {each.cpu_us:.2f}" for each in figures.values()) + " |"
        for title, figures in found
    )
    return head + "\n".join(cells)


if __name__ == "__main__":
    said: list[str] = []
    print(table(said), *said, sep="\n")
