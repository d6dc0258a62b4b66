"""A client of a broker without sockets: frames go straight into a real connection, time moves when told
to."""

import asyncio
from collections.abc import Sequence
from typing import Any

from rookery.broker.server.connection import Connection, Shared
from rookery.broker.server.sweep import Sweep
from rookery.core.errors import ErrorCode
from rookery.core.metadata.requests import ConfigEntry, CreateTopicsRequest, NewTopic
from rookery.core.testing.clock import ManualClock
from rookery.core.wire.api import Api
from rookery.core.wire.apis.fetch import (
    FETCH,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from rookery.core.wire.apis.produce import (
    PRODUCE,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from rookery.core.wire.header import read_response_header, request_frame
from rookery.core.wire.records import Record, build_batch
from tests.unit.broker.one_broker import LISTENER, OneBroker
from tests.unit.broker.server.fakes import FakeScheduler, FakeTransport

NOW_MS = 1_700_000_000_000
WAIT_S = 30.0


def feed(connection: Connection, data: bytes, step: int = 1 << 30) -> None:
    """Hand bytes to a connection as a transport would, at most `step` at a time."""
    rest = memoryview(data)
    while rest:
        room = connection.get_buffer(-1)
        taken = min(len(room), len(rest), step)
        room[:taken] = rest[:taken]
        connection.buffer_updated(taken)
        rest = rest[taken:]


class Talk:
    """One connection to a broker, from the client's side."""

    def __init__(self, broker: "QuietBroker", listener: str = LISTENER) -> None:
        self._broker = broker
        self.transport = FakeTransport()
        self.connection = Connection(broker.shared, listener)
        self.connection.connection_made(self.transport)
        self._asked: list[tuple[Api[Any, Any], int]] = []
        self._answered = 0

    @property
    def is_open(self) -> bool:
        return not self.transport.closed

    def send(self, api: Api[Any, Any], version: int, request: Any, client_id: str | None = "test") -> int:
        """Send without waiting; the number of the request is its correlation id."""
        number = len(self._asked)
        self._asked.append((api, version))
        feed(self.connection, b"".join(request_frame(api, version, number, client_id, request)))
        return number

    def receive(self) -> list[Any]:
        """The answers that have come, in order; each must be for the oldest request not answered yet."""
        self._broker.scheduler.run()
        answers = []
        for frame in self.transport.take_frames():
            api, version = self._asked[self._answered]
            correlation, body = read_response_header(api, version, frame)
            assert correlation == self._answered, "answers must come in the order of requests"
            self._answered += 1
            answers.append(api.decode_response(version, frame, body))
        return answers

    async def ask(self, api: Api[Any, Any], version: int, request: Any) -> Any:
        """Send one request and wait for its answer, without letting the broker's time pass."""
        self.send(api, version, request)
        (answer,) = await self.receive_some(1)
        return answer

    async def receive_some(self, count: int) -> list[Any]:
        """Wait for `count` answers, which other threads may have to make."""
        answers: list[Any] = []
        async with asyncio.timeout(WAIT_S):
            while True:
                answers += self.receive()
                if len(answers) >= count:
                    assert len(answers) == count
                    return answers
                assert self.is_open, "the broker closed the connection"
                await asyncio.sleep(0)

    # --- produce and fetch, in short ----------------------------------------------------------------------

    async def produce(self, topic: str, batch: bytes, **options: Any) -> PartitionProduceResponse:
        version = options.pop("version", 11)
        answer: ProduceResponse = await self.ask(PRODUCE, version, produce_request(topic, batch, **options))
        return answer.responses[0].partition_responses[0]

    async def fetch(self, topic: str, offset: int, **options: Any) -> PartitionData:
        version = options.pop("version", 12)
        answer: FetchResponse = await self.ask(FETCH, version, fetch_request(topic, offset, **options))
        assert answer.error_code == ErrorCode.NONE
        return answer.responses[0].partitions[0]


class QuietBroker(OneBroker):
    """A broker whose waits end only when a test says so, and whose clock stands still meanwhile."""

    def __init__(self, **options: Any) -> None:
        self.scheduler = FakeScheduler()
        self.time = ManualClock(wall_ms=NOW_MS)
        super().__init__(clock=self.time, scheduler=self.scheduler, **options)
        settings = self.server.settings
        self.shared = Shared(
            self.server.dispatch,
            settings,
            self.server.limits,
            self.server.memory,
            Sweep(self.scheduler, 1.0),
            self.scheduler,
            self.server.requests,
            self.scheduler.time,
            self.server.quotas,
            guard=self.guard,
        )
        self.register(9092)
        self._serving = [asyncio.get_running_loop().create_task(self.transactions.ids.serve())]

    def advance(self, seconds: float) -> None:
        self.time.advance(seconds)
        self.scheduler.advance(seconds)

    def talk(self, listener: str = LISTENER) -> Talk:
        return Talk(self, listener)

    async def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic; options are given with underscores for dots."""
        entries = tuple(ConfigEntry(name.replace("_", "."), value) for name, value in configs.items())
        reply = await self.cluster.ask(
            CreateTopicsRequest((NewTopic(topic, partitions, 1, configs=entries),))
        )
        assert reply.topics[0].error == 0, reply.topics[0].message


def batch_of(*values: bytes, key: bytes | None = b"k", time_ms: int = NOW_MS, **options: Any) -> bytes:
    """A batch as a producer sends it."""
    records = [Record(number, time_ms, key, value) for number, value in enumerate(values)]
    return bytes(build_batch(records, **options))


def produce_request(
    topic: str, batch: bytes | None, *, acks: int = 1, index: int = 0, timeout_ms: int = 1000
) -> ProduceRequest:
    data = PartitionProduceData(index=index, records=batch)
    return ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def fetch_request(
    topic: str,
    offset: int,
    *,
    index: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    others: Sequence[FetchPartition] = (),
    **options: Any,
) -> FetchRequest:
    fields = {"current_leader_epoch", "last_fetched_epoch"}
    of_partition = {name: value for name, value in options.items() if name in fields}
    of_request = {name: value for name, value in options.items() if name not in fields | {"topic_id"}}
    partition = FetchPartition(
        partition=index, fetch_offset=offset, partition_max_bytes=partition_max_bytes, **of_partition
    )
    topic_id = {"topic_id": options["topic_id"]} if "topic_id" in options else {}
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[partition, *others], **topic_id)],
        **of_request,
    )
