"""All leaders this broker follows: one `ReplicaFetcher` each, made and ended as partitions come and go."""

import asyncio
from collections.abc import Callable
from uuid import UUID

from rookery.broker.replication.replica_fetcher import (
    FetcherSettings,
    Followed,
    Leader,
    LimitOf,
    ReplicaFetcher,
    no_limit,
)
from rookery.core.clock import Clock
from rookery.core.net.peers import Peers
from rookery.core.service import Service
from rookery.core.types import TopicPartition


class ReplicaFetchers(Service):
    """Knows which partition follows whom."""

    name = "followers"

    def __init__(
        self,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        settings: FetcherSettings,
        clock: Clock,
        peers: Peers,
        on_failed: Callable[[Followed, Exception], None],
        limit_of: LimitOf = no_limit,
    ) -> None:
        self._limit_of = limit_of
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._settings = settings
        self._clock = clock
        self._peers = peers
        self._on_failed = on_failed
        self._leaders: dict[int, ReplicaFetcher] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._followed: dict[tuple[UUID, int], int] = {}
        self._group: asyncio.TaskGroup | None = None

    async def serve(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            for leader_id in self._leaders:
                self._run(leader_id)
            try:
                await asyncio.Event().wait()
            finally:
                self._group = None  # the metadata log may go on: no leader is followed any more

    def follow(self, partition: Followed, leader: Leader) -> None:
        """Let a partition follow a leader from where it is; it leaves the one it followed before."""
        key = (partition.topic_id, partition.index)
        if self._followed.get(key, leader.id) != leader.id:
            self.unfollow(*key)
        self._followed[key] = leader.id
        self._leader(leader).follow(partition)

    def unfollow(self, topic_id: UUID, index: int) -> None:
        """A partition that leads now, was deleted, or has no leader."""
        leader_id = self._followed.pop((topic_id, index), None)
        if leader_id is None:
            return
        follower = self._leaders[leader_id]
        follower.unfollow(topic_id, index)
        if not len(follower):
            self._end(leader_id)

    def answered_at(self, topic_id: UUID, index: int) -> float | None:
        """When the leader of a partition last answered; None if it never did, or nobody is followed."""
        leader_id = self._followed.get((topic_id, index))
        return self._leaders[leader_id].answered_at if leader_id is not None else None

    def is_answered(self, topic_id: UUID, index: int) -> bool:
        """Whether the leader has answered a fetch of this partition since it is followed."""
        leader_id = self._followed.get((topic_id, index))
        return leader_id is not None and self._leaders[leader_id].is_answered((topic_id, index))

    def lags(self) -> dict[TopicPartition, int]:
        return {partition: lag for each in self._leaders.values() for partition, lag in each.lags().items()}

    def _leader(self, leader: Leader) -> ReplicaFetcher:
        known = self._leaders.get(leader.id)
        if known is not None and known.leader == leader:
            return known
        made = ReplicaFetcher(
            leader,
            node_id=self._node_id,
            broker_epoch=self._broker_epoch,
            settings=self._settings,
            clock=self._clock,
            peers=self._peers,
            on_failed=self._on_failed,
            limit_of=self._limit_of,
        )
        if known is not None:  # the broker came back at another address
            self._end(leader.id)
            known.hand_over(made)
        self._leaders[leader.id] = made
        self._run(leader.id)
        return made

    def _run(self, leader_id: int) -> None:
        if self._group is not None:
            run = self._leaders[leader_id].run()
            self._tasks[leader_id] = self._group.create_task(run, name=f"follow broker {leader_id}")

    def _end(self, leader_id: int) -> None:
        del self._leaders[leader_id]
        task = self._tasks.pop(leader_id, None)
        if task is not None:
            task.cancel()
