"""What handlers ask of the rest of the broker, apart from its partitions."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from rookery.core.metadata.image import Image
from rookery.core.metadata.requests import QuorumView, Request

R = TypeVar("R")


class ClusterPort(Protocol):
    """The cluster as this broker knows it."""

    @property
    def node_id(self) -> int: ...

    @property
    def cluster_id(self) -> str: ...

    @property
    def image(self) -> Image: ...

    async def until(self, holds: Callable[[Image], bool], timeout_s: float) -> bool:
        """Wait until the image fulfils `holds`; False if it did not in time."""


class ControllerPort(Protocol):
    """The active controller, wherever it is. Each call answers when the change is committed; a request that is refused
    as a whole, or that reached no controller, raises a KafkaError."""

    async def ask(self, request: Request[R]) -> R: ...

    async def allocate_producer_ids(self) -> range:
        """A block of producer ids that no other broker gets."""

    async def describe_quorum(self) -> QuorumView:
        """The metadata quorum, as its leader reports it."""
