"""What the doctor says of facts; on real clusters in tests/unit/client/cli/test_admin_commands.py."""

from dataclasses import replace
from uuid import UUID

import pytest

from rookery.client.admin.types import (
    BrokerDescription,
    ClusterDescription,
    LogDirDescription,
    PartitionDescription,
    QuorumDescription,
    QuorumReplica,
    TopicDescription,
)
from rookery.client.diagnosis import ClusterFacts, Hanging, Severity, diagnose

NOW = 1_700_000_000_000


def topic(leader: int, isr: tuple[int, ...]) -> TopicDescription:
    return TopicDescription("t", UUID(int=1), False, [PartitionDescription(0, leader, 0, (1, 2, 3), isr, ())])


def quorum(**late_ms: int) -> QuorumDescription:
    voters = [QuorumReplica(n, 10, NOW, NOW - late_ms.get(f"v{n}", 0)) for n in (1, 2, 3)]
    return QuorumDescription(1, 5, 10, voters, [])


def healthy() -> ClusterFacts:
    brokers = [BrokerDescription(n, f"b{n}", 9092, None, False) for n in (1, 2, 3)]
    return ClusterFacts(
        bootstrap={"b1:9092": ""},
        advertised={n: (f"b{n}:9092", "") for n in (1, 2, 3)},
        cluster=ClusterDescription("c", 1, brokers),
        topics=[topic(1, (1, 2, 3))],
        quorum=quorum(),
        now_ms=NOW,
        log_dirs={1: [LogDirDescription("/data", 100, 50, {})]},
    )


def test_silence_on_a_healthy_cluster() -> None:
    assert diagnose(healthy()) == []


FENCED = ClusterDescription("c", 1, [BrokerDescription(2, "b2", 9092, None, True)])
FAILED = LogDirDescription("/d", 0, 0, {}, OSError("EIO"))
WRONG = [
    ({"bootstrap": {"b1:1": "Connection refused"}}, Severity.ERROR, "b1:1 cannot be reached: Connection refused"),
    ({"bootstrap": {"b1:1": "", "b2:1": "refused"}}, Severity.WARNING, "bootstrap address b2:1"),
    ({"advertised": {2: ("kafka:9092", "unknown name")}}, Severity.ERROR, "broker 2 advertises kafka:9092"),
    ({"cluster": FENCED}, Severity.ERROR, "broker 2 is registered but fenced"),
    ({"topics": [topic(-1, ())]}, Severity.ERROR, "1 partition(s) have no leader: t-0"),
    ({"topics": [topic(1, (1,))], "min_isr": {"t": 2}}, Severity.ERROR, "fewer replicas in sync than min.insync"),
    ({"topics": [topic(1, (1, 2))], "min_isr": {"t": 2}}, Severity.WARNING, "under-replicated: t-0"),
    ({"quorum": quorum(v3=60_000)}, Severity.ERROR, "voter 3 of the metadata quorum has not caught up for 60 s"),
    ({"quorum": replace(quorum(), leader_id=-1)}, Severity.ERROR, "there is no controller"),
    ({"now_ms": NOW + 60_000}, Severity.WARNING, "the clock of the controller (node 1) is 60 s behind"),
    ({"log_dirs": {2: [FAILED]}}, Severity.ERROR, "log dir /d of broker 2 is offline"),
    ({"log_dirs": {2: [LogDirDescription("/d", 100, 4, {})]}}, Severity.WARNING, "/d on broker 2 has 4 % left"),
    ({"hanging": [Hanging("tx", "Ongoing", 90.0, 60.0)]}, Severity.ERROR, "the transaction of tx is Ongoing for 90 s"),
    ({"open_files_max": 256}, Severity.NOTE, "may open 256 files"),
    ({"failures": {"groups": "denied"}}, Severity.WARNING, "groups could not be asked: denied"),
]


@pytest.mark.parametrize(("changes", "severity", "words"), WRONG)
def test_each_diagnosis(changes: dict[str, object], severity: Severity, words: str) -> None:
    found = diagnose(replace(healthy(), **changes))  # type: ignore[arg-type]
    assert [(each.severity, words in each.what) for each in found] == [(severity, True)]


def test_the_worst_comes_first() -> None:
    found = diagnose(replace(healthy(), topics=[topic(1, (1, 2)), topic(-1, ())]))
    assert [each.severity for each in found] == [Severity.ERROR, Severity.WARNING]
