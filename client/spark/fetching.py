"""Fetches one range from whoever leads the partition, the next answer while the last one is being used."""

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass

import pyarrow as pa

from rookery.client.cluster import NOT_HEARD, Cluster, check
from rookery.client.spark.aborted import Aborted
from rookery.client.spark.blocking import BlockingCluster
from rookery.client.spark.decoder import Decoder, next_offset
from rookery.client.spark.kafka_options import Fetching
from rookery.client.spark.lookup import bounds_of
from rookery.client.spark.offsets import Range
from rookery.core.errors import (
    KafkaError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
)
from rookery.core.logs import get_logger
from rookery.core.net.connection import ConnectionLostError
from rookery.core.wire.apis.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic, PartitionData

log = get_logger("client.spark")
BY_ID = 16
"""The highest version asked for; later ones are for followers."""


class DataLossError(Exception):
    """Records that were to be read are no longer there."""


@dataclass(frozen=True, slots=True)
class Task:
    """What one task reads and how. Everything is decided when it is planned: a retry reads the same."""

    range: Range
    columns: tuple[str, ...]
    fetching: Fetching
    fail_on_data_loss: bool
    timeout_s: float


def read(blocking: BlockingCluster, task: Task) -> Iterator[pa.RecordBatch]:
    """The rows of the task's range as Arrow batches. In memory are at most two answers and what the decoder gathers."""
    decoder = Decoder(task.range, task.columns)
    waiting: Future[PartitionData] | None = None
    position, end = task.range.start, task.range.end

    def ask(offset: int) -> Future[PartitionData]:
        return blocking.submit(_fetch(blocking.cluster, task, offset))

    try:
        waiting = ask(position)
        while waiting is not None:
            try:
                answer = waiting.result()
            except OffsetOutOfRangeError:
                position = _behind_the_loss(task, position, blocking)
                waiting = ask(position) if position < end else None
                continue
            data = answer.records or b""
            position = next_offset(data, position)
            waiting = ask(position) if position < end else None
            aborted = Aborted(answer.aborted_transactions or ()) if task.fetching.read_committed else None
            yield from decoder.feed(data, aborted)
        yield from decoder.rest()
    finally:
        if waiting is not None:
            waiting.cancel()


async def _fetch(cluster: Cluster, task: Task, offset: int) -> PartitionData:
    """What follows `offset`; waits for a leader that has it, up to the task's time."""

    async def attempt() -> PartitionData:
        try:
            data = await _fetch_once(cluster, task, offset)
        except (KafkaError, ConnectionLostError, OSError):
            cluster.forget(task.range.topic)
            raise
        if next_offset(data.records or b"", offset) == offset:
            # a new leader may not know yet what was committed under the old one; it will
            raise OffsetNotAvailableError(
                f"{_name(task.range)}: nothing came at offset {offset}, "
                f"the high watermark is {data.high_watermark}"
            )
        return data

    return await cluster.retrying(attempt, task.timeout_s, also=NOT_HEARD)


async def _fetch_once(cluster: Cluster, task: Task, offset: int) -> PartitionData:
    topic, partition = task.range.topic, task.range.partition
    leader = await cluster.leader(topic, partition)
    view = await cluster.topic(topic)
    wanted = FetchPartition(
        partition=partition,
        current_leader_epoch=view.partitions[partition].leader_epoch,
        fetch_offset=offset,
        partition_max_bytes=task.fetching.bytes_max,
    )
    request = FetchRequest(
        max_wait_ms=task.fetching.wait_ms,
        min_bytes=1,
        max_bytes=task.fetching.bytes_max,
        isolation_level=int(task.fetching.read_committed),
        topics=[FetchTopic(topic=topic, topic_id=view.id, partitions=[wanted])],
    )
    answer = await cluster.ask(leader, FETCH, request, at_most=BY_ID)
    check(answer.error_code, leader.address)
    data = answer.responses[0].partitions[0]
    check(data.error_code, f"{_name(task.range)} at offset {offset}")
    return data


def _behind_the_loss(task: Task, position: int, blocking: BlockingCluster) -> int:
    """Where to go on when the log no longer has `position`; raises unless losing data is allowed."""
    key = (task.range.topic, task.range.partition)
    earliest, latest = blocking.run(bounds_of(blocking.cluster, key))
    found = f"{_name(task.range)}: offset {position} is wanted, the log has {earliest} to {latest}"
    if task.fail_on_data_loss:
        raise DataLossError(
            f"{found}. Retention or the deletion of the topic was faster than this query; "
            "set failOnDataLoss=false to go on with what is left"
        )
    log.warning("spark.data_loss", detail=found)
    return earliest if position < earliest < task.range.end else task.range.end


def _name(wanted: Range) -> str:
    return f"{wanted.topic}-{wanted.partition}"
