"""Connections to a server of scripted handlers, with fake transports and a fake loop."""

from collections.abc import Callable
from struct import pack
from typing import Any

from rookery.broker.quotas.client_quotas import ClientQuotas
from rookery.broker.server.client import Call
from rookery.broker.server.connection import Connection, Shared
from rookery.broker.server.dispatch import Dispatch
from rookery.broker.server.memory import RequestMemory
from rookery.broker.server.request_metrics import RequestMetrics
from rookery.broker.server.secured import Protection, SecuredConnection
from rookery.broker.server.settings import ConnectionLimits, ServerSettings
from rookery.broker.server.sweep import Sweep
from rookery.core.wire.apis.metadata import METADATA, MetadataRequest, MetadataRequestTopic, MetadataResponse
from rookery.core.wire.header import read_response_header, request_frame
from rookery.core.wire.served import Served
from tests.unit.broker.server.fakes import FakeScheduler, FakeTransport

Script = Callable[[str, Call], Any]


class Scripted:
    """Serves Metadata; what a request asks for by name decides what happens."""

    served = Served(METADATA, 1, 12)

    def __init__(self, script: Script) -> None:
        self._script = script
        self.handled: list[str] = []

    def handle(self, request: MetadataRequest, call: Call) -> Any:
        name = (request.topics[0].name if request.topics else None) or ""
        self.handled.append(name)
        return self._script(name, call)


def answer(text: str, filler: int = 0) -> MetadataResponse:
    """A response that can be told from others, with `filler` bytes more."""
    return MetadataResponse(brokers=(), topics=(), cluster_id=text + "." * filler)


def at_once(name: str, call: Call) -> MetadataResponse:
    return answer(name)


def no_tasks(*_: object) -> Any:
    raise AssertionError("no handler here is a coroutine")


class Rig:
    """The server's side, and as many clients as a test needs."""

    def __init__(self, script: Script = at_once, reserved: str = "", **settings: Any) -> None:
        self.scheduler = FakeScheduler()
        self.settings = ServerSettings(**settings)
        self.handler = Scripted(script)
        self.metrics = RequestMetrics(self.scheduler.time)
        self.limits = ConnectionLimits(self.settings)
        self.memory = RequestMemory(self.settings.queued_request_bytes_max, self.scheduler.time)
        self.quotas = ClientQuotas(self.scheduler.time)
        self.sweep = Sweep(self.scheduler, 1.0, self.memory.look)
        self.sweep.start()
        self.shared = Shared(
            Dispatch([self.handler], self.metrics, no_tasks),
            self.settings,
            self.limits,
            self.memory,
            self.sweep,
            self.scheduler,
            self.metrics,
            self.scheduler.time,
            self.quotas,
            reserved=reserved,
        )

    def client(self, peer: str = "10.0.0.9", listener: str = "PLAINTEXT") -> "RigClient":
        return RigClient(self, peer, Connection(self.shared, listener))

    def stranger(self, protection: Protection, peer: str = "10.0.0.9", listener: str = "SECURE") -> "RigClient":
        """Somebody who has to show who they are."""
        return RigClient(self, peer, SecuredConnection(self.shared, listener, protection))


class RigClient:
    def __init__(self, rig: Rig, peer: str, connection: Connection) -> None:
        self._rig = rig
        self.transport = FakeTransport(peer)
        self.in_network = b""
        self.connection = connection
        self.connection.connection_made(self.transport)

    @property
    def is_open(self) -> bool:
        return not self.transport.closed

    def leave(self) -> None:
        self.connection.connection_lost(None)

    def receive(self, data: bytes, step: int = 1 << 30) -> None:
        """Bytes arrive, at most `step` at a time, as long as the connection reads; the rest waits in the
        network."""
        self.in_network += data
        self._deliver(step)

    def _deliver(self, step: int = 1 << 30) -> None:
        while self.in_network and self.transport.reading and self.is_open:
            room = self.connection.get_buffer(-1)
            count = min(len(room), step, len(self.in_network))
            room[:count] = self.in_network[:count]
            self.in_network = self.in_network[count:]
            self.connection.buffer_updated(count)

    def answers(self) -> list[str]:
        """The texts of the answers written so far."""
        self._rig.scheduler.run()
        self._deliver()
        self._rig.scheduler.run()
        return [self._text(frame) for frame in self.transport.take_frames()]

    def _text(self, frame: bytes) -> str:
        _, body = read_response_header(METADATA, 12, frame)
        return (METADATA.decode_response(12, frame, body).cluster_id or "").rstrip(".")


def frame_of(name: str, filler: int = 0) -> bytes:
    """A request by name; `filler` makes its frame larger by as many bytes, which no reader minds."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    body = b"".join(bytes(part) for part in request_frame(METADATA, 12, 0, "rig", request))[4:]
    return pack(">i", len(body) + filler) + body + bytes(filler)
