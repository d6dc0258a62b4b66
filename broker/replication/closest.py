"""Which replica a consumer had better read from: one in its own rack, so that records cross no border between racks.

Pure: what the leader knows of its followers comes in, the choice comes out.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Readable(NamedTuple):
    """A replica that could serve a consumer at the offset it asks for."""

    node_id: int
    rack: str | None
    log_end: int
    behind_ms: int
    """Since when it has not been known to have all that the leader has."""


def closest(rack: str, leader_rack: str | None, followers: Iterable[Readable]) -> int | None:
    """The follower to read from; None where that is the leader: it is in the rack, or nobody is. Among several the one
    that has most."""
    if not rack or rack == leader_rack:
        return None
    near = [follower for follower in followers if follower.rack == rack]
    best = max(near, key=lambda one: (one.log_end, -one.behind_ms, one.node_id), default=None)
    return None if best is None else best.node_id
