"""Batch headers for tests of the pure parts, which never look at the bytes behind them."""

from rookery.core.wire.batch import CONTROL, MAGIC, TRANSACTIONAL, BatchHeader


def header(
    base_offset: int = 0,
    count: int = 1,
    *,
    producer_id: int = -1,
    epoch: int = 0,
    sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    timestamp: int = 1000,
) -> BatchHeader:
    attributes = (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0)
    return BatchHeader(
        base_offset=base_offset,
        batch_length=100,
        partition_leader_epoch=0,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=count,
    )


def marker_header(
    base_offset: int, *, producer_id: int, epoch: int = 0, timestamp: int = 1000
) -> BatchHeader:
    return header(
        base_offset,
        producer_id=producer_id,
        epoch=epoch,
        transactional=True,
        control=True,
        timestamp=timestamp,
    )
