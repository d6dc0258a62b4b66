"""What handlers ask of the rest of the broker, apart from its partitions."""

from collections.abc import Callable
from typing import Protocol

from rookery.core.metadata.image import Image
from rookery.core.metadata.requests import (
    CreatePartitionsReply,
    CreatePartitionsRequest,
    CreateTopicsReply,
    CreateTopicsRequest,
    DeleteTopicsReply,
    DeleteTopicsRequest,
)


class ClusterView(Protocol):
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
    """The active controller, wherever it is. Each call answers when the change is committed; a request that
    is refused as a whole, or that reached nobody, raises a KafkaError."""

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsReply: ...

    async def delete_topics(self, request: DeleteTopicsRequest) -> DeleteTopicsReply: ...

    async def create_partitions(self, request: CreatePartitionsRequest) -> CreatePartitionsReply: ...

    async def allocate_producer_ids(self) -> range:
        """A block of producer ids that nobody else was given or will be."""
