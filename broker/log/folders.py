"""Names of folders in a log dir: partitions, and partitions on their way out. Pure."""

import re
from uuid import UUID

from rookery.core.types import TopicPartition

METADATA_TOPIC = "__cluster_metadata"
DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
NAME_MAX = 255

_PARTITION = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<partition>0|[1-9][0-9]{0,9})")
_LEAVING = re.compile(r".+\.[0-9a-f]{32}(-delete|-stray)")


def folder_name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def partition_of(name: str) -> TopicPartition | None:
    """The partition that a folder of this name holds; None for the metadata log and anything else."""
    found = _PARTITION.fullmatch(name)
    if found is None or is_leaving(name) or found["topic"] == METADATA_TOPIC:
        return None
    return TopicPartition(found["topic"], int(found["partition"]))


def leaving_name(partition: TopicPartition, unique: UUID, suffix: str) -> str:
    """Kafka's name for a folder that is to be deleted or was set aside; cut to what file systems allow."""
    ending = f"-{partition.partition}.{unique.hex}{suffix}"
    return partition.topic[: NAME_MAX - len(ending)] + ending


def is_leaving(name: str) -> bool:
    return _LEAVING.fullmatch(name) is not None


def is_to_be_deleted(name: str) -> bool:
    return is_leaving(name) and name.endswith(DELETE_SUFFIX)
