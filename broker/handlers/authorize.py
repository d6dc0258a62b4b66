"""Checks of handlers: what is refused, and by which error.

A check comes before the handler asks whether the thing exists, so that an answer does not reveal it. The texts of the
errors name the missing right, never the resource: a client that gave a topic's id must not learn its name.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from rookery.broker.server.access import CLUSTER, TOPIC, Access
from rookery.broker.server.client import Call
from rookery.core.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from rookery.core.metadata.acl_codes import CLUSTER_NAME, AclOperation
from rookery.core.metadata.image import ResourceType

READ, WRITE, CREATE, DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE
ALTER, DESCRIBE = AclOperation.ALTER, AclOperation.DESCRIBE
CLUSTER_ACTION, IDEMPOTENT_WRITE = AclOperation.CLUSTER_ACTION, AclOperation.IDEMPOTENT_WRITE
DESCRIBE_CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS


class NamedTopic(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=NamedTopic)


def topic_denied(operation: AclOperation) -> TopicAuthorizationFailedError:
    return TopicAuthorizationFailedError(f"this needs {operation.name} on the topic")


def group_denied(operation: AclOperation) -> GroupAuthorizationFailedError:
    return GroupAuthorizationFailedError(f"this needs {operation.name} on the group")


def transactional_id_denied(operation: AclOperation) -> TransactionalIdAuthorizationFailedError:
    return TransactionalIdAuthorizationFailedError(f"this needs {operation.name} on the transactional id")


def check_topic(call: Call, operation: AclOperation, name: str) -> None:
    if not call.access.topic(operation, name):
        raise topic_denied(operation)


def check_group(call: Call, operation: AclOperation, name: str) -> None:
    if not call.access.group(operation, name):
        raise group_denied(operation)


def check_transactional_id(call: Call, operation: AclOperation, name: str) -> None:
    if not call.access.transactional_id(operation, name):
        raise transactional_id_denied(operation)


def check_cluster(call: Call, *operations: AclOperation) -> None:
    """One of `operations` is enough."""
    denied = cluster_denied(call, *operations)
    if denied is not None:
        raise denied


def check_options(call: Call, operation: AclOperation, type: int, name: str) -> None:
    """For the options of a resource. Those of brokers, loggers and client metrics belong to the cluster."""
    if type == ResourceType.TOPIC:
        check_topic(call, operation, name)
    elif type == ResourceType.GROUP:
        check_group(call, operation, name)
    else:
        check_cluster(call, operation)


def cluster_denied(call: Call, *operations: AclOperation) -> KafkaError | None:
    access = call.access
    if cluster_shows(access, *operations[1:]) or access.cluster(operations[0]):
        return None
    needed = " or ".join(each.name for each in operations)
    return ClusterAuthorizationFailedError(f"this needs {needed} on the cluster")


def cluster_shows(access: Access, *operations: AclOperation) -> bool:
    """Whether the client may do one of these with the cluster; nothing is logged."""
    return any(access.shows(each, CLUSTER, CLUSTER_NAME) for each in operations)


def described_topics(access: Access, names: Iterable[str]) -> bool:
    """Whether the client may see all of these topics; nothing is logged."""
    return not access.restricted or all(access.shows(DESCRIBE, TOPIC, name) for name in names)


def split_topics(call: Call, operation: AclOperation, topics: Sequence[T]) -> tuple[list[T], list[T]]:
    """Topics of a request: those with which the client may do this, and the others. One without a name does not exist,
    and passes."""
    access = call.access
    if not access.restricted:
        return list(topics), []
    allowed: list[T] = []
    denied: list[T] = []
    for topic in topics:
        (allowed if not topic.name or access.topic(operation, topic.name) else denied).append(topic)
    return allowed, denied
