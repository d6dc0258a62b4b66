"""Many partitions: a scrape tells of all of them, and others are served meanwhile."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.cluster.local import wait_for
from tests.containers.cluster import fetch
from tests.containers.report import tell
from tests.containers.single import single_node

pytestmark = pytest.mark.alone

NAME = "rookery-test-many"
PARTITIONS = 3000
WAIT_S = 60.0
VARIABLES = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://127.0.0.1:9092"}


def told(scrape: str, name: str) -> int:
    """How many samples a metric has."""
    return sum(line.startswith(name + "{") for line in scrape.splitlines())


def leaders(http: str) -> int:
    """How many partitions the node leads."""
    try:
        report = fetch(f"http://{http}/healthz?verbose", WAIT_S)
    except OSError:
        return 0  # not ready for a moment
    return int(json.loads(report)["broker"]["leaders"])


@pytest.mark.row(152)
def test_a_scrape_of_3000_partitions_lets_others_through(image: str) -> None:
    with single_node(image, NAME, VARIABLES) as (bootstrap, http):
        topic = NewTopic("many", num_partitions=PARTITIONS, replication_factor=1)
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([topic])["many"].result(60)
        wait_for(lambda: leaders(http) >= PARTITIONS, "every partition to have a leader", 120)
        with ThreadPoolExecutor() as pool:
            begun = time.monotonic()
            scrape = pool.submit(fetch, f"http://{http}/metrics", WAIT_S)
            answers: list[float] = []
            while not answers or not scrape.done():
                asked = time.monotonic()
                assert fetch(f"http://{http}/livez", WAIT_S) == "ok\n"
                answers.append(time.monotonic() - asked)
            took = time.monotonic() - begun
        size = len(scrape.result())
        tell(
            f"a scrape of {PARTITIONS} partitions: {size / 1e6:.1f} MB in {took:.2f} s; "
            f"{len(answers)} other requests meanwhile, the slowest answered in {max(answers) * 1000:.0f} ms"
        )
        for name in ("kafka_topic_partition_leader", "kafka_log_log_size"):
            assert told(scrape.result(), name) >= PARTITIONS
