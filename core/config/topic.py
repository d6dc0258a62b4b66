"""The options of a topic: Kafka's keys, types and defaults. `synonyms` are the broker's keys for the default,
most important first; where the unit differs (minutes, hours), `topic_defaults` converts."""

from collections.abc import Callable, Mapping

from rookery.core.config.options import (
    LONG_MAX,
    Boolean,
    Double,
    Int,
    Option,
    Settings,
    String,
    WordList,
    int32,
    table_of,
)

DAY_MS = 24 * 60 * 60 * 1000

CLEANUP_POLICY = Option(
    "cleanup.policy",
    WordList(("compact", "delete")),
    ("delete",),
    "Delete old segments by age and size, compact them to the last value per key, or both.",
    synonyms=("log.cleanup.policy",),
)
COMPRESSION_TYPE = Option(
    "compression.type",
    String(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
    "producer",
    "Codec of stored batches; 'producer' keeps the one the producer chose.",
    synonyms=("compression.type",),
)
COMPRESSION_GZIP_LEVEL = Option(
    "compression.gzip.level",
    int32(-1, 9),
    -1,
    "Level used when batches are recompressed with gzip; -1 is the codec's own default.",
    synonyms=("compression.gzip.level",),
)
COMPRESSION_LZ4_LEVEL = Option(
    "compression.lz4.level",
    int32(1, 17),
    9,
    "Level used when batches are recompressed with lz4.",
    synonyms=("compression.lz4.level",),
)
COMPRESSION_ZSTD_LEVEL = Option(
    "compression.zstd.level",
    int32(-131072, 22),
    3,
    "Level used when batches are recompressed with zstd.",
    synonyms=("compression.zstd.level",),
)
DELETE_RETENTION_MS = Option(
    "delete.retention.ms",
    Int(0),
    DAY_MS,
    "How long a tombstone stays readable in a compacted topic.",
    synonyms=("log.cleaner.delete.retention.ms",),
)
FILE_DELETE_DELAY_MS = Option(
    "file.delete.delay.ms",
    Int(0),
    60_000,
    "How long a deleted segment's file is kept before it is removed from the disk.",
    synonyms=("log.segment.delete.delay.ms",),
)
FLUSH_MESSAGES = Option(
    "flush.messages",
    Int(1),
    LONG_MAX,
    "Number of records after which the log is fsynced; 1 means before each acknowledgement.",
    synonyms=("log.flush.interval.messages",),
)
FLUSH_MS = Option(
    "flush.ms",
    Int(0),
    LONG_MAX,
    "Longest time before a record is fsynced.",
    synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
)
FOLLOWER_REPLICATION_THROTTLED_REPLICAS = Option(
    "follower.replication.throttled.replicas",
    WordList(),
    (),
    "Replicas (partition:broker, or *) whose fetching is throttled on the follower's side.",
)
INDEX_INTERVAL_BYTES = Option(
    "index.interval.bytes",
    int32(0),
    4096,
    "Bytes of log between two entries of the offset index.",
    synonyms=("log.index.interval.bytes",),
)
LEADER_REPLICATION_THROTTLED_REPLICAS = Option(
    "leader.replication.throttled.replicas",
    WordList(),
    (),
    "Replicas (partition:broker, or *) whose fetching is throttled on the leader's side.",
)
LOCAL_RETENTION_BYTES = Option(
    "local.retention.bytes",
    Int(-2),
    -2,
    "Kept for compatibility: there is no tiered storage, -2 follows retention.bytes.",
)
LOCAL_RETENTION_MS = Option(
    "local.retention.ms",
    Int(-2),
    -2,
    "Kept for compatibility: there is no tiered storage, -2 follows retention.ms.",
)
MAX_COMPACTION_LAG_MS = Option(
    "max.compaction.lag.ms",
    Int(1),
    LONG_MAX,
    "Longest time a record of a compacted topic may stay uncompacted.",
    synonyms=("log.cleaner.max.compaction.lag.ms",),
)
MAX_MESSAGE_BYTES = Option(
    "max.message.bytes",
    int32(0),
    1048588,
    "Largest record batch accepted, after compression.",
    synonyms=("message.max.bytes",),
)
MESSAGE_TIMESTAMP_AFTER_MAX_MS = Option(
    "message.timestamp.after.max.ms",
    Int(0),
    3_600_000,
    "How far a record's timestamp may be ahead of the broker's clock.",
    synonyms=("log.message.timestamp.after.max.ms",),
)
MESSAGE_TIMESTAMP_BEFORE_MAX_MS = Option(
    "message.timestamp.before.max.ms",
    Int(0),
    LONG_MAX,
    "How far a record's timestamp may be behind the broker's clock.",
    synonyms=("log.message.timestamp.before.max.ms",),
)
MESSAGE_TIMESTAMP_TYPE = Option(
    "message.timestamp.type",
    String(("CreateTime", "LogAppendTime")),
    "CreateTime",
    "Whether a record keeps its producer's timestamp or gets the broker's.",
    synonyms=("log.message.timestamp.type",),
)
MIN_CLEANABLE_DIRTY_RATIO = Option(
    "min.cleanable.dirty.ratio",
    Double(0, 1),
    0.5,
    "Share of uncompacted bytes at which a compacted log is cleaned.",
    synonyms=("log.cleaner.min.cleanable.ratio",),
)
MIN_COMPACTION_LAG_MS = Option(
    "min.compaction.lag.ms",
    Int(0),
    0,
    "Shortest time a record of a compacted topic stays uncompacted.",
    synonyms=("log.cleaner.min.compaction.lag.ms",),
)
MIN_INSYNC_REPLICAS = Option(
    "min.insync.replicas",
    int32(1),
    1,
    "In-sync replicas that acks=all needs; with fewer the high watermark does not advance.",
    synonyms=("min.insync.replicas",),
)
PREALLOCATE = Option(
    "preallocate",
    Boolean(),
    False,
    "Kept for compatibility: segments always grow as they are written.",
    synonyms=("log.preallocate",),
)
REMOTE_STORAGE_ENABLE = Option(
    "remote.storage.enable", Boolean(), False, "Kept for compatibility: there is no tiered storage."
)
RETENTION_BYTES = Option(
    "retention.bytes",
    Int(-1),
    -1,
    "Size above which a partition's oldest segments are deleted; -1 means no limit.",
    synonyms=("log.retention.bytes",),
)
RETENTION_MS = Option(
    "retention.ms",
    Int(-1),
    7 * DAY_MS,
    "Age after which segments are deleted; -1 means never.",
    synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
SEGMENT_BYTES = Option(
    "segment.bytes",
    int32(1024 * 1024),
    1 << 30,
    "Size at which a new segment is rolled.",
    synonyms=("log.segment.bytes",),
)
SEGMENT_INDEX_BYTES = Option(
    "segment.index.bytes",
    int32(4),
    10 * 1024 * 1024,
    "Largest size of a segment's offset index; a full index rolls a new segment.",
    synonyms=("log.index.size.max.bytes",),
)
SEGMENT_JITTER_MS = Option(
    "segment.jitter.ms",
    Int(0),
    0,
    "Maximum random time subtracted from segment.ms, so that segments do not all roll at once.",
    synonyms=("log.roll.jitter.ms", "log.roll.jitter.hours"),
)
SEGMENT_MS = Option(
    "segment.ms",
    Int(1),
    7 * DAY_MS,
    "Age at which a new segment is rolled even if the old one is not full.",
    synonyms=("log.roll.ms", "log.roll.hours"),
)
UNCLEAN_LEADER_ELECTION_ENABLE = Option(
    "unclean.leader.election.enable",
    Boolean(),
    False,
    "Allow a replica outside the ISR to become leader as a last resort; records it does not have are lost.",
    synonyms=("unclean.leader.election.enable",),
)

TABLE = table_of(vars())


_UNIT_MS: dict[str, int] = {
    "log.retention.minutes": 60_000,
    "log.retention.hours": 3_600_000,
    "log.roll.hours": 3_600_000,
    "log.roll.jitter.hours": 3_600_000,
}


def _in_ms(key: str) -> Callable[[object], object]:
    factor = _UNIT_MS.get(key)
    if factor is None:
        return lambda value: value
    return lambda value: value * factor if isinstance(value, int) and value >= 0 else value


def topic_defaults(settings: Settings) -> Settings:
    """The options of a topic without overrides on a node with these settings. Of several broker keys for one
    topic option the first that is set wins: milliseconds over minutes over hours."""
    given: dict[str, object] = {}
    for option in TABLE:
        for key in option.synonyms:
            if key in settings.given:
                given[option.name] = _in_ms(key)(settings.given[key])
                break
    return Settings(TABLE, given)


def topic_settings(defaults: Settings, overrides: Mapping[str, str]) -> Settings:
    """A topic's options: its overrides on top of the node's defaults. The overrides were checked when they
    were accepted, so an error here names a damaged metadata log."""
    return defaults.having(overrides)
