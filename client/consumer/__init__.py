"""The consumer: pure cores for fetching, positions, groups and order, and a thin shell of tasks around them."""

from rookery.client.consumer.consumer import Consumer
from rookery.client.consumer.deserializing import RecordDeserializationError
from rookery.client.consumer.listener import RebalanceListener
from rookery.client.consumer.lookups import OffsetAtTime
from rookery.client.consumer.positions import LogTruncationError

__all__ = [
    "Consumer",
    "LogTruncationError",
    "OffsetAtTime",
    "RebalanceListener",
    "RecordDeserializationError",
]
