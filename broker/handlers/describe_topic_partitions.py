"""DescribeTopicPartitions (75): topics in the order of their names, page by page."""

from rookery.broker.handlers.authorize import DESCRIBE
from rookery.broker.handlers.ports import ClusterPort
from rookery.broker.server.access import TOPIC
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode
from rookery.core.metadata.image import Image, Partition, Topic
from rookery.core.metadata.topic_names import is_internal, is_valid
from rookery.core.wire.apis.describe_topic_partitions import (
    DESCRIBE_TOPIC_PARTITIONS,
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from rookery.core.wire.primitives import NO_UUID
from rookery.core.wire.served import Served

PARTITIONS_MAX = 2000
"""In one answer, whatever the client asks for."""


class DescribeTopicPartitionsHandler:
    served = Served(DESCRIBE_TOPIC_PARTITIONS, 0, 0)

    def __init__(self, cluster: ClusterPort) -> None:
        self._cluster = cluster

    def handle(self, request: DescribeTopicPartitionsRequest, call: Call) -> DescribeTopicPartitionsResponse:
        image, cursor = self._cluster.image, request.cursor
        access = call.access
        names = sorted({topic.name for topic in request.topics})
        if not names:
            names = sorted(image.topic_ids)
            if access.restricted:
                names = [name for name in names if access.shows(DESCRIBE, TOPIC, name)]
        if cursor is not None:
            names = [name for name in names if name >= cursor.topic_name]
        left = max(1, min(PARTITIONS_MAX, request.response_partition_limit))
        answers: list[DescribeTopicPartitionsResponseTopic] = []
        for name in names:
            first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
            if left == 0:
                return DescribeTopicPartitionsResponse(topics=answers, next_cursor=_cursor(name, first))
            if not access.topic(DESCRIBE, name):
                answers.append(_denied(name, call))
                continue
            topic = image.topic(name)
            if topic is None:
                answers.append(_missing(name, call))
                continue
            page = [index for index in sorted(topic.partitions) if index >= first]
            answers.append(_described(image, topic, page[:left], access.operations(TOPIC, name)))
            if len(page) > left:
                return DescribeTopicPartitionsResponse(topics=answers, next_cursor=_cursor(name, page[left]))
            left -= len(page)
        return DescribeTopicPartitionsResponse(topics=answers)


def _cursor(name: str, partition: int) -> Cursor:
    return Cursor(topic_name=name, partition_index=partition)


def _missing(name: str, call: Call) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_valid(name) else ErrorCode.INVALID_TOPIC_EXCEPTION
    call.error(code)
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_id=NO_UUID, is_internal=is_internal(name), partitions=()
    )


def _denied(name: str, call: Call) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    call.error(code)
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_id=NO_UUID, is_internal=False, partitions=()
    )


def _described(
    image: Image, topic: Topic, indexes: list[int], operations: int
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        partitions=[_partition(image, index, topic.partitions[index]) for index in indexes],
        topic_authorized_operations=operations,
    )


def _partition(image: Image, index: int, partition: Partition) -> DescribeTopicPartitionsResponsePartition:
    leads = image.active(partition.leader) and partition.leader_reported
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if leads else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=partition.leader if leads else -1,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.elr,
        last_known_elr=partition.last_known_elr,
        offline_replicas=[id for id in partition.replicas if not image.can_serve(partition, id)],
    )
