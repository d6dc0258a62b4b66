"""Producer snapshots and transaction indexes: Kafka reads ours, we read Kafka's."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.log.producer_state import NOT_VERIFIED
from rookery.core.disk import FileDisk
from rookery.core.log import LogConfig, names
from rookery.core.types import TopicPartition
from rookery.core.wire.markers import EndMarker, build_marker
from tests.interop.kafka import jars
from tests.interop.kafka.server import KafkaServer
from tests.spark.transactions import wait_for_markers
from tests.unit.broker.log.batches import NOW, batch
from tests.unit.broker.log.table import visible

TP = TopicPartition("orders", 0)
SNAPSHOT = re.compile(
    r"producerId: (\d+) producerEpoch: (\d+) coordinatorEpoch: (-?\d+) currentTxnFirstOffset: (\S+) "
    r"lastTimestamp: (\d+) firstSequence: (-?\d+) lastSequence: (-?\d+) lastOffset: (-?\d+)"
)
ABORTED = re.compile(r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)")


def _dump(*files: str) -> str:
    words = [*jars.command("org.apache.kafka.tools.DumpLogSegments"), "--files", ",".join(files)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.row(36)
@pytest.mark.invariant("T2")
def test_kafkas_tool_reads_our_snapshot_and_transaction_index(tmp_path: Path) -> None:
    folder = str(tmp_path / "orders-0")
    log = PartitionLog.open(FileDisk(), folder, TP, TopicLogConfig(), now_ms=NOW)
    for n in range(7):
        log.append_as_leader(batch(2, producer_id=40, epoch=3, sequence=2 * n), 0, NOW)
    log.append_as_leader(batch(3, producer_id=41, sequence=0, transactional=True), 0, NOW, NOT_VERIFIED)
    log.append_as_leader(batch(1, producer_id=42, sequence=5, transactional=True), 0, NOW, NOT_VERIFIED)
    aborted = build_marker(EndMarker(False, 9), producer_id=41, producer_epoch=0, timestamp=NOW)
    log.append_own(aborted, 0, NOW)
    log.close()
    text = _dump(
        names.segment_file(folder, log.end_offset, names.SNAPSHOT),
        names.segment_file(folder, 0, names.TXN_INDEX),
    )
    found = {int(m[0]): m[1:] for m in SNAPSHOT.findall(text)}
    assert found.keys() == {40, 41, 42}, text
    assert (found[40][0], found[40][5], found[40][6]) == ("3", "13", "13")
    assert (found[41][1], found[41][6]) == ("9", "16")
    assert "17" in found[42][2]
    assert ABORTED.findall(text) == [("41", "14", "18", "17")]


def _produce(server: KafkaServer) -> list[bytes]:
    """Transactions that commit and abort, over several segments; what was committed."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.create_topics([NewTopic("orders", 1, 1, config={"segment.bytes": str(1 << 20)})])["orders"].result(60)
    committed: list[bytes] = []
    for name in ("a", "b"):
        producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": name, "linger.ms": 5})
        producer.init_transactions(60)
        for number in range(4):
            producer.begin_transaction()
            values = [b"%s-%d-%d-" % (name.encode(), number, i) + b"x" * 5000 for i in range(100)]
            for value in values:
                producer.produce("orders", value, key=b"k")
            producer.flush(60)
            if number % 2:
                producer.abort_transaction(60)
            else:
                producer.commit_transaction(60)
                committed += values
    return committed


@pytest.mark.row(36)
@pytest.mark.invariant("T2", "S5")
def test_we_read_kafkas_snapshots_and_transaction_indexes(tmp_path: Path) -> None:
    server = KafkaServer(tmp_path)
    server.start()
    try:
        committed = _produce(server)
        wait_for_markers(server, "orders")
        server.stop()
    finally:
        server.kill()
    folder = str(server.data / "orders-0")
    config = replace(TopicLogConfig(), log=LogConfig(segment_bytes=1 << 20))
    views = []
    for _ in range(2):
        log = PartitionLog.open(FileDisk(), folder, TP, config, clean=True, high_watermark=10**9, now_ms=NOW)
        log.advance_high_watermark(log.end_offset)
        assert len(log.segment_log.segments) > 2
        assert log.last_stable_offset == log.end_offset
        assert [record.value for record in visible(log)] == committed
        entries = {
            producer: (entry.epoch, entry.last_sequence, entry.last_data_offset, entry.coordinator_epoch)
            for producer, entry in log.store.state.entries.items()
        }
        views.append(entries)
        log.segment_log.abandon()
        # the second time nothing but the batches is left
        for path in [*Path(folder).glob("*.snapshot"), *Path(folder).glob("*.txnindex")]:
            path.unlink()
    assert len(views[0]) == 2
    assert views[0] == views[1]
