"""Options of transactions, as a node's configuration has them."""

from rookery.core.config.options import Boolean, Option, UpdateMode, int32

PARTITION_VERIFICATION_ENABLE = Option(
    "transaction.partition.verification.enable",
    Boolean(),
    True,
    "Ask the coordinator before the first batch of a transaction is written to a partition.",
    reach=UpdateMode.CLUSTER_WIDE,
)
ADD_PARTITIONS_RETRY_BACKOFF_MS = Option(
    "add.partitions.to.txn.retry.backoff.ms",
    int32(1),
    20,
    "Pause before a coordinator that still ends the transaction before is asked again.",
)
ADD_PARTITIONS_RETRY_BACKOFF_MAX_MS = Option(
    "add.partitions.to.txn.retry.backoff.max.ms",
    int32(0),
    100,
    "How long the broker retries before the producer gets the error.",
)
MAX_TIMEOUT_MS = Option(
    "transaction.max.timeout.ms", int32(1), 900_000, "Longest timeout a transactional producer may ask for."
)
ID_EXPIRATION_MS = Option(
    "transactional.id.expiration.ms",
    int32(1),
    604_800_000,
    "How long a transactional id is remembered after its last transaction.",
)
ABORT_TIMED_OUT_INTERVAL_MS = Option(
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    int32(1),
    10_000,
    "How often transactions that are open for too long are looked for and aborted.",
)
REMOVE_EXPIRED_INTERVAL_MS = Option(
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    int32(1),
    3_600_000,
    "How often expired transactional ids are looked for and removed.",
)
STATE_LOG_NUM_PARTITIONS = Option(
    "transaction.state.log.num.partitions",
    int32(1),
    50,
    "Partitions of __transaction_state when it is created; the leader of each is a coordinator.",
)
STATE_LOG_REPLICATION_FACTOR = Option(
    "transaction.state.log.replication.factor",
    int32(1),
    3,
    "Replicas of __transaction_state; it is not created while there are fewer brokers.",
)
STATE_LOG_MIN_ISR = Option(
    "transaction.state.log.min.isr",
    int32(1),
    2,
    "In-sync replicas of __transaction_state below which no transaction goes on.",
)
STATE_LOG_SEGMENT_BYTES = Option(
    "transaction.state.log.segment.bytes",
    int32(1),
    100 * 1024 * 1024,
    "Segment size of __transaction_state; small segments are compacted earlier and load faster.",
)
STATE_LOG_LOAD_BUFFER_SIZE = Option(
    "transaction.state.log.load.buffer.size",
    int32(1),
    5 * 1024 * 1024,
    "Bytes of __transaction_state read at a time when a broker takes over as coordinator.",
)
