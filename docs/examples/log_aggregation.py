"""Log lines of many programs in one topic: each program logs as it always did, and one program reads all of them."""

import json
import logging
from collections import Counter

from rookery.sync import Consumer, Producer


class TopicHandler(logging.Handler):
    """Sends each line without waiting for it. The key is the program, so its lines stay in order."""

    def __init__(self, producer: Producer, topic: str, program: str) -> None:
        super().__init__()
        self._producer = producer
        self._topic = topic
        self._program = program

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("rookery"):
            return  # the producer's own lines would make new ones
        line = {"program": self._program, "level": record.levelname, "text": record.getMessage()}
        try:
            self._producer.send(self._topic, json.dumps(line).encode(), key=self._program.encode())
        except Exception:
            self.handleError(record)


def count_errors(bootstrap: str, topic: str, lines: int) -> Counter[str]:
    """Read so many lines, from the oldest that is kept: how many errors each program had."""
    errors: Counter[str] = Counter()
    with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        seen = 0
        while seen < lines:
            for record in consumer.getmany(timeout_ms=1000):
                line = json.loads(record.value)
                errors[line["program"]] += line["level"] == "ERROR"
                seen += 1
    return errors
