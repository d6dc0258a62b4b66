"""DescribeCluster (60): cluster id, controller and brokers.

v1 chooses between brokers' and controllers' endpoints, v2 shows fenced brokers.
"""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Bool, Int8, Int16, Int32, String, Struct, field


class DescribeClusterRequest(Struct):
    include_cluster_authorized_operations: bool = field(Bool)
    endpoint_type: int = field(Int8, "1+", default=1)
    include_fenced_brokers: bool = field(Bool, "2+", default=False)


class DescribeClusterBroker(Struct):
    broker_id: int = field(Int32)
    host: str = field(String)
    port: int = field(Int32)
    rack: str | None = field(String, nullable="0+", default=None)
    is_fenced: bool = field(Bool, "2+", default=False)


class DescribeClusterResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)
    endpoint_type: int = field(Int8, "1+", default=1)
    cluster_id: str = field(String)
    controller_id: int = field(Int32, default=-1)
    brokers: Sequence[DescribeClusterBroker] = field(Array(DescribeClusterBroker))
    cluster_authorized_operations: int = field(Int32, default=-(2**31))


DESCRIBE_CLUSTER = Api(
    60, "DescribeCluster", DescribeClusterRequest, DescribeClusterResponse,
    versions="0-2", flexible="0+",
)
