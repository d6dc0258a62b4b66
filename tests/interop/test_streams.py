"""Kafka Streams with `exactly_once_v2` counts words exactly, whatever is killed."""

import json
import random
import subprocess
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cluster.local import LocalCluster, wait_for
from tests.interop.aim import aimed_cluster
from tests.interop.java import toolchain

SOURCES = Path(__file__).parent / "streams"
LINES, COUNTS = "lines", "counts"
PARTITIONS = 2
WORDS = [f"word{number}" for number in range(12)]
LINES_A_STEP = 40
START_S = 90.0


class Application:
    """The program WordCount, which can be killed and started again on the same folder."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self._words = [*toolchain.command("WordCount", SOURCES), cluster.bootstrap, LINES, COUNTS, str(folder)]
        self._errors = folder.parent / "word-count.log"
        self.start()

    def start(self) -> None:
        self._state = ""
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        wait_for(lambda: self._state == "RUNNING", "Streams to run", START_S)

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._state = json.loads(line)["state"]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(30)
        self._reader.join(30)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def show(self) -> None:
        print(self._errors.read_text()[-4000:])


class Counted:
    """Follows the committed counts of every word."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.counts: dict[str, list[int]] = defaultdict(list)
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "socket.timeout.ms": 4000,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(COUNTS, index, 0) for index in range(PARTITIONS)])

    def reach(self, expected: Counter[str]) -> None:
        """Wait until every word was counted as often as it was sent."""
        wait_for(lambda: self._newest() == expected, "the counts of all words", 120)

    def _newest(self) -> Counter[str]:
        for message in self._consumer.consume(500, timeout=0.2):
            key, value = message.key(), message.value()
            if message.error() is None and isinstance(key, bytes) and isinstance(value, bytes):
                self.counts[key.decode()].append(int(value))
        return Counter({word: max(counts) for word, counts in self.counts.items()})

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def counting(cluster: LocalCluster, folder: Path) -> Iterator[tuple[Application, Counted]]:
    application, counted = Application(cluster, folder), Counted(cluster)
    try:
        yield application, counted
    except BaseException:
        application.show()
        raise
    finally:
        application.kill()
        counted.close()


@pytest.mark.row(130, 133, 137)
@pytest.mark.invariant("T6", "T7", "T10", "T13")
def test_words_are_counted_exactly(tmp_path: Path) -> None:
    """The application, a broker that leads its input, and its transaction coordinator are killed while it counts.
    Without a cache each count of each word is written once: 1, 2, 3 and so on, none twice and none left out."""
    with aimed_cluster(
        3,
        transaction__state__log__num__partitions="2",
        transaction__state__log__replication__factor="3",
        transaction__state__log__min__isr="2",
        offsets__topic__num__partitions="2",
        offsets__topic__replication__factor="3",
        group__initial__rebalance__delay__ms="0",
        broker__session__timeout__ms="3000",
        broker__heartbeat__interval__ms="500",
    ) as cluster:
        for topic in (LINES, COUNTS):
            cluster.create_topic(topic, PARTITIONS, 3, {"min.insync.replicas": "2"})
        rng, expected = random.Random(1), Counter[str]()
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0})

        def write() -> None:
            for number in range(LINES_A_STEP):
                words = rng.choices(WORDS, k=5)
                expected.update(words)
                producer.produce(LINES, " ".join(words), partition=number % PARTITIONS)
            assert producer.flush(60) == 0

        with counting(cluster, tmp_path / "state") as (application, counted):
            write()
            counted.reach(expected)
            write()
            application.kill()
            application.start()
            write()
            for topic in (LINES, "__transaction_state"):
                cluster.kill(cluster.leader(topic, 0))
                write()
                counted.reach(expected)
                cluster.up()
                cluster.wait_in_sync(topic, PARTITIONS)
            write()
            application.kill()
            application.start()
            counted.reach(expected)
        assert {word: counts for word, counts in counted.counts.items()} == {
            word: list(range(1, count + 1)) for word, count in expected.items()
        }
