"""compose.secure.yaml as docs/security.md says to start it: clients need the password, Prometheus the token."""

import shutil
import ssl
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.cluster.local import wait_for
from tests.containers.cluster import ContainerCluster, compose_cluster
from tests.containers.image import run
from tests.containers.prometheus import prometheus

pytestmark = pytest.mark.alone

SECRETS = {
    "ROOKERY_ADMIN_PASSWORD": "adminsPassword1",
    "ROOKERY_BROKER_PASSWORD": "brokersPassword1",
    "ROOKERY_HTTP_TOKEN": "tokenOfPrometheus1",
}
TOPIC = "orders"
AT_ONCE_S = 15.0


@pytest.fixture(scope="module")
def certificates() -> Iterator[Path]:
    """Of the shipped script. Only their owner, user 1000 of the image, and root can read them."""
    folder = Path(tempfile.mkdtemp(prefix="rookery-certificates-"))
    run("deploy/make-certificates", str(folder))
    yield folder
    shutil.rmtree(folder)


def client(cluster: ContainerCluster, certificates: Path, **other: Any) -> dict[str, Any]:
    """What the first lines of the compose file tell of clients."""
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(certificates / "ca.pem"),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "admin",
        "sasl.password": SECRETS["ROOKERY_ADMIN_PASSWORD"],
        "log_level": 0,
        **{key.replace("__", "."): value for key, value in other.items()},
    }


@pytest.mark.row(145, 152)
def test_a_secured_cluster_of_containers(image: str, certificates: Path) -> None:
    variables = {**SECRETS, "ROOKERY_CERTIFICATES": str(certificates)}
    with compose_cluster("compose.secure.yaml", "kafka", image, "rookery-test-secure", **variables) as cluster:
        _with_the_password(cluster, certificates)
        _without(cluster, certificates)
        _scraped(cluster, certificates)
        for node_id in cluster.ids:
            assert not [secret for secret in SECRETS.values() if secret in cluster.log(node_id)]


def _with_the_password(cluster: ContainerCluster, certificates: Path) -> None:
    admin = AdminClient(client(cluster, certificates))
    admin.create_topics([NewTopic(TOPIC, 3, 3)])[TOPIC].result(60)
    outcomes: list[object] = []
    producer = Producer(client(cluster, certificates, acks="all"))
    for partition in range(3):
        producer.produce(TOPIC, b"value", partition=partition, on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(60)
    assert outcomes == [None] * 3
    consumer = Consumer(client(cluster, certificates, group__id="readers", auto__offset__reset="earliest"))
    consumer.subscribe([TOPIC])
    values = [wait_for(lambda: consumer.poll(1), "a record").value() for _ in range(3)]
    consumer.close()
    assert values == [b"value"] * 3


def _without(cluster: ContainerCluster, certificates: Path) -> None:
    errors: list[KafkaError] = []
    wrong = AdminClient(client(cluster, certificates, sasl__password="wrong", error_cb=errors.append))
    begun = monotonic()
    while not errors and monotonic() < begun + AT_ONCE_S:
        wrong.poll(0.1)
    assert errors[0].code() == KafkaError._AUTHENTICATION
    for protocol in ("SSL", "PLAINTEXT"):
        with pytest.raises(KafkaException):
            AdminClient(client(cluster, certificates, security__protocol=protocol)).list_topics(timeout=2)


def _scraped(cluster: ContainerCluster, certificates: Path) -> None:
    context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    for page in ("/metrics", "/healthz"):
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"https://{cluster.targets()[0]}{page}", timeout=30, context=context)
    with tempfile.NamedTemporaryFile("w") as token:
        token.write(SECRETS["ROOKERY_HTTP_TOKEN"])
        token.flush()
        access = {
            "scheme": "https",
            "tls_config": {"ca_file": str(certificates / "ca.pem")},
            "authorization": {"credentials_file": token.name},
        }
        with prometheus(cluster.targets(), access) as server:
            wait_for(lambda: server.targets_up() == 3, "three targets")
            wait_for(lambda: server.value("rookery:under_replicated_partitions") == 0, "the rules to have a result")
