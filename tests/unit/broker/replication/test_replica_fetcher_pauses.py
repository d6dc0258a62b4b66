"""When a follower tries again what its leader did not know yet."""

import asyncio
from random import Random
from typing import Any
from uuid import UUID

from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.replica_fetcher import FIRST_PAUSE_S, FetcherSettings, Leader, ReplicaFetcher
from rookery.broker.replication.topic_settings import TopicSettings
from rookery.core.clock import SystemClock
from rookery.core.errors import ErrorCode
from rookery.core.net.peers import Peers
from rookery.core.testing.clock import ManualClock
from rookery.core.testing.disk import MemoryDisk
from rookery.core.testing.network import MemoryNetwork
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.api_versions import API_VERSIONS, ApiVersion, ApiVersionsResponse
from rookery.core.wire.apis.fetch import FETCH, FetchableTopicResponse, FetchResponse, PartitionData
from rookery.core.wire.apis.list_offsets import LIST_OFFSETS
from rookery.core.wire.header import response_frame
from rookery.core.wire.request_header import read_request_header
from tests.unit.broker.waiting import until
from tests.unit.core.wire.frames import split_frames


class BrokenLeader(asyncio.Protocol):
    """Answers every fetch with what nobody can decode."""

    fetches = 0

    def __init__(self) -> None:
        self.rest = b""
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        frames, rest = split_frames(self.rest + data, 1 << 20)
        self.rest = bytes(rest)
        for frame in frames:
            header, _ = read_request_header(frame)
            if header.api_key == API_VERSIONS.key:
                keys = [ApiVersion(api_key=key, min_version=0, max_version=16) for key in (1, 2, 18)]
                answer = ApiVersionsResponse(api_keys=keys)
                self.transport.writelines(response_frame(API_VERSIONS, 0, header.correlation_id, answer))
            else:
                BrokenLeader.fetches += 1
                self.transport.write(b"\0\0\0\6" + header.correlation_id.to_bytes(4, "big") + b"\0\1")


async def test_an_answer_that_cannot_be_decoded_ends_the_connection_and_not_the_fetching() -> None:
    """Not after replica.socket.timeout.ms: the followers of other partitions wait with it."""
    network = MemoryNetwork()
    await network.listen(BrokenLeader, "b2", 9092)
    follower = ReplicaFetcher(
        Leader(2, "b2", 9092),
        node_id=1,
        broker_epoch=lambda: 1,
        settings=FetcherSettings(backoff_ms_max=20),
        clock=SystemClock(),
        peers=Peers("follower", network=network),
        on_failed=lambda partition, error: None,
    )
    log = PartitionLog.open(MemoryDisk(Random(1)), "data/orders-0", TopicPartition("orders", 0), TopicLogConfig())
    follower.follow(Partition(UUID(int=1), log, TopicSettings(), node_id=1, wake=lambda _: None))
    running = asyncio.get_running_loop().create_task(follower.run())
    try:
        await until(lambda: BrokenLeader.fetches >= 3)
    finally:
        running.cancel()
        await asyncio.wait([running])


class SilentLeader(BrokenLeader):
    """Has deleted what a follower asks for, and never says where its log starts."""

    connections = 0
    asked = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        SilentLeader.connections += 1

    def data_received(self, data: bytes) -> None:
        frames, rest = split_frames(self.rest + data, 1 << 20)
        self.rest = bytes(rest)
        for frame in frames:
            header, _ = read_request_header(frame)
            if header.api_key == API_VERSIONS.key:
                served = ((1, 16), (2, 7), (18, 3))
                keys = [ApiVersion(api_key=key, min_version=0, max_version=version) for key, version in served]
                answer = ApiVersionsResponse(api_keys=keys)
                self.transport.writelines(response_frame(API_VERSIONS, 0, header.correlation_id, answer))
            elif header.api_key == FETCH.key and not SilentLeader.asked:
                refused = PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=0)
                topic = FetchableTopicResponse(topic_id=UUID(int=1), partitions=[refused])
                answered = FetchResponse(session_id=7, responses=[topic])
                self.transport.writelines(response_frame(FETCH, 16, header.correlation_id, answered))
            elif header.api_key == LIST_OFFSETS.key:
                SilentLeader.asked += 1


async def test_a_leader_that_does_not_say_where_its_log_starts_is_given_up_in_time() -> None:
    """The only partition waits for that answer, so nothing else would notice a connection that is dead."""
    network = MemoryNetwork()
    await network.listen(SilentLeader, "b2", 9092)
    follower = ReplicaFetcher(
        Leader(2, "b2", 9092),
        node_id=1,
        broker_epoch=lambda: 1,
        settings=FetcherSettings(wait_ms_max=10, backoff_ms_max=20, request_timeout_ms=50),
        clock=SystemClock(),
        peers=Peers("follower", network=network),
        on_failed=lambda partition, error: None,
    )
    log = PartitionLog.open(MemoryDisk(Random(1)), "data/orders-0", TopicPartition("orders", 0), TopicLogConfig())
    follower.follow(Partition(UUID(int=1), log, TopicSettings(), node_id=1, wake=lambda _: None))
    running = asyncio.get_running_loop().create_task(follower.run())
    try:
        await until(lambda: SilentLeader.asked > 0 and SilentLeader.connections >= 2)
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_a_pause_that_is_over_is_not_waited_for_without_end() -> None:
    """It may end between the look for what to send and the look for how long to wait."""
    clock = ManualClock()
    follower = ReplicaFetcher(
        Leader(2, "b2", 9092),
        node_id=1,
        broker_epoch=lambda: 1,
        settings=FetcherSettings(),
        clock=clock,
        peers=Peers("follower", network=MemoryNetwork()),
        on_failed=lambda partition, error: None,
    )
    log = PartitionLog.open(MemoryDisk(Random(1)), "data/orders-0", TopicPartition("orders", 0), TopicLogConfig())
    partition = Partition(UUID(int=1), log, TopicSettings(), node_id=1, wake=lambda _: None)
    follower.follow(partition)
    follower._retry_later((partition.topic_id, partition.index), partition, "UNKNOWN_TOPIC_ID")
    assert follower._next_retry_s() == FIRST_PAUSE_S
    clock.advance(FIRST_PAUSE_S)
    assert follower._next_retry_s() == 0
