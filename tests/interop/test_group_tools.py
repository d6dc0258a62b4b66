"""Kafka's own kafka-consumer-groups and kafka-groups in all their verbs, on groups of both protocols."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from rookery.broker.groups.consumer.regex import compiled
from rookery.core.errors import InvalidRegularExpressionError
from tests.cluster.local import LocalCluster, wait_for
from tests.interop.aim import aimed_cluster
from tests.interop.group_members import members, start, wait_for_shares
from tests.interop.tools import Tools, table

FIRST_MS = 1_700_000_000_000
GROUPS = {"classic": "Classic", "consumer": "Consumer"}
Tool = Callable[..., str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with aimed_cluster(
        1,
        group__initial__rebalance__delay__ms="100",
        group__consumer__heartbeat__interval__ms="300",
        group__consumer__min__heartbeat__interval__ms="100",
        offsets__topic__num__partitions="1",
        log__retention__ms="-1",  # for old records
    ) as running:
        running.create_topic("t", 2, 1)
        producer = Producer({"bootstrap.servers": running.bootstrap, "log_level": 0})
        for number in range(20):
            producer.produce("t", f"v{number}", partition=number % 2, timestamp=FIRST_MS + number // 2 * 1000)
        assert producer.flush(30) == 0
        yield running


@pytest.fixture(scope="module")
def tool(cluster: LocalCluster) -> Iterator[Tool]:
    tools = Tools()

    def run(name: str, *words: str) -> str:
        return tools.run(name, "--bootstrap-server", cluster.bootstrap, *words)

    yield run
    tools.close()


@pytest.mark.row(121, 122)
@pytest.mark.parametrize("protocol", GROUPS)
def test_a_group_from_its_first_member_to_its_deletion(
    cluster: LocalCluster, tool: Tool, protocol: str, tmp_path: Path
) -> None:
    def groups(*words: str) -> str:
        return tool("kafka-consumer-groups", *words)

    def rows(*words: str) -> list[dict[str, str]]:
        """Of this group; a table with a warning above it begins where its head is."""
        printed = groups(*words)
        found = [row for row in table(printed[printed.index("GROUP") :]) if row.get("GROUP") == protocol]
        return sorted(found, key=lambda row: row.get("PARTITION", ""))

    with members(start("confluent", cluster.bootstrap, protocol, "t", protocol=protocol)) as (only,):
        wait_for_shares([only], [2], 60)
        wait_for(lambda: len(only.records) == 20, "20 records")
        assert rows("--list", "--state") == [{"GROUP": protocol, "STATE": "Stable"}]
        assert rows("--list", "--state", "stable") == [{"GROUP": protocol, "STATE": "Stable"}]
        assert rows("--list", "--type") == [{"GROUP": protocol, "TYPE": GROUPS[protocol]}]
        assert rows("--list", "--type", protocol) == [{"GROUP": protocol, "TYPE": GROUPS[protocol]}]
        assert protocol not in groups("--list", "--state", "empty").split()
        listed = {"GROUP": protocol, "TYPE": GROUPS[protocol], "PROTOCOL": "consumer"}
        for words in ((), ("--group-type", protocol), ("--protocol", "consumer"), ("--consumer",)):
            found = [row for row in table(tool("kafka-groups", "--list", *words)) if row["GROUP"] == protocol]
            assert found == [listed], words
        for kind in ("--share", "--streams"):
            assert protocol not in tool("kafka-groups", "--list", kind).split()
        (member,) = rows("--describe", "--group", protocol, "--members", "--verbose")
        assert member["HOST"] == "/127.0.0.1"
        assert member["#PARTITIONS"] == "2"
        assert member["CURRENT-ASSIGNMENT"] == "t:0,1"
        (state,) = rows("--describe", "--group", protocol, "--state", "--verbose")
        assert (state["STATE"], state["#MEMBERS"]) == ("Stable", "1")
        epochs = [member["CURRENT-EPOCH"], member["TARGET-EPOCH"]]
        epochs += [state["GROUP-EPOCH"], state["TARGET-ASSIGNMENT-EPOCH"]]
        assert epochs == (["-"] * 4 if protocol == "classic" else ["1"] * 4)
        (offsets, _) = rows("--describe", "--group", protocol, "--offsets", "--verbose")
        assert (offsets["LOG-END-OFFSET"], offsets["CONSUMER-ID"]) == ("10", member["CONSUMER-ID"])
        assert [each["TOPIC"] for each in rows("--describe", "--all-groups")] == ["t", "t"]
        assert [each["#PARTITIONS"] for each in rows("--describe", "--all-groups", "--members")] == ["2"]
        assert [each["STATE"] for each in rows("--describe", "--all-groups", "--state")] == ["Stable"]
        refused_while_there_are_members(groups, protocol)
        only.stop()
    lags = rows("--describe", "--group", protocol)
    assert [(row["PARTITION"], row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]) for row in lags] == [
        ("0", "10", "10", "0"),
        ("1", "10", "10", "0"),
    ]

    def reset(*how: str) -> list[str]:
        printed = groups("--reset-offsets", "--group", protocol, *how)
        return [row["NEW-OFFSET"] for row in sorted(table(printed), key=lambda row: row["PARTITION"])]

    topic = ("--topic", "t")
    assert reset(*topic, "--to-earliest", "--execute") == ["0", "0"]
    assert reset(*topic, "--shift-by", "4", "--execute") == ["4", "4"]
    assert reset("--all-topics", "--to-current", "--execute") == ["4", "4"]
    assert reset("--topic", "t:1", "--to-offset", "6", "--execute") == ["6"]
    assert reset(*topic, "--to-datetime", "2023-11-14T22:13:27.000", "--execute") == ["7", "7"]
    assert reset(*topic, "--by-duration", "P20000D", "--execute") == ["0", "0"]
    assert reset(*topic, "--to-latest", "--dry-run") == ["10", "10"]
    everywhere = table(groups("--reset-offsets", "--all-groups", "--all-topics", "--to-earliest", "--dry-run"))
    assert [row["NEW-OFFSET"] for row in everywhere if row["GROUP"] == protocol] == ["0", "0"]
    plan = tmp_path / "plan.csv"
    plan.write_text(groups("--reset-offsets", "--group", protocol, *topic, "--shift-by", "3", "--export", "--dry-run"))
    assert sorted(plan.read_text().split()) == ["t,0,3", "t,1,3"]
    assert reset("--from-file", str(plan), "--execute") == ["3", "3"]
    assert [row["CURRENT-OFFSET"] for row in rows("--describe", "--group", protocol)] == ["3", "3"]
    assert "Successful" in groups("--delete-offsets", "--group", protocol, "--topic", "t:0")
    assert [row["PARTITION"] for row in rows("--describe", "--group", protocol)] == ["1"]
    assert "successful" in groups("--delete", "--group", protocol)
    assert protocol not in groups("--list").split()


def refused_while_there_are_members(groups: Callable[..., str], group: str) -> None:
    reset = groups("--reset-offsets", "--group", group, "--topic", "t", "--to-earliest", "--execute")
    assert f"Assignments can only be reset if the group '{group}' is inactive, but the current state is Stable" in reset
    assert "GroupSubscribedToTopicException" in groups("--delete-offsets", "--group", group, "--topic", "t:0")
    assert "GroupNotEmptyException" in groups("--delete", "--group", group)


@pytest.mark.parametrize("regex", ["t.*", r"^orders-\d+$", "(?i)T", "(?P<name>t)", "(", "t(?=x)", r"(t)\1", "t**"])
def test_regular_expressions_are_those_of_kafka(tool: Tool, regex: str) -> None:
    """The tool asks RE2/J, which Kafka's brokers use, and not the broker."""
    said = tool("kafka-consumer-groups", "--validate-regex", regex)
    try:
        compiled(regex)
    except InvalidRegularExpressionError:
        assert f"`{regex}` is invalid" in said
    else:
        assert f"`{regex}` is valid" in said


def test_options_of_a_group(tool: Tool) -> None:
    entity = ("--entity-type", "groups", "--entity-name", "some")
    tool("kafka-configs", "--alter", *entity, "--add-config", "consumer.session.timeout.ms=50000")
    assert "consumer.session.timeout.ms=50000" in tool("kafka-configs", "--describe", *entity)
    tool("kafka-configs", "--alter", *entity, "--delete-config", "consumer.session.timeout.ms")
    assert "consumer.session.timeout.ms=50000" not in tool("kafka-configs", "--describe", *entity)
