"""What is wrong with a cluster: facts in, diagnoses out. Opens no connection and reads no clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from rookery.client.admin.types import (
    ClusterDescription,
    Features,
    LogDirDescription,
    QuorumDescription,
    TopicDescription,
)
from rookery.client.group_report import GroupFacts, explain
from rookery.client.types import TopicPartition

DISK_FREE = 0.1
MEMORY_FREE = 0.05
FILES_USED = 0.8
SKEW_S = 5.0
EXPIRES_S = 30 * 86_400.0
"""A certificate that ends within this time is named; within a day it is an error."""
DAY_S = 86_400.0
QUORUM_BEHIND_S = 10.0
NAMES_SHOWN = 5
DEFAULT_MIN_ISR = 1
CLOCKS = "timestamps and retention follow the clocks: let all machines use NTP"


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


@dataclass(frozen=True, slots=True)
class Orphan:
    """A transaction that is open in a partition for longer than any may be: its coordinator has forgotten it."""

    place: TopicPartition
    producer_id: int
    start_offset: int
    open_s: float


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What a node says of itself over HTTP; only nodes of Rookery do. -1 where it does not know."""

    version: str
    skew_s: float
    """How far its clock is ahead of this machine's."""
    open_files: int = -1
    open_files_max: int = -1
    memory_total: int = -1
    memory_available: int = -1
    damage: Sequence[str] = ()


@dataclass(slots=True)
class ClusterFacts:
    """What was found out; what could not be is left at its default and named in `failures`."""

    bootstrap: Mapping[str, str] = field(default_factory=dict)
    """Address: why it cannot be reached, empty if it can."""
    advertised: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    """Broker: its address, and why it cannot be reached."""
    listeners: Mapping[int, Mapping[str, tuple[str, str]]] = field(default_factory=dict)
    """Broker: its other listeners for clients by name, each like `advertised`."""
    api_versions: Mapping[int, Mapping[int, tuple[int, int]]] = field(default_factory=dict)
    """Broker: the versions that it serves, by API key."""
    certificates: Mapping[str, float] = field(default_factory=dict)
    """By what shows it: seconds until a certificate ends."""
    reports: Mapping[int, NodeReport] = field(default_factory=dict)
    features: Features | None = None
    cluster: ClusterDescription | None = None
    topics: Sequence[TopicDescription] = ()
    min_isr: Mapping[str, int] = field(default_factory=dict)
    quorum: QuorumDescription | None = None
    now_ms: int = 0
    log_dirs: Mapping[int, Sequence[LogDirDescription]] = field(default_factory=dict)
    groups: Sequence[GroupFacts] = ()
    hanging: Sequence[Hanging] = ()
    orphans: Sequence[Orphan] = ()
    open_files_max: int = 1 << 20
    failures: Mapping[str, str] = field(default_factory=dict)
    """What could not be asked, and why."""


def diagnose(facts: ClusterFacts) -> list[Diagnosis]:
    """All that is not as it should be, the worst first."""
    found = [
        *_reach(facts),
        *_other_listeners(facts),
        *_certificates(facts),
        *_brokers(facts),
        *_releases(facts),
        *_reports(facts),
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
            else "is the cluster running, and are the port and the file of --command-config right?",
        )
        for address, why in facts.bootstrap.items()
        if why
    ]
    for broker, (address, why) in facts.advertised.items():
        if why:
            other = [f"{name} at {at}" for name, (at, no) in facts.listeners.get(broker, {}).items() if not no]
            found.append(
                Diagnosis(
                    Severity.ERROR,
                    f"broker {broker} advertises {address}, which this machine cannot reach: {why}",
                    f"this machine reaches its listener {' and '.join(other)}: name that with --bootstrap"
                    if other
                    else "is it down? If not, set its advertised.listeners to an address that clients can reach, "
                    "or give clients of this network a listener of their own",
                )
            )
    return found


def _other_listeners(facts: ClusterFacts) -> list[Diagnosis]:
    """Listeners that are perhaps for another network: one note for each name."""
    cut_off: dict[str, list[str]] = {}
    for broker, listeners in facts.listeners.items():
        for name, (address, why) in listeners.items():
            if why:
                cut_off.setdefault(name, []).append(f"{address} of broker {broker} ({why})")
    return [
        Diagnosis(
            Severity.NOTE,
            f"listener {name} cannot be reached from here: {_some(places)}",
            "that is right if it is for clients of another network; else correct advertised.listeners",
        )
        for name, places in cut_off.items()
    ]


