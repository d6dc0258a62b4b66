"""The parts of a started node, for those that work on its behalf."""

from dataclasses import dataclass

from rookery.controller.raft.calls import Calls
from rookery.controller.raft.commits import Commits
from rookery.controller.raft.delivery import Delivery
from rookery.controller.raft.engine import Engine
from rookery.controller.raft.snapshotting import Snapshotting
from rookery.controller.raft.transport import Transport
from rookery.core.clock import Clock


@dataclass(frozen=True, slots=True)
class Running:
    engine: Engine
    calls: Calls
    commits: Commits
    delivery: Delivery
    snapshotting: Snapshotting
    transport: Transport
    clock: Clock
