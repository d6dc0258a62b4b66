"""The client for code without asyncio: the names of `rookery`, and each call blocks until it is done.

from rookery.sync import Producer

with Producer(bootstrap_servers="localhost:9092") as producer:
    producer.send("orders", b"value", key=b"key").result()
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import rookery

if TYPE_CHECKING:
    from rookery import Acl as Acl
    from rookery import AclFilter as AclFilter
    from rookery import AclOperation as AclOperation
    from rookery import AuthenticationError as AuthenticationError
    from rookery import BufferFullError as BufferFullError
    from rookery import Choice as Choice
    from rookery import ClientError as ClientError
    from rookery import ClosedError as ClosedError
    from rookery import Columns as Columns
    from rookery import CommitFailedError as CommitFailedError
    from rookery import ConcurrentUseError as ConcurrentUseError
    from rookery import ConfigEntry as ConfigEntry
    from rookery import ConfigSource as ConfigSource
    from rookery import ConfigurationError as ConfigurationError
    from rookery import Deliveries as Deliveries
    from rookery import Delivery as Delivery
    from rookery import DeliveryTimeoutError as DeliveryTimeoutError
    from rookery import FatalError as FatalError
    from rookery import ForkedError as ForkedError
    from rookery import GroupDescription as GroupDescription
    from rookery import GroupMetadata as GroupMetadata
    from rookery import Health as Health
    from rookery import IllegalStateError as IllegalStateError
    from rookery import KafkaError as KafkaError
    from rookery import KafkaTimeoutError as KafkaTimeoutError
    from rookery import LogTruncationError as LogTruncationError
    from rookery import NewTopic as NewTopic
    from rookery import NoBrokersError as NoBrokersError
    from rookery import NoOffsetError as NoOffsetError
    from rookery import OffsetAndMetadata as OffsetAndMetadata
    from rookery import OffsetAtTime as OffsetAtTime
    from rookery import PartitionInfo as PartitionInfo
    from rookery import PatternType as PatternType
    from rookery import Permission as Permission
    from rookery import ProducerFencedError as ProducerFencedError
    from rookery import RebalanceListener as RebalanceListener
    from rookery import Record as Record
    from rookery import RecordDeserializationError as RecordDeserializationError
    from rookery import RecordMetadata as RecordMetadata
    from rookery import RecordTooLargeError as RecordTooLargeError
    from rookery import ResourceType as ResourceType
    from rookery import RetriableError as RetriableError
    from rookery import SerializationError as SerializationError
    from rookery import SqliteStore as SqliteStore
    from rookery import TopicDescription as TopicDescription
    from rookery import TopicPartition as TopicPartition
    from rookery import Transaction as Transaction
    from rookery import TransactionAbortedError as TransactionAbortedError
    from rookery import UpgradeType as UpgradeType
    from rookery import WakeupError as WakeupError
    from rookery import idempotent as idempotent
    from rookery import is_fatal as is_fatal
    from rookery.client.faces import Admin as Admin
    from rookery.client.faces import Consumer as Consumer
    from rookery.client.faces import Producer as Producer

_OWN = ("Admin", "Consumer", "Producer")
__all__ = [name for name in rookery.__all__ if name != "__version__"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _OWN:
        return getattr(import_module("rookery.client.faces"), name)
    return getattr(rookery, name)


def __dir__() -> list[str]:
    return __all__
