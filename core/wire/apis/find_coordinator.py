"""FindCoordinator (10): the broker in charge of a group, a transactional id or a share partition.

v1 adds the kind of key and a message; v4 asks for several keys and answers in `coordinators`.
"""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int8, Int16, Int32, String, Struct, field


class FindCoordinatorRequest(Struct):
    key: str = field(String, "0-3", default="")
    key_type: int = field(Int8, "1+", default=0)
    coordinator_keys: Sequence[str] = field(Array(String), "4+", default=())


class Coordinator(Struct):
    key: str = field(String)
    node_id: int = field(Int32)
    host: str = field(String)
    port: int = field(Int32)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="4+", default=None)


class FindCoordinatorResponse(Struct):
    throttle_time_ms: int = field(Int32, "1+", default=0)
    error_code: int = field(Int16, "0-3", default=0)
    error_message: str | None = field(String, "1-3", nullable="1-3", default=None)
    node_id: int = field(Int32, "0-3", default=0)
    host: str = field(String, "0-3", default="")
    port: int = field(Int32, "0-3", default=0)
    coordinators: Sequence[Coordinator] = field(Array(Coordinator), "4+", default=())


FIND_COORDINATOR = Api(
    10, "FindCoordinator", FindCoordinatorRequest, FindCoordinatorResponse,
    versions="0-6", flexible="3+",
)
