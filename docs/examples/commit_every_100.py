"""A commit every 100 records, also within a batch: the offset of the next record to read, by partition."""

from rookery import Consumer, OffsetAndMetadata, TopicPartition

EVERY = 100


async def main(bootstrap: str, topic: str, group: str, records: int) -> int:
    """Reads so many records; returns how many commits there were."""
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    commits = count = 0
    async with Consumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while count < records:
            for record in await consumer.getmany(max_records=records - count):
                place = TopicPartition(record.topic, record.partition)
                offsets[place] = OffsetAndMetadata(record.offset + 1, "every 100")
                count += 1
                if count % EVERY == 0:
                    await consumer.commit(offsets)
                    commits += 1
    return commits
