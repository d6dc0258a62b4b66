"""What `__transaction_state` stores, byte for byte as Kafka does.

A record's key is a transactional id, its value the whole state of that id; a tombstone says that the id has expired.
Version 1 of the value can also hold the previous and the next producer id, and by which rules the
transaction ended. It is written from `transaction.version` 1 on, and where it is needed. Other versions of key or value
mean nothing here.
"""

from collections.abc import Sequence
from struct import Struct as Layout
from typing import NamedTuple

from rookery.broker.transactions.transaction import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    State,
    Transaction,
)
from rookery.core.types import TopicPartition
from rookery.core.wire.message import Message
from rookery.core.wire.primitives import WireError
from rookery.core.wire.schema import Array, Int8, Int16, Int32, Int64, String, Struct, field

_VERSION = Layout(">h")
_KEY_VERSION = 0
_FLEXIBLE_FROM = 1


class TransactionLogKey(Struct):
    transactional_id: str = field(String)


class PartitionsSchema(Struct):
    topic: str = field(String)
    partition_ids: Sequence[int] = field(Array(Int32))


class TransactionLogValue(Struct):
    producer_id: int = field(Int64)
    previous_producer_id: int = field(Int64, "1+", tag=0, default=NO_PRODUCER_ID)
    next_producer_id: int = field(Int64, "1+", tag=1, default=NO_PRODUCER_ID)
    producer_epoch: int = field(Int16)
    next_producer_epoch: int = field(Int16, "1+", tag=3, default=NO_EPOCH)
    transaction_timeout_ms: int = field(Int32)
    transaction_status: int = field(Int8)
    transaction_partitions: Sequence[PartitionsSchema] | None = field(Array(PartitionsSchema), nullable="0+")
    transaction_last_update_timestamp_ms: int = field(Int64)
    transaction_start_timestamp_ms: int = field(Int64)
    client_transaction_version: int = field(Int16, "1+", tag=2, default=0)


_KEY = Message("TransactionLogKey", TransactionLogKey, "0")
_VALUE = Message("TransactionLogValue", TransactionLogValue, "0-1", "1+")


class TransactionRecord(NamedTuple):
    """The state of one transactional id; None where it has expired."""

    id: str
    transaction: Transaction | None


def encode(record: TransactionRecord, version: int) -> tuple[bytes, bytes | None]:
    """Key and value as they are stored in a cluster at this level of `transaction.version`."""
    named = TransactionLogKey(transactional_id=record.id)
    key = b"".join((_VERSION.pack(_KEY_VERSION), *_KEY.encode(_KEY_VERSION, named)))
    one = record.transaction
    if one is None:
        return key, None
    tagged = (one.previous_producer_id, one.next_producer_id, one.version)
    needed = tagged != (NO_PRODUCER_ID, NO_PRODUCER_ID, 0)
    schema = _FLEXIBLE_FROM if version >= _FLEXIBLE_FROM or needed else 0
    value = TransactionLogValue(
        producer_id=one.producer_id,
        previous_producer_id=one.previous_producer_id,
        next_producer_id=one.next_producer_id,
        producer_epoch=one.epoch,
        transaction_timeout_ms=one.timeout_ms,
        transaction_status=one.state,
        transaction_partitions=None if one.state is State.EMPTY else _by_topic(one.partitions),
        transaction_last_update_timestamp_ms=one.updated_ms,
        transaction_start_timestamp_ms=one.started_ms,
        client_transaction_version=one.version,
    )
    return key, b"".join((_VERSION.pack(schema), *_VALUE.encode(schema, value)))


def _by_topic(partitions: frozenset[TopicPartition]) -> list[PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in topics.items()]


def decode(key: bytes | None, value: bytes | None) -> TransactionRecord | None:
    """The record, or None where its version is not known here. Raises WireError on damaged bytes."""
    if key is None or _version(key) != _KEY_VERSION:
        return None
    transactional_id = _KEY.decode(_KEY_VERSION, key, _VERSION.size).transactional_id
    if value is None:
        return TransactionRecord(transactional_id, None)
    version = _version(value)
    if not _VALUE.supports(version):
        return None
    read = _VALUE.decode(version, value, _VERSION.size)
    try:
        state = State(read.transaction_status)
    except ValueError:
        raise WireError(f"{transactional_id!r} is in the unknown state {read.transaction_status}") from None
    partitions = frozenset(
        TopicPartition(topic.topic, index)
        for topic in read.transaction_partitions or ()
        for index in topic.partition_ids
    )
    transaction = Transaction(
        transactional_id,
        read.producer_id,
        read.producer_epoch,
        read.transaction_timeout_ms,
        state,
        partitions,
        read.transaction_last_update_timestamp_ms,
        read.transaction_start_timestamp_ms,
        read.previous_producer_id,
        read.next_producer_id,
        read.client_transaction_version,
    )
    return TransactionRecord(transactional_id, transaction)


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise WireError(f"a record of the transaction log holds {len(data)} bytes and no version")
    version: int = _VERSION.unpack_from(data)[0]
    return version
