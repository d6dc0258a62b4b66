"""DescribeCluster (60): cluster id, controller and brokers."""

from rookery.broker.handlers.metadata import NOT_ASKED_FOR, cluster_operations
from rookery.broker.handlers.ports import ClusterPort
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode
from rookery.core.wire.apis.describe_cluster import (
    DESCRIBE_CLUSTER,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from rookery.core.wire.served import Served

BROKERS, CONTROLLERS = 1, 2


class DescribeClusterHandler:
    served = Served(DESCRIBE_CLUSTER, 0, 2)

    def __init__(self, cluster: ClusterPort) -> None:
        self._cluster = cluster

    def handle(self, request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
        if request.endpoint_type != BROKERS:
            known = request.endpoint_type == CONTROLLERS
            return self._refusal(
                ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, request, call
            )
        brokers = [
            DescribeClusterBroker(
                broker_id=broker.id,
                host=endpoint.host,
                port=endpoint.port,
                rack=broker.rack,
                is_fenced=broker.fenced,
            )
            for _, broker in sorted(self._cluster.image.brokers.items())
            if (endpoint := broker.endpoint(call.client.listener)) is not None
            and (request.include_fenced_brokers or not broker.fenced)
        ]
        ids = [broker.broker_id for broker in brokers if not broker.is_fenced]
        own_id = self._cluster.node_id
        return DescribeClusterResponse(
            cluster_id=self._cluster.cluster_id,
            controller_id=own_id if own_id in ids else next(iter(ids), -1),
            brokers=brokers,
            cluster_authorized_operations=(
                cluster_operations(call.access) if request.include_cluster_authorized_operations else NOT_ASKED_FOR
            ),
        )

    def _refusal(
        self, code: ErrorCode, request: DescribeClusterRequest, call: Call
    ) -> DescribeClusterResponse:
        call.error(code)
        return DescribeClusterResponse(
            error_code=code,
            error_message=code.text,
            endpoint_type=request.endpoint_type,
            cluster_id=self._cluster.cluster_id,
            brokers=(),
        )
