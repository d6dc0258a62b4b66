"""Which replica a consumer should read from (replica.selector.class): one in its own rack, so that records do not cross
racks."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rookery.broker.handlers.ports import ClusterPort
from rookery.broker.replication.partition import Partition
from rookery.core.config import node
from rookery.core.config.options import Settings


class Readable(NamedTuple):
    """A replica that could serve a consumer at the offset it asks for."""

    node_id: int
    rack: str | None
    log_end: int
    behind_ms: int
    """Since when it has not been known to have all that the leader has."""


def closest(rack: str, leader_rack: str | None, followers: Iterable[Readable]) -> int | None:
    """The follower to read from; None where that is the leader: it is in the rack, or no replica is. Of several
    followers the one that has most."""
    if not rack or rack == leader_rack:
        return None
    near = [follower for follower in followers if follower.rack == rack]
    best = max(near, key=lambda one: (one.log_end, -one.behind_ms, one.node_id), default=None)
    return None if best is None else best.node_id


class PreferredReplica:
    """Knows the racks; what followers have is known to the partition's leader."""

    def __init__(self, cluster: ClusterPort) -> None:
        self._cluster = cluster

    @classmethod
    def of(cls, settings: Settings, cluster: ClusterPort) -> "PreferredReplica | None":
        """None where every consumer reads from the leader."""
        chosen = settings[node.REPLICA_SELECTOR_CLASS]
        return cls(cluster) if chosen in node.RACK_AWARE_SELECTORS else None

    def choose(self, partition: Partition, offset: int, rack: str, listener: str) -> int | None:
        """The broker that a consumer in `rack`, on `listener`, should ask for `offset` instead of this one."""
        leading = partition.leading
        if leading is None or not rack:
            return None
        leader = self._cluster.image.brokers.get(leading.me)
        return closest(rack, leader.rack if leader else None, self._readable(partition, offset, listener))

    def _readable(self, partition: Partition, offset: int, listener: str) -> Iterator[Readable]:
        brokers = self._cluster.image.brokers
        for node_id, log_end, behind_ms in partition.followers_with(offset):
            broker = brokers.get(node_id)
            if broker is not None and not broker.fenced and broker.endpoint(listener) is not None:
                yield Readable(node_id, broker.rack, log_end, behind_ms)
