"""Requests that clients send, and what noise, bugs and enemies make of them."""

from collections.abc import Callable
from random import Random
from struct import pack, pack_into
from typing import Any

from rookery.core.wire.api import Api
from rookery.core.wire.apis.api_versions import API_VERSIONS, ApiVersionsRequest
from rookery.core.wire.apis.create_topics import (
    CREATE_TOPICS,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from rookery.core.wire.apis.delete_records import (
    DELETE_RECORDS,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from rookery.core.wire.apis.describe_cluster import DESCRIBE_CLUSTER, DescribeClusterRequest
from rookery.core.wire.apis.describe_configs import (
    DESCRIBE_CONFIGS,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from rookery.core.wire.apis.fetch import FETCH
from rookery.core.wire.apis.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from rookery.core.wire.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from rookery.core.wire.apis.metadata import METADATA, MetadataRequest, MetadataRequestTopic
from rookery.core.wire.apis.offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from rookery.core.wire.apis.produce import PRODUCE
from rookery.core.wire.header import request_frame
from rookery.core.wire.records import Codec
from tests.unit.broker.talk import batch_of, fetch_request, produce_request

TOPIC = "orders"
Change = Callable[[Random, bytearray], None]


def _requests() -> list[tuple[Api[Any, Any], list[int], list[Any]]]:
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    epoch = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    resource = DescribeConfigsResource(resource_type=2, resource_name=TOPIC)
    deletion = DeleteRecordsPartition(partition_index=0, offset=0)
    config = CreatableTopicConfig(name="retention.ms", value="1000")
    topic = CreatableTopic(
        name=TOPIC, num_partitions=1, replication_factor=1, assignments=[], configs=[config]
    )
    batches = [batch_of(b"x" * 50, b"y" * 50, codec=codec) for codec in Codec]
    return [
        (PRODUCE, [3, 9, 11], [produce_request(TOPIC, batch, acks=acks) for batch in batches for acks in (1, 0)]),
        (FETCH, [4, 7, 11, 12, 16], [fetch_request(TOPIC, 0), fetch_request(TOPIC, 0, max_wait_ms=100)]),
        (METADATA, [0, 1, 9, 12], [MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])]),
        (LIST_OFFSETS, [1, 7, 10], [
            ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=[partition])])
        ]),
        (OFFSET_FOR_LEADER_EPOCH, [2, 4], [
            OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=TOPIC, partitions=[epoch])])
        ]),
        (API_VERSIONS, [0, 3, 4], [ApiVersionsRequest(client_software_name="a", client_software_version="1")]),
        (INIT_PRODUCER_ID, [0, 5], [InitProducerIdRequest(transaction_timeout_ms=1000)]),
        (DESCRIBE_CLUSTER, [0, 1], [DescribeClusterRequest(include_cluster_authorized_operations=True)]),
        (DESCRIBE_CONFIGS, [1, 4], [DescribeConfigsRequest(resources=[resource])]),
        (DELETE_RECORDS, [0, 2], [
            DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=TOPIC, partitions=[deletion])], timeout_ms=10)
        ]),
        (CREATE_TOPICS, [2, 7], [CreateTopicsRequest(topics=[topic], timeout_ms=10, validate_only=True)]),
    ]  # fmt: skip


def corpus() -> list[bytes]:
    """Whole frames of every API a broker serves, in old and new versions."""
    return [
        b"".join(bytes(part) for part in request_frame(api, version, number, "fuzz", request))
        for api, versions, requests in _requests()
        for version in versions
        for number, request in enumerate(requests)
    ]


def _flip(random: Random, frame: bytearray) -> None:
    frame[random.randrange(len(frame))] ^= 1 << random.randrange(8)


def _overwrite(random: Random, frame: bytearray) -> None:
    frame[random.randrange(len(frame))] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))


def _number(random: Random, frame: bytearray) -> None:
    """A length, count or size that is not true."""
    width, kind = random.choice(((4, ">i"), (2, ">h"), (8, ">q")))
    if len(frame) > width:
        limit = 1 << (8 * width - 1)
        value = random.choice((-1, 0, 1, limit - 1, -limit, random.randrange(1 << 16) % limit))
        pack_into(kind, frame, random.randrange(len(frame) - width), value)


def _cut(random: Random, frame: bytearray) -> None:
    del frame[random.randrange(len(frame)) :]


def _remove(random: Random, frame: bytearray) -> None:
    start = random.randrange(len(frame))
    del frame[start : start + random.randrange(1, 9)]


def _insert(random: Random, frame: bytearray) -> None:
    start = random.randrange(len(frame))
    frame[start:start] = random.randbytes(random.randrange(1, 9))


def _repeat(random: Random, frame: bytearray) -> None:
    start = random.randrange(len(frame))
    piece = frame[start : start + random.randrange(1, 65)]
    frame[start:start] = piece * random.randrange(1, 5)


CHANGES: tuple[Change, ...] = (_flip, _flip, _overwrite, _number, _cut, _remove, _insert, _repeat)


def mutated(random: Random, frames: list[bytes]) -> bytes:
    """One frame, changed in a few places; most often its size is made to fit again, so that the change is
    reached."""
    frame = bytearray(random.choice(frames))
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        if len(frame) > 1:
            random.choice(CHANGES)(random, frame)
    if len(frame) >= 4 and random.random() < 0.9:
        frame[:4] = pack(">i", len(frame) - 4)
    return bytes(frame)
