"""How a produce request tells of what went wrong, partition by partition."""

from rookery.broker.handlers.locate import Locator
from rookery.broker.server.client import Call
from rookery.broker.server.dispatch import Refused
from rookery.broker.server.request_metrics import TopicMetrics
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.wire.apis.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
)
from rookery.core.wire.primitives import NO_UUID
from rookery.core.wire.records import InvalidRecordsError

LEADER_HINTS_FROM = 10
STORAGE_ERRORS_FROM = 4


class ProduceErrors:
    """Writes errors into answers, in the terms of the client's version; a client that asked the wrong broker
    is told the right one, which spares it a metadata request."""

    __slots__ = ("_call", "_endpoints", "_first", "_locator", "_metrics")

    def __init__(self, locator: Locator, metrics: TopicMetrics, call: Call) -> None:
        self._locator = locator
        self._metrics = metrics
        self._call = call
        self._endpoints: dict[int, NodeEndpoint] | None = None
        self._first: str | None = None

    def refuse(self, answer: PartitionProduceResponse, topic: str, error: KafkaError) -> None:
        code = error.code
        if self._first is None:
            self._first = f"{topic}-{answer.index}: {error}"
        self._count(topic, code)
        if code == ErrorCode.KAFKA_STORAGE_ERROR and self._call.version < STORAGE_ERRORS_FROM:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        answer.error_code = code
        answer.error_message = error.message
        answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
        if isinstance(error, InvalidRecordsError):
            answer.record_errors = [
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=reason)
                for index, reason in error.record_errors
            ]
        if code == ErrorCode.NOT_LEADER_OR_FOLLOWER and self._call.version >= LEADER_HINTS_FROM:
            self._name_leader(answer, topic)

    def complete(self, response: ProduceResponse) -> None:
        """Add what the answers refer to."""
        if self._endpoints:
            response.node_endpoints = list(self._endpoints.values())

    def close_connection(self) -> None:
        """acks=0: the only way to tell of a failure is to close the connection."""
        if self._first is not None:
            raise Refused(f"acks=0 failed for {self._first}")

    def _count(self, topic: str, code: ErrorCode) -> None:
        self._call.error(code)
        traffic = self._metrics["" if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else topic]
        traffic.produce_requests += 1
        traffic.failed_produces += 1

    def _name_leader(self, answer: PartitionProduceResponse, topic: str) -> None:
        leader = self._locator.leader(topic, NO_UUID, answer.index, self._call.client.listener)
        if leader is None:
            return
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader.id, leader_epoch=leader.epoch)
        if leader.endpoint is not None:
            if self._endpoints is None:
                self._endpoints = {}
            _, host, port, _ = leader.endpoint
            self._endpoints[leader.id] = NodeEndpoint(
                node_id=leader.id, host=host, port=port, rack=leader.rack
            )
