"""Creates topics that clients ask for (auto.create.topics.enable)."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from rookery.broker.handlers.ports import ClusterPort, ControllerPort
from rookery.broker.quotas.charges import Mutations
from rookery.broker.quotas.client_quotas import ClientQuotas
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.event_logging import get_logger
from rookery.core.metadata.requests import CreateTopicsRequest, NewTopic
from rookery.core.metadata.topic_names import is_internal

_log = get_logger("broker.handlers")

UNDER_WAY_MAX = 1000
"""Topics that may be under way at once; those beyond are left out, and asked for again by their clients."""
VISIBLE_WITHIN_S = 30.0


class AutoCreation:
    """Sends each missing name to the controller once, in the background; clients ask again and find it."""

    def __init__(
        self,
        enabled: bool,
        cluster: ClusterPort,
        controller: ControllerPort,
        start_task: Callable[[Coroutine[Any, Any, Any], str], object],
        quotas: ClientQuotas,
        partitions: int,
    ) -> None:
        """`partitions` is how many a topic gets."""
        self._quotas = quotas
        self._partitions = partitions
        self.enabled = enabled
        self._cluster = cluster
        self._controller = controller
        self._start_task = start_task
        self._under_way: set[str] = set()

    def create(self, names: Sequence[str], call: Call) -> set[str]:
        """The names that will soon be topics. Those that the client's quota does not allow now are asked for
        again."""
        if not self.enabled:
            return set()
        fresh = [name for name in names if name not in self._under_way and not is_internal(name)]
        fresh = fresh[: UNDER_WAY_MAX - len(self._under_way)]
        fresh = list(Mutations(self._quotas, call).split(fresh, lambda name: self._partitions)[0])
        if fresh:
            self._under_way.update(fresh)
            self._start_task(self._create(fresh), "auto-creation")
        return self._under_way.intersection(names)

    async def _create(self, names: list[str]) -> None:
        try:
            reply = await self._controller.ask(
                CreateTopicsRequest(tuple(NewTopic(name) for name in names))
            )
            for topic in reply.topics:
                if topic.error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    _log.warning("topic.auto.creation.refused", topic=topic.name, reason=topic.message)
            created = [topic.name for topic in reply.topics if topic.error == ErrorCode.NONE]
            await self._cluster.until(
                lambda image: all(name in image.topic_ids for name in created), VISIBLE_WITHIN_S
            )
        except KafkaError as error:
            _log.warning("topic.auto.creation.failed", topics=names, reason=str(error))
        finally:
            self._under_way.difference_update(names)
