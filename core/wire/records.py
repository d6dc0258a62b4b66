"""Record batches, by the names other parts import."""

from rookery.core.wire.batch import (
    HEADER_SIZE,
    BatchHeader,
    batches,
    read_header,
    stamp,
    stamp_append_time,
    verify,
)
from rookery.core.wire.validation import check_timestamp, validate_produce_batch, validate_replica_batches

__all__ = [
    "HEADER_SIZE",
    "BatchHeader",
    "batches",
    "check_timestamp",
    "read_header",
    "stamp",
    "stamp_append_time",
    "validate_produce_batch",
    "validate_replica_batches",
    "verify",
]
