"""Single records of a partition. Codecs and checksums come with it, so the admin client imports it when it is asked."""

from rookery.client.admin.types import RecordDescription
from rookery.client.reader import decode, fetch_partition
from rookery.client.types import TopicPartition
from rookery.core.net.cluster import Cluster
from rookery.core.wire.batch import Buffer
from rookery.core.wire.records import batches, read_records, verify

ONE_BATCH_BYTES = 1
"""A broker returns one whole batch at least."""


async def timestamp_at(cluster: Cluster, place: TopicPartition, offset: int) -> int:
    """The time (ms) of the first record at or after an offset; -1 if there is none."""
    data = await fetch_partition(cluster, *place, offset, bytes_max=ONE_BATCH_BYTES, wait_ms=0)
    records, _ = decode(data.records or b"", offset)
    return records[0].timestamp if records else -1


async def record_at(cluster: Cluster, place: TopicPartition, offset: int) -> RecordDescription | None:
    """The record at an offset; None if there is none."""
    data = await fetch_partition(cluster, *place, offset, bytes_max=ONE_BATCH_BYTES, wait_ms=0)
    return _described(data.records or b"", offset)


def _described(data: Buffer, offset: int) -> RecordDescription | None:
    """The record at `offset` among fetched batches."""
    for start, header in batches(data, partial_end=True):
        if not header.base_offset <= offset <= header.last_offset:
            continue
        verify(data, start, header)
        for record in read_records(data, start):
            if record.offset == offset:
                return RecordDescription(
                    offset,
                    record.timestamp,
                    header.log_append_time,
                    header.partition_leader_epoch,
                    header.base_offset,
                    header.last_offset,
                    header.producer_id,
                    header.transactional,
                    header.control,
                    None if record.key is None else bytes(record.key),
                    len(record.value or b""),
                )
    return None
