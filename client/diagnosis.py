"""What is wrong with a cluster: facts in, diagnoses out. Opens no connection and reads no clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from rookery.client.admin.types import (
    ClusterDescription,
    LogDirDescription,
    QuorumDescription,
    TopicDescription,
)
from rookery.client.group_report import GroupFacts, explain

DISK_FREE = 0.1
SKEW_S = 5.0
QUORUM_BEHIND_S = 10.0
NAMES_SHOWN = 5
DEFAULT_MIN_ISR = 1


class Severity(IntEnum):
    NOTE = 0
    WARNING = 1
    ERROR = 2


@dataclass(frozen=True, slots=True)
class Diagnosis:
    severity: Severity
    what: str
    todo: str = ""


@dataclass(frozen=True, slots=True)
class Hanging:
    """A transaction that is open for longer than it may be."""

    transactional_id: str
    state: str
    open_s: float
    timeout_s: float


@dataclass(slots=True)
class ClusterFacts:
    """What was found out; what could not be is left at its default and named in `failures`."""

    bootstrap: Mapping[str, str] = field(default_factory=dict)
    """Address: why it cannot be reached, empty if it can."""
    advertised: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    """Broker: its address, and why it cannot be reached."""
    cluster: ClusterDescription | None = None
    topics: Sequence[TopicDescription] = ()
    min_isr: Mapping[str, int] = field(default_factory=dict)
    quorum: QuorumDescription | None = None
    now_ms: int = 0
    log_dirs: Mapping[int, Sequence[LogDirDescription]] = field(default_factory=dict)
    groups: Sequence[GroupFacts] = ()
    hanging: Sequence[Hanging] = ()
    open_files_max: int = 1 << 20
    failures: Mapping[str, str] = field(default_factory=dict)
    """What could not be asked, and why."""


def diagnose(facts: ClusterFacts) -> list[Diagnosis]:
    """All that is not as it should be, the worst first."""
    found = [
        *_reach(facts),
        *_brokers(facts),
        *_partitions(facts),
        *_quorum(facts),
        *_disks(facts),
        *_groups(facts),
        *_transactions(facts),
        *_limits(facts),
    ]
    found += [Diagnosis(Severity.WARNING, f"{what} could not be asked: {why}") for what, why in facts.failures.items()]
    return sorted(found, key=lambda each: -each.severity)


def _reach(facts: ClusterFacts) -> list[Diagnosis]:
    reached = [address for address, why in facts.bootstrap.items() if not why]
    found = [
        Diagnosis(
            Severity.WARNING if reached else Severity.ERROR,
            f"bootstrap address {address} cannot be reached: {why}",
            "start that node, or remove the address from the list"
            if reached
            else "is the cluster running, and is the port right?",
        )
        for address, why in facts.bootstrap.items()
        if why
    ]
    for broker, (address, why) in facts.advertised.items():
        if why:
            found.append(
                Diagnosis(
                    Severity.ERROR,
                    f"broker {broker} advertises {address}, which this machine cannot reach: {why}",
                    "is it down? If not, set its advertised.listeners to an address that clients can reach, "
                    "or give clients of this network a listener of their own",
                )
            )
    return found


def _brokers(facts: ClusterFacts) -> list[Diagnosis]:
    if facts.cluster is None:
        return []
    fenced = [each.id for each in facts.cluster.brokers if each.fenced]
    return [
        Diagnosis(
            Severity.ERROR,
            f"broker {broker} is registered but fenced: it is down, starting, or cut off from the controller",
            "start it, and look at its log; move its replicas away before you remove it for good",
        )
        for broker in fenced
    ]


def _partitions(facts: ClusterFacts) -> list[Diagnosis]:
    places = [(topic, each) for topic in facts.topics for each in topic.partitions]
    offline = [f"{t.name}-{p.number}" for t, p in places if p.leader < 0]
    below = [
        f"{t.name}-{p.number}"
        for t, p in places
        if p.leader >= 0 and len(p.isr) < facts.min_isr.get(t.name, DEFAULT_MIN_ISR)
    ]
    behind = [f"{t.name}-{p.number}" for t, p in places if p.leader >= 0 and len(p.isr) < len(p.replicas)]
    found = []
    if offline:
        found.append(
            Diagnosis(
                Severity.ERROR,
                f"{len(offline)} partition(s) have no leader: {_some(offline)}",
                "start the brokers that hold their replicas; unclean.leader.election.enable would lose data",
            )
        )
    if below:
        found.append(
            Diagnosis(
                Severity.ERROR,
                f"{len(below)} partition(s) have fewer replicas in sync than min.insync.replicas: {_some(below)}; "
                "writes with acks=all are refused",
                "start the brokers that are missing",
            )
        )
    rest = [name for name in behind if name not in below]
    if rest:
        found.append(
            Diagnosis(
                Severity.WARNING,
                f"{len(rest)} partition(s) are under-replicated: {_some(rest)}",
                "a broker is down or behind: rookery topic describe shows which replicas are missing",
            )
        )
    return found


def _quorum(facts: ClusterFacts) -> list[Diagnosis]:
    quorum = facts.quorum
    if quorum is None:
        return []
    found = []
    if quorum.leader_id < 0:
        found.append(
            Diagnosis(Severity.ERROR, "there is no controller: nothing can change", "start a majority of the voters")
        )
    clock = next((each.last_caught_up_timestamp for each in quorum.voters if each.id == quorum.leader_id), 0)
    for voter in quorum.voters:
        behind_s = (clock - voter.last_caught_up_timestamp) / 1000
        if voter.id != quorum.leader_id and clock > 0 and behind_s > QUORUM_BEHIND_S:
            found.append(
                Diagnosis(
                    Severity.ERROR,
                    f"voter {voter.id} of the metadata quorum has not caught up for "
                    f"{'ever' if voter.last_caught_up_timestamp <= 0 else f'{behind_s:.0f} s'}",
                    "start it; with one more voter gone the cluster may not be able to change anything",
                )
            )
    skew_s = (facts.now_ms - clock) / 1000
    if clock > 0 and facts.now_ms and abs(skew_s) > SKEW_S:
        found.append(
            Diagnosis(
                Severity.WARNING,
                f"the clock of the controller (node {quorum.leader_id}) is {abs(skew_s):.0f} s "
                f"{'behind' if skew_s > 0 else 'ahead of'} this machine's",
                "timestamps and retention follow the clocks: let all machines use NTP",
            )
        )
    return found


def _disks(facts: ClusterFacts) -> list[Diagnosis]:
    found = []
    for broker, dirs in facts.log_dirs.items():
        for each in dirs:
            if each.error is not None:
                found.append(
                    Diagnosis(
                        Severity.ERROR,
                        f"log dir {each.path} of broker {broker} is offline: {each.error}",
                        "repair or replace the disk, then restart the broker; replicas elsewhere go on",
                    )
                )
            elif each.total_bytes > 0 and each.usable_bytes < DISK_FREE * each.total_bytes:
                free = 100 * each.usable_bytes / each.total_bytes
                found.append(
                    Diagnosis(
                        Severity.WARNING,
                        f"the disk of {each.path} on broker {broker} has {free:.0f} % left",
                        "lower retention.ms or retention.bytes of large topics, or give it more room",
                    )
                )
    return found


def _groups(facts: ClusterFacts) -> list[Diagnosis]:
    found = []
    for group in facts.groups:
        reasons = explain(group)
        if reasons:
            lost = any(0 <= each.committed < each.log_start for each in group.partitions)
            found.append(
                Diagnosis(
                    Severity.WARNING if lost else Severity.NOTE,
                    f"group {group.group.group_id}: {reasons[0].reason}",
                    f"rookery group explain {group.group.group_id}",
                )
            )
    return found


def _transactions(facts: ClusterFacts) -> list[Diagnosis]:
    return [
        Diagnosis(
            Severity.ERROR,
            f"the transaction of {each.transactional_id} is {each.state} for {each.open_s:.0f} s, "
            f"longer than its timeout of {each.timeout_s:.0f} s; readers of committed data wait for it",
            "look at the log of its coordinator; kafka-transactions.sh abort ends it",
        )
        for each in facts.hanging
    ]


def _limits(facts: ClusterFacts) -> list[Diagnosis]:
    if facts.open_files_max >= 10_000:
        return []
    return [
        Diagnosis(
            Severity.NOTE,
            f"a process of this machine may open {facts.open_files_max} files; a node with many partitions needs more",
            "ulimit -n 100000 before `rookery up`, LimitNOFILE= in a unit of systemd",
        )
    ]


def _some(names: Sequence[str]) -> str:
    rest = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
