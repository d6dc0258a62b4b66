"""What the doctor says of facts; on real clusters in tests/unit/client/cli/test_admin_commands.py."""

from dataclasses import replace
from uuid import UUID

import pytest

from rookery.client.admin.types import (
    BrokerDescription,
    ClusterDescription,
    Features,
    LogDirDescription,
    PartitionDescription,
    QuorumDescription,
    QuorumReplica,
    TopicDescription,
)
from rookery.client.diagnosis import DAY_S, ClusterFacts, Hanging, NodeReport, Orphan, Severity, diagnose
from rookery.client.types import TopicPartition

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
        listeners={n: {"EXTERNAL": (f"x{n}:9094", "")} for n in (1, 2, 3)},
        api_versions={n: {0: (3, 13)} for n in (1, 2, 3)},
        certificates={"broker 1 at b1:9092": 90 * DAY_S},
        reports={2: NodeReport("1.0", 0.1, 100, 1000, 100, 50)},
        features=Features({"metadata.version": 7}, {"metadata.version": (1, 7)}),
    )


def test_silence_on_a_healthy_cluster() -> None:
    assert diagnose(healthy()) == []


FENCED = ClusterDescription("c", 1, [BrokerDescription(2, "b2", 9092, None, True)])
FAILED = LogDirDescription("/d", 0, 0, {}, OSError("EIO"))
CUT_OFF = {2: {"EXTERNAL": ("x2:9094", ""), "INTERNAL": ("b2:19092", "unknown name")}}


def report(**changes: object) -> dict[str, object]:
    return {"reports": {2: replace(NodeReport("1.0", 0.0, 100, 1000, 100, 50), **changes)}}  # type: ignore[arg-type]


TWO_RELEASES = {1: NodeReport("1.0", 0.0), 2: NodeReport("1.1", 0.0)}
LATE = Orphan(TopicPartition("t", 0), 7, 42, 4000.0)
WRONG = [
    ({"listeners": CUT_OFF}, Severity.NOTE, "listener INTERNAL cannot be reached from here: b2:19092 of broker 2"),
    ({"certificates": {"broker 1": 2 * DAY_S}}, Severity.WARNING, "the certificate of broker 1 ends in 2 day(s)"),
    ({"certificates": {"broker 1": 3600.0}}, Severity.ERROR, "the certificate of broker 1 ends in 0 day(s)"),
    ({"certificates": {"broker 1": -3 * DAY_S}}, Severity.ERROR, "the certificate of broker 1 ended 3 day(s) ago"),
    ({"reports": TWO_RELEASES}, Severity.WARNING, "brokers run different releases: 1 has 1.0, 2 has 1.1"),
    ({"api_versions": {1: {0: (3, 13)}, 2: {0: (3, 11)}}}, Severity.WARNING, "different versions of the protocol"),
    ({"features": Features({"metadata.version": 6}, {"metadata.version": (1, 7)})}, Severity.NOTE, "is 6, and this"),
    (report(skew_s=-60.0), Severity.WARNING, "the clock of node 2 is 60 s behind this machine's"),
    (report(open_files=900), Severity.WARNING, "node 2 has 900 files open and may have 1000"),
    (report(memory_available=2), Severity.WARNING, "the machine of node 2 has 2 % of its memory left"),
    (report(damage=["t-0 is damaged: crc"]), Severity.ERROR, "node 2: t-0 is damaged: crc"),
    ({"orphans": [LATE]}, Severity.ERROR, "a transaction hangs in t-0: producer 7 began it 4000 s ago at 42"),
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


def test_the_listener_that_can_be_reached_is_named() -> None:
    (found,) = diagnose(replace(healthy(), advertised={2: ("kafka:9092", "unknown name")}))
    assert found.todo == "this machine reaches its listener EXTERNAL at x2:9094: name that with --bootstrap"
    (found,) = diagnose(replace(healthy(), advertised={2: ("kafka:9092", "unknown name")}, listeners={}))
    assert "advertised.listeners" in found.todo


def test_silence_where_nodes_do_not_know() -> None:
    """Those of Apache Kafka say nothing of themselves, some systems nothing of memory."""
    assert diagnose(replace(healthy(), reports={})) == []
    assert diagnose(replace(healthy(), reports={1: NodeReport("1.0", 0.0)})) == []


def test_a_topic_with_fewer_replicas_than_min_insync_replicas_takes_writes() -> None:
    """As in Kafka, all of its replicas suffice; another partition that lacks one does not change that."""
    lone, lacking = PartitionDescription(0, 1, 0, (1,), (1,), ()), PartitionDescription(1, 1, 0, (1, 2), (1,), ())
    mixed = TopicDescription("t", UUID(int=1), False, [lone, lacking])
    (found,) = diagnose(replace(healthy(), topics=[mixed], min_isr={"t": 2}))
    assert "1 partition(s) have fewer replicas in sync than min.insync.replicas: t-1;" in found.what


def test_the_worst_comes_first() -> None:
    found = diagnose(replace(healthy(), topics=[topic(1, (1, 2)), topic(-1, ())]))
    assert [each.severity for each in found] == [Severity.ERROR, Severity.WARNING]