def _certificates(facts: ClusterFacts) -> list[Diagnosis]:
    found = []
    for where, left_s in facts.certificates.items():
        if left_s < EXPIRES_S:
            days = left_s / DAY_S
            when = f"ends in {days:.0f} day(s)" if left_s > 0 else f"ended {-days:.0f} day(s) ago"
            found.append(
                Diagnosis(
                    Severity.WARNING if left_s > DAY_S else Severity.ERROR,
                    f"the certificate of {where} {when}: no client connects from then on",
                    "put a new one in its place; nodes of Rookery read it again without a restart",
                )
            )
    return found


def _releases(facts: ClusterFacts) -> list[Diagnosis]:
    """Brokers of different releases, and features that could be raised."""
    found = []
    todo = "finish the upgrade: restart the others on the newer release, one at a time"
    releases = {broker: each.version for broker, each in facts.reports.items()}
    if len(set(releases.values())) > 1:
        names = ", ".join(f"{broker} has {release}" for broker, release in sorted(releases.items()))
        found.append(Diagnosis(Severity.WARNING, f"brokers run different releases: {names}", todo))
    elif len({tuple(sorted(each.items())) for each in facts.api_versions.values()}) > 1:
        counts = ", ".join(f"{broker} serves {len(each)} APIs" for broker, each in sorted(facts.api_versions.items()))
        found.append(Diagnosis(Severity.WARNING, f"brokers serve different versions of the protocol: {counts}", todo))
    features = facts.features
    for name, level in sorted(features.finalized.items()) if features is not None else ():
        _, highest = features.supported.get(name, (level, level)) if features is not None else (0, 0)
        if name == "metadata.version" and level < highest:
            found.append(
                Diagnosis(
                    Severity.NOTE,
                    f"{name} is {level}, and this release has {highest}",
                    "when no broker is to go back to the older release: kafka-features.sh upgrade",
                )
            )
    return found


def _reports(facts: ClusterFacts) -> list[Diagnosis]:
    found = []
    for node, each in sorted(facts.reports.items()):
        if abs(each.skew_s) > SKEW_S:
            found.append(
                Diagnosis(
                    Severity.WARNING,
                    f"the clock of node {node} is {abs(each.skew_s):.0f} s "
                    f"{'ahead of' if each.skew_s > 0 else 'behind'} this machine's",
                    CLOCKS,
                )
            )
        if 0 < each.open_files_max < each.open_files / FILES_USED:
            found.append(
                Diagnosis(
                    Severity.WARNING,
                    f"node {node} has {each.open_files} files open and may have {each.open_files_max}",
                    "raise the limit and restart it: ulimit -n, LimitNOFILE= in a unit of systemd",
                )
            )
        if 0 <= each.memory_available < MEMORY_FREE * each.memory_total:
            free = 100 * each.memory_available / each.memory_total
            found.append(
                Diagnosis(
                    Severity.WARNING,
                    f"the machine of node {node} has {free:.0f} % of its memory left",
                    "something may be killed soon: move other work away, or give it more memory",
                )
            )
        found += [
            Diagnosis(Severity.ERROR, f"node {node}: {text}", "it is rebuilt from replicas in sync, if there are any")
            for text in each.damage
        ]
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
        if p.leader >= 0 and len(p.isr) < min(facts.min_isr.get(t.name, DEFAULT_MIN_ISR), len(p.replicas))
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
    if clock > 0 and facts.now_ms and abs(skew_s) > SKEW_S and quorum.leader_id not in facts.reports:
        found.append(
            Diagnosis(
                Severity.WARNING,
                f"the clock of the controller (node {quorum.leader_id}) is {abs(skew_s):.0f} s "
                f"{'behind' if skew_s > 0 else 'ahead of'} this machine's",
                CLOCKS,
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
            f"look at the log of its coordinator; rookery transaction describe {each.transactional_id}",
        )
        for each in facts.hanging
    ] + [
        Diagnosis(
            Severity.ERROR,
            f"a transaction hangs in {each.place}: producer {each.producer_id} began it {each.open_s:.0f} s ago at "
            f"{each.start_offset}, and no coordinator will end it; readers of committed data wait for it",
            f"rookery transaction abort {each.place.topic} {each.place.partition} --start-offset {each.start_offset}",
        )
        for each in facts.orphans
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
