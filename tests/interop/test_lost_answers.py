"""A retry after an answer that got lost, by clients that number what they send: every record is stored once."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer

from rookery import Producer as OwnProducer
from tests.cluster.ends import ends
from tests.cluster.local import LocalCluster
from tests.interop import peers
from tests.interop.lossy_node import lossy_node
from tests.interop.lost_answer import LosesOneAnswer
from tests.interop.peers.peer import PATIENCE_S

Lossy = tuple[LocalCluster, LosesOneAnswer]


@pytest.fixture(scope="module")
def lossy() -> Iterator[Lossy]:
    with lossy_node() as both:
        yield both


def rdkafka_sends(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    for one in values:
        producer.produce(topic, one, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def aiokafka_sends(bootstrap: str, topic: str, values: list[bytes]) -> None:
    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer:
            for one in values:
                await producer.send_and_wait(topic, one, partition=0)

    asyncio.run(asyncio.wait_for(send(), PATIENCE_S))


def kafka_python_sends(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
    for sent in [producer.send(topic, one, partition=0) for one in values]:
        sent.get(PATIENCE_S)
    producer.close()


def our_own_sends(bootstrap: str, topic: str, values: list[bytes]) -> None:
    async def send() -> None:
        async with OwnProducer(bootstrap_servers=bootstrap) as producer:
            for one in values:
                await (await producer.send(topic, one, partition=0))

    asyncio.run(asyncio.wait_for(send(), PATIENCE_S))


@pytest.mark.row(14, 15, 16, 17, 22)
@pytest.mark.invariant("T1")
@pytest.mark.parametrize("send", [rdkafka_sends, aiokafka_sends, kafka_python_sends, our_own_sends])
def test_a_retry_after_a_lost_answer_stores_once(lossy: Lossy, send: Any) -> None:
    node, between = lossy
    topic = send.__name__.replace("_", "-")
    node.create_topic(topic)
    lost = between.lost
    between.lose_next_produce_answer()
    values = [b"%d" % number for number in range(5)]
    send(node.bootstrap, topic, values)
    assert between.lost == lost + 1
    found = peers.ALL[0].read(node.bootstrap, topic, 0, 0, len(values))
    assert [one.value for one in found] == values
    assert ends(node, topic) == (0, len(values))
