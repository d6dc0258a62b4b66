"""Logs and batches for the tests of the log."""

import random
from collections.abc import Sequence

from rookery.core.disk import Disk
from rookery.core.log import Log, LogConfig
from rookery.core.testing.disk import MemoryDisk
from rookery.core.wire.batch import batches
from rookery.core.wire.compression import Codec
from rookery.core.wire.records import Record, build_batch, read_records

FOLDER = "data/orders-0"


def disk(seed: int = 0) -> MemoryDisk:
    return MemoryDisk(random.Random(seed))


def batch(
    values: Sequence[bytes], *, timestamps: Sequence[int] | None = None, base_offset: int = 0, epoch: int = -1,
    codec: int = Codec.NONE,
) -> bytearray:  # fmt: skip
    """A batch with these values, one record each."""
    times = timestamps or [1000 + i for i in range(len(values))]
    records = [
        Record(base_offset + i, time, None, value) for i, (value, time) in enumerate(zip(values, times, strict=True))
    ]
    return build_batch(records, leader_epoch=epoch, codec=codec)


def opened(on: Disk, config: LogConfig | None = None, *, clean: bool = False, recovery_point: int | None = 0,
           log_start_offset: int = 0) -> Log:  # fmt: skip
    return Log.open(
        on, FOLDER, config or LogConfig(), clean=clean, recovery_point=recovery_point,
        log_start_offset=log_start_offset,
    )  # fmt: skip


def records_of(data: bytes | bytearray | memoryview) -> list[Record]:
    return [record for pos, _ in batches(data) for record in read_records(data, pos)]


def everything(log: Log, start: int | None = None, max_bytes: int = 1 << 20) -> list[Record]:
    """All records from `start` on, read in steps as a consumer would."""
    offset = log.start_offset if start is None else start
    found: list[Record] = []
    while offset < log.end_offset:
        got = log.read(offset, max_bytes)
        found += [record for record in records_of(got.data) if record.offset >= offset]
        offset = got.next_offset
    return found
