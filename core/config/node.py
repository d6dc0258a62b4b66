"""The options of a node: Kafka's keys, types and defaults; Rookery's own live under ``rookery.``."""

from rookery.core.config.options import (
    INT_MAX,
    LONG_MAX,
    Boolean,
    Double,
    Int,
    Option,
    Password,
    Reach,
    String,
    WordList,
    int32,
    table_of,
)

_DYNAMIC = Reach.CLUSTER_WIDE

# --- who this node is -------------------------------------------------------------------------------------

PROCESS_ROLES = Option(
    "process.roles",
    WordList(("broker", "controller"), at_least=1),
    ("broker", "controller"),
    "What this node is: a broker, a controller, or both.",
)
NODE_ID = Option(
    "node.id", int32(0), -1, "This node's number, unique in the cluster.", synonyms=("broker.id",)
)
BROKER_RACK = Option(
    "broker.rack", String(), "", "Where this broker stands; replicas are spread over racks.", nullable=True
)
LOG_DIRS = Option(
    "log.dirs",
    WordList(at_least=1),
    ("/tmp/rookery-logs",),
    "Folders that hold the partitions, separated by commas; one that fails takes only its own partitions.",
    synonyms=("log.dir",),
)
METADATA_LOG_DIR = Option(
    "metadata.log.dir", String(), "", "Folder of the metadata log; the first of log.dirs unless set.",
    nullable=True,
)
CLUSTER_ID = Option(
    "rookery.cluster.id",
    String(),
    "",
    "Id of the cluster, 22 characters of base64; needed the first time a node starts on an empty disk.",
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
    "Addresses clients are told to use, one for each listener; the same as listeners unless set.",
    nullable=True,
)
LISTENER_SECURITY_PROTOCOL_MAP = Option(
    "listener.security.protocol.map",
    WordList(),
    (),
    "Which security protocol each listener name speaks, as NAME:PROTOCOL.",
)
INTER_BROKER_LISTENER_NAME = Option(
    "inter.broker.listener.name", String(), "", "The listener that brokers use among themselves.",
    nullable=True,
)
CONTROLLER_LISTENER_NAMES = Option(
    "controller.listener.names",
    WordList(),
    ("CONTROLLER",),
    "The listeners that speak gRPC between controllers and from brokers to controllers.",
)
HTTP_LISTENER = Option(
    "rookery.http.listener",
    String(),
    "",
    "host:port for /metrics, /livez, /readyz and /healthz; none unless set.",
)
CONTROLLER_QUORUM_BOOTSTRAP_SERVERS = Option(
    "controller.quorum.bootstrap.servers",
    WordList(),
    (),
    "host:port of some controllers, to find the quorum by.",
)
CONTROLLER_QUORUM_VOTERS = Option(
    "controller.quorum.voters",
    WordList(),
    (),
    "The first voters of a new cluster, as id@host:port; later changes live in the metadata log.",
)
SSL_KEYSTORE_LOCATION = Option(
    "ssl.keystore.location", String(), "", "PEM file with this node's private key and certificate chain.",
    nullable=True,
)
SSL_TRUSTSTORE_LOCATION = Option(
    "ssl.truststore.location", String(), "", "PEM file with the certificates this node trusts.",
    nullable=True,
)
SSL_KEY_PASSWORD = Option("ssl.key.password", Password(), "", "Password of the private key, if it has one.")
SSL_CLIENT_AUTH = Option(
    "ssl.client.auth",
    String(("required", "requested", "none")),
    "none",
    "Whether clients must show a certificate. Between nodes it is always required when TLS is on.",
)
AUTHORIZER_CLASS_NAME = Option(
    "authorizer.class.name",
    String(),
    "",
    "Kafka's authorizers are accepted while everybody is allowed; there are no access control lists yet.",
)
ALLOW_EVERYONE_IF_NO_ACL_FOUND = Option(
    "allow.everyone.if.no.acl.found",
    Boolean(),
    False,
    "Whether what no access control list speaks of is open to everybody; must be true where an authorizer is named.",
)

# --- connections ------------------------------------------------------------------------------------------

