"""Records that cannot be read, kept in a topic of their own: their bytes as they were, and in headers why and where."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from rookery.client.consumer.decoding import RawRecord
from rookery.client.consumer.deserializing import DEAD_LETTER
from rookery.client.consumer.options import DEAD_LETTER_TOPIC, ON_DESERIALIZE_ERROR
from rookery.client.options import COMMON, Settings
from rookery.client.producer.delivery import Delivery
from rookery.core.event_logging import get_logger

log = get_logger("client.consumer")
ERROR = "rookery.error"
TOPIC = "rookery.topic"
PARTITION = "rookery.partition"
OFFSET = "rookery.offset"


class Unreadable:
    """Records that cannot be deserialized and are not handed out: skipped, or sent to the dead letter topic with a
    producer of its own, opened with the first record."""

    def __init__(self, settings: Settings) -> None:
        self._keeps = settings[ON_DESERIALIZE_ERROR] == DEAD_LETTER
        self._topic = settings[DEAD_LETTER_TOPIC]
        self._config = {name: value for name, value in settings.given.items() if name in COMMON}
        self._producer: Any = None
        self.count = 0

    async def put(self, records: Sequence[tuple[RawRecord, Exception]]) -> None:
        if self._keeps:
            await self._send(records)
        self.count += len(records)
        for record, error in records:
            log.warning("record.skipped", partition=f"{record.topic}-{record.partition}", error=str(error))

    async def _send(self, records: Sequence[tuple[RawRecord, Exception]]) -> None:
        """Returns when all are stored: the consumer goes on, and commits, only then."""
        if self._producer is None:
            module = import_module("rookery.client.producer")  # only those who need it pay for it
            producer = module.Producer(self._config)
            await producer.start()
            self._producer = producer
        sent: list[Delivery] = []
        for record, error in records:
            headers = [
                *record.headers,
                (ERROR, str(error).encode()),
                (TOPIC, record.topic.encode()),
                (PARTITION, str(record.partition).encode()),
                (OFFSET, str(record.offset).encode()),
            ]
            sent.append(await self._producer.send(self._topic, record.value, key=record.key, headers=headers))
        for meta in sent:
            await meta

    async def close(self, timeout_s: float) -> None:
        if self._producer is not None:
            await self._producer.close(timeout_s)
