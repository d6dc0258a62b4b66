"""The options of a topic as its partitions' logs use them."""

from dataclasses import dataclass, field

from rookery.broker.log.compaction import CompactionPolicy
from rookery.broker.log.retention import Retention
from rookery.core.config import topic
from rookery.core.config.options import LONG_MAX, Settings
from rookery.core.log import LogConfig

DAY_MS = 24 * 3600 * 1000
_RETENTION = Retention(delete=True, retention_ms=7 * DAY_MS, retention_bytes=-1)
_COMPACTION = CompactionPolicy(0.5, 0, LONG_MAX)


@dataclass(frozen=True, slots=True)
class TopicLogConfig:
    """One value per topic; a change of options gives its partitions a new one."""

    log: LogConfig = field(default_factory=LogConfig)
    compact: bool = False
    retention: Retention = _RETENTION
    compaction: CompactionPolicy = _COMPACTION
    delete_retention_ms: int = DAY_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    max_message_bytes: int = 1048588
    log_append_time: bool = False
    timestamp_before_max_ms: int = LONG_MAX
    timestamp_after_max_ms: int = 3_600_000
    sync_before_ack: bool = field(init=False)
    """flush.messages=1: an append counts once it is on the device."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sync_before_ack", self.flush_messages == 1)

    @staticmethod
    def of(settings: Settings) -> "TopicLogConfig":
        policy = settings[topic.CLEANUP_POLICY]
        compact = "compact" in policy
        segment_ms = settings[topic.SEGMENT_MS]
        if compact:  # only closed segments are compacted, so they must close in time
            segment_ms = min(segment_ms, settings[topic.MAX_COMPACTION_LAG_MS])
        return TopicLogConfig(
            log=LogConfig(
                segment_bytes=settings[topic.SEGMENT_BYTES],
                segment_ms=segment_ms,
                segment_jitter_ms=settings[topic.SEGMENT_JITTER_MS],
                segment_index_bytes=settings[topic.SEGMENT_INDEX_BYTES],
                index_interval_bytes=settings[topic.INDEX_INTERVAL_BYTES],
            ),
            compact=compact,
            retention=Retention(
                "delete" in policy, settings[topic.RETENTION_MS], settings[topic.RETENTION_BYTES]
            ),
            compaction=CompactionPolicy(
                settings[topic.MIN_CLEANABLE_DIRTY_RATIO],
                settings[topic.MIN_COMPACTION_LAG_MS],
                settings[topic.MAX_COMPACTION_LAG_MS],
            ),
            delete_retention_ms=settings[topic.DELETE_RETENTION_MS],
            file_delete_delay_ms=settings[topic.FILE_DELETE_DELAY_MS],
            flush_messages=settings[topic.FLUSH_MESSAGES],
            flush_ms=settings[topic.FLUSH_MS],
            max_message_bytes=settings[topic.MAX_MESSAGE_BYTES],
            log_append_time=settings[topic.MESSAGE_TIMESTAMP_TYPE] == "LogAppendTime",
            timestamp_before_max_ms=settings[topic.MESSAGE_TIMESTAMP_BEFORE_MAX_MS],
            timestamp_after_max_ms=settings[topic.MESSAGE_TIMESTAMP_AFTER_MAX_MS],
        )
