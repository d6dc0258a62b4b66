"""A broker of one partition for unmodified clients: it keeps what is produced and serves what it is given.

Not a broker to store anything in: it shows a test the batches as a client wrote them, byte for byte, and lets
clients read batches that were never produced.
"""

import socket
import socketserver
import threading
from collections.abc import Callable
from typing import Any, ClassVar

from rookery.core.errors import ErrorCode
from rookery.core.wire.api import Api
from rookery.core.wire.apis.api_versions import API_VERSIONS, ApiVersion, ApiVersionsResponse
from rookery.core.wire.apis.fetch import (
    FETCH,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from rookery.core.wire.apis.find_coordinator import (
    FIND_COORDINATOR,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from rookery.core.wire.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from rookery.core.wire.apis.metadata import (
    METADATA,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from rookery.core.wire.apis.produce import (
    PRODUCE,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from rookery.core.wire.framing import FrameReader
from rookery.core.wire.header import response_frame
from rookery.core.wire.records import batches, stamp, validate_produce_batch
from rookery.core.wire.request_header import read_request_header

TOPIC = "batches"
NODE = 1
LARGEST = 100 * 1024 * 1024

# (least, largest) version offered; older ones of Produce are offered, as Kafka does, but never sent
OFFERED: list[tuple[Api[Any, Any], int, int]] = [
    (PRODUCE, 0, 9),
    (FETCH, 4, 12),
    (LIST_OFFSETS, 1, 7),
    (METADATA, 0, 9),
    (FIND_COORDINATOR, 0, 2),  # without it librdkafka does not compress with lz4
    (API_VERSIONS, 0, 3),
]


class _Connection(socketserver.BaseRequestHandler):
    broker: ClassVar["OnePartition"]

    def handle(self) -> None:
        self.broker.serve(self.request)


class OnePartition:
    """Topic "batches" with partition 0, on a port of its own while the `with` block lasts."""

    def __init__(self, stored: bytes | bytearray = b"") -> None:
        self.produced: list[bytes] = []
        self.stored = bytearray(stored)
        self._stopped = threading.Event()
        handler = type("Connection", (_Connection,), {"broker": self})
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler, False)
        self._server.daemon_threads = True
        self._answers: dict[int, Callable[[Any], Any]] = {
            PRODUCE.key: self._produce,
            FETCH.key: self._fetch,
            LIST_OFFSETS.key: self._list_offsets,
            METADATA.key: self._metadata,
            FIND_COORDINATOR.key: self._find_coordinator,
            API_VERSIONS.key: self._api_versions,
        }

    def __enter__(self) -> "OnePartition":
        self._server.server_bind()
        self._server.server_activate()
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def _port(self) -> int:
        port: int = self._server.server_address[1]
        return port

    @property
    def end_offset(self) -> int:
        ends = [header.next_offset for _, header in batches(self.stored)]
        return ends[-1] if ends else 0

    def serve(self, sock: socket.socket) -> None:
        """Answer one connection's requests, one after the other."""
        frames = FrameReader(LARGEST)
        by_key = {api.key: api for api, _, _ in OFFERED}
        while not self._stopped.is_set():
            try:
                count = sock.recv_into(frames.get_buffer())
            except OSError:
                return
            if not count:
                return
            frames.received(count)
            for frame in frames.frames():
                header, pos = read_request_header(frame)
                api = by_key[header.api_key]
                request = api.decode_request(header.api_version, frame, pos)
                answer = self._answers[api.key](request)
                sock.sendall(b"".join(response_frame(api, header.api_version, header.correlation_id, answer)))

    def _api_versions(self, _: object) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=api.key, min_version=low, max_version=high) for api, low, high in OFFERED
            ]
        )

    def _metadata(self, _: MetadataRequest) -> MetadataResponse:
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=NODE, leader_epoch=0, replica_nodes=[NODE], isr_nodes=[NODE]
        )
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=NODE, host="127.0.0.1", port=self._port)],
            cluster_id="one-partition",
            controller_id=NODE,
            topics=[MetadataResponseTopic(name=TOPIC, partitions=[partition])],
        )

    def _find_coordinator(self, _: FindCoordinatorRequest) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(
            error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, node_id=-1, host="", port=-1
        )

    def _produce(self, request: ProduceRequest) -> ProduceResponse:
        [topic] = request.topic_data
        [partition] = topic.partition_data
        batch = bytearray(partition.records or b"")
        header = validate_produce_batch(batch, LARGEST)
        self.produced.append(bytes(batch))
        base = self.end_offset
        stamp(batch, 0, base, 0)
        self.stored += batch
        written = PartitionProduceResponse(index=0, base_offset=base if header.record_count else -1)
        return ProduceResponse(responses=[TopicProduceResponse(name=TOPIC, partition_responses=[written])])

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        wanted = next((p.fetch_offset for topic in request.topics for p in topic.partitions), None)
        if wanted is None or wanted >= self.end_offset:
            self._stopped.wait(min(request.max_wait_ms, 500) / 1000)
        end = self.end_offset
        start = next(
            (pos for pos, h in batches(self.stored) if h.next_offset > (wanted or 0)), len(self.stored)
        )
        data = PartitionData(
            partition_index=0,
            high_watermark=end,
            last_stable_offset=end,
            log_start_offset=0,
            records=bytes(self.stored[start:]),
        )
        return FetchResponse(responses=[FetchableTopicResponse(topic=TOPIC, partitions=[data])])

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        asked = request.topics[0].partitions[0].timestamp
        offset = self.end_offset if asked == -1 else 0
        found = ListOffsetsPartitionResponse(partition_index=0, offset=offset, leader_epoch=0)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=[found])])
