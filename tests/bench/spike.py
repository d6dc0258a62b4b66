"""The least a broker in Python can do: parse, check the CRC, write; parse, pread, write. To compare CPU with.

It keeps every topic as one partition of one file, and knows Produce 7, Fetch 11 and what librdkafka asks before.
Nothing is replicated, recovered, limited, counted or explained.
`python -m tests.bench.spike PORT FOLDER LOOPS` serves until killed.
"""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import threading
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct as Layout
from typing import Any

import uvloop
from crc32c import crc32c

from rookery.client.local.processes import wait_until
from rookery.core.wire.apis.api_versions import API_VERSIONS, ApiVersion, ApiVersionsResponse
from rookery.core.wire.apis.find_coordinator import FIND_COORDINATOR, FindCoordinatorResponse
from rookery.core.wire.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from rookery.core.wire.apis.metadata import (
    METADATA,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from rookery.core.wire.framing import FrameReader
from rookery.core.wire.request_header import read_request_fields
from tests.ports import free_ports

HOST = "127.0.0.1"
SERVED = {0: (3, 7), 1: (4, 11), 2: (1, 5), 3: (1, 8), 10: (0, 2), 18: (0, 3)}
_SHORT, _INT, _LONG = Layout(">h"), Layout(">i"), Layout(">q")
_BATCH_END = Layout(">i")  # last offset delta, at 23
_FETCH = Layout(">iiiibii")
_ASKED = Layout(">iiqqi")
_STAMP = Layout(">qii")  # base offset, length, leader epoch
_PRODUCED = Layout(">iihqqq")  # partitions, index, error, base offset, time, log start
_FETCHED = Layout(">iihi")  # correlation id, throttle, error, session
_READ = Layout(">iihqqqiii")  # partitions, index, error, high watermark, stable, log start, aborted, replica, size
EMPTY_S = 0.5


class Log:
    """One partition in one file."""

    def __init__(self, path: Path) -> None:
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self.end = self.size = 0
        self.offsets, self.positions = array("q"), array("q")
        self.waiting: list[tuple[Served, bytes]] = []

    def append(self, batch: memoryview) -> int:
        if crc32c(batch[21:]) != int.from_bytes(batch[17:21], "big"):
            raise ValueError("corrupt")
        base, (last,) = self.end, _BATCH_END.unpack_from(batch, 23)
        _STAMP.pack_into(batch, 0, base, len(batch) - 12, 0)
        os.write(self.file, batch)
        self.offsets.append(base)
        self.positions.append(self.size)
        self.size += len(batch)
        self.end = base + last + 1
        return base

    def read(self, offset: int, limit: int) -> bytes:
        if offset >= self.end:
            return b""
        at = bisect_right(self.offsets, offset) - 1
        return os.pread(self.file, limit, self.positions[at])


class Served(asyncio.BufferedProtocol):
    """One client."""

    def __init__(self, logs: dict[bytes, Log], folder: Path, port: int) -> None:
        self._logs, self._folder, self._port = logs, folder, port
        self._frames = FrameReader(100 << 20, 256 << 10)
        self._out: list[bytes | memoryview] = []

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._frames.received(nbytes)
        for frame in self._frames.frames():
            key = frame[1]
            if key == 0:
                self._produce(frame)
            elif key == 1:
                self._fetch(bytes(frame))
            else:
                self._other(frame)
        self._flush()

    def _flush(self) -> None:
        if self._out and not self._transport.is_closing():
            self._transport.writelines(self._out)
            self._out = []

    def log(self, topic: bytes) -> Log:
        found = self._logs.get(topic)
        if found is None:
            found = self._logs[topic] = Log(self._folder / topic.decode())
        return found

    def _produce(self, frame: memoryview) -> None:
        """One topic, one partition, as librdkafka sends it."""
        at = 10 + max(0, _SHORT.unpack_from(frame, 8)[0])
        at += 2 + max(0, _SHORT.unpack_from(frame, at)[0]) + 10
        (length,) = _SHORT.unpack_from(frame, at)
        topic = bytes(frame[at + 2 : at + 2 + length])
        index, size = _INT.unpack_from(frame, at + 6 + length)[0], _INT.unpack_from(frame, at + 10 + length)[0]
        log = self.log(topic)
        base = log.append(frame[at + 14 + length : at + 14 + length + size])
        done = _PRODUCED.pack(1, index, 0, base, -1, 0)
        body = b"".join((frame[4:8], _INT.pack(1), _SHORT.pack(length), topic, done, b"\0\0\0\0"))
        self._out.append(_INT.pack(len(body)) + body)
        if log.waiting:
            asyncio.get_running_loop().call_soon(_wake, log)

    def _fetch(self, frame: bytes, *, parked: bool = False) -> None:
        at = 10 + max(0, _SHORT.unpack_from(frame, 8)[0])
        max_bytes = _FETCH.unpack_from(frame, at)[3]
        at += _FETCH.size
        (topics,) = _INT.unpack_from(frame, at)
        if not topics:
            nothing = [_FETCHED.pack(*_INT.unpack_from(frame, 4), 0, 0, 0), _INT.pack(0)]
            asyncio.get_running_loop().call_later(EMPTY_S, self._send, nothing)
            return
        (length,) = _SHORT.unpack_from(frame, at + 4)
        topic = frame[at + 6 : at + 6 + length]
        index, _, offset, _, limit = _ASKED.unpack_from(frame, at + 10 + length)
        log = self.log(topic)
        data = log.read(offset, min(limit, max_bytes))
        if not data and not parked:
            place = (self, frame)
            log.waiting.append(place)
            asyncio.get_running_loop().call_later(EMPTY_S, _expire, log, place)
            return
        head = (
            _FETCHED.pack(*_INT.unpack_from(frame, 4), 0, 0, 0)
            + _INT.pack(1) + _SHORT.pack(length) + topic
            + _READ.pack(1, index, 0, log.end, log.end, 0, 0, -1, len(data))
        )  # fmt: skip
        self._out += (_INT.pack(len(head) + len(data)) + head, data)

    def answer_parked(self, frame: bytes) -> None:
        self._fetch(frame, parked=True)
        self._flush()

    def _send(self, segments: list[bytes]) -> None:
        self._transport.writelines([_INT.pack(sum(map(len, segments))), *segments])

    def _other(self, frame: memoryview) -> None:
        key, version, correlation, _, at = read_request_fields(frame)
        response: Any
        if key == API_VERSIONS.key:
            api: Any = API_VERSIONS
            keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in SERVED.items()]
            response = ApiVersionsResponse(api_keys=keys)
        elif key == METADATA.key:
            api = METADATA
            asked = METADATA.decode_request(version, frame, at).topics
            names = [each.name or "" for each in asked or ()]
            partition = MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1])
            response = MetadataResponse(
                brokers=[MetadataResponseBroker(node_id=1, host=HOST, port=self._port)],
                controller_id=1,
                topics=[MetadataResponseTopic(name=name, partitions=[partition]) for name in names],
            )
        elif key == FIND_COORDINATOR.key:
            api, response = FIND_COORDINATOR, FindCoordinatorResponse(node_id=1, host=HOST, port=self._port)
        else:
            api = LIST_OFFSETS
            topics = [
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(partition_index=0, offset=self.log(topic.name.encode()).end)
                    ],
                )
                for topic in LIST_OFFSETS.decode_request(version, frame, at).topics
            ]
            response = ListOffsetsResponse(topics=topics)
        header = _INT.pack(correlation) + (b"\0" if api.header_flexible(version) else b"")
        self._flush()
        self._send([header, *map(bytes, api.encode_response(version, response))])


