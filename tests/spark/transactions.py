"""Topics with transactions in them: what was written, what of it was committed."""

import random
from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from tests.cluster.ends import Reachable
from tests.cluster.local import LocalCluster, wait_for

PATIENCE_S = 60.0


class Writer:
    """A producer whose every `write` is a record batch of its own; with a name, it writes in transactions."""

    def __init__(self, cluster: LocalCluster, topic: str, name: str | None = None, codec: str = "none") -> None:
        settings = {
            "bootstrap.servers": cluster.bootstrap,
            "compression.type": codec,
            "linger.ms": 1000,
            "log_level": 0,
        }
        if name is not None:
            settings["transactional.id"] = f"{topic}-{name}"
            settings["transaction.timeout.ms"] = 600_000  # a slow machine may take its time while one is open
        self._producer = Producer(settings)
        self._topic = topic
        self.transactional = name is not None
        self.open = False
        self.written: list[int] = []
        """In the open transaction, or without any."""
        if self.transactional:
            self._producer.init_transactions(PATIENCE_S)

    def begin(self) -> None:
        self._producer.begin_transaction()
        self.open = True

    def write(self, numbers: Sequence[int], partition: int = 0) -> None:
        """In the log when it returns."""
        for number in numbers:
            self._producer.produce(self._topic, b"%d" % number, b"k%d" % number, partition)
        assert self._producer.flush(PATIENCE_S) == 0
        self.written += numbers

    def end(self, commit: bool) -> list[int]:
        """What is committed by this."""
        if commit:
            self._producer.commit_transaction(PATIENCE_S)
        else:
            self._producer.abort_transaction(PATIENCE_S)
        written, self.written, self.open = self.written, [], False
        return written if commit else []


class Written(NamedTuple):
    """The numbers that were written, and those whose transactions were committed or that had none."""

    all: list[int]
    committed: list[int]


def history(cluster: LocalCluster, topic: str, partitions: int, *, batches: int, seed: int = 1) -> Written:
    """Transactions of three producers and plain records, as chance mixes them; what is open in the end is aborted."""
    chance = random.Random(seed)
    plain = Writer(cluster, topic)
    in_transactions = [Writer(cluster, topic, name, name) for name in ("none", "lz4", "zstd")]
    committed: list[int] = []
    number = 0
    for _ in range(batches):
        writer = chance.choice([plain, *in_transactions])
        if writer.open and chance.random() < 0.2:
            committed += writer.end(commit=chance.random() < 0.5)
        if writer.transactional and not writer.open:
            writer.begin()
        numbers = range(number, number + chance.randint(1, 12))
        writer.write(numbers, chance.randrange(partitions))
        number += len(numbers)
    for writer in in_transactions:
        if writer.open:
            writer.end(commit=False)
    wait_for_markers(cluster, topic, partitions)
    return Written(list(range(number)), sorted(committed + plain.written))


def wait_for_markers(cluster: Reachable, topic: str, partitions: int = 1) -> None:
    """A producer is told of the end of its transaction before every partition is."""

    def ends(isolation: str) -> list[int]:
        return end_offsets(cluster, topic, isolation, partitions)

    wait_for(lambda: ends("read_committed") == ends("read_uncommitted"), f"the markers of {topic}")


def end_offsets(cluster: Reachable, topic: str, isolation: str, partitions: int = 1) -> list[int]:
    """Where a consumer is told that the partitions end: at the high watermark, or at the last stable offset."""
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "isolation.level": isolation}
    consumer = Consumer(settings)
    try:
        places = (TopicPartition(topic, index) for index in range(partitions))
        return [consumer.get_watermark_offsets(place, timeout=PATIENCE_S)[1] for place in places]
    finally:
        consumer.close()


def values_in(cluster: Reachable, topic: str, isolation: str, partitions: int = 1) -> list[int]:
    """The numbers in a topic whose transactions have all ended, in order."""
    wait_for_markers(cluster, topic, partitions)
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "unused",
        "isolation.level": isolation,
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    found: list[int] = []
    try:
        consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)])
        left = partitions
        while left:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"{topic} does not end: {left} partitions are left"
            error, value = message.error(), message.value()
            if error is None:
                assert value is not None
                found.append(int(value))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                left -= 1
    finally:
        consumer.close()
    return sorted(found)
