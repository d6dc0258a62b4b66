"""The part of a consumer's join metadata that a coordinator looks into: the topics it subscribes to.

Everything else in it is between the members. Protocol types other than `consumer` (Kafka Connect, schema registries)
have metadata of their own, which is never opened.
"""

from collections.abc import Sequence

from rookery.core.wire.message import Message
from rookery.core.wire.primitives import WireError
from rookery.core.wire.schema import Array, String, Struct, field

CONSUMER = "consumer"


class Subscription(Struct):
    topics: Sequence[str] = field(Array(String))


_SUBSCRIPTION = Message("Subscription", Subscription, "0")
_VERSION_SIZE = 2


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics; None where the bytes are not a consumer's subscription."""
    try:
        return frozenset(_SUBSCRIPTION.decode(0, metadata, _VERSION_SIZE).topics)
    except WireError:
        return None
