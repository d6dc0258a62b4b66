"""A request to join, in the same form whatever its version, and the answers to it."""

from typing import NamedTuple

from rookery.broker.groups.members import Protocols
from rookery.broker.groups.step import Receiver
from rookery.core.errors import ErrorCode
from rookery.core.wire.apis.join_group import JoinGroupRequest, JoinGroupResponse
from rookery.core.wire.apis.sync_group import SyncGroupResponse

NEEDS_KNOWN_ID_FROM = 4
MAY_SKIP_ASSIGNMENT_FROM = 9


class Join(NamedTuple):
    """One JoinGroup, with whom to answer."""

    to: Receiver
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    needs_known_id: bool = True
    """The client understands that it is given an id first, so that one that goes away leaves nothing behind."""
    may_skip_assignment: bool = False

    @staticmethod
    def of(request: JoinGroupRequest, version: int, client_id: str, client_host: str, to: Receiver) -> "Join":
        rebalance_timeout = request.rebalance_timeout_ms
        return Join(
            to=to,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            client_id=client_id,
            client_host=client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout if rebalance_timeout >= 0 else request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=tuple((each.name, bytes(each.metadata)) for each in request.protocols),
            needs_known_id=version >= NEEDS_KNOWN_ID_FROM,
            may_skip_assignment=version >= MAY_SKIP_ASSIGNMENT_FROM,
        )


def not_joined(member_id: str, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, protocol_name="", leader="", member_id=member_id, members=())


def not_synced(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error, assignment=b"")
