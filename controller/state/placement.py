"""On which brokers the replicas of new partitions go.

Leaders go round the brokers, so their numbers differ by at most one; `position` is where the round goes on, and
because it counts all partitions of the cluster, the next topic begins where the last one ended. Followers stand
next to the leader, one step further with each full round, so that the load of a dead broker falls on all others.
With racks, neighbours in the round are on different racks, and a partition uses as many racks as it can.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rookery.core.errors import InvalidReplicationFactorError
from rookery.core.metadata.image import Image


@dataclass(frozen=True, slots=True)
class Candidate:
    """A broker that may get replicas. One that is not active gets them only where the active do not suffice."""

    id: int
    rack: str | None = None
    active: bool = True


def candidates(image: Image) -> list[Candidate]:
    return [
        Candidate(broker.id, broker.rack, broker.active)
        for _, broker in sorted(image.brokers.items())
    ]


def place(
    brokers: Sequence[Candidate], *, partitions: int, replication_factor: int, position: int = 0
) -> list[tuple[int, ...]]:
    """Replicas of `partitions` new partitions, the first of each being its preferred leader."""
    active = _round([broker for broker in brokers if broker.active])
    spare = _round([broker for broker in brokers if not broker.active])
    _check(replication_factor, active, spare)
    return [
        _replicas(active, spare, replication_factor, position + partition) for partition in range(partitions)
    ]


def _check(replication_factor: int, active: Sequence[Candidate], spare: Sequence[Candidate]) -> None:
    if replication_factor < 1:
        raise InvalidReplicationFactorError(f"replication factor {replication_factor}: at least 1 is needed")
    if not active:
        raise InvalidReplicationFactorError("no broker is active; start one, or wait until it is unfenced")
    known = len(active) + len(spare)
    if replication_factor > known:
        raise InvalidReplicationFactorError(
            f"replication factor {replication_factor} needs as many brokers, {known} are registered"
        )


def _round(brokers: Sequence[Candidate]) -> list[Candidate]:
    """The order in which brokers take their turns: one of each rack, then the next of each rack."""
    racks: dict[str, list[Candidate]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.id):
        racks.setdefault(broker.rack or "", []).append(broker)
    columns = zip_longest(*(racks[rack] for rack in sorted(racks)))
    return [broker for column in columns for broker in column if broker is not None]


def _replicas(
    active: Sequence[Candidate], spare: Sequence[Candidate], count: int, position: int
) -> tuple[int, ...]:
    size = len(active)
    leader = position % size
    shift = position // size
    others = [active[(leader + 1 + (shift + step) % (size - 1)) % size] for step in range(size - 1)]
    chosen = [active[leader]]
    for pool in (others, spare):
        _choose(chosen, pool, count)
    return tuple(broker.id for broker in chosen)


def _choose(chosen: list[Candidate], pool: Sequence[Candidate], count: int) -> None:
    """Take from `pool` until `count` are chosen, those of unused racks first."""
    left = list(pool)
    while left and len(chosen) < count:
        used = {broker.rack for broker in chosen}
        best = next((broker for broker in left if broker.rack not in used), left[0])
        left.remove(best)
        chosen.append(best)
