"""The options of a node for transactions."""

from rookery.broker.coordination.internal_topic import InternalTopic
from rookery.broker.transactions.state import TransactionOptions
from rookery.core.config import transactions
from rookery.core.config.options import Settings

TRANSACTIONS_TOPIC = "__transaction_state"


def transactions_topic(settings: Settings) -> InternalTopic:
    """Compacted, never compressed, and never led by a replica that lacks what was committed."""
    return InternalTopic(
        TRANSACTIONS_TOPIC,
        settings[transactions.STATE_LOG_NUM_PARTITIONS],
        settings[transactions.STATE_LOG_REPLICATION_FACTOR],
        (
            ("cleanup.policy", "compact"),
            ("compression.type", "uncompressed"),
            ("min.insync.replicas", str(settings[transactions.STATE_LOG_MIN_ISR])),
            ("segment.bytes", str(settings[transactions.STATE_LOG_SEGMENT_BYTES])),
            ("unclean.leader.election.enable", "false"),
        ),
    )


def transaction_options(settings: Settings) -> TransactionOptions:
    return TransactionOptions(
        max_timeout_ms=settings[transactions.MAX_TIMEOUT_MS],
        expiration_ms=settings[transactions.ID_EXPIRATION_MS],
    )
