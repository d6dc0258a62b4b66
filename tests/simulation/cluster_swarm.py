"""What a seed draws before it runs: sizes, times, rates, and which faults happen at all."""

from dataclasses import dataclass, field
from random import Random

ACTIONS = (
    "kill", "kill_leader", "kill_controller", "power_cut", "stop", "pause", "pause_leader", "isolate",
    "isolate_leader", "cut_one_way", "cut_pair", "cut_controller", "cut_leader_from_controller", "slow_link",
    "controller_failover", "jump_clock", "last_in_sync", "elect_preferred", "delete_records",
    "reassign",
)  # fmt: skip
POINTS = (
    "leader append", "follower append", "truncated", "elected", "clean marker", "reply AlterPartition",
    "reply RegisterBroker", "reply Heartbeat",
)  # fmt: skip
"""Named points at which a process may be killed, or a reply lost."""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    name: str
    partitions: int
    replication_factor: int
    min_insync: int
    sync: bool
    """flush.messages=1: acknowledged records are on the device."""
    unclean: bool
    segment_bytes: int

    @property
    def configs(self) -> dict[str, str]:
        configs = {"min.insync.replicas": str(self.min_insync)}
        if self.sync:
            configs["flush.messages"] = "1"
        if self.unclean:
            configs["unclean.leader.election.enable"] = "true"
        return configs


@dataclass(slots=True)
class Swarm:
    brokers: int
    topics: list[TopicPlan]
    session_ms: int
    heartbeat_ms: int
    lag_ms: int
    grace_ms: int
    fetch_wait_ms: int
    response_bytes: int
    request_timeout_ms: int
    watermark_checkpoint_ms: int
    delay_s: float
    thread_s: float
    commit_s: float
    election_s: float
    zombie_s: float
    snapshots: float
    produce_s: float
    producers: int
    fault_s: float
    heal_s: float
    duration_s: float
    weights: dict[str, float] = field(default_factory=dict)
    points: dict[str, float] = field(default_factory=dict)


def draw(rng: Random) -> Swarm:
    brokers = rng.choice((3, 3, 3, 4))
    session_ms = rng.choice((1500, 3000, 6000))
    swarm = Swarm(
        brokers=brokers,
        topics=[_topic(rng, f"t{number}", brokers) for number in range(rng.choice((1, 1, 2)))],
        session_ms=session_ms,
        heartbeat_ms=session_ms // rng.choice((3, 6)),
        lag_ms=rng.choice((500, 1000, 2000, 5000, 10_000, 30_000)),
        grace_ms=rng.choice((0, 500, 500)),
        fetch_wait_ms=rng.choice((50, 200, 500)),
        response_bytes=rng.choice((300, 2000, 1 << 20)),
        request_timeout_ms=rng.choice((1000, 3000, 10_000)),
        watermark_checkpoint_ms=rng.choice((200, 1000, 5000)),
        delay_s=rng.choice((0.0002, 0.001, 0.005, 0.02)),
        thread_s=rng.choice((0.0005, 0.005, 0.05)),
        commit_s=rng.choice((0.002, 0.02, 0.1)),
        election_s=rng.choice((0.3, 1.0, 2.0)),
        zombie_s=rng.choice((0.5, 2.0, 5.0)),
        snapshots=rng.choice((0.0, 0.3, 1.0)),
        produce_s=rng.choice((0.05, 0.15, 0.4)),
        producers=rng.choice((1, 2, 3)),
        fault_s=rng.choice((0.4, 1.0, 2.5)),
        heal_s=rng.choice((1.0, 3.0, 8.0)),
        duration_s=rng.choice((20.0, 30.0, 45.0)),
    )
    swarm.weights = {action: rng.choice((0.5, 1.0, 3.0)) for action in ACTIONS if rng.random() < 0.5}
    if not swarm.weights:
        swarm.weights = {"kill_leader": 1.0}
    swarm.points = {point: rng.choice((0.002, 0.02, 0.1)) for point in POINTS if rng.random() < 0.3}
    return swarm


def _topic(rng: Random, name: str, brokers: int) -> TopicPlan:
    replication_factor = rng.choice((2, 3, 3, 3, 3))
    return TopicPlan(
        name=name,
        partitions=rng.choice((1, 1, 2, 3)),
        replication_factor=min(replication_factor, brokers),
        min_insync=rng.choice((1, 2, 2, 2, 2)),
        sync=rng.random() < 0.15,
        unclean=rng.random() < 0.08,
        segment_bytes=rng.choice((1000, 5000, 1 << 20)),
    )
