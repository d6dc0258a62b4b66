"""Fetches one range from the partition's leader or a closer replica; the next response comes while the last is used."""

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa

from rookery.client.aborted import Aborted
from rookery.client.reader import fetch_partition, offsets_at
from rookery.client.spark.blocking import BlockingCluster
from rookery.client.spark.data_loss import report_data_loss
from rookery.client.spark.decoder import Decoder, next_offset
from rookery.client.spark.kafka_options import RACK_VARIABLE, Fetching
from rookery.client.spark.lookup import TIMEOUT_S, bounds_of
from rookery.client.spark.offsets import Range
from rookery.client.spark.places import EARLIEST
from rookery.core.errors import (
    CorruptMessageError,
    KafkaError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
)
from rookery.core.net.cluster import UNKNOWN_TOPIC, Cluster
from rookery.core.net.connection import ConnectionLostError
from rookery.core.wire.apis.fetch import PartitionData
from rookery.core.wire.primitives import WireError


@dataclass(frozen=True, slots=True)
class Task:
    """The range of one task and how to read it. Everything is fixed when it is planned, so a retry reads the same."""

    range: Range
    topic_id: str | None
    """Id of the range's topic: a topic recreated under the same name has other records."""
    columns: tuple[str, ...]
    fetching: Fetching
    fail_on_data_loss: bool
    timeout_s: float


class Nearest:
    """Which replica of the partition a task reads: the leader, or one in the task's rack that the leader names.
    After a failure there the task stays with the leader."""

    def __init__(self, rack: str) -> None:
        self.rack = rack
        self.replica: int | None = None

    def follow(self, data: PartitionData) -> bool:
        """Whether the leader named another replica instead of sending records."""
        named = data.preferred_read_replica
        if named < 0 or named == self.replica or data.records:
            return False
        self.replica = named
        return True

    def failed(self) -> None:
        if self.replica is not None:
            self.rack, self.replica = "", None


def read(blocking: BlockingCluster, task: Task, environ: Mapping[str, str] = os.environ) -> Iterator[pa.RecordBatch]:
    """The rows of the task's range as Arrow batches. Memory: at most two responses, and the decoder's records."""
    nearest = Nearest(environ.get(RACK_VARIABLE) or task.fetching.rack)
    decoder = Decoder(task.range, task.columns)
    waiting: Future[PartitionData] | None = None
    position, end = task.range.start, task.range.end

    def ask(offset: int) -> Future[PartitionData]:
        return blocking.submit(_fetch(blocking.cluster, task, offset, nearest))

    try:
        waiting = ask(position)
        while waiting is not None:
            try:
                answer = waiting.result()
            except (OffsetOutOfRangeError, OffsetNotAvailableError, *UNKNOWN_TOPIC) as error:
                position = _position_after_loss(task, position, blocking, error)
                waiting = ask(position) if position < end else None
                yield from _with_location(task, decoder.skip_to(position))
                continue
            data = answer.records or b""
            position = next_offset(data, position)
            waiting = ask(position) if position < end else None
            aborted = Aborted(answer.aborted_transactions or ()) if task.fetching.read_committed else None
            yield from _with_location(task, decoder.feed(data, aborted))
        yield from _with_location(task, decoder.rest())
    finally:
        if waiting is not None:
            waiting.cancel()


def _with_location(task: Task, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows; an error gets the partition and the offsets added."""
    try:
        yield from rows
    except (KafkaError, WireError) as error:
        wanted = task.range
        raise CorruptMessageError(f"{_name(wanted)}, offsets {wanted.start} to {wanted.end}: {error}") from error


async def _fetch(cluster: Cluster, task: Task, offset: int, nearest: Nearest) -> PartitionData:
    """Records from `offset` on; waits for a leader that has them, up to the task's timeout."""

    async def attempt() -> PartitionData:
        try:
            data = await _fetch_once(cluster, task, offset, nearest)
            if nearest.follow(data):
                data = await _fetch_once(cluster, task, offset, nearest)
            if next_offset(data.records or b"", offset) == offset:
                # a new leader may not know yet what the old one committed, and the old one never gets the rest
                raise OffsetNotAvailableError(
                    f"{_name(task.range)}: no records at offset {offset}, "
                    f"the high watermark is {data.high_watermark}"
                )
        except OffsetOutOfRangeError as error:
            nearest.failed()
            cluster.forget(task.range.topic)
            if await _is_deleted(cluster, task, offset):
                raise
            raise OffsetNotAvailableError(f"{error}, although the log starts at or before it") from None
        except (KafkaError, ConnectionLostError, OSError):
            nearest.failed()
            cluster.forget(task.range.topic)
            raise
        return data

    return await cluster.retrying(attempt, task.timeout_s, also=UNKNOWN_TOPIC)


async def _fetch_once(cluster: Cluster, task: Task, offset: int, nearest: Nearest) -> PartitionData:
    return await fetch_partition(
        cluster,
        task.range.topic,
        task.range.partition,
        offset,
        bytes_max=task.fetching.bytes_max,
        wait_ms=task.fetching.wait_ms,
        read_committed=task.fetching.read_committed,
        topic_id=None if task.topic_id is None else UUID(task.topic_id),
        rack=nearest.rack,
        replica=nearest.replica,
    )


async def _is_deleted(cluster: Cluster, task: Task, offset: int) -> bool:
    """Whether the log starts after `offset`. A log that ends before it is not trusted at once: the answer may be
    from an old leader that does not know yet that it was replaced."""
    key = (task.range.topic, task.range.partition)
    found = await offsets_at(cluster, {key: EARLIEST}, timeout_s=min(task.timeout_s, TIMEOUT_S))
    return offset < found[key]


def _position_after_loss(task: Task, position: int, blocking: BlockingCluster, error: KafkaError) -> int:
    """Where to continue if the log no longer has `position`; raises unless data loss is allowed. Raises `error` if the
    log has the offset and only its leader does not return it."""
    earliest, latest, found = blocking.run(_remaining_log(blocking.cluster, task, position))
    if earliest <= position < latest:
        raise error
    report_data_loss(f"{_name(task.range)}: offset {position} is wanted, {found}", fail=task.fail_on_data_loss)
    resume_at = max(position, earliest)
    return resume_at if resume_at < min(latest, task.range.end) else task.range.end


async def _remaining_log(cluster: Cluster, task: Task, position: int) -> tuple[int, int, str]:
    """Start and end of the log that the range was planned on (0, 0 if it is gone), and why `position` is missing."""
    cluster.forget(task.range.topic)
    try:
        key = (task.range.topic, task.range.partition)
        earliest, latest = await bounds_of(cluster, key, min(task.timeout_s, TIMEOUT_S))
        view = await cluster.topic(task.range.topic)
    except UNKNOWN_TOPIC:
        return 0, 0, "the partition no longer exists"
    if task.topic_id not in (None, str(view.id)):
        return 0, 0, "the topic was deleted and recreated since"
    if position < earliest:
        why = "retention or DeleteRecords removed records before this query read them"
    else:
        why = "its end was truncated, for example by an unclean election"
    return earliest, latest, f"the log has {earliest} to {latest}: {why}"


def _name(wanted: Range) -> str:
    return f"{wanted.topic}-{wanted.partition}"
