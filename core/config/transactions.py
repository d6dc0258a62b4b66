"""Options of transactions, as a node's configuration has them."""

from rookery.core.config.options import Boolean, Option, Reach, int32

PARTITION_VERIFICATION_ENABLE = Option(
    "transaction.partition.verification.enable",
    Boolean(),
    True,
    "Ask the coordinator before the first batch of a transaction is written to a partition.",
    reach=Reach.CLUSTER_WIDE,
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
    "How long it is asked again before the producer is told.",
)