def _wake(log: Log) -> None:
    waiting, log.waiting = log.waiting, []
    for client, frame in waiting:
        client.answer_parked(frame)


def _expire(log: Log, place: tuple[Served, bytes]) -> None:
    if place in log.waiting:
        log.waiting.remove(place)
        place[0].answer_parked(place[1])


async def serve(port: int, folder: Path, *, shared: bool = False) -> None:
    logs: dict[bytes, Log] = {}
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Served(logs, folder, port), HOST, port, reuse_port=shared)
    await server.serve_forever()


def serve_in_threads(port: int, folder: Path, loops: int) -> None:
    """Connections are spread over several loops, each in a thread. They share nothing, not even topics: what could be
    gained at best."""
    for number in range(loops - 1):
        own = folder / str(number)
        own.mkdir()
        threading.Thread(target=lambda own=own: uvloop.run(serve(port, own, shared=True)), daemon=True).start()
    uvloop.run(serve(port, folder, shared=loops > 1))


@contextmanager
def spike(loops: int = 1) -> Iterator[tuple[str, int]]:
    """A process of it: its address, its process id."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="bench-spike-") as folder:
        process = subprocess.Popen([sys.executable, "-m", "tests.bench.spike", str(port), folder, str(loops)])
        try:
            if not wait_until(lambda: _answers(port) or process.poll() is not None, 20) or process.poll() is not None:
                raise RuntimeError("the spike did not start")
            yield f"{HOST}:{port}", process.pid
        finally:
            process.kill()
            process.wait(10)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


if __name__ == "__main__":
    serve_in_threads(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
