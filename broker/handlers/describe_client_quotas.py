"""DescribeClientQuotas (48): the quotas that are set for entities of some kind.

A component names a type and what its name must be: a given one, none (the default), or any. An entity matches
if it has every component asked for; with `strict` it has no other.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum

from rookery.broker.handlers.authorize import DESCRIBE_CONFIGS, check_cluster
from rookery.broker.handlers.ports import ClusterPort
from rookery.broker.server.client import Call
from rookery.core.errors import InvalidRequestError, KafkaError, UnsupportedVersionError
from rookery.core.metadata.client_quotas import CLIENT_ID, IP, USER, Entity
from rookery.core.wire.apis.describe_client_quotas import (
    DESCRIBE_CLIENT_QUOTAS,
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from rookery.core.wire.served import Served


class Match(IntEnum):
    """By Kafka's numbers."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class Filter:
    """What is asked for; raises KafkaError if it makes no sense."""

    def __init__(self, components: Sequence[ComponentData], *, strict: bool) -> None:
        self._wanted: dict[str, ComponentData] = {}
        self._strict = strict
        for component in components:
            _check(component)
            if component.entity_type in self._wanted:
                raise InvalidRequestError(f"{component.entity_type} is asked for twice")
            self._wanted[component.entity_type] = component
        if IP in self._wanted and len(self._wanted) > 1:
            raise InvalidRequestError("no quota is for an ip together with a user or client-id")

    def matches(self, entity: Entity) -> bool:
        names = dict(entity)
        if self._strict and len(names) != len(self._wanted):
            return False
        return all(
            type in names and (component.match_type == Match.ANY or names[type] == component.match)
            for type, component in self._wanted.items()
        )


class DescribeClientQuotasHandler:
    served = Served(DESCRIBE_CLIENT_QUOTAS, 0, 1)

    def __init__(self, cluster: ClusterPort) -> None:
        self._cluster = cluster

    def handle(self, request: DescribeClientQuotasRequest, call: Call) -> DescribeClientQuotasResponse:
        try:
            check_cluster(call, DESCRIBE_CONFIGS)
            wanted = Filter(request.components, strict=request.strict)
        except KafkaError as error:
            call.error(error.code)
            return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message)
        quotas = self._cluster.image.quotas
        return DescribeClientQuotasResponse(
            entries=[_entry(entity, values) for entity, values in quotas.items() if wanted.matches(entity)]
        )


def _check(component: ComponentData) -> None:
    if component.entity_type not in (USER, CLIENT_ID, IP):
        raise UnsupportedVersionError(f"there are quotas for user, client-id and ip, not for {component.entity_type!r}")
    if component.match_type not in frozenset(Match):
        raise InvalidRequestError(f"there is no match type {component.match_type}")
    if (component.match is None) == (component.match_type == Match.EXACT):
        raise InvalidRequestError("an exact match needs a name, any other has none")


def _entry(entity: Entity, values: Mapping[str, float]) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=part.type, entity_name=part.name) for part in entity],
        values=[ValueData(key=key, value=value) for key, value in sorted(values.items())],
    )
