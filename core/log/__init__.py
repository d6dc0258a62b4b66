"""The file log that partitions and the metadata log share: segments, indexes, checkpoints, recovery.

    log = Log.open(disk, "data/orders-0", LogConfig(), recovery_point=0)
    appended = log.append_as_leader(buffer, leader_epoch=3, now_ms=clock.wall_ms())
    log.read(appended.base_offset, max_bytes=1 << 20).data
    log.flush()

Files and formats are Kafka's. This package opens files through the disk port and nothing else.
"""

from rookery.core.log.appending import Appended
from rookery.core.log.epochs import EpochEnd, EpochStart, LeaderEpochs
from rookery.core.log.errors import LogClosed, LogCorrupt, LogDirFailed
from rookery.core.log.flush import FlushJob
from rookery.core.log.log import Log, LogRead
from rookery.core.log.scan import checked_batches
from rookery.core.log.segment import LogConfig, Segment

__all__ = [
    "Appended",
    "EpochEnd",
    "EpochStart",
    "FlushJob",
    "LeaderEpochs",
    "Log",
    "LogClosed",
    "LogConfig",
    "LogCorrupt",
    "LogDirFailed",
    "LogRead",
    "Segment",
    "checked_batches",
]
