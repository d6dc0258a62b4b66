"""What differs between an image and its successor: the input of everything that follows the metadata log."""

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from rookery.core.metadata.image import ConfigResource, Image, Partition, Topic


class PartitionChange(NamedTuple):
    """One partition that was created (`before` is None), changed or removed (`after` is None)."""

    topic: str
    topic_id: UUID
    partition: int
    before: Partition | None
    after: Partition | None

    @property
    def leader_changed(self) -> bool:
        """Somebody leads, or leads anew: the leader epoch moved."""
        if self.before is None or self.after is None:
            return self.after is not None
        return self.before.leader_epoch != self.after.leader_epoch


@dataclass(frozen=True, slots=True)
class Changes:
    """From `before` to `after`. Everything is sorted (by id, by topic name and number), so that followers act
    in the same order everywhere. A name deleted and created anew is one removed and one created topic."""

    before: Image
    after: Image
    brokers: tuple[int, ...] = ()
    topics_created: tuple[Topic, ...] = ()
    topics_removed: tuple[Topic, ...] = ()
    partitions: tuple[PartitionChange, ...] = ()
    configs: tuple[ConfigResource, ...] = ()

    @property
    def quotas_changed(self) -> bool:
        return self.before.quotas is not self.after.quotas and self.before.quotas != self.after.quotas
