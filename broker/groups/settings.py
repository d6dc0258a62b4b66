"""The options of a node that groups live by."""

from rookery.broker.coordination.internal_topic import InternalTopic
from rookery.broker.groups.group_state import GroupOptions
from rookery.core.config import node
from rookery.core.config.options import Settings

OFFSETS_TOPIC = "__consumer_offsets"
_MINUTE_MS = 60_000


def offsets_topic(settings: Settings) -> InternalTopic:
    """Compacted, stored as written: the coordinator compresses if at all."""
    return InternalTopic(
        OFFSETS_TOPIC,
        settings[node.OFFSETS_TOPIC_NUM_PARTITIONS],
        settings[node.OFFSETS_TOPIC_REPLICATION_FACTOR],
        (
            ("cleanup.policy", "compact"),
            ("compression.type", "producer"),
            ("segment.bytes", str(settings[node.OFFSETS_TOPIC_SEGMENT_BYTES])),
        ),
    )


def group_options(settings: Settings) -> GroupOptions:
    return GroupOptions(
        min_session_timeout_ms=settings[node.GROUP_MIN_SESSION_TIMEOUT_MS],
        max_session_timeout_ms=settings[node.GROUP_MAX_SESSION_TIMEOUT_MS],
        initial_rebalance_delay_ms=settings[node.GROUP_INITIAL_REBALANCE_DELAY_MS],
        max_size=settings[node.GROUP_MAX_SIZE],
        offset_metadata_max_bytes=settings[node.OFFSET_METADATA_MAX_BYTES],
        offsets_retention_ms=settings[node.OFFSETS_RETENTION_MINUTES] * _MINUTE_MS,
    )
