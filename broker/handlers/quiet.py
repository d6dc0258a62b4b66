"""Partitions of a fetch session that have nothing new, which is most of them most of the time."""

from typing import NamedTuple

from rookery.broker.replication.partition import Partition
from rookery.broker.replication.replica_state import LeaderState


class Quiet(NamedTuple):
    """A partition that had nothing more for a client, and what tells whether it still has not."""

    partition: Partition
    leading: LeaderState
    end_offset: int

    def lasts(self, high_watermark: int, log_start_offset: int) -> bool:
        """Whether a read would find what the last one found, and nothing but the two bounds that the client was
        told. A leader's view lives as long as its epoch, so the same one means that nothing else has changed."""
        log = self.partition.log
        return (
            self.partition.leading is self.leading
            and log.segment_log.end_offset == self.end_offset
            and log.high_watermark == high_watermark
            and log.segment_log.start_offset == log_start_offset
        )
