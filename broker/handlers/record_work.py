"""Looking inside batches, for the topics that ask for it: in threads, since it takes time for each record."""

import asyncio
from concurrent.futures import Executor

from rookery.broker.replication.partition import Partition
from rookery.broker.replication.topic_settings import TopicSettings
from rookery.core.errors import InvalidRecordError, MessageTooLargeError
from rookery.core.wire.batch import Buffer
from rookery.core.wire.primitives import WireError
from rookery.core.wire.records import check_records, read_header, recompress, validate_produce_batch

DECOMPRESSED_BYTES_MAX = 100 * 1024 * 1024


class RecordWorkInThreads:
    """Runs `prepare` in an executor; how much runs at once is the executor's bound, and each connection has
    at most one request here."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def needed(self, partition: Partition, batch: Buffer | None) -> bool:
        """Whether a batch has to be opened. Raises KafkaError if it is no valid batch in the first place."""
        settings = partition.settings
        header = validate_produce_batch(batch, partition.log.config.max_message_bytes)
        return settings.keys_required or settings.check_records or header.codec != settings.codec

    async def prepare(self, partition: Partition, batch: bytearray) -> bytearray:
        loop = asyncio.get_running_loop()
        size_max = partition.log.config.max_message_bytes
        return await loop.run_in_executor(self._executor, prepare, partition.settings, size_max, batch)


def prepare(settings: TopicSettings, size_max: int, batch: bytearray) -> bytearray:
    """Check the records inside, and bring them into the topic's codec."""
    if settings.keys_required or settings.check_records:
        check_records(batch, keys=settings.keys_required, budget=DECOMPRESSED_BYTES_MAX)
    if settings.codec is None or settings.codec == read_header(batch).codec:
        return batch
    try:
        batch = recompress(batch, 0, settings.codec, settings.codec_level, DECOMPRESSED_BYTES_MAX)
    except WireError as error:
        raise InvalidRecordError(str(error)) from None
    if len(batch) > size_max:
        raise MessageTooLargeError(
            f"in the topic's codec the batch has {len(batch)} bytes, the topic takes up to {size_max}"
        )
    return batch
