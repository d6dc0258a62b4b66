"""The options of a node: Kafka's keys, types and defaults; Rookery's own live under ``rookery.``."""

from rookery.core.config import consumer_groups, security, transactions
from rookery.core.config.options import (
    INT_MAX,
    LONG_MAX,
    Boolean,
    Double,
    Int,
    Option,
    Settings,
    String,
    UpdateMode,
    WordList,
    int32,
    options_of,
)

_DYNAMIC = UpdateMode.CLUSTER_WIDE

# --- who this node is -------------------------------------------------------------------------------------

PROCESS_ROLES = Option(
    "process.roles",
    WordList(("broker", "controller"), at_least=1),
    ("broker", "controller"),
    "Roles of this node: broker, controller, or both.",
)
NODE_ID = Option(
    "node.id", int32(0), -1, "Id of this node, unique in the cluster.", synonyms=("broker.id",)
)
BROKER_RACK = Option(
    "broker.rack", String(), "", "Rack of this broker; replicas are spread over racks.", nullable=True
)
LOG_DIRS = Option(
    "log.dirs",
    WordList(at_least=1),
    ("/tmp/rookery-logs",),
    "Log directories, separated by commas; if one fails, only its own partitions go offline.",
    synonyms=("log.dir",),
)
METADATA_LOG_DIR = Option(
    "metadata.log.dir", String(), "", "Directory of the metadata log; the first of log.dirs if not set.",
    nullable=True,
)
CLUSTER_ID = Option(
    "rookery.cluster.id",
    String(),
    "",
    "Cluster id, 22 characters of base64; needed when a node starts on an empty disk.",
)

# --- where it listens -------------------------------------------------------------------------------------

LISTENERS = Option(
    "listeners",
    WordList(at_least=1),
    ("PLAINTEXT://127.0.0.1:9092", "CONTROLLER://127.0.0.1:9093"),
    "Addresses this node listens on, as NAME://host:port.",
)
ADVERTISED_LISTENERS = Option(
    "advertised.listeners",
    WordList(),
    (),
    "Addresses sent to clients, one for each listener; the same as listeners if not set.",
    nullable=True,
)
LISTENER_SECURITY_PROTOCOL_MAP = Option(
    "listener.security.protocol.map",
    WordList(),
    (),
    "Security protocol of each listener, as NAME:PROTOCOL.",
)
INTER_BROKER_LISTENER_NAME = Option(
    "inter.broker.listener.name", String(), "", "Listener for connections between brokers.",
    nullable=True,
)
CONTROLLER_LISTENER_NAMES = Option(
    "controller.listener.names",
    WordList(),
    ("CONTROLLER",),
    "Listeners for gRPC: between controllers, and from brokers to controllers.",
)
HTTP_LISTENER = Option(
    "rookery.http.listener",
    String(),
    "",
    "host:port for /metrics, /livez, /readyz, /healthz and /events; no HTTP if not set.",
)
CONTROLLER_QUORUM_BOOTSTRAP_SERVERS = Option(
    "controller.quorum.bootstrap.servers",
    WordList(),
    (),
    "host:port of some controllers, used to find the quorum.",
)
CONTROLLER_QUORUM_VOTERS = Option(
    "controller.quorum.voters",
    WordList(),
    (),
    "First voters of a new cluster, as id@host:port; later the metadata log decides.",
)

# --- connections ------------------------------------------------------------------------------------------

