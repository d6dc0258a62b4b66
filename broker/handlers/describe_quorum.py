"""DescribeQuorum (55): the metadata quorum, asked of its leader."""

from rookery.broker.handlers.authorize import DESCRIBE, cluster_denied
from rookery.broker.handlers.ports import ControllerPort
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.metadata.requests import QuorumReplica, QuorumView
from rookery.core.wire.apis.describe_quorum import (
    DESCRIBE_QUORUM,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionQuorum,
    ReplicaState,
    TopicQuorum,
)
from rookery.core.wire.served import Served

METADATA_TOPIC = "__cluster_metadata"
CONTROLLER_LISTENER = "CONTROLLER"


class DescribeQuorumHandler:
    served = Served(DESCRIBE_QUORUM, 0, 2)

    def __init__(self, controller: ControllerPort) -> None:
        self._controller = controller

    async def handle(self, request: DescribeQuorumRequest, call: Call) -> DescribeQuorumResponse:
        denied = cluster_denied(call, DESCRIBE)
        if denied is not None:
            call.error(denied.code)
            return DescribeQuorumResponse(error_code=denied.code, error_message=denied.message, topics=())
        asked = [(topic.topic_name, one.partition_index) for topic in request.topics for one in topic.partitions]
        if asked != [(METADATA_TOPIC, 0)]:
            call.error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return _not_the_quorum(request)
        try:
            view = await self._controller.describe_quorum()
        except KafkaError as error:
            call.error(error.code)
            return DescribeQuorumResponse(error_code=error.code, error_message=error.message, topics=())
        return _described(view)


def _described(view: QuorumView) -> DescribeQuorumResponse:
    partition = PartitionQuorum(
        partition_index=0,
        leader_id=view.leader_id,
        leader_epoch=view.leader_epoch,
        high_watermark=view.high_watermark,
        current_voters=list(map(_state, view.voters)),
        observers=list(map(_state, view.observers)),
    )
    return DescribeQuorumResponse(
        topics=[TopicQuorum(topic_name=METADATA_TOPIC, partitions=[partition])],
        nodes=[_node(voter) for voter in view.voters if voter.endpoint],
    )


def _not_the_quorum(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Everything but the one partition of the metadata log is unknown here."""
    text = f"only partition 0 of {METADATA_TOPIC} has a quorum"
    return DescribeQuorumResponse(
        topics=[
            TopicQuorum(
                topic_name=topic.topic_name,
                partitions=[
                    PartitionQuorum(
                        partition_index=one.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        error_message=text,
                        leader_id=-1,
                        leader_epoch=-1,
                        high_watermark=-1,
                        current_voters=(),
                        observers=(),
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _state(replica: QuorumReplica) -> ReplicaState:
    return ReplicaState(
        replica_id=replica.id,
        replica_directory_id=replica.directory_id,
        log_end_offset=replica.log_end_offset,
        last_fetch_timestamp=replica.last_fetch_ms,
        last_caught_up_timestamp=replica.last_caught_up_ms,
    )


def _node(voter: QuorumReplica) -> Node:
    host, _, port = voter.endpoint.rpartition(":")
    listener = Listener(name=CONTROLLER_LISTENER, host=host.strip("[]"), port=int(port))
    return Node(node_id=voter.id, listeners=[listener])
