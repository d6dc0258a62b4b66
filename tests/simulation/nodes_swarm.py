"""What a seed of whole nodes draws before it runs: the shape of the cluster, its times, and what happens to it."""

from dataclasses import dataclass, field
from random import Random

FAULTS = (
    "kill", "kill_leader", "kill_controller", "kill_twice", "power_cut", "stop", "pause", "pause_leader",
    "pause_controller", "isolate", "isolate_controller", "cut_pair", "cut_one_way", "cut_control", "cut_data",
    "slow_link", "jump_clock", "last_in_sync", "start_twice",
)  # fmt: skip
DISK_FAULTS = ("disk_error", "disk_full", "rot", "replace")
MORE_FAULTS = ("rot_checkpoint", "lose_name")
MORE_WORK = ("set_quota", "lift_quota")
WORK = (
    "create_topic", "delete_topic", "recreate_topic", "grow_topic", "reassign", "reassign_again", "alter_config",
    "delete_records", "elect_preferred", "drain", "leave_and_join",
)  # fmt: skip
VOTER_WORK = ("change_voters", "wipe_voter", "rot_metadata", "rot_live_metadata")
POINTS = (
    "leader append", "follower append", "truncated", "elected", "clean marker", "/AlterPartition", "/RegisterBroker",
    "/Heartbeat", "/CreateTopics", "/Fetch", "/Vote",
)  # fmt: skip
"""Named points at which a process may be killed, or a reply lost."""
SILENCE_S = 6.0
"""A gRPC connection that is silent is given up after four seconds, and an attempt at a new one after two."""
POLICIES = ("keep", "keep", "time", "size", "compact", "compact,delete")


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """How a topic is made."""

    partitions: int
    replication_factor: int
    min_insync: int
    policy: str
    sync: bool
    """flush.messages=1: acknowledged records are on the device."""
    unclean: bool
    segment_bytes: int
    retention_ms: int

    @property
    def configs(self) -> dict[str, str]:
        configs = {"min.insync.replicas": str(self.min_insync), "retention.ms": "-1", "file.delete.delay.ms": "2000"}
        if self.sync:
            configs["flush.messages"] = "1"
        if self.unclean:
            configs["unclean.leader.election.enable"] = "true"
        if self.policy == "time":
            configs["retention.ms"] = str(self.retention_ms)
        if self.policy == "size":
            configs["retention.bytes"] = str(3 * self.segment_bytes)
        if "compact" in self.policy:
            configs |= {"cleanup.policy": self.policy, "min.cleanable.dirty.ratio": "0.1"}
            configs |= {"delete.retention.ms": "5000", "segment.ms": str(max(self.retention_ms // 2, 1000))}
            if "delete" in self.policy:
                configs["retention.ms"] = str(self.retention_ms)
        return configs


@dataclass(frozen=True, slots=True)
class TransactionPlan:
    """The transactional clients of a seed."""

    writers: int
    processors: int
    partitions: int
    """Of the output; the input has one for each processor."""
    old: float
    """How many instances have transaction version 1."""
    repeats: float
    """How often a copy of a request arrives late, on another connection."""
    late_s: float
    impatient: float
    """How often a transaction is given up when a batch is not acknowledged at once."""
    pause_s: float
    timeout_ms: int
    state_partitions: int
    last_epoch: int
    """After which a producer gets another id."""
    scratch: int = 0
    """Partitions of a topic that is deleted and made again, in which transactions have records, too."""
    strikes: float = 0.0
    """How often who coordinates or leads is killed between two steps of a transaction."""
    each_step: bool = False
    """Instead of that: who coordinates, and who leads, is killed after each step once."""
    slow_answers: float = 0.0
    """How often a leader gets the coordinator's answer about a transaction late."""
    old_markers: float = 0.0
    """How often a marker of the coordinator before arrives once more when its successor has written one."""


@dataclass(frozen=True, slots=True)
class ConsumerPlan:
    """The group of a seed whose members speak the consumer protocol, or both."""

    members: int
    static: int
    """Members that have an instance id."""
    classic: float
    """How many lives of members speak the classic protocol."""
    topics: int
    partitions: int
    session_ms: int
    heartbeat_ms: int
    assignment_ms: int
    repeats: float
    """How often a request arrives twice."""


@dataclass(frozen=True, slots=True)
class ExpiryPlan:
    """How soon is forgotten what nobody uses."""

    producers_ms: int
    """Longer than anybody repeats a batch."""
    ids_ms: int
    offsets_ms: int
    """0: offsets are kept."""
    check_ms: int

    @property
    def delivery_s(self) -> float:
        """After which producers give up a batch, and go on with another producer id."""
        return self.producers_ms / 3000

    @property
    def kept_s(self) -> float:
        """How long an offset is there in any case, whatever clocks say."""
        return self.offsets_ms / 1000 - 1.0

    def rests(self, now_s: float) -> bool:
        """Whether groups are without members now: for half of the time, and long enough that their offsets expire."""
        return self.offsets_ms > 0 and (now_s * 1000) % (3 * self.offsets_ms) > 1.5 * self.offsets_ms

    @property
    def options(self) -> dict[str, int]:
        chosen = {
            "producer.id.expiration.ms": self.producers_ms,
            "transactional.id.expiration.ms": self.ids_ms,
            "transaction.remove.expired.transaction.cleanup.interval.ms": self.check_ms,
            "offsets.retention.check.interval.ms": self.check_ms,
        }
        return chosen | ({"offsets.retention.minutes": 1} if self.offsets_ms else {})


@dataclass(frozen=True, slots=True)
class OwnPlan:
    """The programs of a seed that use the Python client."""

    writers: int
    members: int
    processors: int
    partitions: int
    protocol: str
    """Of its groups: consumer, or an assignor of the classic protocol."""
    session_ms: int
    heartbeat_ms: int
    pause_s: float
    crash_s: float
    """How often some program crashes."""
    transaction_timeout_ms: int


@dataclass(slots=True)
class Swarm:
    controllers: int
    """Nodes 1 to this are controllers; all of them brokers too unless `split`."""
    brokers_more: int
    split: bool
    """Controllers are not brokers."""
    late_nodes: int
    """Brokers that join while everything runs."""
    dirs: int
    days: bool
    """Hours at a low rate, with long intervals, instead of minutes at a high one."""
    topics: list[TopicPlan]
    session_ms: int
    heartbeat_ms: int
    lag_ms: int
    grace_ms: int
    fetch_wait_ms: int
    response_bytes: int
    request_timeout_ms: int
    checkpoint_ms: int
    retention_check_ms: int
    cleaner_ms: int
    delete_delay_ms: int
    snapshot_bytes: int
    snapshot_ms: int
    raft_ms: int
    """controller.quorum.fetch.timeout.ms; the others follow it."""
    rebalance_s: int
    offsets_partitions: int
    delay_s: float
    thread_s: float
    pauses: float
    """How often a thread gives way at a disk operation."""
    produce_s: float
    producers: int
    groups: int
    members: int
    fault_s: float
    work_s: float
    heal_s: float
    duration_s: float
    skews_ms: int
    scrub_ms: int = 5000
    asks_ids: bool = False
    """Producers ask for their ids instead of choosing them."""
    siege: bool = False
    """All faults hit one node: the others must go on."""
    transactions: TransactionPlan | None = None
    consumers: ConsumerPlan | None = None
    expiry: ExpiryPlan | None = None
    own: OwnPlan | None = None
    faults: dict[str, float] = field(default_factory=dict)
    work: dict[str, float] = field(default_factory=dict)
    points: dict[str, float] = field(default_factory=dict)
    voter_work: dict[str, float] = field(default_factory=dict)
    """What an operator does to voters; drawn apart (`draw_voter_work`), and empty in most seeds."""
    voter_work_s: float = 0.0

    @property
    def pace(self) -> float:
        """How much longer everything takes than in a seed of minutes."""
        return 60.0 if self.days else 1.0

    @property
    def failover_s(self) -> float:
        """How long writes may stand still when somebody fails: until the quorum has a leader, which may take two
        elections, a dead broker is fenced, one that lags is out of the ISR, and connections that are silent are given
        up; and what links and threads take meanwhile."""
        elections_ms = 2 * (self.raft_ms + 3 * self.raft_ms // 2)
        waits_ms = elections_ms + self.session_ms + self.grace_ms + 1.5 * self.lag_ms + 2 * self.fetch_wait_ms
        return waits_ms / 1000 + SILENCE_S + 50 * (self.thread_s + self.delay_s)

    @property
    def voters(self) -> list[int]:
        return list(range(1, self.controllers + 1))

    @property
    def brokers(self) -> list[int]:
        first = self.controllers + 1 if self.split else 1
        return list(range(first, self.controllers + self.brokers_more + 1))


def draw(rng: Random, *, minutes: bool = False) -> Swarm:
    """With `minutes` no seed takes days."""
    days = rng.random() < 0.15 and not minutes
    pace = 60.0 if days else 1.0
    split = rng.random() < 0.15
    brokers_more = 3 if split else rng.choice((0, 0, 0, 1))
    brokers = brokers_more if split else 3 + brokers_more
    session_ms = rng.choice((1500, 3000, 6000))
    fetch_wait_ms = rng.choice((50, 200, 500))
    swarm = Swarm(
        controllers=3,
        brokers_more=brokers_more,
        split=split,
        late_nodes=rng.choice((0, 0, 0, 1)),
        dirs=rng.choice((1, 1, 2)),
        days=days,
        topics=[draw_topic(rng, brokers, pace) for _ in range(rng.choice((1, 2, 2, 3)))],
        session_ms=int(session_ms * (10 if days else 1)),
        heartbeat_ms=int(session_ms * (10 if days else 1)) // rng.choice((3, 6)),
        lag_ms=int(rng.choice((1000, 2000, 5000, 10_000)) * (10 if days else 1)),
        grace_ms=rng.choice((0, 500, 500)),
        fetch_wait_ms=fetch_wait_ms * (20 if days else 1),
        response_bytes=rng.choice((2000, 1 << 20, 1 << 20)),
        request_timeout_ms=rng.choice((1000, 3000, 10_000)) + (20_000 if days else 0),
        checkpoint_ms=int(rng.choice((500, 2000, 10_000)) * (pace / 4 if days else 1)),
        retention_check_ms=int(rng.choice((500, 1000, 3000)) * pace),
        cleaner_ms=int(rng.choice((500, 2000)) * pace),
        delete_delay_ms=int(rng.choice((200, 1000, 5000)) * pace),
        snapshot_bytes=rng.choice((500, 2000, 20_000)),
        snapshot_ms=int(rng.choice((0, 3000, 10_000)) * pace),
        raft_ms=rng.choice((1000, 2000)) * (10 if days else 1),
        rebalance_s=int(rng.choice((2, 5, 15)) * pace),
        offsets_partitions=rng.choice((1, 2)),
        delay_s=rng.choice((0.0002, 0.001, 0.005, 0.02)),
        thread_s=rng.choice((0.0005, 0.005, 0.03)),
        pauses=rng.choice((0.0, 0.05, 0.3)),
        produce_s=rng.choice((0.1, 0.2, 0.5)) * pace,
        producers=rng.choice((1, 2, 3)),
        groups=rng.choice((0, 1, 1, 2)),
        members=rng.choice((1, 2, 3)),
        fault_s=rng.choice((0.8, 1.5, 3.0)) * pace,
        work_s=rng.choice((1.5, 3.0, 6.0)) * pace,
        heal_s=rng.choice((1.0, 3.0, 6.0)) * (pace / 6 if days else 1),
        duration_s=rng.choice((20.0, 30.0, 40.0)) * pace,
        skews_ms=rng.choice((0, 100, 5000)),
    )
    swarm.faults = {each: rng.choice((0.5, 1.0, 3.0)) for each in FAULTS if rng.random() < 0.5} or {"kill": 1.0}
    swarm.work = {each: rng.choice((0.5, 1.0, 2.0)) for each in WORK if rng.random() < 0.5} or {"reassign": 1.0}
    swarm.points = {point: rng.choice((0.002, 0.01, 0.05)) for point in POINTS if rng.random() < 0.25}
    swarm.faults |= {each: rng.choice((0.5, 1.0, 3.0)) for each in DISK_FAULTS if rng.random() < 0.3}
    swarm.scrub_ms = rng.choice((2000, 5000, 15_000)) * (10 if days else 1)
    swarm.work |= {each: rng.choice((0.5, 1.0, 2.0)) for each in MORE_WORK if rng.random() < 0.5}
    swarm.asks_ids = rng.random() < 0.5
    if rng.random() < 0.25 and not days:
        _besiege(swarm)
    return swarm


def draw_voter_work(rng: Random, swarm: Swarm) -> None:
    """Voters come and go, by a stream of its own. Not in a siege, which is about those that stay."""
    if not swarm.siege:
        swarm.voter_work = {each: rng.choice((1.0, 2.0)) for each in VOTER_WORK if rng.random() < 0.7}
        swarm.voter_work_s = rng.choice((2.0, 5.0)) * swarm.pace


def draw_more(rng: Random, swarm: Swarm) -> None:
    """What not all seeds can have: drawn by a stream of its own, so that seeds without it are what they were."""
    if rng.random() < 0.12:
        swarm.controllers = 5
        swarm.brokers_more = min(swarm.brokers_more, 3 if swarm.split else 0)
    swarm.faults |= {each: rng.choice((0.5, 1.0, 2.0)) for each in MORE_FAULTS if rng.random() < 0.35}
    if swarm.siege:
        swarm.faults.pop("lose_name", None)  # the others must reach each other


def draw_expiry(rng: Random, swarm: Swarm, *, offsets: bool) -> None:
    """In some seeds what nobody uses is forgotten soon: those have no far clocks and no long cuts, as both make things
    seem old."""
    if rng.random() >= 0.2 or swarm.siege or swarm.days:
        return
    swarm.expiry = ExpiryPlan(
        producers_ms=rng.choice((12_000, 18_000)),
        ids_ms=rng.choice((5000, 9000)),
        offsets_ms=rng.choice((6000, 9000)) if offsets else 0,
        check_ms=rng.choice((300, 1000, 3000)),
    )
    swarm.duration_s = 60.0 if offsets else 40.0
    swarm.fault_s = max(swarm.fault_s, 1.5)
    swarm.heal_s = min(swarm.heal_s, 1.0)
    swarm.skews_ms = min(swarm.skews_ms, 100)
    swarm.faults = {each: often for each, often in swarm.faults.items() if each != "jump_clock"} or {"kill": 1.0}


def _besiege(swarm: Swarm) -> None:
    """Short times, so that there is much to see of what follows a fault."""
    swarm.siege = True
    swarm.session_ms, swarm.lag_ms, swarm.raft_ms = min(swarm.session_ms, 3000), min(swarm.lag_ms, 2000), 1000
    swarm.heartbeat_ms = min(swarm.heartbeat_ms, swarm.session_ms // 3)
    swarm.faults = {each: often for each, often in swarm.faults.items() if each not in ("rot", "replace")}
    swarm.duration_s = 2 * swarm.failover_s
    swarm.fault_s = max(swarm.fault_s, 2.0)


def draw_topic(rng: Random, brokers: int, pace: float) -> TopicPlan:
    policy = rng.choice(POLICIES)
    return TopicPlan(
        partitions=rng.choice((1, 1, 2, 3)),
        replication_factor=min(rng.choice((2, 3, 3, 3, 3)), brokers),
        min_insync=rng.choice((1, 2, 2, 2, 2)),
        policy=policy,
        sync=rng.random() < 0.15,
        unclean=rng.random() < 0.05,
        segment_bytes=rng.choice((600, 2000, 5000) if policy != "keep" else (1000, 5000, 1 << 20)),
        retention_ms=int(rng.choice((2000, 4000, 8000)) * pace),
    )
