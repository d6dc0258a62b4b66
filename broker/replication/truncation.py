"""Where a follower's log diverges from its leader's, found by leader epochs and never by the high watermark."""

from typing import Protocol

UNKNOWN_EPOCH = -1


class Epochs(Protocol):
    """A log's history of leader epochs."""

    def end_offset_for(self, epoch: int, log_end: int) -> tuple[int, int]:
        """(largest epoch not above `epoch`, where it ends), or (-1, -1) when there is none."""


class TruncationBelowHighWatermarkError(Exception):
    """A leader would have a replica that is in sync drop committed records: something is broken, and the replica must
    stop rather than obey."""


def truncation_offset(*, leader_epoch: int, leader_end: int, epochs: Epochs, log_end: int) -> int:
    """Where to cut when the leader says that its history up to `leader_epoch` ends at `leader_end`.

    If this log does not know that epoch, it is cut at the end of its own newest epoch below: the leader is then
    asked again with what is left, until both agree.
    """
    mine, my_end = epochs.end_offset_for(leader_epoch, log_end)
    if mine == UNKNOWN_EPOCH:
        return min(leader_end, log_end)
    if mine == leader_epoch:
        return min(leader_end, my_end, log_end)
    return min(my_end, leader_end, log_end)


def check_truncation(offset: int, high_watermark: int, *, counted_on: bool, partition: str) -> None:
    """Refuse to cut below the high watermark a replica that is counted on to have all that is committed: after an
    unclean election none is but the leader."""
    if offset < high_watermark and counted_on:
        raise TruncationBelowHighWatermarkError(
            f"{partition}: the leader's history asks for truncation to {offset}, below the high watermark "
            f"{high_watermark}, although this replica is in sync; it stops to keep what was committed"
        )