SOCKET_REQUEST_MAX_BYTES = Option(
    "socket.request.max.bytes", int32(1), 100 * 1024 * 1024, "Largest request accepted; a larger one closes."
)
SOCKET_LISTEN_BACKLOG_SIZE = Option(
    "socket.listen.backlog.size", int32(1), 50, "Connections that may wait to be accepted."
)
SOCKET_SEND_BUFFER_BYTES = Option(
    "socket.send.buffer.bytes", int32(-1), 102400, "SO_SNDBUF of connections; -1 leaves it to the system."
)
SOCKET_RECEIVE_BUFFER_BYTES = Option(
    "socket.receive.buffer.bytes", int32(-1), 102400, "SO_RCVBUF of connections; -1 leaves it to the system."
)
CONNECTIONS_MAX_IDLE_MS = Option(
    "connections.max.idle.ms", Int(1), 600_000, "A connection idle for longer is closed."
)
MAX_CONNECTIONS = Option(
    "max.connections", int32(0), INT_MAX, "Connections this broker accepts in all.", reach=_DYNAMIC
)
MAX_CONNECTIONS_PER_IP = Option(
    "max.connections.per.ip", int32(0), INT_MAX, "Connections accepted from one address.", reach=_DYNAMIC
)
MAX_CONNECTIONS_PER_IP_OVERRIDES = Option(
    "max.connections.per.ip.overrides",
    WordList(),
    (),
    "Other limits for some addresses, as address:count.",
    reach=_DYNAMIC,
)
QUOTA_WINDOW_NUM = Option(
    "quota.window.num", int32(1), 11, "Samples of what a client used that count for its quotas."
)
QUOTA_WINDOW_SIZE_SECONDS = Option(
    "quota.window.size.seconds", int32(1), 1, "Length of one such sample."
)
QUEUED_MAX_REQUESTS = Option(
    "queued.max.requests", int32(1), 500, "Requests one connection may have under way before reading pauses."
)
QUEUED_MAX_REQUEST_BYTES = Option(
    "queued.max.request.bytes",
    Int(-1),
    512 * 1024 * 1024,
    "Bytes of large requests that have arrived in part, in all, before reading pauses; -1 means no limit.",
)
FRAME_TIMEOUT_MS = Option(
    "rookery.frame.timeout.ms",
    Int(1),
    30_000,
    "So far behind 64 KB/s may a request that has begun, or an answer being taken, be before the connection is closed.",
)
MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS = Option(
    "max.incremental.fetch.session.cache.slots", int32(0), 1000, "Fetch sessions kept at most."
)
REQUEST_TIMEOUT_MS = Option(
    "request.timeout.ms", int32(1), 30_000, "How long this node waits for an answer of another."
)

# --- topics and their defaults ----------------------------------------------------------------------------

