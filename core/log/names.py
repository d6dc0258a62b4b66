"""Kafka's file names inside a partition's folder."""

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
OF_A_SEGMENT = (LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT)

DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
DAMAGED = "partition.damaged"
"""Not Kafka's: says that the partition was found damaged, so that nothing of it is trusted unread."""
SPARSE = "partition.sparse"
"""Not Kafka's: says that offsets are missing by right, because compaction took their records."""


def segment_file(folder: str, base_offset: int, suffix: str) -> str:
    """The path of one file of a segment: twenty digits and what it is."""
    return f"{folder}/{base_offset:020d}{suffix}"


def base_offset_of(name: str, suffix: str = LOG) -> int | None:
    """The base offset in a file name with this ending, or None if it is not such a name."""
    digits = name.removesuffix(suffix)
    if len(digits) == 20 and len(name) == 20 + len(suffix) and digits.isascii() and digits.isdigit():
        return int(digits)
    return None
