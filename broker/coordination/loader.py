"""Reads a shard's log: slices come from the page cache, their records are decoded in a thread and replayed in small
portions, so that the loop stays free while a coordinator takes over."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from rookery.broker.log.partition_log import Isolation
from rookery.broker.replication.partition import Partition
from rookery.core.event_logging import get_logger
from rookery.core.wire.batch import BatchHeader, batches
from rookery.core.wire.markers import read_marker
from rookery.core.wire.primitives import Buffer, WireError
from rookery.core.wire.records import read_records

_log = get_logger("broker.coordination")

R = TypeVar("R")
Decode = Callable[[bytes | None, bytes | None], R | None]
PORTION = 500
"""Records replayed before others get their turn."""


class LoadedBatch(NamedTuple, Generic[R]):
    """The records of one batch that mean something here, with their offsets. `ends` is the decision of an end
    marker. Batches outside of transactions have the producer id -1."""

    producer_id: int
    ends: bool | None
    records: list[tuple[int, R]]


def decode_batches(data: Buffer, decode: Decode[R]) -> list[LoadedBatch[R]]:
    """All batches of a slice. A damaged record is passed over: it harms its own group alone."""
    return [_decode_batch(data, position, header, decode) for position, header in batches(data)]


def _decode_batch(data: Buffer, position: int, header: BatchHeader, decode: Decode[R]) -> LoadedBatch[R]:
    if header.control:
        marker = read_marker(data, position)
        commits = None if marker is None else marker.commit
        return LoadedBatch(header.producer_id, commits, [])
    found: list[tuple[int, R]] = []
    for record in read_records(data, position):
        try:
            decoded = decode(record.key, record.value)
        except WireError as error:
            _log.error("record.unreadable", offset=record.offset, reason=str(error))
            continue
        if decoded is not None:
            found.append((record.offset, decoded))
    return LoadedBatch(header.producer_id if header.transactional else -1, None, found)


async def load(
    partition: Partition,
    leader_epoch: int,
    decode: Decode[R],
    replay: Callable[[R, int, int], None],
    end_transaction: Callable[[int, bool], None],
    *,
    slice_bytes: int,
    executor: Executor,
) -> int:
    """Replay all that is in the log now; returns the number of records. Raises KafkaError where it cannot be read, also
    when this broker leads no longer: from then on the log may be cut.

    What is above the high watermark belongs to it: a new leader commits its whole log.
    """
    loop = asyncio.get_running_loop()
    log = partition.log
    offset, end, count = log.start_offset, log.end_offset, 0
    while offset < end:
        partition.check_leader(leader_epoch)
        read = partition.read(offset, slice_bytes, Isolation.LOG_END, min_one=True)
        if read.next_offset <= offset:
            break
        offset = read.next_offset
        slice_of: Callable[[], list[LoadedBatch[R]]] = partial(decode_batches, bytes(read.data), decode)
        loaded = await loop.run_in_executor(executor, slice_of)
        for producer_id, ends, records in loaded:
            if ends is not None:
                end_transaction(producer_id, ends)
            for at, record in records:
                replay(record, at, producer_id)
                count += 1
                if count % PORTION == 0:
                    await asyncio.sleep(0)
    return count
