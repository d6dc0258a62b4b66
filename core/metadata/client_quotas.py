"""Client quotas: to whom a quota applies, and what it limits."""

from collections.abc import Iterable

from immutables import Map

from rookery.core.metadata.image import QuotaEntity

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

Entity = tuple[QuotaEntity, ...]
Quotas = Map[Entity, Map[str, float]]
NO_QUOTAS: Map[str, float] = Map()


def entity_of(parts: Iterable[QuotaEntity]) -> Entity:
    """The one form of an entity, in whatever order its parts are named."""
    return tuple(sorted(parts, key=lambda part: part.type))