NUM_PARTITIONS = Option("num.partitions", int32(1), 1, "Partitions of a topic whose creator does not say.")
DEFAULT_REPLICATION_FACTOR = Option(
    "default.replication.factor", int32(1), 1, "Replicas of a partition whose creator does not say."
)
AUTO_CREATE_TOPICS_ENABLE = Option(
    "auto.create.topics.enable", Boolean(), True, "Whether asking for an unknown topic creates it."
)
DELETE_TOPIC_ENABLE = Option("delete.topic.enable", Boolean(), True, "Whether topics can be deleted.")
MIN_INSYNC_REPLICAS = Option(
    "min.insync.replicas",
    int32(1),
    1,
    "In-sync replicas that acks=all needs, for topics that do not say.",
    reach=_DYNAMIC,
)
UNCLEAN_LEADER_ELECTION_ENABLE = Option(
    "unclean.leader.election.enable",
    Boolean(),
    False,
    "Whether a replica outside the ISR may lead as a last resort, for topics that do not say.",
    reach=_DYNAMIC,
)
MESSAGE_MAX_BYTES = Option(
    "message.max.bytes",
    int32(0),
    1048588,
    "Largest record batch, for topics that do not say.",
    reach=_DYNAMIC,
)
COMPRESSION_TYPE = Option(
    "compression.type",
    String(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
    "producer",
    "Codec of stored batches, for topics that do not say.",
    reach=_DYNAMIC,
)
COMPRESSION_GZIP_LEVEL = Option(
    "compression.gzip.level", int32(-1, 9), -1, "Level of gzip, for topics that do not say.", reach=_DYNAMIC
)
COMPRESSION_LZ4_LEVEL = Option(
    "compression.lz4.level", int32(1, 17), 9, "Level of lz4, for topics that do not say.", reach=_DYNAMIC
)
COMPRESSION_ZSTD_LEVEL = Option(
    "compression.zstd.level", int32(-131072, 22), 3, "Level of zstd, for topics that do not say.", reach=_DYNAMIC
)
LOG_CLEANUP_POLICY = Option(
    "log.cleanup.policy",
    WordList(("compact", "delete")),
    ("delete",),
    "What becomes of old segments, for topics that do not say.",
    reach=_DYNAMIC,
)
LOG_RETENTION_MS = Option(
    "log.retention.ms",
    Int(-1),
    -2,
    "Age after which segments are deleted; wins over the keys in minutes and hours.",
    reach=_DYNAMIC,
    nullable=True,
)
LOG_RETENTION_MINUTES = Option(
    "log.retention.minutes", int32(-1), -2, "The same in minutes; wins over the key in hours.",
    nullable=True,
)
LOG_RETENTION_HOURS = Option("log.retention.hours", int32(-1), 168, "The same in hours.")
LOG_RETENTION_BYTES = Option(
    "log.retention.bytes",
    Int(-1),
    -1,
    "Size of a partition above which segments are deleted.",
    reach=_DYNAMIC,
)
LOG_RETENTION_CHECK_INTERVAL_MS = Option(
    "log.retention.check.interval.ms", Int(1), 300_000, "How often segments are looked over for deletion."
)
LOG_SEGMENT_BYTES = Option(
    "log.segment.bytes", int32(1024 * 1024), 1 << 30, "Size at which a segment is closed.", reach=_DYNAMIC
)
LOG_ROLL_MS = Option(
    "log.roll.ms", Int(1), LONG_MAX, "Age at which a segment is closed.", reach=_DYNAMIC, nullable=True
)
LOG_ROLL_HOURS = Option("log.roll.hours", int32(1), 168, "The same in hours, unless log.roll.ms is set.")
LOG_ROLL_JITTER_MS = Option(
    "log.roll.jitter.ms", Int(0), 0, "Random time taken off it.", reach=_DYNAMIC, nullable=True
)
LOG_INDEX_INTERVAL_BYTES = Option(
    "log.index.interval.bytes", int32(0), 4096, "Bytes of log between two index entries.", reach=_DYNAMIC
)
LOG_INDEX_SIZE_MAX_BYTES = Option(
    "log.index.size.max.bytes", int32(4), 10 * 1024 * 1024, "Largest offset index.", reach=_DYNAMIC
)
LOG_SEGMENT_DELETE_DELAY_MS = Option(
    "log.segment.delete.delay.ms", Int(0), 60_000, "How long a deleted file is kept.", reach=_DYNAMIC
)
LOG_FLUSH_INTERVAL_MESSAGES = Option(
    "log.flush.interval.messages",
    Int(1),
    LONG_MAX,
    "Records after which a log is forced to disk.",
    reach=_DYNAMIC,
)
LOG_FLUSH_INTERVAL_MS = Option(
    "log.flush.interval.ms", Int(0), LONG_MAX, "Longest time a record stays unforced.", reach=_DYNAMIC,
    nullable=True,
)
LOG_FLUSH_SCHEDULER_INTERVAL_MS = Option(
    "log.flush.scheduler.interval.ms", Int(1), LONG_MAX, "How often logs are looked over for flushing."
)
LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS = Option(
    "log.flush.offset.checkpoint.interval.ms", int32(1), 60_000, "How often recovery points are written down."
)
LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS = Option(
    "log.flush.start.offset.checkpoint.interval.ms", int32(1), 60_000, "Likewise log start offsets."
)
LOG_MESSAGE_TIMESTAMP_TYPE = Option(
    "log.message.timestamp.type",
    String(("CreateTime", "LogAppendTime")),
    "CreateTime",
    "Whose clock stamps records, for topics that do not say.",
    reach=_DYNAMIC,
)
LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS = Option(
    "log.message.timestamp.before.max.ms",
    Int(0),
    LONG_MAX,
    "How far back a timestamp may be.",
    reach=_DYNAMIC,
)
LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS = Option(
    "log.message.timestamp.after.max.ms", Int(0), 3_600_000, "How far ahead it may be.", reach=_DYNAMIC
)
LOG_CLEANER_ENABLE = Option("log.cleaner.enable", Boolean(), True, "Whether compaction runs at all.")
LOG_CLEANER_BACKOFF_MS = Option(
    "log.cleaner.backoff.ms", Int(0), 15_000, "Pause of the cleaner when there is nothing to clean."
)
LOG_CLEANER_DEDUPE_BUFFER_SIZE = Option(
    "log.cleaner.dedupe.buffer.size", Int(1024), 128 * 1024 * 1024, "Memory for the map of keys."
)
LOG_CLEANER_IO_MAX_BYTES_PER_SECOND = Option(
    "log.cleaner.io.max.bytes.per.second", Double(0), 1.7976931348623157e308, "Limit of the cleaner's I/O."
)
LOG_CLEANER_DELETE_RETENTION_MS = Option(
    "log.cleaner.delete.retention.ms", Int(0), 86_400_000, "How long tombstones stay.", reach=_DYNAMIC
)
LOG_CLEANER_MIN_CLEANABLE_RATIO = Option(
    "log.cleaner.min.cleanable.ratio",
    Double(0, 1),
    0.5,
    "Dirty share that makes a log cleanable.",
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
    "log.cleaner.max.compaction.lag.ms", Int(1), LONG_MAX, "Longest time it may.", reach=_DYNAMIC
)
SCRUB_ENABLE = Option(
    "rookery.scrub.enable", Boolean(), True, "Whether closed segments are read and checked in the background."
)
SCRUB_INTERVAL_MS = Option(
    "rookery.scrub.interval.ms", Int(1000), 604_800_000, "How often every closed segment is checked."
)
SCRUB_BYTES_PER_SECOND = Option(
    "rookery.scrub.bytes.per.second", Int(1024), 4 * 1024 * 1024, "Limit of what that reads from the disks."
)
VALIDATE_RECORDS = Option(
    "rookery.validate.records",
    String(("compacted", "all")),
    "compacted",
    "Which topics have the records inside each batch checked: only compacted ones, or all.",
)
PRODUCER_ID_EXPIRATION_MS = Option(
    "producer.id.expiration.ms", int32(1), 86_400_000, "How long the state of a silent producer is kept."
)
NUM_RECOVERY_THREADS_PER_DATA_DIR = Option(
    "num.recovery.threads.per.data.dir", int32(1), 2, "Threads per log dir that recover partitions at start."
)

# --- replication ------------------------------------------------------------------------------------------

REPLICA_LAG_TIME_MAX_MS = Option(
    "replica.lag.time.max.ms", Int(1), 30_000, "A follower behind for longer leaves the ISR."
)
REPLICA_FETCH_WAIT_MAX_MS = Option(
    "replica.fetch.wait.max.ms", int32(1), 500, "How long a leader may hold a follower's fetch."
)
REPLICA_FETCH_MIN_BYTES = Option("replica.fetch.min.bytes", int32(0), 1, "Bytes that end such a wait.")
REPLICA_FETCH_MAX_BYTES = Option(
    "replica.fetch.max.bytes", int32(0), 1048576, "Bytes per partition in one answer to a follower."
)
REPLICA_FETCH_RESPONSE_MAX_BYTES = Option(
    "replica.fetch.response.max.bytes",
    int32(0),
    1048576,
    "Bytes in one answer to a follower; small answers stay in the processor's cache.",
)
REPLICA_FETCH_BACKOFF_MS = Option(
    "replica.fetch.backoff.ms", int32(0), 1000, "Pause of a follower after a failed fetch."
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
    "Bytes a second that throttled replicas may fetch from this broker while they are out of sync.",
    reach=Reach.PER_BROKER,
)
FOLLOWER_REPLICATION_THROTTLED_RATE = Option(
    "follower.replication.throttled.rate",
    Int(0),
    LONG_MAX,
    "Bytes a second that this broker fetches for throttled replicas of its own while they are out of sync.",
    reach=Reach.PER_BROKER,
)
REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND = Option(
    "replica.alter.log.dirs.io.max.bytes.per.second",
    Int(0),
    LONG_MAX,
    "Kept for Kafka's tools, which reset it after a move: replicas do not move between directories.",
    reach=Reach.PER_BROKER,
)
REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS = Option(
    "replica.high.watermark.checkpoint.interval.ms",
    Int(1),
    5000,
    "How often high watermarks are written down.",
)
AUTO_LEADER_REBALANCE_ENABLE = Option(
    "auto.leader.rebalance.enable",
    Boolean(),
    True,
    "Whether leadership returns to preferred replicas by itself.",
)
LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS = Option(
    "leader.imbalance.check.interval.seconds", Int(1), 300, "How often that is looked at."
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
    "Partitions of __consumer_offsets, when it is made; each is coordinated by its leader.",
)
OFFSETS_TOPIC_REPLICATION_FACTOR = Option(
    "offsets.topic.replication.factor",
    int32(1),
    3,
    "Replicas of __consumer_offsets; it is not made while there are fewer brokers.",
)
OFFSETS_TOPIC_SEGMENT_BYTES = Option(
    "offsets.topic.segment.bytes",
    int32(1),
    100 * 1024 * 1024,
    "Size of its segments; small ones are compacted sooner and load faster.",
)
OFFSETS_TOPIC_COMPRESSION_CODEC = Option(
    "offsets.topic.compression.codec",
    int32(0, 4),
    0,
    "Codec of its batches: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
)
OFFSETS_RETENTION_MINUTES = Option(
    "offsets.retention.minutes",
    int32(1),
    10_080,
    "How long offsets outlast the last member of their group, or, without members, their commit.",
)
OFFSETS_RETENTION_CHECK_INTERVAL_MS = Option(
    "offsets.retention.check.interval.ms", Int(1), 600_000, "How often that is looked at."
)
OFFSET_METADATA_MAX_BYTES = Option(
    "offset.metadata.max.bytes", int32(0), 4096, "Largest note that may be stored with an offset."
)
OFFSETS_COMMIT_TIMEOUT_MS = Option(
    "offsets.commit.timeout.ms",
    int32(1),
    5000,
    "How long a coordinator waits for the replicas of what it wrote before it answers with an error.",
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
    "broker.heartbeat.interval.ms", int32(1), 2000, "How often a broker reports to the controller."
)
BROKER_SESSION_TIMEOUT_MS = Option(
    "broker.session.timeout.ms", int32(1), 9000, "A broker silent for longer is fenced."
)
RECONNECT_GRACE_MS = Option(
    "rookery.broker.reconnect.grace.ms",
    int32(0),
    500,
    "A broker whose control connection closed and who does not return within this time is fenced early.",
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
    "Whether a stopping broker first hands over its leaderships.",
)
CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS = Option(
    "controller.quorum.election.timeout.ms", int32(1), 1000, "Longest wait for the votes of one election."
)
CONTROLLER_QUORUM_FETCH_TIMEOUT_MS = Option(
    "controller.quorum.fetch.timeout.ms", int32(1), 2000, "Time without the leader after which voters elect."
)
CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS = Option(
    "controller.quorum.election.backoff.max.ms", int32(1), 1000, "Longest random pause between two elections."
)
CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS = Option(
    "controller.quorum.request.timeout.ms", int32(1), 2000, "Deadline of calls between controllers."
)
METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS = Option(
    "metadata.log.max.record.bytes.between.snapshots",
    Int(1),
    20 * 1024 * 1024,
    "Log size that calls for a snapshot.",
)
METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS = Option(
    "metadata.log.max.snapshot.interval.ms",
    Int(0),
    3_600_000,
    "Time that calls for a snapshot; 0 means never.",
)
METADATA_LOG_SEGMENT_BYTES = Option(
    "metadata.log.segment.bytes", int32(8 * 1024 * 1024), 1 << 30, "Size of a segment of the metadata log."
)
METADATA_MAX_IDLE_INTERVAL_MS = Option(
    "metadata.max.idle.interval.ms",
    int32(0),
    500,
    "How often an idle controller writes a record; 0 means never.",
)

# --- watching it ------------------------------------------------------------------------------------------

LOG_STYLE = Option(
    "rookery.log.style", String(("human", "json")), "human", "Form of log lines: for people, or JSON."
)
LOG_LEVEL = Option(
    "rookery.log.level", String(("DEBUG", "INFO", "WARNING", "ERROR")), "INFO", "Least level that is logged."
)
METRICS_DIALECTS = Option(
    "rookery.metrics.dialects",
    WordList(("strimzi", "strimzi-reporter", "mixin")),
    (),
    "Other exporters by whose names metrics are told as well, for dashboards that were written for those.",
)
METRICS_MAX_PARTITIONS = Option(
    "rookery.metrics.max.partitions",
    int32(0),
    10_000,
    "How many partitions a metric tells of one by one; rookery_metrics_left_out counts what had no room.",
)

TABLE = table_of(vars())
