"""Apache Kafka and Rookery read each other's folders: Kafka's dump tool, and its broker on shared data."""

import json
import random
import re
import shutil
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from rookery.broker.groups.records import OffsetCommitValue, OffsetRecord, encode
from rookery.core.disk import FileDisk
from rookery.core.log import Log, LogConfig, names
from rookery.core.log.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    read_offsets,
    write_offsets,
)
from rookery.core.log.ownership import MetaProperties, PartitionMetadata, take_marker, write_marker
from rookery.core.types import TopicPartition
from rookery.core.wire.batch import batches
from rookery.core.wire.compression import Codec
from rookery.core.wire.records import Record, RecordHeader, build_batch, read_records
from tests.interop.kafka import jars
from tests.interop.kafka.server import CLUSTER_ID, KafkaServer
from tests.unit.broker.groups.consumer.test_consumer_records import CASES as CONSUMER_GROUP_RECORDS
from tests.unit.core.log.sample import everything

NOON = 1_700_000_000_000
HEADERS = [RecordHeader("h", b"x")]
PARTITION = TopicPartition("orders", 0)
RECORD = re.compile(r"^\| offset: (\d+) CreateTime: (\d+) .* key: (.*?) payload: (.*)$", re.MULTILINE)


def dump(*files: Path, options: tuple[str, ...] = ()) -> str:
    """What Kafka's DumpLogSegments says of these files."""
    words = [*jars.command("org.apache.kafka.tools.DumpLogSegments"), *options, "--files", ",".join(map(str, files))]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr  # it tells of mismatches on standard error


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of several segments with every codec, out-of-order times and several epochs, closed in order."""
    folder = tmp_path_factory.mktemp("ours") / "orders-0"
    rng = random.Random(7)
    config = LogConfig(segment_bytes=20_000, index_interval_bytes=300)
    log = Log.open(FileDisk(), str(folder), config, recovery_point=0, log_start_offset=2**40)
    for number in range(300):
        records = [
            Record(i, NOON + rng.randint(0, 10**6), b"k%d" % i, b"v-%d-%d" % (number, i) * rng.randint(1, 9), HEADERS)
            for i in range(rng.randint(1, 5))
        ]
        log.append_as_leader(build_batch(records, codec=rng.choice(list(Codec))), number // 50, 0)
    log.close()
    assert len(log.segments) >= 3
    return folder


def reopened(folder: Path) -> Log:
    return Log.open(FileDisk(), str(folder), LogConfig(), clean=True)


@pytest.mark.row(34, 36, 37)
def test_kafkas_tool_reads_our_records(folder: Path) -> None:
    text = dump(*sorted(folder.glob("*.log")), options=("--deep-iteration", "--print-data-log"))
    found = [(int(o), int(t), k.encode(), v.encode()) for o, t, k, v in RECORD.findall(text)]
    assert found == [(r.offset, r.timestamp, r.key, r.value) for r in everything(reopened(folder))]
    assert "isvalid: false" not in text
    assert set(re.findall(r"compresscodec: (\w+)", text)) == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert set(re.findall(r"partitionLeaderEpoch: (\d+)", text)) == {"0", "1", "2", "3", "4", "5"}


@pytest.mark.row(38, 39)
def test_kafkas_tool_finds_our_indexes_right(folder: Path, tmp_path: Path) -> None:
    files = [*sorted(folder.glob("*.index")), *sorted(folder.glob("*.timeindex"))]
    assert all(file.stat().st_size > 0 for file in files)
    text = dump(*files, options=("--index-sanity-check",))
    assert text.count("passed sanity check") == len(files)
    text = dump(*files, options=("--verify-index-only",))
    assert not re.search("mismatch|out of order|not found", text, re.IGNORECASE), text
    # the tool does tell a wrong index from a right one
    damaged = shutil.copytree(folder, tmp_path / "orders-0")
    index = next(iter(sorted(damaged.glob("*.index"))))
    content = bytearray(index.read_bytes())
    content[3] ^= 1
    index.write_bytes(content)
    assert "Mismatches in" in dump(index, options=("--verify-index-only",))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    server = KafkaServer(tmp_path_factory.mktemp("kafka"))
    server.start()
    yield server
    server.kill()


def produce(server: KafkaServer) -> list[tuple[int, bytes]]:
    """Some megabytes through a real client, some of it in transactions that commit or abort."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    config = {"segment.bytes": str(1 << 20), "index.interval.bytes": "1000", "retention.ms": "-1"}
    admin.create_topics([NewTopic("orders", 1, 1, config=config)])["orders"].result(60)
    sent: list[tuple[int, bytes]] = []
    rng = random.Random(3)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer({
            "bootstrap.servers": server.bootstrap, "compression.type": codec, "linger.ms": 5,
            "batch.size": 20_000, "transactional.id": f"tx-{codec}",
        })  # fmt: skip
        producer.init_transactions(60)
        for commits in (True, False, True):
            producer.begin_transaction()
            for number in range(120):
                value = b"%s-%d-" % (codec.encode(), number) + rng.randbytes(3000)
                producer.produce("orders", value, key=b"k%d" % number, timestamp=NOON + rng.randrange(10**6))
                sent.append((len(sent), value))
            producer.flush(60)
            if commits:
                producer.commit_transaction(60)
            else:
                producer.abort_transaction(60)
    return sent


