"""The topics in which coordinators keep their state: who coordinates a key, and how such a topic is made."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import lru_cache
from struct import iter_unpack
from typing import Any

from rookery.broker.handlers.ports import ClusterPort, ControllerPort
from rookery.broker.replication.other_leaders import OtherLeaders
from rookery.core.errors import CoordinatorNotAvailableError, ErrorCode, KafkaError
from rookery.core.event_logging import get_logger
from rookery.core.metadata.image import Endpoint, Image
from rookery.core.metadata.requests import ConfigEntry, CreateTopicsRequest, NewTopic

_log = get_logger("broker.coordination")
VISIBLE_WITHIN_S = 30.0


@lru_cache(4096)
def java_hash(text: str) -> int:
    """`String.hashCode`: clients in every language rely on brokers agreeing on it."""
    value = 0
    for (unit,) in iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(key: str, partitions: int) -> int:
    """The partition whose leader coordinates `key`. The one number without a positive twin counts as 0."""
    value = java_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partitions


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A compacted topic that coordinators write."""

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]

    def new(self) -> NewTopic:
        entries = tuple(ConfigEntry(name, value) for name, value in self.configs)
        return NewTopic(self.name, self.partitions, self.replication_factor, configs=entries)

    def index_of(self, key: str, image: Image) -> int | None:
        """The partition in charge of `key`; None while the topic does not exist."""
        topic = image.topic(self.name)
        return partition_for(key, len(topic.partitions)) if topic is not None and topic.partitions else None


class CoordinatorFinder:
    """Finds the broker in charge of a key, and has the topic created for the first request."""

    def __init__(
        self,
        topic: InternalTopic,
        cluster: ClusterPort,
        controller: ControllerPort,
        start_task: Callable[[Coroutine[Any, Any, Any], str], object],
        leaders: OtherLeaders,
    ) -> None:
        self._topic = topic
        self._leaders = leaders
        self._cluster = cluster
        self._controller = controller
        self._start_task = start_task
        self._under_way = False

    def find(self, key: str, listener: str) -> tuple[int, Endpoint]:
        """Id and address of the coordinator. Raises CoordinatorNotAvailableError; the client asks again."""
        image = self._cluster.image
        topic = image.topic(self._topic.name)
        index = self._topic.index_of(key, image)
        if topic is None or index is None:
            self._create()
            raise CoordinatorNotAvailableError(f"the topic {self._topic.name} is being created")
        leader = image.brokers.get(self._leaders.leader(topic.id, index, topic.partitions[index]))
        if leader is None or leader.fenced:
            raise CoordinatorNotAvailableError(f"{self._topic.name}-{index} has no leader at the moment")
        endpoint = leader.endpoint(listener)
        if endpoint is None:
            raise CoordinatorNotAvailableError(f"broker {leader.id} has no listener {listener!r}")
        return leader.id, endpoint

    def _create(self) -> None:
        if not self._under_way:
            self._under_way = True
            self._start_task(self._ask_controller(), f"creation of {self._topic.name}")

    async def _ask_controller(self) -> None:
        name = self._topic.name
        try:
            reply = await self._controller.ask(CreateTopicsRequest((self._topic.new(),)))
            answer = reply.topics[0]
            if answer.error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                await self._cluster.until(lambda image: name in image.topic_ids, VISIBLE_WITHIN_S)
            else:
                _log.warning("internal.topic.refused", topic=name, reason=answer.message or answer.error)
        except KafkaError as error:
            _log.warning("internal.topic.not.created", topic=name, reason=str(error))
        finally:
            self._under_way = False
