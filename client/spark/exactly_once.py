"""The exactly-once sink: a task writes one transaction and leaves it open, the driver commits those of an epoch.

`epochs` decides. A task takes its transactional id over, which fences older attempts and aborts what they left; then
the marker shows whether its rows are committed. The driver takes over the query's own transactional id, so that an
older driver cannot record another plan.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rookery.client.admin import Admin
from rookery.client.errors import ConfigurationError, TransactionAbortedError
from rookery.client.options import read_options
from rookery.client.producer import Producer
from rookery.client.producer import options as producer_options
from rookery.client.producer.transaction_calls import leave_transaction
from rookery.client.producer.transactions import LeftOpen, end_left_open
from rookery.client.spark.blocking import connected
from rookery.client.spark.epochs import (
    Task,
    check_repeats,
    fenced,
    is_planned,
    is_written,
    marker_of,
    plan_of,
    query_name,
    query_of,
)
from rookery.client.spark.kafka_options import PREFIX, Connecting, OptionError
from rookery.client.spark.options import SinkOptions
from rookery.client.spark.routing import grouped, route
from rookery.client.types import OffsetAndMetadata, TopicPartition
from rookery.core.errors import (
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    KafkaError,
    ProducerFencedError,
)
from rookery.core.net.client_properties import RENAMED
from rookery.core.net.cluster import BootstrapError
from rookery.core.net.connection import ConnectionLostError

FENCED = (
    ProducerFencedError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
)
ENDING_AT_ONCE = 32
COMMIT_LIMIT_S = 120.0
ABORT_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Written:
    """What a task wrote, for the driver to commit. Without a transaction, an earlier attempt's rows are committed."""

    task: Task
    records: int
    transaction: LeftOpen | None


def write_epoch(options: SinkOptions, task: Task, batches: Iterable[pa.RecordBatch]) -> Written:
    """Runs on an executor. The rows are delivered when it returns, and no reader sees them."""
    assert options.topic is not None
    blocking = connected(options.connecting)
    producer = blocking.run(_opened(options, task.name))
    try:
        marker = blocking.run(_committed(options, task.name))
        if marker is not None and is_written(task, marker):
            rows = sum(batch.num_rows for batch in batches)
            check_repeats(task, marker, rows)
            return Written(task, rows, None)
        return _written(options, task, batches, producer)
    except (TransactionAbortedError, *FENCED) as error:
        raise _reason(task, producer, error) from error
    finally:
        blocking.run(producer.close())


def _reason(task: Task, producer: Producer, error: Exception) -> Exception:
    """Why a transaction failed. Calls after a failure only say that there was one."""
    state = producer.transaction_state
    if isinstance(error, TransactionAbortedError) and state is not None and state.error is not None:
        error = state.error
    return fenced(task, error) if isinstance(error, FENCED) else error


def _written(
    options: SinkOptions, task: Task, batches: Iterable[pa.RecordBatch], producer: Producer
) -> Written:
    assert options.topic is not None
    run = connected(options.connecting).run
    run(producer.begin_transaction())
    partitions = len(run(producer.partitions_for(options.topic)))
    records = 0
    for turn, batch in enumerate(batches):
        if batch.num_rows:
            run(send_rows(producer, options.topic, batch, partitions, task.partition + turn))
            records += batch.num_rows
    run(producer.send_offsets({_place(options): marker_of(task, records)}, task.name))
    return Written(task, records, run(leave_transaction(producer)))


def check_settings(options: SinkOptions) -> None:
    """Refuse, on the driver, what the producer of a task would refuse."""
    try:
        producer_options.check(
            read_options(producer_options.CLIENT, producer_options.TABLE, {}, _settings(options, "any"))
        )
    except ConfigurationError as error:
        named = PREFIX + error.option
        raise OptionError(f"option {named!r} cannot be used with exactly_once: {error}") from None


async def _opened(options: SinkOptions, name: str) -> Producer:
    """Whoever had the transactional id before is fenced, and the transaction that was open is aborted."""
    producer = Producer(_settings(options, name))
    await producer.start()
    return producer


def _settings(options: SinkOptions, name: str) -> dict[str, Any]:
    producing = options.producing
    return {
        **_connection(options.connecting),
        "transactional.id": name,
        "transaction.timeout.ms": producing.transaction_timeout_ms,
        "compression.type": producing.codec.name.lower(),
        "max.request.size": producing.request_bytes_max,
        "batch.size": producing.request_bytes_max,
        "delivery.timeout.ms": int(producing.delivery_timeout_s * 1000),
    }


