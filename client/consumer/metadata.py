"""What the consumer knows of the cluster: leaders of its partitions, refreshed in the background.

A refresh is requested when the metadata proves wrong, and happens by itself when it is old. A leader of an older epoch
than the known one comes from a node that is behind, and is not taken.
"""

import asyncio
from collections.abc import Callable, Iterable
from random import Random
from uuid import UUID

from rookery.client.consumer.fetches import Leader
from rookery.client.consumer.signal import Signal
from rookery.core.errors import KafkaError
from rookery.core.event_logging import get_logger
from rookery.core.net.backoff import Backoff, BackoffSettings
from rookery.core.net.cluster import BootstrapError, Cluster, Node
from rookery.core.net.connection import ConnectionLostError
from rookery.core.types import TopicPartition

log = get_logger("client.consumer")
UNREACHABLE = (BootstrapError, ConnectionLostError, OSError)


class Metadata:
    def __init__(
        self, cluster: Cluster, *, max_age_s: float, backoff: BackoffSettings, create: bool, rng: Random
    ) -> None:
        self._cluster = cluster
        self._max_age_s = max_age_s
        self._create = create
        self._backoff = Backoff(backoff, rng)
        self._wanted: frozenset[str] = frozenset()
        self._all = False
        self._leaders: dict[TopicPartition, Leader] = {}
        self._asked = True
        self._again = False
        self._asking = Signal()
        self.refreshed = Signal()
        self.on_refresh: Callable[[], None] = lambda: None
        self.failure: Exception | None = None
        """Of the last refresh."""
        self.refreshes = 0

    # --- what is wanted -------------------------------------------------------------------------------------

    def want(self, topics: Iterable[str], *, every: bool = False) -> None:
        """The topics to know of; `every`: all there are."""
        topics = frozenset(topics)
        new = not topics <= self._wanted or (every and not self._all)
        self._wanted, self._all = topics, every
        if new:
            self.request()

    def request(self) -> None:
        """What is known proved wrong: refresh it soon."""
        self._asked = True
        self._asking.notify()

    # --- what is known --------------------------------------------------------------------------------------

    def leader(self, tp: TopicPartition) -> Leader | None:
        found = self._leaders.get(tp)
        return found if found is not None and found.node in self._cluster.view.nodes else None

    def node(self, id: int) -> Node | None:
        return self._cluster.view.nodes.get(id)

    def counts(self) -> dict[str, int]:
        """The number of partitions of each known topic."""
        return {name: len(topic.partitions) for name, topic in self._cluster.view.topics.items()}

    def topics(self, *, internal: bool) -> list[str]:
        return [name for name, topic in self._cluster.view.topics.items() if internal or not topic.internal]

    def names(self) -> dict[UUID, str]:
        return {topic.id: name for name, topic in self._cluster.view.topics.items()}

    def error_of(self, topic: str) -> int:
        """The code with which a node answered for a topic; 0 if it exists."""
        return self._cluster.view.errors.get(topic, 0)

    def new_leader(self, tp: TopicPartition, node: int, epoch: int) -> bool:
        """A node named the leader in its answer; True if that is news and the node is known."""
        known = self._leaders.get(tp)
        if known is None or epoch <= known.epoch or node not in self._cluster.view.nodes:
            return False
        self._leaders[tp] = Leader(node, epoch, known.topic_id)
        return True

    # --- the task -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        while True:
            if not self._asked:
                await self._asking.wait(self._max_age_s)
            if not self._asked or self._again:
                self._cluster.turn()  # the node asked before may be cut off from the others
            self._asked = False
            try:
                await self.refresh()
            except (KafkaError, *UNREACHABLE) as error:
                self.failure = error
                self._asked = True
                log.debug("metadata.refresh_failed", error=str(error))
                await asyncio.sleep(self._backoff.failed())
                continue
            if self.incomplete:
                self._asked = True
            self._again = self._asked
            if self._asked:
                await asyncio.sleep(self._backoff.failed())  # no more often than the pauses between retries
            else:
                self._backoff.succeeded()

    @property
    def incomplete(self) -> bool:
        """Whether a wanted topic is unknown, or a partition has no leader."""
        topics = self._cluster.view.topics
        return any(
            name not in topics or any(each.leader < 0 for each in topics[name].partitions.values())
            for name in self._wanted
        )

    async def refresh(self, also: Iterable[str] = ()) -> None:
        """Ask now, for some more topics than the wanted ones."""
        wanted = None if self._all else sorted(self._wanted | frozenset(also))
        self.refreshes += 1
        await self._cluster.refresh(wanted, create=self._create and not self._all)
        self.failure = None
        self._take_leaders()
        self.on_refresh()
        self.refreshed.notify()

    def _take_leaders(self) -> None:
        for name, topic in self._cluster.view.topics.items():
            for index, view in topic.partitions.items():
                tp = TopicPartition(name, index)
                known = self._leaders.get(tp)
                if known is not None and known.topic_id == topic.id and view.leader_epoch < known.epoch:
                    continue
                self._leaders[tp] = Leader(view.leader, view.leader_epoch, topic.id)