SOCKET_REQUEST_MAX_BYTES = Option(
    "socket.request.max.bytes", int32(1), 100 * 1024 * 1024, "Largest request; a larger one closes the connection."
)
SOCKET_LISTEN_BACKLOG_SIZE = Option(
    "socket.listen.backlog.size", int32(1), 50, "Length of the queue of connections that wait for accept."
)
SOCKET_SEND_BUFFER_BYTES = Option(
    "socket.send.buffer.bytes", int32(-1), 102400, "SO_SNDBUF of connections; -1 leaves it to the system."
)
SOCKET_RECEIVE_BUFFER_BYTES = Option(
    "socket.receive.buffer.bytes", int32(-1), 102400, "SO_RCVBUF of connections; -1 leaves it to the system."
)
CONNECTIONS_MAX_IDLE_MS = Option(
    "connections.max.idle.ms", Int(1), 600_000, "Close connections that are idle for longer."
)
MAX_CONNECTIONS = Option(
    "max.connections", int32(0), INT_MAX, "Maximum number of connections of this broker.", reach=_DYNAMIC
)
MAX_CONNECTIONS_PER_IP = Option(
    "max.connections.per.ip", int32(0), INT_MAX, "Maximum number of connections from one IP address.", reach=_DYNAMIC
)
MAX_CONNECTIONS_PER_IP_OVERRIDES = Option(
    "max.connections.per.ip.overrides",
    WordList(),
    (),
    "Limits for single IP addresses, as address:count.",
    reach=_DYNAMIC,
)
QUOTA_WINDOW_NUM = Option(
    "quota.window.num", int32(1), 11, "Number of samples kept to compute a client's rate."
)
QUOTA_WINDOW_SIZE_SECONDS = Option(
    "quota.window.size.seconds", int32(1), 1, "Length of one sample."
)
QUEUED_MAX_REQUESTS = Option(
    "queued.max.requests", int32(1), 500, "Unanswered requests of one connection before reading from it pauses."
)
QUEUED_MAX_REQUEST_BYTES = Option(
    "queued.max.request.bytes",
    Int(-1),
    512 * 1024 * 1024,
    "Bytes of all incomplete large requests before reading pauses; -1 means no limit.",
)
FRAME_TIMEOUT_MS = Option(
    "rookery.frame.timeout.ms",
    Int(1),
    30_000,
    "Close a connection that sends a request, or reads a response, this much later than at 64 KB/s.",
)
MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS = Option(
    "max.incremental.fetch.session.cache.slots", int32(0), 1000, "Maximum number of fetch sessions."
)
REQUEST_TIMEOUT_MS = Option(
    "request.timeout.ms", int32(1), 30_000, "How long this node waits for a response from another node."
)

# --- topics and their defaults ----------------------------------------------------------------------------

