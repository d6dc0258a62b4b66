"""A service written for Kafka's image runs with this image dropped in."""

import json
from collections.abc import Iterator

import pytest

from tests.cluster.local import wait_for
from tests.containers.image import run
from tests.containers.records import round_trip
from tests.containers.single import said, single_node, wait_ready
from tests.unit.deploy.test_seed_service import SERVICE

pytestmark = pytest.mark.alone

NAME = "rookery-test-seed"
DOCKER_PORT = 29092


@pytest.fixture(scope="module")
def seed(image: str) -> Iterator[tuple[str, str]]:
    with single_node(image, NAME, SERVICE, publish=[DOCKER_PORT]) as addresses:
        yield addresses


@pytest.mark.row(147, 153, 154, 155, 156)
def test_a_service_for_kafka_with_zookeeper_runs_with_the_image_swapped(seed: tuple[str, str]) -> None:
    bootstrap, http = seed
    round_trip(bootstrap, "orders")
    notes = said(NAME)
    for word in ("ZooKeeper", "there is no JMX", "everybody may do everything"):
        assert word in notes
    state = "{{json .State.Health.Status}}"
    wait_for(lambda: json.loads(run("docker", "inspect", "--format", state, NAME)) == "healthy", "the health check", 60)
    run("docker", "restart", NAME)
    wait_ready(http)
    round_trip(bootstrap, "orders")


@pytest.mark.row(156)
@pytest.mark.parametrize(("host", "port"), [("kafka1", 19092), ("host.docker.internal", DOCKER_PORT)])
def test_clients_in_containers_use_the_listener_that_is_for_them(
    image: str, seed: tuple[str, str], host: str, port: int
) -> None:
    """One on the same network, and one that only knows the machine both run on."""
    address = run("docker", "inspect", "--format", "{{.NetworkSettings.IPAddress}}", NAME).strip()
    reached = address if host == "kafka1" else "host-gateway"
    inside = ("docker", "run", "--rm", "--add-host", f"{host}:{reached}", "--entrypoint", "rookery", image)
    topic = f"by-{host}"
    run(*inside, "topic", "create", topic, "--bootstrap", f"{host}:{port}")
    assert topic in run(*inside, "topic", "list", "-o", "name", "--bootstrap", f"{host}:{port}").split()


@pytest.mark.row(147)
def test_an_authorizer_that_does_not_exist_here_is_refused(image: str) -> None:
    variables = {**SERVICE, "KAFKA_AUTHORIZER_CLASS_NAME": "com.example.Mine"}
    settings = [word for key, value in variables.items() for word in ("--env", f"{key}={value}")]
    with pytest.raises(AssertionError, match="StandardAuthorizer"):
        run("docker", "run", "--rm", *settings, image)
