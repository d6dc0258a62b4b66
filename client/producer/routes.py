"""The partitions of the topics that a producer sends to, kept in line with the cluster's metadata."""

from collections.abc import Callable

from rookery.client.producer.accumulator import Accumulator
from rookery.client.producer.partitioners import Choice, OwnPartitioner, PartitionInfo, Route, checked
from rookery.client.session import explained
from rookery.client.types import Headers, TopicPartition
from rookery.core.errors import KafkaError, UnknownTopicOrPartitionError
from rookery.core.net.cluster import BootstrapError, Cluster, TopicView
from rookery.core.net.connection import ConnectionLostError

UNREACHABLE = (BootstrapError, ConnectionLostError, KafkaError, OSError)


class Routes:
    """Finds the partition of each record. `known` has the topics that were looked up."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        *,
        create: bool,
        check_running: Callable[[], object],
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._create = create
        self._check_running = check_running
        self.known: dict[str, Route] = {}
        self._views: dict[str, TopicView] = {}
        self._wanted: set[str] = set()

    def now(self, topic: str, partition: int | None) -> Route | None:
        """The route if it is known and has the partition; otherwise the next metadata brings it."""
        route = self.known.get(topic)
        if route is None or (partition is not None and not 0 <= partition < len(route.queues)):
            self._wanted.add(topic)
            return None
        return route

    async def find(self, topic: str, partition: int | None, timeout_s: float) -> Route:
        """The route of a topic, which must have the partition if one is given; it may be new."""
        route = self.known.get(topic) or await self._look_up(topic, timeout_s)
        if partition is None or 0 <= partition < len(route.queues):
            return route
        try:
            await self._cluster.refresh([topic])
        except UNREACHABLE as error:
            raise explained(error) from error
        self.metadata_changed()
        route = self.known[topic]
        if not 0 <= partition < len(route.queues):
            raise UnknownTopicOrPartitionError(
                f"{topic!r} has partitions 0 to {len(route.queues) - 1}, not {partition}"
            )
        return route

    async def _look_up(self, topic: str, timeout_s: float) -> Route:
        try:
            view = await self._cluster.topic(topic, create=self._create, timeout_s=timeout_s)
        except UnknownTopicOrPartitionError as error:
            limit = f" in {timeout_s:g} s" if self._create else ""
            raise UnknownTopicOrPartitionError(f"{topic!r} did not appear{limit}: {error.message}") from None
        except UNREACHABLE as error:
            raise explained(error) from error
        self._check_running()
        return self._routed(topic, view)

    def _routed(self, topic: str, view: TopicView) -> Route:
        queue = self._accumulator.queue
        queues = [queue(TopicPartition(topic, index)) for index in range(len(view.partitions))]
        available = [index for index, each in sorted(view.partitions.items()) if each.leader >= 0]
        route = Route(topic, queues, available, self.known.get(topic))
        self.known[topic] = route
        self._views[topic] = view
        self._wanted.discard(topic)
        return route

    def metadata_changed(self) -> None:
        """Routes of topics whose partitions or leaders are others now."""
        for topic in {*self.known, *self._wanted}:
            view = self._cluster.view.topics.get(topic)
            if view is not None and view is not self._views.get(topic):
                self._routed(topic, view)

    def chosen(
        self, own: OwnPartitioner, route: Route, key: bytes | None, value: bytes | None, headers: Headers
    ) -> int:
        """The partition that the user's own function names."""
        nodes = self._cluster.view.nodes
        partitions = self._views[route.topic].partitions
        infos: list[PartitionInfo] = []
        for index, queue in enumerate(route.queues):
            each = partitions[index]
            infos.append(
                PartitionInfo(index, nodes.get(each.leader), each.replicas, each.isr, queue.waiting_bytes)
            )
        return checked(own(Choice(route.topic, key, value, headers, infos)), route)
