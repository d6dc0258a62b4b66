"""Administration of topics: each call raises the typed error of a refused request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rookery.core.net.cluster import Cluster, check
from rookery.core.wire.apis.create_partitions import (
    CREATE_PARTITIONS,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from rookery.core.wire.apis.create_topics import (
    CREATE_TOPICS,
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from rookery.core.wire.apis.delete_topics import DELETE_TOPICS, DeleteTopicsRequest, DeleteTopicState
from rookery.core.wire.apis.describe_configs import (
    DESCRIBE_CONFIGS,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from rookery.core.wire.primitives import NO_UUID

RESOURCE_TOPIC = 2
SOURCE_TOPIC = 1
TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created; -1 leaves a number to the cluster. `assignment` maps partition to replicas."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] | None = None
    assignment: Mapping[int, Sequence[int]] | None = None


async def create_topic(cluster: Cluster, topic: NewTopic, *, validate_only: bool = False) -> tuple[int, int]:
    """The numbers of partitions and of replicas that the topic got; -1 where the caller may not know."""
    assignment = topic.assignment or {}
    wanted = CreatableTopic(
        name=topic.name,
        num_partitions=-1 if assignment else topic.partitions,
        replication_factor=-1 if assignment else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
            for index, replicas in assignment.items()
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (topic.configs or {}).items()],
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS, validate_only=validate_only)
    (result,) = (await cluster.ask_any(CREATE_TOPICS, request)).topics
    check(result.error_code, f"topic {result.name!r}", result.error_message)
    return result.num_partitions, result.replication_factor


async def delete_topic(cluster: Cluster, name: str) -> None:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name, topic_id=NO_UUID)], topic_names=[name], timeout_ms=TIMEOUT_MS
    )
    for result in (await cluster.ask_any(DELETE_TOPICS, request)).responses:
        check(result.error_code, f"topic {name!r}", result.error_message)
    cluster.forget(name)


async def create_partitions(cluster: Cluster, name: str, total: int) -> None:
    """Grow a topic to `total` partitions."""
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=total)], timeout_ms=TIMEOUT_MS, validate_only=False
    )
    for result in (await cluster.ask_any(CREATE_PARTITIONS, request)).results:
        check(result.error_code, f"topic {name!r}", result.error_message)
    cluster.forget(name)


async def topic_overrides(cluster: Cluster, name: str) -> dict[str, str]:
    """The overrides of a topic."""
    resource = DescribeConfigsResource(resource_type=RESOURCE_TOPIC, resource_name=name)
    answer = await cluster.ask_any(DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=[resource]))
    overrides: dict[str, str] = {}
    for result in answer.results:
        check(result.error_code, f"topic {name!r}", result.error_message)
        overrides.update({c.name: c.value or "" for c in result.configs if c.config_source == SOURCE_TOPIC})
    return overrides
