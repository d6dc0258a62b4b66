"""A service written for Kafka's image runs with this image dropped in."""

import json
from collections.abc import Iterator

import pytest

from tests.cluster.local import wait_for
from tests.containers.cluster import fetch, free_ports
from tests.containers.image import run
from tests.containers.records import round_trip
from tests.unit.deploy.test_seed_service import SERVICE

NAME = "rookery-test-seed"


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
