"""DescribeLogDirs (35): this broker's log directories, what lies in them and how large it is."""

import shutil
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from rookery.broker.handlers.authorize import DESCRIBE, cluster_denied
from rookery.broker.log.log_dir import LogDir
from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode
from rookery.core.wire.apis.describe_log_dirs import (
    DESCRIBE_LOG_DIRS,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from rookery.core.wire.served import Served


class Storage(Protocol):
    """The log directories of a broker."""

    @property
    def dirs(self) -> Sequence[LogDir]: ...

    @property
    def offline(self) -> Mapping[str, str]: ...

    def in_dir(self, log_dir: LogDir) -> list[PartitionLog]: ...


class Space(NamedTuple):
    """Bytes of the volume that a directory is on; -1 where they are not known."""

    total: int = -1
    usable: int = -1


def space_of(path: str) -> Space:
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return Space()
    return Space(usage.total, usage.free)


class DescribeLogDirsHandler:
    served = Served(DESCRIBE_LOG_DIRS, 1, 5)

    def __init__(self, storage: Storage, space: Callable[[str], Space]) -> None:
        self._storage = storage
        self._space = space

    def handle(self, request: DescribeLogDirsRequest, call: Call) -> DescribeLogDirsResponse:
        denied = cluster_denied(call, DESCRIBE)
        if denied is not None:
            call.error(denied.code)
            return DescribeLogDirsResponse(error_code=denied.code, results=())
        wanted = None
        if request.topics is not None:
            wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
        online = [log_dir for log_dir in self._storage.dirs if log_dir.path not in self._storage.offline]
        results = [self._online(log_dir, wanted) for log_dir in online]
        for path in self._storage.offline:
            call.error(ErrorCode.KAFKA_STORAGE_ERROR)
            results.append(
                DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path, topics=())
            )
        return DescribeLogDirsResponse(results=results)

    def _online(self, log_dir: LogDir, wanted: set[tuple[str, int]] | None) -> DescribeLogDirsResult:
        by_topic: dict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
        for log in sorted(self._storage.in_dir(log_dir), key=lambda log: log.partition):
            if wanted is None or log.partition in wanted:
                by_topic[log.partition.topic].append(_partition(log))
        space = self._space(log_dir.path)
        return DescribeLogDirsResult(
            log_dir=log_dir.path,
            topics=[DescribeLogDirsTopic(name=name, partitions=found) for name, found in by_topic.items()],
            total_bytes=space.total,
            usable_bytes=space.usable,
        )


def _partition(log: PartitionLog) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=log.partition.partition,
        partition_size=log.segment_log.size,
        offset_lag=max(0, log.high_watermark - log.end_offset),
        is_future_key=False,
    )
