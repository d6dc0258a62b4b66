"""Where a broker's view of the cluster comes from: the log of its own controller role, or another node's."""

from typing import Protocol

from rookery.broker.metadata.cluster_view import ClusterView
from rookery.controller.raft.node import RaftNode


class MetadataSource(Protocol):
    @property
    def position(self) -> int:
        """Everything below has reached the broker."""

    @property
    def high_watermark(self) -> int:
        """Everything below is known to be committed."""


class LocalMetadata:
    """A node in both roles reads what its own log has committed."""

    def __init__(self, raft: RaftNode, view: ClusterView) -> None:
        self._raft = raft
        self._view = view
        raft.subscribe(view)

    @property
    def position(self) -> int:
        return self._view.image.offset + 1

    @property
    def high_watermark(self) -> int:
        described = self._raft.describe_core()
        return 0 if described is None else described.high_watermark
