"""`partition`, `transaction`, `acl`, `user` and `quota` against a cluster in this process."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from rookery.testing import Cluster
from tests.unit.client.cli.test_admin_commands import Command

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=4, config=AUTHORIZER) as running:
        yield running


@pytest.fixture
def rookery(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(cluster, capsys)


def test_replicas_are_drained_off_a_broker(cluster: Cluster, rookery: Command, tmp_path: Path) -> None:
    cluster.create_topic("moved", partitions=4, replication_factor=2)
    plan = json.loads(rookery("partition", "reassign", "--topic", "moved", "--drain", "4", "--dry-run"))
    assert all(4 not in row["replicas"] for row in plan["partitions"])
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    rookery("partition", "reassign", "--topic", "moved", "--plan", str(file), "--yes")
    cluster.wait_for(lambda: rookery("partition", "status", "-o", "json").strip() == "[]", "the move to end")
    rows = rookery.json("partition", "list", "--topic", "moved")
    assert all(4 not in row["replicas"] for row in rows)
    assert rookery("partition", "reassign", "--topic", "moved", "--drain", "4", "--yes") == "nothing to move\n"
    assert "broker 9 is not there" in rookery("partition", "reassign", "--brokers", "1,9", "--yes", code=2)
    assert "nothing is being moved" in rookery("partition", "cancel", "--yes")


def test_preferred_leaders_come_back(cluster: Cluster, rookery: Command) -> None:
    cluster.create_topic("led", partitions=4, replication_factor=3)
    first = cluster.leader("led", 0)
    cluster.restart(first)
    cluster.wait_in_sync("led")
    rookery("partition", "elect", "--topic", "led")
    cluster.wait_for(lambda: cluster.leader("led", 0) == first, "the preferred leader")


def test_an_open_transaction_is_shown_and_can_be_aborted(cluster: Cluster, rookery: Command) -> None:
    cluster.create_topic("tx")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "hanging"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("tx", b"open")
    producer.flush(30)
    states = {row["transactional-id"]: row["transaction-state"] for row in rookery.json("transaction", "list")}
    assert states["hanging"] == "Ongoing"
    (described,) = rookery.json("transaction", "describe", "hanging")
    assert described["partitions"] == ["tx-0"]
    (found,) = rookery.json("transaction", "producers", "tx", "0")
    assert found["current-transaction-start-offset"] == 0
    assert "begins at 7" in rookery("transaction", "abort", "tx", "0", "--start-offset", "7", "--yes", code=4)
    rookery("transaction", "abort", "tx", "0", "--start-offset", "0", "--yes")
    (after,) = rookery.json("transaction", "producers", "tx", "0")
    assert after["current-transaction-start-offset"] == "none"


def test_acls(rookery: Command) -> None:
    reads = ("--principal", "User:alice", "--operation", "read", "--resource", "topic", "--name", "orders")
    assert rookery("acl", "create", *reads) == "User:alice may read topic orders\n"
    (row,) = rookery.json("acl", "list", "--principal", "User:alice")
    assert (row["operation"], row["resource"], row["name"], row["pattern"]) == ("read", "topic", "orders", "literal")
    assert "needs --yes" in rookery("acl", "delete", "--principal", "User:alice", code=2)
    assert rookery("acl", "delete", "--principal", "User:alice", "--yes") == "deleted 1 ACL(s)\n"
    assert "no ACL matches" in rookery("acl", "delete", "--principal", "User:alice", "--yes", code=4)


def test_users(rookery: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("secret\n"))
    assert "secret" not in rookery("user", "create", "alice")
    assert rookery.json("user", "list") == [{"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 4096}]
    rookery("user", "delete", "alice", "--yes")
    assert rookery.json("user", "list") == []


def test_quotas(cluster: Cluster, rookery: Command) -> None:
    rookery("quota", "set", "--user", "alice", "producer_byte_rate=1024")
    rookery("quota", "set", "--client-id", "<default>", "consumer_byte_rate=2048")
    cluster.wait_for(lambda: len(rookery.json("quota", "list")) == 2, "the quotas")
    rows = {row["entity"]: row["value"] for row in rookery.json("quota", "list")}
    assert rows == {"user alice": 1024.0, "client-id <default>": 2048.0}
    rookery("quota", "unset", "--user", "alice", "producer_byte_rate")
    cluster.wait_for(lambda: len(rookery.json("quota", "list")) == 1, "the quota to be gone")
    assert "known quotas are" in rookery("quota", "set", "--user", "a", "bytes=1", code=2)
    assert "whose quota?" in rookery("quota", "set", "producer_byte_rate=1", code=2)


def test_nodes_are_listed_described_drained_and_removed(cluster: Cluster, rookery: Command) -> None:
    """Last in this module: the cluster has one broker fewer afterwards."""
    cluster.create_topic("kept", partitions=4, replication_factor=2)
    rows = rookery.json("node", "list")
    assert [(row["node"], row["state"]) for row in rows] == [(number, "running") for number in (1, 2, 3, 4)]
    assert sum(row["leaders"] for row in rows) >= 4
    (one,) = rookery.json("node", "describe", "4")
    assert one["log-dirs"][0]["state"] == "online"
    assert one["options"]["node.id"] == "4"
    assert "authorizer.class.name=" in rookery("node", "describe", "4")
    assert "there is no broker 9; there are 1, 2, 3, 4" in rookery("node", "describe", "9", code=4)
    assert "is running: stop it first" in rookery("node", "remove", "4", "--yes", code=1)
    plan = json.loads(rookery("node", "drain", "4", "--dry-run"))
    assert all(4 not in row["replicas"] for row in plan["partitions"])
    assert "needs --yes" in rookery("node", "drain", "4", code=2)
    assert "holds nothing any more" in rookery("node", "drain", "4", "--yes", "--wait", "60")
    assert rookery("node", "drain", "4", "--yes") == "broker 4 holds no replica\n"
    cluster.stop_node(4)
    cluster.wait_for(lambda: rookery.json("node", "list")[-1]["state"] == "fenced", "the broker to be fenced")
    assert "is forgotten" in rookery("node", "remove", "4", "--yes")
    cluster.wait_for(lambda: [row["node"] for row in rookery.json("node", "list")] == [1, 2, 3], "all to know")
