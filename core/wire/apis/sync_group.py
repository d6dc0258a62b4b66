"""SyncGroup (14): the leader hands in the assignment, every member gets its own.

v3 adds static members, v5 echoes the protocol.
"""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Bytes, Int16, Int32, String, Struct, field


class SyncGroupRequestAssignment(Struct):
    member_id: str = field(String)
    assignment: bytes = field(Bytes)


class SyncGroupRequest(Struct):
    group_id: str = field(String)
    generation_id: int = field(Int32)
    member_id: str = field(String)
    group_instance_id: str | None = field(String, "3+", nullable="3+", default=None)
    protocol_type: str | None = field(String, "5+", nullable="5+", default=None)
    protocol_name: str | None = field(String, "5+", nullable="5+", default=None)
    assignments: Sequence[SyncGroupRequestAssignment] = field(Array(SyncGroupRequestAssignment))


class SyncGroupResponse(Struct):
    throttle_time_ms: int = field(Int32, "1+", default=0)
    error_code: int = field(Int16, default=0)
    protocol_type: str | None = field(String, "5+", nullable="5+", default=None)
    protocol_name: str | None = field(String, "5+", nullable="5+", default=None)
    assignment: bytes = field(Bytes)


SYNC_GROUP = Api(14, "SyncGroup", SyncGroupRequest, SyncGroupResponse, versions="0-5", flexible="4+")
