"""Raft's metrics, under the names that dashboards for Kafka ask for (group ``kafka_server_raft_metrics``)."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from rookery.controller.raft.describe import QuorumDescription
from rookery.core.clock import Clock
from rookery.core.metrics import Metrics
from rookery.core.window import Window

PREFIX = "kafka_server_raft_metrics_"


class RaftMetrics:
    """What one node measures of itself. `describe` in `publish` gives the rest at scrape time."""

    def __init__(self, clock: Clock) -> None:
        self.commit_latency_ms = Window(clock)
        self.election_latency_ms = Window(clock)
        self.appended = Window(clock)
        self.fetched = Window(clock)
        self.fsync_ms = Window(clock)
        self.elections = 0


class QuorumView(Protocol):
    """Where the numbers of the core come from."""

    def describe_core(self) -> QuorumDescription | None:
        """None while the node is not running."""


Samples = list[tuple[Sequence[str], float]]
_GAUGES: dict[str, tuple[str, Callable[[QuorumDescription], float]]] = {
    "current_leader": ("Id of the leader, -1 if none is known.", lambda found: found.leader_id),
    "current_epoch": ("The epoch this node is in.", lambda found: found.epoch),
    "current_vote": (
        "Id of the node this one voted for in the epoch, -1 if none.",
        lambda found: -1 if found.voted_for is None else found.voted_for.id,
    ),
    "high_watermark": ("Everything below this offset is committed.", lambda found: found.high_watermark),
    "log_end_offset": ("The offset the next record will get.", lambda found: found.log_end_offset),
    "number_of_voters": ("Voters in the quorum.", lambda found: len(found.voter_set)),
}


def publish(metrics: Metrics, own: RaftMetrics, view: QuorumView) -> None:
    """Register everything with the node's registry."""

    def samples(value: Callable[[QuorumDescription], float]) -> Samples:
        found = view.describe_core()
        return [] if found is None else [((), value(found))]

    def state() -> Samples:
        found = view.describe_core()
        return [] if found is None else [((found.role,), 1.0)]

    for name, (text, value) in _GAUGES.items():
        metrics.read(PREFIX + name, text, partial(samples, value))
    metrics.read(PREFIX + "current_state", "The role of this node.", state, labels=("state",))
    for name, text, window in (
        ("commit_latency", "Time from proposal to commit in ms", own.commit_latency_ms),
        ("election_latency", "Time to find a new leader in ms", own.election_latency_ms),
    ):
        metrics.read_value(f"{PREFIX}{name}_avg", f"{text}: average.", partial(getattr, window, "mean"))
        metrics.read_value(f"{PREFIX}{name}_max", f"{text}: maximum.", partial(getattr, window, "maximum"))
    for name, text, counted in (
        ("append_records_rate", "Records appended per second as leader.", own.appended),
        ("fetch_records_rate", "Records fetched per second as follower.", own.fetched),
    ):
        metrics.read_value(PREFIX + name, text, partial(getattr, counted, "rate"))
