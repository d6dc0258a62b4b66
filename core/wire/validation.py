"""Which batches a broker takes: from producers, and as a follower from its leader.

Only headers and checksums are looked at, so that every batch is checked; what is inside is the business of
`records.check_records`, for topics that ask for it.
"""

import struct

from crc32c import crc32c

from rookery.core.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaError,
    MessageTooLargeError,
)
from rookery.core.wire.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_FROM,
    DELETE_HORIZON,
    LAST_CODEC,
    LENGTH_END,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL,
    BatchHeader,
    batches,
    read_header,
    unpack_fields,
    verify,
)
from rookery.core.wire.primitives import Buffer, WireError

_BROKER_ONLY = LOG_APPEND_TIME | CONTROL | DELETE_HORIZON
_make = BatchHeader._make


def validate_produce_batch(records: Buffer | None, max_size: int) -> BatchHeader:
    """The header of the one batch a producer may send per partition, or the error to answer with.

    Damage (length, checksum) is CORRUPT_MESSAGE, which a producer retries; a batch that is undamaged but may
    not be sent is INVALID_RECORD; one above `max_size` is MESSAGE_TOO_LARGE, and producers split it.

    Small batches come by the hundred thousand, so whether all is well is one question; what is not is found
    out afterwards, check by check.
    """
    if not records:
        raise InvalidRecordError("the produce request holds no record batch for this partition")
    try:
        fields = unpack_fields(records)
    except struct.error:
        raise _refusal(records, max_size) from None
    offset, length, _, magic, crc, attributes, last_delta, _, _, producer, epoch, sequence, count = fields
    if (
        magic != MAGIC
        or length != len(records) - LENGTH_END
        or length + LENGTH_END > max_size
        or crc32c(memoryview(records)[CRC_FROM:]) != crc
        or offset != 0
        or count < 1
        or last_delta != count - 1
        or attributes & _BROKER_ONLY
        or attributes & CODEC_MASK > LAST_CODEC
        or (sequence < 0 or epoch < 0 if producer >= 0 else attributes & TRANSACTIONAL)
    ):
        raise _refusal(records, max_size)
    return _make(fields)


def _refusal(records: Buffer, max_size: int) -> KafkaError:
    try:
        header = _read_produced(records, max_size)
        verify(records, 0, header)
    except KafkaError as error:
        return error
    return _unfit(header)


def _read_produced(records: Buffer, max_size: int) -> BatchHeader:
    end = len(records)
    if end > MAGIC_AT and records[MAGIC_AT] != MAGIC:
        raise InvalidRecordError(f"record batches must have magic {MAGIC}, this one has {records[MAGIC_AT]}")
    try:
        header = read_header(records)
    except WireError as error:
        raise CorruptMessageError(str(error)) from None
    size = header.batch_length + LENGTH_END
    if size > max_size:
        raise MessageTooLargeError(f"the batch has {size} bytes, this topic takes up to {max_size}")
    if size != end:
        raise InvalidRecordError(f"producers send one batch per partition; {end - size} bytes follow")
    return header


def _unfit(header: BatchHeader) -> KafkaError:
    if header.base_offset != 0:
        return InvalidRecordError(f"a producer's batch starts at offset 0, not {header.base_offset}")
    if header.record_count < 1:
        return InvalidRecordError(f"a batch must hold records, this one says it has {header.record_count}")
    if header.last_offset_delta != header.record_count - 1:
        return InvalidRecordError(
            f"the batch says it has {header.record_count} records, but its last offset delta is "
            f"{header.last_offset_delta}"
        )
    if header.control:
        return InvalidRecordError("only brokers write control batches")
    if header.log_append_time:
        return InvalidTimestampError("only the broker may mark a batch with log append time")
    if header.delete_horizon is not None:
        return InvalidRecordError("only the log cleaner may set a delete horizon")
    if header.codec > LAST_CODEC:
        return InvalidRecordError(f"codec {header.codec} is not known")
    if header.producer_id < 0:
        return InvalidRecordError("a transactional batch needs a producer id")
    return InvalidRecordError(
        f"producer {header.producer_id} sent epoch {header.producer_epoch} and sequence "
        f"{header.base_sequence}; neither may be negative"
    )


def check_timestamp(header: BatchHeader, now: int, before_max_ms: int, after_max_ms: int) -> None:
    """Raise InvalidTimestampError if the batch's times are further from `now` (ms) than the topic allows."""
    if header.max_timestamp > now + after_max_ms:
        raise InvalidTimestampError(
            f"timestamp {header.max_timestamp} is over {after_max_ms} ms after the broker's clock ({now})"
        )
    if header.base_timestamp < now - before_max_ms:
        raise InvalidTimestampError(
            f"timestamp {header.base_timestamp} is over {before_max_ms} ms before the broker's clock ({now})"
        )


def validate_replica_batches(buf: Buffer, next_offset: int) -> list[tuple[int, BatchHeader]]:
    """Positions and headers of batches fetched from a leader, safe to append at `next_offset`.

    Each batch must be whole, undamaged and behind the one before it, in offsets and in leader epochs; gaps
    are what compaction leaves. CorruptMessageError says which batch is at fault.
    """
    found: list[tuple[int, BatchHeader]] = []
    epoch = -1
    try:
        for pos, header in batches(buf):
            _check_order(header, next_offset, epoch)
            verify(buf, pos, header)
            found.append((pos, header))
            next_offset = header.next_offset
            epoch = header.partition_leader_epoch
    except WireError as error:
        raise CorruptMessageError(f"fetched batches from offset {next_offset}: {error}") from None
    return found


def _check_order(header: BatchHeader, next_offset: int, epoch: int) -> None:
    if header.base_offset < next_offset:
        raise CorruptMessageError(f"a batch at offset {header.base_offset} came where {next_offset} is next")
    if header.partition_leader_epoch < epoch:
        raise CorruptMessageError(
            f"the batch at offset {header.base_offset} has leader epoch {header.partition_leader_epoch}, "
            f"the one before it {epoch}"
        )
    if header.last_offset_delta < 0 or not 0 <= header.record_count <= header.last_offset_delta + 1:
        raise CorruptMessageError(
            f"the batch at offset {header.base_offset} says it has {header.record_count} records, but its "
            f"last offset delta is {header.last_offset_delta}"
        )
