"""`rookery events` and `rookery trace` right after a broker died: the others answer, and the dead one is named.

The brokers that are left do not know of it yet: its session lasts, so that clients are still sent to it.
"""

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from rookery.client.cli.__main__ import main
from rookery.testing import Cluster

TOPIC = "traced"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    options = {"broker.session.timeout.ms": 600_000, "rookery.broker.reconnect.grace.ms": 600_000}
    with Cluster(nodes=3, config=options, processes=True) as running:
        running.create_topic(TOPIC)
        producer = Producer({"bootstrap.servers": running.bootstrap, "acks": "all", "log_level": 0})
        producer.produce(TOPIC, b"v")
        assert producer.flush(30) == 0
        running.kill(dead(running))
        yield running


def dead(cluster: Cluster) -> int:
    """Who asks where a record is needs its leader: another one dies."""
    return max(number for number in cluster.ids if number != cluster.leader(TOPIC))


def call(cluster: Cluster, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main([*words, "--bootstrap", cluster.bootstrap])
    return code, *capsys.readouterr()


def test_events_of_the_others_are_shown(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(cluster, capsys, "events", "--event", "node.ready", "-o", "json")
    assert {row["node"] for row in json.loads(out)} == set(cluster.ids) - {dead(cluster)}
    assert f"broker {dead(cluster)}" in err
    assert (code, "1 node(s) did not answer; what they recorded is missing above" in err) == (3, True)


def test_a_record_is_traced(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(cluster, capsys, "trace", TOPIC, "0", "0", "-o", "json")
    steps = json.loads(out)
    assert (code, steps[0]["step"]) == (0, "appended")
    assert [step["what"] for step in steps if step["step"] == "committed"] == ["yes: the high watermark is 1"]
    assert f"broker {dead(cluster)}" in err
