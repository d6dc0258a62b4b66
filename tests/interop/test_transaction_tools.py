"""Kafka's own tools on transactions: kafka-transactions, and kafka-dump-log on the coordinator's log."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from rookery.core.net.connection import Connection
from rookery.core.wire.apis.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from rookery.core.wire.apis.produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from rookery.core.wire.records import Record, build_batch
from tests.cluster.local import POLL_S, LocalCluster, wait_for
from tests.interop.aim import aimed_cluster
from tests.interop.test_transactions import settled, visible
from tests.interop.tools import Tools, table

TOOL = "kafka-transactions"
LONG_AGO_MS = 1_700_000_000_000
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)
WITHOUT_VERSION_2 = 11
"""The last version of Produce with which the leader does not add the partition to the transaction itself."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Without verification a transaction can be made to hang, as it did before KIP-890."""
    with aimed_cluster(
        1,
        transaction__state__log__num__partitions="1",
        transaction__partition__verification__enable="false",
        log__message__timestamp__before__max__ms="9223372036854775807",
        log__retention__ms="-1",
    ) as running:
        yield running


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    started = Tools()
    yield started
    started.close()


def transactional(cluster: LocalCluster, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(60)
    return producer


def opened(cluster: LocalCluster, name: str, topic: str) -> Producer:
    """A producer with an open transaction, whose first record is stored."""
    cluster.create_topic(topic)
    producer = transactional(cluster, name)
    producer.begin_transaction()
    producer.produce(topic, "open")
    assert producer.flush(30) == 0
    return producer


def listed(cluster: LocalCluster, tools: Tools, *words: str) -> dict[str, dict[str, str]]:
    printed = tools.run(TOOL, "--bootstrap-server", cluster.bootstrap, "list", *words)
    return {row["TransactionalId"]: row for row in table(printed)}


def producers(cluster: LocalCluster, tools: Tools, topic: str) -> list[dict[str, str]]:
    words = ("describe-producers", "--topic", topic, "--partition", "0")
    return table(tools.run(TOOL, "--bootstrap-server", cluster.bootstrap, *words))


def test_list_and_describe(cluster: LocalCluster, tools: Tools) -> None:
    at = ("--bootstrap-server", cluster.bootstrap)
    producer = opened(cluster, "described", "of-described")
    row = listed(cluster, tools)["described"]
    assert row["TransactionState"] == "Ongoing"
    assert row["Coordinator"] == "1"
    assert "described" in listed(cluster, tools, "--transactional-id-pattern", "desc.*")
    assert "described" not in listed(cluster, tools, "--transactional-id-pattern", "other.*")
    assert "described" not in listed(cluster, tools, "--duration-filter", "600000")
    (described,) = table(tools.run(TOOL, *at, "describe", "--transactional-id", "described"))
    assert described["TransactionState"] == "Ongoing"
    assert described["ProducerId"] == row["ProducerId"]
    assert described["TopicPartitions"] == "of-described-0"
    assert described["TransactionTimeoutMs"] == "60000"
    (state,) = producers(cluster, tools, "of-described")
    assert state["ProducerId"] == row["ProducerId"]
    assert state["CurrentTransactionStartOffset"] == "0"
    producer.commit_transaction(30)
    wait_for(lambda: settled(cluster, "of-described", 1), "the end of the transaction")
    assert listed(cluster, tools)["described"]["TransactionState"] == "CompleteCommit"
    (state,) = producers(cluster, tools, "of-described")
    assert state["CurrentTransactionStartOffset"] == "None"
    missing = tools.call(TOOL, *at, "describe", "--transactional-id", "nobody")
    assert missing.code != 0
    assert "could not be found" in missing.out + missing.err


def test_force_terminate(cluster: LocalCluster, tools: Tools) -> None:
    """An operator ends an open transaction; its producer is fenced."""
    producer = opened(cluster, "terminated", "of-terminated")
    words = ("forceTerminateTransaction", "--transactionalId", "terminated")
    tools.run(TOOL, "--bootstrap-server", cluster.bootstrap, *words)
    wait_for(lambda: settled(cluster, "of-terminated", 1), "the end of the transaction")
    assert visible(cluster, "of-terminated", partitions=1) == []
    with pytest.raises(KafkaException, match=r"(?i)fenced|epoch"):
        producer.commit_transaction(30)


async def hang(address: str, topic: str) -> int:
    """A transactional batch of a producer that no coordinator knows of; the producer's id."""
    host, _, port = address.rpartition(":")
    connection = await Connection.open(host, int(port), client_id="hangs")
    asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    async with asyncio.timeout(60):  # a broker of Kafka that was never asked has none at first
        while (given := await connection.request(INIT_PRODUCER_ID, 4, asked, 30)).error_code:
            await asyncio.sleep(POLL_S)
    record = Record(0, LONG_AGO_MS, None, b"hanging", [])
    batch = build_batch(
        [record], producer_id=given.producer_id, producer_epoch=0, base_sequence=0, transactional=True
    )
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=bytes(batch))])
    request = ProduceRequest(transactional_id="hangs", acks=-1, timeout_ms=30_000, topic_data=[data])
    answer = await connection.request(PRODUCE, WITHOUT_VERSION_2, request, 30)
    connection.close()
    assert answer.responses[0].partition_responses[0].error_code == 0
    return int(given.producer_id)


def test_a_hanging_transaction_is_found_and_aborted(cluster: LocalCluster, tools: Tools) -> None:
    at, topic = ("--bootstrap-server", cluster.bootstrap), "of-hanging"
    cluster.create_topic(topic)
    producer_id = asyncio.run(hang(cluster.node(1).kafka, topic))
    plain = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    plain.produce(topic, "behind it")
    assert plain.flush(30) == 0
    assert visible(cluster, topic, partitions=1) == []
    (found,) = table(tools.run(TOOL, *at, "find-hanging", "--broker-id", "1"))
    assert (found["Topic"], found["Partition"], found["ProducerId"]) == (topic, "0", str(producer_id))
    start = found["StartOffset"]
    tools.run(TOOL, *at, "abort", "--topic", topic, "--partition", "0", "--start-offset", start)
    wait_for(lambda: settled(cluster, topic, 1), "the end of the transaction")
    assert visible(cluster, topic, partitions=1) == ["behind it"]
    assert table(tools.run(TOOL, *at, "find-hanging", "--broker-id", "1")) == []


def test_kafka_dump_log_reads_the_coordinators_log(cluster: LocalCluster, tools: Tools) -> None:
    """All states of a transaction that commits and one that aborts."""
    producer = opened(cluster, "dumped", "of-dumped")
    producer.commit_transaction(30)
    producer.begin_transaction()
    producer.produce("of-dumped", "aborted")
    producer.flush(30)
    producer.abort_transaction(30)
    wait_for(lambda: settled(cluster, "of-dumped", 1), "the end of the transactions")
    folder = Path(cluster.node(1).data) / "__transaction_state-0"

    def states() -> list[int]:
        files = ",".join(map(str, sorted(folder.glob("*.log"))))
        text = tools.run("kafka-dump-log", "--transaction-log-decoder", "--files", files)
        lines = [line for line in text.splitlines() if '"transactionalId":"dumped"' in line]
        return [int(found) for line in lines for found in re.findall(r'"transactionStatus":(\d+)', line)]

    wanted = [EMPTY, ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT, ONGOING, PREPARE_ABORT, COMPLETE_ABORT]
    wait_for(lambda: states() == wanted, f"the states {wanted}", 20)