def data_records(log: Log) -> list[Record]:
    """Records of all batches that are not transaction markers."""
    found, offset = [], log.start_offset
    while offset < log.end_offset:
        got = log.read(offset, 1 << 20)
        for pos, header in batches(got.data):
            found += [] if header.control else read_records(got.data, pos)
        offset = got.next_offset
    return found


def consumed(server: KafkaServer) -> list[tuple[int, bytes | None]]:
    consumer = Consumer({
        "bootstrap.servers": server.bootstrap, "group.id": "check", "auto.offset.reset": "earliest",
        "isolation.level": "read_uncommitted", "enable.partition.eof": True,
    })  # fmt: skip
    consumer.subscribe(["orders"])
    found: list[tuple[int, bytes | None]] = []
    try:
        while True:
            message = consumer.poll(60)
            assert message is not None, "Kafka answers nothing"
            if message.error() is not None:
                return found
            found.append((message.offset() or 0, message.value()))
    finally:
        consumer.close()


@pytest.mark.row(34, 36, 37, 38, 39)
@pytest.mark.invariant("S6")
def test_kafka_and_rookery_take_turns_on_one_folder(server: KafkaServer, tmp_path: Path) -> None:
    sent = produce(server)
    killed = tmp_path / "killed"
    shutil.copytree(server.data / "orders-0", killed / "orders-0")
    server.stop()
    disk, root = FileDisk(), str(server.data)

    # what a running Kafka had on disk: indexes are preallocated and full of zeros, nothing is flushed
    unclean = Log.open(disk, str(killed / "orders-0"), LogConfig(), recovery_point=0)
    assert [record.value for record in data_records(unclean)] == [value for _, value in sent]

    # what it left when it was shut down
    assert MetaProperties.read(disk, root) is not None
    assert MetaProperties.read(disk, root).cluster_id == CLUSTER_ID  # type: ignore[union-attr]
    assert PartitionMetadata.read(disk, f"{root}/orders-0") is not None
    points = {name: read_offsets(disk, f"{root}/{name}") for name in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS)}
    epoch = take_marker(disk, root)
    assert epoch is not None
    log = Log.open(
        disk, f"{root}/orders-0", LogConfig(segment_bytes=1 << 20), clean=True,
        recovery_point=points[RECOVERY_POINTS][PARTITION],
    )  # fmt: skip
    assert len(log.segments) > 3
    assert log.end_offset == points[HIGH_WATERMARKS][PARTITION]
    kafkas = data_records(log)
    assert [record.value for record in kafkas] == [value for _, value in sent]
    with_markers = everything(log)
    for record in random.Random(1).sample(with_markers, 50):
        first = next(r for r in with_markers if r.timestamp >= record.timestamp)
        found = log.offset_for_timestamp(record.timestamp, log.end_offset)
        assert found is not None
        assert found[0] == (first.timestamp, first.offset)

    # go on where Kafka stopped, in its own epoch, and give the folder back
    last = log.epochs.latest_epoch
    for number in range(300):
        ours = build_batch([Record(0, NOON + 2 * 10**6 + number, None, b"ours-%d" % number * 500)])
        log.append_as_leader(ours, last, 0)
    added = data_records(log)[len(kafkas) :]
    assert len(added) == 300
    log.close()
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS):
        write_offsets(disk, f"{root}/{name}", {**points[name], PARTITION: log.end_offset})
    write_marker(disk, root, epoch)
    server.start()
    assert consumed(server) == [(record.offset, record.value) for record in [*kafkas, *added]]
    assert not disk.exists(f"{root}/orders-0/{names.LEADER_EPOCHS}.tmp")


