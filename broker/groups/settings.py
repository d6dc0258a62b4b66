"""The options of a node for groups."""

from collections.abc import Mapping
from types import MappingProxyType

from rookery.broker.coordination.internal_topic import InternalTopic
from rookery.broker.groups.group_state import ConsumerOptions, GroupOptions
from rookery.core.config import consumer_groups, node
from rookery.core.config.options import Settings

OFFSETS_TOPIC = "__consumer_offsets"
_MINUTE_MS = 60_000
_MIGRATIONS = {
    "bidirectional": frozenset(("upgrade", "downgrade")),
    "upgrade": frozenset(("upgrade",)),
    "downgrade": frozenset(("downgrade",)),
    "disabled": frozenset[str](),
}


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


def consumer_options(settings: Settings, given: Mapping[str, str] = MappingProxyType({})) -> ConsumerOptions:
    """The settings of a group of the consumer protocol that has these options of its own."""
    times = consumer_groups.times_of(settings, given)
    return ConsumerOptions(
        session_timeout_ms=times.session_timeout,
        heartbeat_interval_ms=times.heartbeat_interval,
        assignment_interval_ms=times.assignment_interval,
        max_size=settings[consumer_groups.MAX_SIZE],
        assignors=settings[consumer_groups.ASSIGNORS],
        migrations=_MIGRATIONS[settings[consumer_groups.MIGRATION_POLICY]],
    )


def group_options(settings: Settings) -> GroupOptions:
    return GroupOptions(
        consumer=consumer_options(settings),
        min_session_timeout_ms=settings[node.GROUP_MIN_SESSION_TIMEOUT_MS],
        max_session_timeout_ms=settings[node.GROUP_MAX_SESSION_TIMEOUT_MS],
        initial_rebalance_delay_ms=settings[node.GROUP_INITIAL_REBALANCE_DELAY_MS],
        max_size=settings[node.GROUP_MAX_SIZE],
        offset_metadata_max_bytes=settings[node.OFFSET_METADATA_MAX_BYTES],
        offsets_retention_ms=settings[node.OFFSETS_RETENTION_MINUTES] * _MINUTE_MS,
    )
