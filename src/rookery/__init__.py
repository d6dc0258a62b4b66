"""Rookery: a replicated event log in Python that Kafka clients connect to, and a client for any Kafka cluster.

from rookery import Producer, Consumer, Admin       # asyncio
from rookery.sync import Producer, Consumer, Admin  # blocking
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rookery.client.admin import Admin as Admin
    from rookery.client.admin import NewTopic as NewTopic
    from rookery.client.admin.types import Acl as Acl
    from rookery.client.admin.types import AclFilter as AclFilter
    from rookery.client.admin.types import AclOperation as AclOperation
    from rookery.client.admin.types import ConfigEntry as ConfigEntry
    from rookery.client.admin.types import ConfigSource as ConfigSource
    from rookery.client.admin.types import GroupDescription as GroupDescription
    from rookery.client.admin.types import PatternType as PatternType
    from rookery.client.admin.types import Permission as Permission
    from rookery.client.admin.types import ResourceType as ResourceType
    from rookery.client.admin.types import TopicDescription as TopicDescription
    from rookery.client.admin.types import UpgradeType as UpgradeType
    from rookery.client.consumer import Consumer as Consumer
    from rookery.client.consumer import LogTruncationError as LogTruncationError
    from rookery.client.consumer import OffsetAtTime as OffsetAtTime
    from rookery.client.consumer import RebalanceListener as RebalanceListener
    from rookery.client.consumer import RecordDeserializationError as RecordDeserializationError
    from rookery.client.errors import AuthenticationError as AuthenticationError
    from rookery.client.errors import BufferFullError as BufferFullError
    from rookery.client.errors import ClientError as ClientError
    from rookery.client.errors import ClosedError as ClosedError
    from rookery.client.errors import CommitFailedError as CommitFailedError
    from rookery.client.errors import ConcurrentUseError as ConcurrentUseError
    from rookery.client.errors import ConfigurationError as ConfigurationError
    from rookery.client.errors import DeliveryTimeoutError as DeliveryTimeoutError
    from rookery.client.errors import FatalError as FatalError
    from rookery.client.errors import ForkedError as ForkedError
    from rookery.client.errors import IllegalStateError as IllegalStateError
    from rookery.client.errors import KafkaError as KafkaError
    from rookery.client.errors import KafkaTimeoutError as KafkaTimeoutError
    from rookery.client.errors import NoBrokersError as NoBrokersError
    from rookery.client.errors import NoOffsetError as NoOffsetError
    from rookery.client.errors import ProducerFencedError as ProducerFencedError
    from rookery.client.errors import RecordTooLargeError as RecordTooLargeError
    from rookery.client.errors import RetriableError as RetriableError
    from rookery.client.errors import SerializationError as SerializationError
    from rookery.client.errors import TransactionAbortedError as TransactionAbortedError
    from rookery.client.errors import WakeupError as WakeupError
    from rookery.client.errors import is_fatal as is_fatal
    from rookery.client.health import Health as Health
    from rookery.client.idempotence import SqliteStore as SqliteStore
    from rookery.client.idempotence import idempotent as idempotent
    from rookery.client.producer import Choice as Choice
    from rookery.client.producer import Deliveries as Deliveries
    from rookery.client.producer import Delivery as Delivery
    from rookery.client.producer import PartitionInfo as PartitionInfo
    from rookery.client.producer import Producer as Producer
    from rookery.client.producer import Transaction as Transaction
    from rookery.client.types import Columns as Columns
    from rookery.client.types import GroupMetadata as GroupMetadata
    from rookery.client.types import OffsetAndMetadata as OffsetAndMetadata
    from rookery.client.types import Record as Record
    from rookery.client.types import RecordMetadata as RecordMetadata
    from rookery.client.types import TopicPartition as TopicPartition

__version__ = "0.1.0"

_MODULES = {
    "rookery.client.types": (
        "Columns",
        "GroupMetadata",
        "OffsetAndMetadata",
        "Record",
        "RecordMetadata",
        "TopicPartition",
    ),
    "rookery.client.health": ("Health",),
    "rookery.client.idempotence": ("SqliteStore", "idempotent"),
    "rookery.client.errors": (
        "AuthenticationError",
        "BufferFullError",
        "ClientError",
        "ClosedError",
        "CommitFailedError",
        "ConcurrentUseError",
        "ConfigurationError",
        "DeliveryTimeoutError",
        "FatalError",
        "ForkedError",
        "IllegalStateError",
        "KafkaError",
        "KafkaTimeoutError",
        "NoBrokersError",
        "NoOffsetError",
        "ProducerFencedError",
        "RecordTooLargeError",
        "RetriableError",
        "SerializationError",
        "TransactionAbortedError",
        "WakeupError",
        "is_fatal",
    ),
    "rookery.client.producer": (
        "Choice",
        "Deliveries",
        "Delivery",
        "PartitionInfo",
        "Producer",
        "Transaction",
    ),
    "rookery.client.consumer": (
        "Consumer",
        "LogTruncationError",
        "OffsetAtTime",
        "RebalanceListener",
        "RecordDeserializationError",
    ),
    "rookery.client.admin": ("Admin", "NewTopic"),
    "rookery.client.admin.types": (
        "Acl",
        "AclFilter",
        "AclOperation",
        "ConfigEntry",
        "ConfigSource",
        "GroupDescription",
        "PatternType",
        "Permission",
        "ResourceType",
        "TopicDescription",
        "UpgradeType",
    ),
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names}

__all__ = ["__version__", *sorted(_WHERE)]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """The names of the client are imported when they are first used: `rookery --help` needs none of them."""
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"module 'rookery' has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return __all__
