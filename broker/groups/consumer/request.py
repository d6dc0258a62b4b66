"""What a member of a consumer group sends, as its group takes it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rookery.broker.groups.consumer.member import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    TopicIdPartitions,
    partitions_of,
)
from rookery.core.errors import InvalidRequestError, UnsupportedAssignorError
from rookery.core.wire.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

Sees = Callable[[str], bool]
"""Whether a client may see the topic of a name."""


def everything(name: str) -> bool:
    return True


class Client(NamedTuple):
    """Whose request it is."""

    id: str
    host: str
    sees: Sees = everything
    """Regular expressions match only what the client that causes it may see."""


def owned_of(request: ConsumerGroupHeartbeatRequest) -> TopicIdPartitions | None:
    return None if request.topic_partitions is None else partitions_of(request.topic_partitions)


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Sequence[str]) -> None:
    """Raise for a request that cannot be meant, whatever the group."""
    epoch = request.member_epoch
    for name, text in (("group id", request.group_id), ("instance id", request.instance_id), ("rack", request.rack_id)):
        if text == "":
            raise InvalidRequestError(f"the {name} is empty")
    if not request.member_id and (epoch != JOIN_EPOCH or version > 0):
        raise InvalidRequestError("the member id is empty")
    if epoch < STATIC_LEAVE_EPOCH:
        raise InvalidRequestError(f"{epoch} is no member epoch")
    if epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise InvalidRequestError("only a static member can leave for a while: the instance id is missing")
    if epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == -1:
            raise InvalidRequestError("who joins has to say its rebalance timeout")
        if request.topic_partitions is None or len(request.topic_partitions) > 0:
            raise InvalidRequestError("who joins has to say that it has no partitions")
        # Nothing is a subscription too: that of a client whose own pattern matches no topic yet.
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise InvalidRequestError("who joins has to say what it subscribes to")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise UnsupportedAssignorError(
            f"there is no assignor {request.server_assignor!r}; group.consumer.assignors has {', '.join(assignors)}"
        )
