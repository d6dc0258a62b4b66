"""How fast replicas may catch up: the limits that accompany a move of partitions. Pure.

A limit counts and holds back only replicas that the topic names as throttled and that are out of sync, so it
cannot make a replica fall out of sync.
"""

from collections.abc import Callable, Container
from typing import NamedTuple

UNLIMITED = 2**63 - 1
EVERY_REPLICA = "*"
SAVED_UP_S = 1.0
"""Unused time counts for this long: a pause is not followed by a longer burst."""


class Replica(NamedTuple):
    """A replica that fetches: what its topic says of throttling on this side, and whether it is in sync."""

    throttled: Container[str]
    partition: int
    in_sync: bool


class ReplicationQuota:
    """Bytes a second over all throttled replicas of this broker, on one side of replication."""

    def __init__(self, node_id: int, monotonic: Callable[[], float]) -> None:
        self._rate = UNLIMITED
        self._node_id = node_id
        self._monotonic = monotonic
        self._paid_until = 0.0

    @property
    def rate(self) -> int:
        return self._rate

    @rate.setter
    def rate(self, rate: int) -> None:
        """A new rate forgets what is owed under the old one."""
        if rate != self._rate:
            self._rate = rate
            self._paid_until = min(self._paid_until, self._monotonic())

    def applies_to(self, replica: Replica) -> bool:
        if self._rate >= UNLIMITED or replica.in_sync:
            return False
        throttled = replica.throttled
        return EVERY_REPLICA in throttled or f"{replica.partition}:{self._node_id}" in throttled

    @property
    def wait_s(self) -> float:
        """How long until more may be taken."""
        return max(0.0, self._paid_until - self._monotonic())

    @property
    def exceeded(self) -> bool:
        return self._paid_until > 0 and self.wait_s > 0

    def took(self, size: int) -> None:
        """Bytes went to a replica that this applies to."""
        since = max(self._paid_until, self._monotonic() - SAVED_UP_S)
        self._paid_until = since + size / max(self._rate, 1)
