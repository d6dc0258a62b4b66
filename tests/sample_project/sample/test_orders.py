"""Tests as users write them: nothing but pytest, the fixtures of the plugin, and a client of their choice."""

import asyncio

import pytest


def test_confluent_kafka_survives_a_dead_leader(rookery_cluster, rookery_topic):
    from confluent_kafka import Producer

    acknowledged = []
    producer = Producer({"bootstrap.servers": rookery_cluster.bootstrap, "acks": "all", "enable.idempotence": True})

    def send(value):
        producer.produce(rookery_topic, value, on_delivery=lambda error, message: acknowledged.append(message.value()))
        producer.flush(30)

    send(b"before")
    with rookery_cluster.kill(rookery_cluster.leader(rookery_topic)):
        send(b"while it is dead")
    send(b"after")
    assert acknowledged == [b"before", b"while it is dead", b"after"]
    assert [record.value for record in rookery_cluster.records(rookery_topic)] == acknowledged


def test_kafka_python(rookery_cluster, rookery_topic, rookery_name):
    from kafka import KafkaConsumer, KafkaProducer

    producer = KafkaProducer(bootstrap_servers=rookery_cluster.bootstrap.split(","))
    producer.send(rookery_topic, b"from kafka-python").get(30)
    producer.close()
    consumer = KafkaConsumer(
        rookery_topic,
        bootstrap_servers=rookery_cluster.bootstrap.split(","),
        group_id=rookery_name(),
        auto_offset_reset="earliest",
    )
    assert next(iter(consumer)).value == b"from kafka-python"
    consumer.close()


async def _aiokafka(bootstrap, topic):
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        await producer.send_and_wait(topic, b"from aiokafka")
    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        return (await consumer.getone()).value


@pytest.mark.asyncio
async def test_aiokafka_on_the_loop_of_pytest_asyncio(rookery_cluster, rookery_topic):
    assert await _aiokafka(rookery_cluster.bootstrap, rookery_topic) == b"from aiokafka"
    assert await rookery_cluster.until(lambda: rookery_cluster.high_watermark(rookery_topic) == 1)


@pytest.mark.rookery(nodes=1)
def test_another_shape_is_another_cluster(rookery_cluster):
    assert rookery_cluster.ids == [1]


def test_faults_of_one_test_do_not_reach_the_next_1(rookery_cluster):
    rookery_cluster.kill(2)
    assert not rookery_cluster.nodes.is_up(2)


def test_faults_of_one_test_do_not_reach_the_next_2(rookery_cluster):
    assert rookery_cluster.nodes.is_up(2)


@pytest.mark.rookery(nodes=1, config={"num.partitions": 2})
@pytest.mark.parametrize("time", ["first", "second"])
def test_a_cluster_that_a_test_broke_for_good_serves_no_other(rookery_cluster, time):
    assert rookery_cluster.nodes.is_up(1)
    rookery_cluster.nodes.kill(1)  # not by a fault, so nothing undoes it


def test_rookerys_own_client(rookery_producer, rookery_consumer, rookery_topic):
    stored = rookery_producer.send(rookery_topic, b"from rookery", key=b"k").result()
    assert (stored.topic, stored.offset) == (rookery_topic, 0)
    records = []
    while not records:
        records = rookery_consumer.getmany(timeout_ms=1000)
    assert [record.value for record in records] == [b"from rookery"]


async def _faststream(bootstrap, topic):
    from faststream import FastStream
    from faststream.kafka import KafkaBroker

    broker = KafkaBroker(bootstrap.split(","))
    received = asyncio.get_running_loop().create_future()

    @broker.subscriber(topic, auto_offset_reset="earliest")
    async def handle(message: str):
        received.set_result(message)

    app = FastStream(broker)
    running = asyncio.create_task(app.run())
    async with KafkaBroker(bootstrap.split(",")) as sender:
        await sender.publish("from faststream", topic)
    try:
        return await asyncio.wait_for(received, 60)
    finally:
        app.exit()
        await running


def test_faststream(rookery_cluster, rookery_topic):
    assert asyncio.run(_faststream(rookery_cluster.bootstrap, rookery_topic)) == "from faststream"
