"""Controllers apart from brokers, the shape for production."""

import pytest

from tests.containers.cluster import compose_cluster
from tests.containers.records import round_trip

pytestmark = pytest.mark.alone


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