def _connection(connecting: Connecting) -> dict[str, Any]:
    return {
        "bootstrap.servers": connecting.bootstrap,
        "client.id": connecting.client_id,
        "request.timeout.ms": int(connecting.request_timeout_s * 1000),
        **{RENAMED.get(key, key): value for key, value in connecting.security},
    }


def _place(options: SinkOptions) -> TopicPartition:
    """Offsets belong to a partition that exists, and go with its topic."""
    assert options.topic is not None
    return TopicPartition(options.topic, 0)


async def _committed(options: SinkOptions, group: str) -> OffsetAndMetadata | None:
    """What a group has committed. A transaction that is about to end is waited for."""
    place = _place(options)
    async with Admin(_connection(options.connecting)) as admin:
        return (await admin.list_group_offsets(group, [place], require_stable=True)).get(place)


async def send_rows(producer: Producer, topic: str, batch: pa.RecordBatch, partitions: int, turn: int) -> None:
    """The rows of one partition keep their order. What is not delivered fails the transaction."""
    names = batch.schema.names
    keys = batch.column("key").cast(pa.binary()) if "key" in names else pa.nulls(batch.num_rows, pa.binary())
    given = batch.column("partition") if "partition" in names else None
    where = route(keys, given, partitions, turn)
    with_headers = "headers" in names and batch.column("headers").null_count < batch.num_rows
    for partition, rows in grouped(batch.set_column(names.index("value"), "value", _values(batch)), where):
        values = rows.column("value").to_pylist()
        own = rows.column("key").cast(pa.binary()).to_pylist() if keys.null_count < len(keys) else None
        if not with_headers:
            await producer.send_many(topic, values, keys=own, partition=partition)
            continue
        for value, key, headers in zip(values, own or [None] * len(values), _headers(rows), strict=True):
            await producer.send(topic, value, key=key, headers=headers, partition=partition)


def _values(batch: pa.RecordBatch) -> pa.Array:
    return batch.column("value").cast(pa.binary())


def _headers(rows: pa.RecordBatch) -> Iterator[list[tuple[str, bytes | None]]]:
    for headers in rows.column("headers").to_pylist():
        if any(each is None or each["key"] is None for each in headers or ()):
            raise ValueError("a row has a header without a key: every element of 'headers' needs one")
        yield [(each["key"], each["value"]) for each in headers or ()]


def commit_epoch(options: SinkOptions, written: Sequence[Written], epoch: int, partitions: int) -> None:
    """Runs on the driver when all tasks are done: makes their rows visible, those of one task at once."""
    if partitions:
        query = query_of([each.task for each in written], epoch, partitions)
        connected(options.connecting).run(_commit(options, query, written, epoch))


async def _commit(options: SinkOptions, query: str, written: Sequence[Written], epoch: int) -> None:
    name, extent = query_name(query), (len(written), sum(each.records for each in written))
    try:
        producer = await _opened(options, name)
        try:
            if not is_planned(query, epoch, *extent, await _committed(options, name)):
                async with producer.transaction() as transaction:
                    await transaction.send_offsets({_place(options): plan_of(epoch, *extent)}, name)
        finally:
            await producer.close()
        await _end_all(options, written, commit=True, limit_s=COMMIT_LIMIT_S)
    except FENCED as error:
        raise fenced(f"epoch {epoch} of query {query}", error) from error


def abort_epoch(options: SinkOptions, written: Sequence[Written]) -> None:
    """Runs on the driver after a failure: readers need not wait for what is open. What cannot be aborted is aborted
    when the epoch is written again, or at the end of its time."""
    try:
        connected(options.connecting).run(_end_all(options, written, commit=False, limit_s=ABORT_LIMIT_S))
    except (KafkaError, BootstrapError, ConnectionLostError, OSError):
        return


async def _end_all(options: SinkOptions, written: Sequence[Written], *, commit: bool, limit_s: float) -> None:
    """All are tried, also after a failure."""
    cluster = connected(options.connecting).cluster
    limit = asyncio.Semaphore(ENDING_AT_ONCE)

    async def end(transaction: LeftOpen) -> None:
        async with limit:
            await end_left_open(cluster, transaction, commit=commit, limit_s=limit_s)

    ends = [end(each.transaction) for each in written if each.transaction is not None]
    for result in await asyncio.gather(*ends, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
