"""What a seed draws: the size of the quorum, its timings, and how often which fault strikes.

Every rate is drawn anew per seed and most fault classes are off in any one seed, so that rare combinations
get runs of their own instead of drowning in the average.
"""

from dataclasses import dataclass, field
from random import Random

from rookery.controller.raft.settings import RaftConfig
from tests.simulation.net import NetworkFaults

CRASH_POINTS = (
    "before-vote",
    "after-vote",
    "vote-sent",
    "before-fsync",
    "after-fsync",
    "before-install",
    "mid-install",
    "after-install",
)


@dataclass(frozen=True, slots=True)
class Swarm:
    voters: int
    spares: int
    """Nodes that start as observers and may be made voters."""
    pinned: bool
    """Whether the configuration knows the directory ids."""
    duration_ms: float
    config: RaftConfig
    network: NetworkFaults
    fsync_mean_ms: float
    drift: float
    """Clocks run faster or slower by up to this part."""
    proposal_every_ms: float
    snapshot_every: int
    """Records between snapshots; 0 for none."""
    keep_log: bool
    """Whether a snapshot leaves the log since the one before it."""
    notice_close: float
    """How likely a peer notices that the leader's connection closed."""
    harass_changes: float
    """How likely the leader is cut off or killed right after it began a voter change."""
    crash_points: dict[str, float] = field(default_factory=dict)
    faults: dict[str, float] = field(default_factory=dict)
    """Fault -> mean interval in ms."""


def draw(rng: Random) -> Swarm:
    scale = rng.choice((1.0, 0.5, 0.2, 0.2))
    voters = rng.choice((1, 2, 3, 3, 3, 3, 4, 5, 5))
    return Swarm(
        voters=voters,
        spares=rng.choice((0, 0, 1, 2)),
        pinned=rng.random() < 0.7,
        duration_ms=rng.choice((10_000.0, 20_000.0, 40_000.0)) * scale * 2,
        config=draw_config(rng, scale),
        network=draw_network(rng, scale),
        fsync_mean_ms=rng.choice((0.0, 1.0, 5.0, 30.0)),
        drift=rng.choice((0.0, 0.01, 0.1)),
        proposal_every_ms=rng.choice((20.0, 100.0, 400.0)),
        snapshot_every=rng.choice((0, 0, 5, 20, 60)),
        keep_log=rng.random() < 0.5,
        notice_close=rng.choice((0.0, 0.5, 1.0)),
        harass_changes=rng.choice((0.0, 0.3, 0.7)),
        crash_points={
            point: rng.choice((0.01, 0.05, 0.2)) for point in CRASH_POINTS if rng.random() < 0.25
        },
        faults=draw_faults(rng, scale),
    )


def draw_config(rng: Random, scale: float) -> RaftConfig:
    return RaftConfig(
        election_timeout_ms=int(1000 * scale),
        election_backoff_max_ms=int(rng.choice((1000, 300)) * scale),
        fetch_timeout_ms=int(2000 * scale),
        request_timeout_ms=int(rng.choice((2000, 500)) * scale),
        fetch_max_wait_ms=int(500 * scale),
    )


def draw_network(rng: Random, scale: float) -> NetworkFaults:
    return NetworkFaults(
        delay_mean_ms=rng.choice((1.0, 5.0, 20.0)),
        loss=rng.choice((0.0, 0.0, 0.01, 0.05, 0.2)),
        repeat=rng.choice((0.0, 0.0, 0.05, 0.5)),
        stray=rng.choice((0.0, 0.0, 0.02, 0.1)),
        stray_ms_max=5000.0 * scale,
    )


def draw_faults(rng: Random, scale: float) -> dict[str, float]:
    means = {
        "crash": (1000.0, 4000.0),
        "crash-leader": (1500.0, 5000.0),
        "power": (5000.0,),
        "partition": (1500.0, 4000.0),
        "pause": (2000.0, 6000.0),
        "slow-disk": (3000.0,),
        "close": (1000.0, 4000.0),
        "transfer": (1500.0, 5000.0),
        "membership": (300.0, 1000.0, 3000.0),
        "wipe": (4000.0, 8000.0),
    }
    return {name: rng.choice(choices) * scale for name, choices in means.items() if rng.random() < 0.4}
