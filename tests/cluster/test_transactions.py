"""Transactions while nodes are killed, frozen and cut off: nothing is lost, doubled, torn, reordered or seen early."""

from pathlib import Path

import pytest

from tests.cluster.networked import networked_cluster
from tests.cluster.transaction_load import OPTIONS, TransactionLoad, create_topics, heal, leader_of_state

pytestmark = pytest.mark.alone

PARTITIONS = 2
AFTER_FAULT = 5
SEED = 19


@pytest.mark.row(130, 132, 133, 134, 135, 137)
@pytest.mark.invariant("T6", "T7", "T9", "T10", "T11", "T12", "T13")
def test_transactions_under_faults(tmp_path: Path) -> None:
    """librdkafka has transaction version 1, Java 2. A coordinator is killed, a leader of data is frozen, another node
    is cut off from its peers, so that clients still reach it."""
    with networked_cluster(3, **OPTIONS) as cluster:
        create_topics(cluster, PARTITIONS)
        with TransactionLoad(cluster, ["confluent", "java"], ["confluent", "confluent"], SEED) as load:
            load.go_on(AFTER_FAULT)
            for fault, victim in (
                (cluster.kill, leader_of_state(cluster, load.workers[0].name)),
                (cluster.pause, cluster.leader(load.input.topic, 0)),
                (cluster.cut_from_nodes, leader_of_state(cluster, load.workers[1].name)),
            ):
                fault(victim)
                load.go_on(AFTER_FAULT)
                heal(cluster, load)
                load.go_on(AFTER_FAULT)
        report = load.judged(tmp_path / "history.jsonl")
        print(dict(report.counts), load.state())
        assert report.findings == []
        assert report.counts["committed"] > 4 * AFTER_FAULT
        assert report.counts["processed"] > 0
