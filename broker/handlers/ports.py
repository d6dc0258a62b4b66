"""What handlers ask of the rest of the broker, apart from its partitions."""

from collections.abc import Callable
from typing import Protocol

from rookery.core.metadata.image import Image
from rookery.core.metadata.quorum_view import QuorumView
from rookery.core.metadata.requests import (
    AlterClientQuotasReply,
    AlterClientQuotasRequest,
    AlterConfigsReply,
    AlterConfigsRequest,
    CreatePartitionsReply,
    CreatePartitionsRequest,
    CreateTopicsReply,
    CreateTopicsRequest,
    DeleteTopicsReply,
    DeleteTopicsRequest,
    ElectLeadersReply,
    ElectLeadersRequest,
    ListReassignmentsReply,
    ListReassignmentsRequest,
    ReassignPartitionsReply,
    ReassignPartitionsRequest,
    UnregisterBrokerReply,
    UnregisterBrokerRequest,
    UpdateFeaturesReply,
    UpdateFeaturesRequest,
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

    async def alter_configs(self, request: AlterConfigsRequest) -> AlterConfigsReply: ...

    async def elect_leaders(self, request: ElectLeadersRequest) -> ElectLeadersReply: ...

    async def reassign_partitions(self, request: ReassignPartitionsRequest) -> ReassignPartitionsReply: ...

    async def list_reassignments(self, request: ListReassignmentsRequest) -> ListReassignmentsReply: ...

    async def update_features(self, request: UpdateFeaturesRequest) -> UpdateFeaturesReply: ...

    async def alter_client_quotas(self, request: AlterClientQuotasRequest) -> AlterClientQuotasReply: ...

    async def unregister_broker(self, request: UnregisterBrokerRequest) -> UnregisterBrokerReply: ...

    async def describe_quorum(self) -> QuorumView:
        """The metadata quorum, as its leader tells."""