@pytest.mark.row(103)
def test_offsets_are_decoded_with_the_id_of_their_topic(tmp_path: Path) -> None:
    topic_id = UUID(int=0x0123456789ABCDEF0123456789ABCDEF)
    value = OffsetCommitValue(offset=42, leader_epoch=3, metadata="note", commit_timestamp=NOON, topic_id=topic_id)
    log = Log.open(FileDisk(), str(tmp_path / "__consumer_offsets-0"), LogConfig())
    log.append_as_leader(build_batch([Record(0, NOON, *encode(OffsetRecord("g", "orders", 7, value)))]), 0, 0)
    log.close()
    told = dump(Path(log.segments[0].log_path), options=("--offsets-decoder",))
    assert '"group":"g","topic":"orders","partition":7' in told
    in_kafkas_way = urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    assert re.search(rf'"offset":42,"leaderEpoch":3,"metadata":"note".*"topicId":"{in_kafkas_way}"', told), told


def test_records_of_the_consumer_protocol_are_decoded(tmp_path: Path) -> None:
    """With the fields that came with 4.2 and 4.3."""
    log = Log.open(FileDisk(), str(tmp_path / "__consumer_offsets-0"), LogConfig())
    for record, _, _ in CONSUMER_GROUP_RECORDS:
        log.append_as_leader(build_batch([Record(0, NOON, *encode(record))]), 0, 0)
        log.append_as_leader(build_batch([Record(0, NOON, encode(record)[0], None)]), 0, 0)
    log.close()
    told = RECORD.findall(dump(Path(log.segments[0].log_path), options=("--offsets-decoder",)))
    keys = [json.loads(key) for _, _, key, _ in told]
    assert [each["type"] for each in keys[::2]] == ["3", "3", "5", "5", "6", "7", "8", "16"]
    assert keys[0]["data"] == {"groupId": "g"}
    assert keys[4]["data"] == {"groupId": "g", "memberId": "m"}
    assert keys[-1]["data"] == {"groupId": "g", "regularExpression": "t.*"}
    assert keys[1::2] == keys[::2]
    assert {payload for *_, payload in told[1::2]} == {"<DELETE>"}
    topic = {"topicId": "AAAAAAAAAAAAAAAAAAAABw"}
    member: dict[str, object] = dict.fromkeys(
        ("instanceId", "rackId", "subscribedTopicRegex", "serverAssignor")
    )
    classic = {"sessionTimeoutMs": 5, "supportedProtocols": [{"name": "r", "metadata": "AQ=="}]}
    assert [json.loads(payload)["data"] for *_, payload in told[::2]] == [
        {"epoch": 3},
        {"epoch": 3, "metadataHash": -1},
        member | {"instanceId": "i", "clientId": "c", "clientHost": "/h", "subscribedTopicNames": ["t"],
                  "rebalanceTimeoutMs": 9, "serverAssignor": "range", "classicMemberMetadata": None},
        member | {"clientId": "", "clientHost": "", "subscribedTopicNames": [], "rebalanceTimeoutMs": -1,
                  "classicMemberMetadata": classic},
        {"assignmentEpoch": 2, "assignmentTimestamp": 1},
        {"topicPartitions": [topic | {"partitions": [0, 2]}]},
        {"memberEpoch": 4, "previousMemberEpoch": 3, "state": 1, "partitionsPendingRevocation": [],
         "assignedPartitions": [topic | {"partitions": [1], "assignmentEpochs": [4]}]},
        {"topics": ["t"], "version": 1, "timestamp": 2},
    ]  # fmt: skip
