"""Planted bugs of what becomes of a voter whose metadata is damaged."""

from __future__ import annotations

from rookery.controller.raft.driver import Driver
from rookery.controller.raft.snapshot import Snapshots
from tests.simulation.nodes_planting import QUORUM, Mutant
from tests.simulation.nodes_swarm import DISK_FAULTS, Swarm


def _rot(swarm: Swarm) -> None:
    """The metadata of some voter rots again and again, while the active controllers come and go."""
    swarm.siege, swarm.duration_s = False, 20.0
    swarm.faults = {each: often for each, often in swarm.faults.items() if each not in DISK_FAULTS}
    swarm.faults |= {"kill_controller": 3.0, "isolate_controller": 3.0}
    swarm.voter_work, swarm.voter_work_s = {"rot_metadata": 1.0}, 1.0


def _rot_alive(swarm: Swarm) -> None:
    """What a voter that was away needs rots on the leader's disk, which writes no snapshot meanwhile."""
    swarm.siege, swarm.duration_s, swarm.groups, swarm.snapshot_ms, swarm.snapshot_bytes = False, 15.0, 0, 0, 1 << 20
    swarm.faults, swarm.points = {"slow_link": 1.0}, {}
    swarm.voter_work, swarm.voter_work_s = {"rot_live_metadata": 1.0}, 1.0


MUTANTS = (
    Mutant(
        "snapshots are not checked",
        "a voter starts on a snapshot that is damaged",
        ("R18", *QUORUM),
        ((Snapshots, "check", lambda self, snapshot: None),),
        _rot,
    ),
    Mutant(
        "rotten metadata, and it leads on",
        "a leader whose log or snapshot rotted goes on leading, and who needs that waits for ever",
        ("liveness",),
        ((Driver, "_damaged", lambda driver, error: None),),
        _rot_alive,
    ),
)
