"""Other shapes than three equal nodes: controllers apart from brokers, and a service written for Kafka's image."""

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cluster.local import wait_for
from tests.containers.cluster import compose_cluster, fetch, free_ports
from tests.containers.image import run
from tests.unit.deploy.test_seed_service import SERVICE

NAME = "rookery-test-seed"


@pytest.mark.row(152)
def test_controllers_apart_from_brokers(image: str) -> None:
    with compose_cluster("compose.dedicated.yaml", "broker", image, "rookery-test-dedicated") as cluster:
        cluster.create_topic("orders", 3)
        cluster.wait_in_sync("orders", 3)
        cluster.wait_healthy()
        round_trip(cluster.bootstrap, "orders")
        cluster.compose("kill", "controller-1")
        cluster.kill(1)
        round_trip(cluster.bootstrap, "orders")


@pytest.fixture
def seed(image: str) -> Iterator[tuple[str, str]]:
    """(bootstrap, address of the HTTP port) of the service, on other ports of this machine."""
    kafka, http = free_ports(2)
    variables = dict(SERVICE)
    listeners = variables["KAFKA_ADVERTISED_LISTENERS"]
    variables["KAFKA_ADVERTISED_LISTENERS"] = listeners.replace("127.0.0.1:9092", f"127.0.0.1:{kafka}")
    settings = [word for key, value in variables.items() for word in ("--env", f"{key}={value}")]
    ports = ["--publish", f"{kafka}:{kafka}", "--publish", f"{http}:8080"]
    run("docker", "run", "--detach", "--name", NAME, "--hostname", "kafka1", *ports, *settings, image)
    try:
        yield f"127.0.0.1:{kafka}", f"127.0.0.1:{http}"
    finally:
        run("docker", "rm", "--force", "--volumes", NAME)


@pytest.mark.row(147, 153, 154, 155, 156)
def test_a_service_for_kafka_with_zookeeper_runs_with_the_image_swapped(seed: tuple[str, str]) -> None:
    bootstrap, http = seed
    wait_for(lambda: ready(http), "the node to be ready", 60)
    round_trip(bootstrap, "orders")
    state = "{{json .State.Health.Status}}"
    wait_for(lambda: json.loads(run("docker", "inspect", "--format", state, NAME)) == "healthy", "the health check")
    run("docker", "restart", NAME)
    wait_for(lambda: ready(http), "the node to be ready again", 60)
    round_trip(bootstrap, "orders")


def ready(http: str) -> bool:
    try:
        return fetch(f"http://{http}/readyz") == "ok\n"
    except OSError:
        return False


def round_trip(bootstrap: str, topic: str) -> None:
    """One record in and out again."""
    results: list[tuple[object, int | None, int | None]] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": 30_000})
    producer.produce(
        topic, b"value", on_delivery=lambda error, sent: results.append((error, sent.partition(), sent.offset()))
    )
    producer.flush(40)
    ((error, partition, offset),) = results
    assert error is None
    assert partition is not None
    assert offset is not None
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "not-used", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, offset)])
    assert wait_for(lambda: consumer.poll(1), "the record").value() == b"value"
    consumer.close()