NUM_PARTITIONS = Option("num.partitions", int32(1), 1, "Default number of partitions of a new topic.")
DEFAULT_REPLICATION_FACTOR = Option(
    "default.replication.factor", int32(1), 1, "Default replication factor of a new topic."
)
AUTO_CREATE_TOPICS_ENABLE = Option(
    "auto.create.topics.enable", Boolean(), True, "Create a topic when a client asks for its metadata."
)
DELETE_TOPIC_ENABLE = Option("delete.topic.enable", Boolean(), True, "Allow topics to be deleted.")
MIN_INSYNC_REPLICAS = Option(
    "min.insync.replicas",
    int32(1),
    1,
    "In-sync replicas that acks=all needs; default for topics.",
    reach=_DYNAMIC,
)
UNCLEAN_LEADER_ELECTION_ENABLE = Option(
    "unclean.leader.election.enable",
    Boolean(),
    False,
    "Allow a replica outside the ISR to become leader as a last resort; default for topics.",
    reach=_DYNAMIC,
)
MESSAGE_MAX_BYTES = Option(
    "message.max.bytes",
    int32(0),
    1048588,
    "Largest record batch; default for topics.",
    reach=_DYNAMIC,
)
COMPRESSION_TYPE = Option(
    "compression.type",
    String(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
    "producer",
    "Codec of stored batches; default for topics.",
    reach=_DYNAMIC,
)
COMPRESSION_GZIP_LEVEL = Option(
    "compression.gzip.level", int32(-1, 9), -1, "Level of gzip; default for topics.", reach=_DYNAMIC
)
COMPRESSION_LZ4_LEVEL = Option(
    "compression.lz4.level", int32(1, 17), 9, "Level of lz4; default for topics.", reach=_DYNAMIC
)
COMPRESSION_ZSTD_LEVEL = Option(
    "compression.zstd.level", int32(-131072, 22), 3, "Level of zstd; default for topics.", reach=_DYNAMIC
)
LOG_CLEANUP_POLICY = Option(
    "log.cleanup.policy",
    WordList(("compact", "delete")),
    ("delete",),
    "Delete old segments, compact them, or both; default for topics.",
    reach=_DYNAMIC,
)
LOG_RETENTION_MS = Option(
    "log.retention.ms",
    Int(-1),
    -2,
    "Age after which segments are deleted; overrides log.retention.minutes and log.retention.hours.",
    reach=_DYNAMIC,
    nullable=True,
)
LOG_RETENTION_MINUTES = Option(
    "log.retention.minutes", int32(-1), -2, "log.retention.ms in minutes; overrides log.retention.hours.",
    nullable=True,
)
LOG_RETENTION_HOURS = Option("log.retention.hours", int32(-1), 168, "log.retention.ms in hours.")
LOG_RETENTION_BYTES = Option(
    "log.retention.bytes",
    Int(-1),
    -1,
    "Size of a partition above which its oldest segments are deleted.",
    reach=_DYNAMIC,
)
LOG_RETENTION_CHECK_INTERVAL_MS = Option(
    "log.retention.check.interval.ms", Int(1), 300_000, "How often segments are checked for deletion."
)
LOG_SEGMENT_BYTES = Option(
    "log.segment.bytes", int32(1024 * 1024), 1 << 30, "Size at which a new segment is rolled.", reach=_DYNAMIC
)
LOG_ROLL_MS = Option(
    "log.roll.ms", Int(1), LONG_MAX, "Age at which a new segment is rolled.", reach=_DYNAMIC, nullable=True
)
LOG_ROLL_HOURS = Option("log.roll.hours", int32(1), 168, "log.roll.ms in hours; used if log.roll.ms is not set.")
LOG_ROLL_JITTER_MS = Option(
    "log.roll.jitter.ms", Int(0), 0, "Maximum random time subtracted from log.roll.ms.", reach=_DYNAMIC, nullable=True
)
LOG_INDEX_INTERVAL_BYTES = Option(
    "log.index.interval.bytes", int32(0), 4096, "Bytes of log between two index entries.", reach=_DYNAMIC
)
LOG_INDEX_SIZE_MAX_BYTES = Option(
    "log.index.size.max.bytes", int32(4), 10 * 1024 * 1024, "Largest offset index.", reach=_DYNAMIC
)
LOG_SEGMENT_DELETE_DELAY_MS = Option(
    "log.segment.delete.delay.ms", Int(0), 60_000, "How long the file of a deleted segment is kept.", reach=_DYNAMIC
)
LOG_FLUSH_INTERVAL_MESSAGES = Option(
    "log.flush.interval.messages",
    Int(1),
    LONG_MAX,
    "Number of records after which a log is fsynced.",
    reach=_DYNAMIC,
)
LOG_FLUSH_INTERVAL_MS = Option(
    "log.flush.interval.ms", Int(0), LONG_MAX, "Longest time before a record is fsynced.", reach=_DYNAMIC,
    nullable=True,
)
LOG_FLUSH_SCHEDULER_INTERVAL_MS = Option(
    "log.flush.scheduler.interval.ms", Int(1), LONG_MAX, "How often logs are checked for flushing."
)
LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS = Option(
    "log.flush.offset.checkpoint.interval.ms", int32(1), 60_000, "How often recovery points are checkpointed."
)
LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS = Option(
    "log.flush.start.offset.checkpoint.interval.ms", int32(1), 60_000, "How often log start offsets are checkpointed."
)
LOG_MESSAGE_TIMESTAMP_TYPE = Option(
    "log.message.timestamp.type",
    String(("CreateTime", "LogAppendTime")),
    "CreateTime",
    "Timestamps of the producer or of the broker; default for topics.",
    reach=_DYNAMIC,
)
LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS = Option(
    "log.message.timestamp.before.max.ms",
    Int(0),
    LONG_MAX,
    "How far a timestamp may be behind the broker's clock.",
    reach=_DYNAMIC,
)
LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS = Option(
    "log.message.timestamp.after.max.ms", Int(0), 3_600_000,
    "How far a timestamp may be ahead of the broker's clock.", reach=_DYNAMIC,
)
LOG_CLEANER_ENABLE = Option("log.cleaner.enable", Boolean(), True, "Run the log cleaner (compaction).")
LOG_CLEANER_BACKOFF_MS = Option(
    "log.cleaner.backoff.ms", Int(0), 15_000, "Sleep of the log cleaner when there is nothing to clean."
)
LOG_CLEANER_DEDUPE_BUFFER_SIZE = Option(
    "log.cleaner.dedupe.buffer.size", Int(1024), 128 * 1024 * 1024, "Memory for the cleaner's map of keys."
)
LOG_CLEANER_IO_MAX_BYTES_PER_SECOND = Option(
    "log.cleaner.io.max.bytes.per.second", Double(0), 1.7976931348623157e308, "Limit of the cleaner's reads and writes."
)
LOG_CLEANER_DELETE_RETENTION_MS = Option(
    "log.cleaner.delete.retention.ms", Int(0), 86_400_000,
    "How long tombstones are kept in compacted topics.", reach=_DYNAMIC,
)
LOG_CLEANER_MIN_CLEANABLE_RATIO = Option(
    "log.cleaner.min.cleanable.ratio",
    Double(0, 1),
    0.5,
    "Share of uncompacted bytes at which a log is cleaned.",
    reach=_DYNAMIC,
)
LOG_CLEANER_MIN_COMPACTION_LAG_MS = Option(
    "log.cleaner.min.compaction.lag.ms",
    Int(0),
    0,
    "Shortest time a record stays uncompacted.",
    reach=_DYNAMIC,
)
LOG_CLEANER_MAX_COMPACTION_LAG_MS = Option(
    "log.cleaner.max.compaction.lag.ms", Int(1), LONG_MAX, "Longest time a record stays uncompacted.", reach=_DYNAMIC
)
SCRUB_ENABLE = Option(
    "rookery.scrub.enable", Boolean(), True, "Check closed segments for damage in the background."
)
SCRUB_INTERVAL_MS = Option(
    "rookery.scrub.interval.ms", Int(1000), 604_800_000, "How often every closed segment is checked."
)
SCRUB_BYTES_PER_SECOND = Option(
    "rookery.scrub.bytes.per.second", Int(1024), 4 * 1024 * 1024, "Limit of the reads of these checks."
)
VALIDATE_RECORDS = Option(
    "rookery.validate.records",
    String(("compacted", "all")),
    "compacted",
    "Check the records inside each batch: only in compacted topics, or in all.",
)
PRODUCER_ID_EXPIRATION_MS = Option(
    "producer.id.expiration.ms", int32(1), 86_400_000, "How long the state of an idle producer is kept."
)
NUM_RECOVERY_THREADS_PER_DATA_DIR = Option(
    "num.recovery.threads.per.data.dir", int32(1), 2, "Threads per log directory that recover partitions at start."
)

# --- replication ------------------------------------------------------------------------------------------

REPLICA_LAG_TIME_MAX_MS = Option(
    "replica.lag.time.max.ms", Int(1), 30_000, "A follower that has not caught up for longer leaves the ISR."
)
REPLICA_FETCH_WAIT_MAX_MS = Option(
    "replica.fetch.wait.max.ms", int32(1), 500, "How long a leader may delay the response to a follower's fetch."
)
REPLICA_FETCH_MIN_BYTES = Option(
    "replica.fetch.min.bytes", int32(0), 1, "Bytes for which a follower's fetch is answered at once."
)
REPLICA_FETCH_MAX_BYTES = Option(
    "replica.fetch.max.bytes", int32(0), 1048576, "Bytes per partition in one fetch response to a follower."
)
REPLICA_FETCH_RESPONSE_MAX_BYTES = Option(
    "replica.fetch.response.max.bytes",
    int32(0),
    1048576,
    "Bytes in one fetch response to a follower; small responses stay in the CPU cache.",
)
REPLICA_FETCH_BACKOFF_MS = Option(
    "replica.fetch.backoff.ms", int32(0), 1000, "Back-off of a follower after a failed fetch."
)
RACK_AWARE_SELECTORS = ("org.apache.kafka.common.replica.RackAwareReplicaSelector", "RackAwareReplicaSelector")
REPLICA_SELECTOR_CLASS = Option(
    "replica.selector.class",
    String(("", *RACK_AWARE_SELECTORS, "org.apache.kafka.common.replica.LeaderSelector")),
    "",
    "RackAwareReplicaSelector lets consumers that set client.rack read from a replica in their rack.",
    nullable=True,
)
LEADER_REPLICATION_THROTTLED_RATE = Option(
    "leader.replication.throttled.rate",
    Int(0),
    LONG_MAX,
    "Bytes per second that throttled replicas fetch from this broker while they are out of sync.",
    reach=UpdateMode.PER_BROKER,
)
FOLLOWER_REPLICATION_THROTTLED_RATE = Option(
    "follower.replication.throttled.rate",
    Int(0),
    LONG_MAX,
    "Bytes per second that this broker fetches for its throttled replicas while they are out of sync.",
    reach=UpdateMode.PER_BROKER,
)
REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND = Option(
    "replica.alter.log.dirs.io.max.bytes.per.second",
    Int(0),
    LONG_MAX,
    "Kept for Kafka's tools, which reset it after a move: replicas do not move between directories.",
    reach=UpdateMode.PER_BROKER,
)
REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS = Option(
    "replica.high.watermark.checkpoint.interval.ms",
    Int(1),
    5000,
    "How often high watermarks are checkpointed.",
)
AUTO_LEADER_REBALANCE_ENABLE = Option(
    "auto.leader.rebalance.enable",
    Boolean(),
    True,
    "Move leaders back to their preferred replicas automatically.",
)
LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS = Option(
    "leader.imbalance.check.interval.seconds", Int(1), 300, "How often preferred leaders are checked."
)

# --- groups -----------------------------------------------------------------------------------------------

GROUP_MIN_SESSION_TIMEOUT_MS = Option(
    "group.min.session.timeout.ms", int32(0), 6000, "Shortest session timeout a member may ask for."
)
GROUP_MAX_SESSION_TIMEOUT_MS = Option(
    "group.max.session.timeout.ms", int32(1), 1_800_000, "Longest session timeout a member may ask for."
)
GROUP_INITIAL_REBALANCE_DELAY_MS = Option(
    "group.initial.rebalance.delay.ms",
    int32(0),
    3000,
    "How long an empty group waits for more members after the first has joined.",
)
GROUP_MAX_SIZE = Option("group.max.size", int32(1), INT_MAX, "Members a group may have.")
OFFSETS_TOPIC_NUM_PARTITIONS = Option(
    "offsets.topic.num.partitions",
    int32(1),
    50,
    "Partitions of __consumer_offsets when it is created; the leader of each is a coordinator.",
)
OFFSETS_TOPIC_REPLICATION_FACTOR = Option(
    "offsets.topic.replication.factor",
    int32(1),
    3,
    "Replicas of __consumer_offsets; it is not created while there are fewer brokers.",
)
OFFSETS_TOPIC_SEGMENT_BYTES = Option(
    "offsets.topic.segment.bytes",
    int32(1),
    100 * 1024 * 1024,
    "Segment size of __consumer_offsets; small segments are compacted earlier and load faster.",
)
OFFSETS_TOPIC_COMPRESSION_CODEC = Option(
    "offsets.topic.compression.codec",
    int32(0, 4),
    0,
    "Codec of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
)
OFFSETS_RETENTION_MINUTES = Option(
    "offsets.retention.minutes",
    int32(1),
    10_080,
    "How long offsets are kept after the last member left, or after the commit if there were no members.",
)
OFFSETS_RETENTION_CHECK_INTERVAL_MS = Option(
    "offsets.retention.check.interval.ms", Int(1), 600_000, "How often offsets are checked for expiry."
)
OFFSET_METADATA_MAX_BYTES = Option(
    "offset.metadata.max.bytes", int32(0), 4096, "Largest metadata string stored with an offset."
)
OFFSETS_COMMIT_TIMEOUT_MS = Option(
    "offsets.commit.timeout.ms",
    int32(1),
    5000,
    "How long a coordinator waits for the replication of its records before it answers with an error.",
)
OFFSETS_LOAD_BUFFER_SIZE = Option(
    "offsets.load.buffer.size",
    int32(1),
    5 * 1024 * 1024,
    "Bytes of __consumer_offsets read at a time when a broker takes over as coordinator.",
)
LAG_INTERVAL_MS = Option(
    "rookery.group.lag.interval.ms",
    Int(0),
    10_000,
    "How often the lag of groups is measured for the metrics; 0 means never.",
)

# --- broker and controller --------------------------------------------------------------------------------

BROKER_HEARTBEAT_INTERVAL_MS = Option(
    "broker.heartbeat.interval.ms", int32(1), 2000, "How often a broker sends a heartbeat to the controller."
)
BROKER_SESSION_TIMEOUT_MS = Option(
    "broker.session.timeout.ms", int32(1), 9000, "A broker that sends no heartbeat for this time is fenced."
)
RECONNECT_GRACE_MS = Option(
    "rookery.broker.reconnect.grace.ms",
    int32(0),
    500,
    "A broker is fenced early if its connection to the controller closed and is not back within this time.",
)
INITIAL_BROKER_REGISTRATION_TIMEOUT_MS = Option(
    "initial.broker.registration.timeout.ms",
    int32(1),
    60_000,
    "How long a starting broker tries to register.",
)
CONTROLLED_SHUTDOWN_ENABLE = Option(
    "controlled.shutdown.enable",
    Boolean(),
    True,
    "Move leaders to other brokers before a broker stops.",
)
CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS = Option(
    "controller.quorum.election.timeout.ms", int32(1), 1000, "Longest wait for the votes of an election."
)
CONTROLLER_QUORUM_FETCH_TIMEOUT_MS = Option(
    "controller.quorum.fetch.timeout.ms", int32(1), 2000,
    "A voter starts an election after this time without a response from the leader.",
)
CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS = Option(
    "controller.quorum.election.backoff.max.ms", int32(1), 1000, "Longest random back-off between two elections."
)
CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS = Option(
    "controller.quorum.request.timeout.ms", int32(1), 2000, "Deadline of calls between controllers."
)
METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS = Option(
    "metadata.log.max.record.bytes.between.snapshots",
    Int(1),
    20 * 1024 * 1024,
    "Bytes of metadata log after which a snapshot is written.",
)
METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS = Option(
    "metadata.log.max.snapshot.interval.ms",
    Int(0),
    3_600_000,
    "Time after which a snapshot is written; 0 means never.",
)
METADATA_LOG_SEGMENT_BYTES = Option(
    "metadata.log.segment.bytes", int32(8 * 1024 * 1024), 1 << 30, "Size of a segment of the metadata log."
)
METADATA_MAX_IDLE_INTERVAL_MS = Option(
    "metadata.max.idle.interval.ms",
    int32(0),
    500,
    "How often an idle controller writes a no-op record; 0 means never.",
)

# --- monitoring -----------------------------------------------------------------------------------------

LOG_STYLE = Option(
    "rookery.log.style", String(("human", "json")), "human", "Format of log lines: text or JSON."
)
LOG_LEVEL = Option(
    "rookery.log.level", String(("DEBUG", "INFO", "WARNING", "ERROR")), "INFO", "Lowest level that is logged."
)
METRICS_DIALECTS = Option(
    "rookery.metrics.dialects",
    WordList(("strimzi", "strimzi-reporter", "mixin")),
    (),
    "Other exporters whose metric names are exported too, for dashboards that use them.",
)
METRICS_MAX_PARTITIONS = Option(
    "rookery.metrics.max.partitions",
    int32(0),
    10_000,
    "Maximum number of partitions exported one by one; rookery_metrics_left_out counts the rest.",
)

METRICS_HIDE_NAMES = Option(
    "rookery.metrics.hide.names",
    Boolean(),
    False,
    "Metrics show groups, users and client ids as short digests of their names, for a monitoring that must not see "
    "the names. Alerts work as before.",
)

TABLE = security.NodeTable(
    options_of({**vars(), **vars(security), **vars(transactions), **consumer_groups.NODE_OPTIONS})
)


def metadata_log_dir(settings: Settings) -> str:
    return settings[METADATA_LOG_DIR] or settings[LOG_DIRS][0]
