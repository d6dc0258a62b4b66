"""Log dirs of a broker for tests, on a disk in memory or a real one."""

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from uuid import UUID

from rookery.broker.log.background import Threads, real_threads
from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.log_dirs import LogDirs
from rookery.broker.log.start_up import NodeIdentity
from rookery.core.disk import Disk
from rookery.core.log import LogConfig
from rookery.core.testing.clock import ManualClock
from rookery.core.testing.disk import MemoryDisk

SMALL = TopicLogConfig(log=LogConfig(segment_bytes=300, index_interval_bytes=64))
DURABLE = replace(SMALL, flush_messages=1)


def memory() -> MemoryDisk:
    disk = MemoryDisk(random.Random(1))
    disk.mkdir("/")
    return disk


def ids(start: int = 1) -> Callable[[], UUID]:
    numbers = count(start)
    return lambda: UUID(int=next(numbers))


def log_dirs(
    disk: Disk,
    paths: list[str],
    *,
    cluster: str = "c1",
    node: int = 1,
    config: TopicLogConfig = SMALL,
    clock: ManualClock | None = None,
    first_id: int = 1,
    threads: Threads = real_threads,
) -> LogDirs:
    return LogDirs(
        disk,
        paths,
        NodeIdentity(cluster, node),
        clock=clock or ManualClock(),
        config_of=lambda _topic: config,
        new_id=ids(first_id),
        threads=threads,
    )
