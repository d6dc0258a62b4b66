"""The messages the wire benchmark measures, and the same ones as other libraries' objects."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from rookery.core.wire.api import Api
from rookery.core.wire.api_table import ALL
from rookery.core.wire.apis import api_versions, fetch, heartbeat, metadata, offset_commit, produce
from rookery.core.wire.schema import Struct
from rookery.core.wire.served import Served, api_versions_response

TOPIC = UUID("5f0ce1d0-6e0a-4a0c-9f0e-2f1f3c4b5a69")
BATCH = bytes(16 * 1024)


class Sample(NamedTuple):
    """One kind of request with its answer."""

    title: str
    api: Api[Any, Any]
    version: int
    request: Struct
    response: Struct


def _fetch(partitions: int, version: int) -> Sample:
    request = fetch.FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=52428800, session_epoch=0, rack_id="",
        topics=[
            fetch.FetchTopic(topic="orders", topic_id=TOPIC, partitions=[
                fetch.FetchPartition(
                    partition=index, current_leader_epoch=3, fetch_offset=123456 + index,
                    partition_max_bytes=1048576,
                ) for index in range(partitions)
            ])
        ],
    )
    response = fetch.FetchResponse(session_id=7, responses=[
        fetch.FetchableTopicResponse(topic="orders", topic_id=TOPIC, partitions=[
            fetch.PartitionData(
                partition_index=index, high_watermark=123999, last_stable_offset=123999, log_start_offset=0,
                aborted_transactions=None, records=BATCH,
            ) for index in range(partitions)
        ])
    ])
    return Sample(f"Fetch v{version}, {partitions} x 16 KiB", fetch.FETCH, version, request, response)


def _produce(partitions: int, version: int) -> Sample:
    request = produce.ProduceRequest(acks=-1, timeout_ms=30000, topic_data=[
        produce.TopicProduceData(name="orders", topic_id=TOPIC, partition_data=[
            produce.PartitionProduceData(index=index, records=BATCH) for index in range(partitions)
        ])
    ])
    response = produce.ProduceResponse(responses=[
        produce.TopicProduceResponse(name="orders", topic_id=TOPIC, partition_responses=[
            produce.PartitionProduceResponse(index=index, base_offset=123456, log_start_offset=0)
            for index in range(partitions)
        ])
    ])
    return Sample(f"Produce v{version}, {partitions} x 16 KiB", produce.PRODUCE, version, request, response)


def _metadata(partitions: int) -> Sample:
    request = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="orders")])
    response = metadata.MetadataResponse(
        brokers=[
            metadata.MetadataResponseBroker(node_id=node, host=f"broker-{node}.example", port=9092)
            for node in range(3)
        ],
        cluster_id="rIdxYkYjSXeCcY3OxOwT3g", controller_id=1,
        topics=[
            metadata.MetadataResponseTopic(name="orders", topic_id=TOPIC, partitions=[
                metadata.MetadataResponsePartition(
                    partition_index=index, leader_id=index % 3, leader_epoch=3, replica_nodes=[0, 1, 2],
                    isr_nodes=[0, 1, 2],
                ) for index in range(partitions)
            ])
        ],
    )
    return Sample(f"Metadata v12, {partitions} partitions", metadata.METADATA, 12, request, response)


def _offset_commit(partitions: int) -> Sample:
    request = offset_commit.OffsetCommitRequest(
        group_id="billing", generation_id_or_member_epoch=5, member_id="consumer-1-0d6c",
        topics=[
            offset_commit.OffsetCommitRequestTopic(name="orders", partitions=[
                offset_commit.OffsetCommitRequestPartition(
                    partition_index=index, committed_offset=123456, committed_metadata=""
                ) for index in range(partitions)
            ])
        ],
    )
    response = offset_commit.OffsetCommitResponse(topics=[
        offset_commit.OffsetCommitResponseTopic(name="orders", partitions=[
            offset_commit.OffsetCommitResponsePartition(partition_index=index) for index in range(partitions)
        ])
    ])
    return Sample(f"OffsetCommit v8, {partitions} partitions", offset_commit.OFFSET_COMMIT, 8, request, response)


def _heartbeat() -> Sample:
    request = heartbeat.HeartbeatRequest(group_id="billing", generation_id=5, member_id="consumer-1-0d6c")
    return Sample("Heartbeat v4", heartbeat.HEARTBEAT, 4, request, heartbeat.HeartbeatResponse())


def _api_versions() -> Sample:
    request = api_versions.ApiVersionsRequest(
        client_software_name="librdkafka", client_software_version="2.16.1"
    )
    response = api_versions_response(Served(api, api.min_version, api.max_version) for api in ALL)
    return Sample("ApiVersions v3", api_versions.API_VERSIONS, 3, request, response)


def samples() -> list[Sample]:
    """What is measured, hot paths first."""
    return [
        _produce(1, 9), _produce(10, 9), _fetch(1, 12), _fetch(10, 12), _fetch(10, 16), _metadata(1), _metadata(100),
        _offset_commit(1), _offset_commit(10), _heartbeat(), _api_versions(),
    ]


# building an object again by plain keyword calls, as a handler does


def builder(value: Any) -> Callable[[], Any]:
    """A function of straight-line constructor calls that makes an equal object of the same library."""
    names: dict[str, Any] = {}
    text = _expression(value, names)
    exec(f"def build():\n    return {text}\n", names)
    made: Callable[[], Any] = names["build"]
    return made


def _expression(value: Any, names: dict[str, Any]) -> str:
    if isinstance(value, list | tuple):
        inside = "".join(f"{_expression(one, names)}, " for one in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    arguments = _arguments(value)
    if arguments is None:
        name = f"v{len(names)}"
        names[name] = value
        return name
    cls = f"{type(value).__name__}_{id(type(value))}"
    names[cls] = type(value)
    return f"{cls}({', '.join(f'{key}={_expression(one, names)}' for key, one in arguments.items())})"


def _arguments(value: Any) -> dict[str, Any] | None:
    """The keyword arguments of a struct that are not its defaults; None for a plain value."""
    if isinstance(value, Struct):
        return {
            name: getattr(value, name) for name, declared in value.fields.items()
            if declared.required or getattr(value, name) != declared.default
        }
    if dataclasses.is_dataclass(value):
        return {
            one.name: getattr(value, one.name) for one in dataclasses.fields(value)
            if getattr(value, one.name) != one.default
        }
    if hasattr(value, "_struct"):
        given: dict[str, Any] = {"version": value._version}
        for one in value._struct._fields:
            if one.for_version_q(value._version) and (one.tag is None or one.name in (value.tags or ())):
                given[one.name] = getattr(value, one.name)
        return given
    return None
