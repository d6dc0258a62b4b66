"""Client quotas: what users, client ids and addresses may use. Checked before they are written, so that every
broker can rely on what it reads, and what is accepted is enforced."""

import math
from collections.abc import Callable
from ipaddress import ip_address

from rookery.controller.state.decision import Decision, decided
from rookery.core.errors import InvalidRequestError, KafkaError
from rookery.core.metadata.client_quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    NO_QUOTAS,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    Entity,
    entity_of,
)
from rookery.core.metadata.image import Image
from rookery.core.metadata.records import ClientQuotaRecord
from rookery.core.metadata.requests import (
    AlterClientQuotasReply,
    AlterClientQuotasRequest,
    QuotaAlteration,
    QuotaAnswer,
    QuotaChange,
)

LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1
FRACTION_MAX = 1e-6
"""A whole number that came as a double may be off by this."""


def _whole(most: int) -> Callable[[float], str | None]:
    def fault(value: float) -> str | None:
        if value > most:
            return f"is larger than {most}"
        return None if round(value) and abs(value - round(value)) <= FRACTION_MAX else "is no whole number"

    return fault


def _any(value: float) -> str | None:
    return None


_OF_CLIENTS = {
    PRODUCER_BYTE_RATE: _whole(LONG_MAX),
    CONSUMER_BYTE_RATE: _whole(LONG_MAX),
    REQUEST_PERCENTAGE: _any,
    CONTROLLER_MUTATION_RATE: _any,
}
_OF_ADDRESSES = {CONNECTION_CREATION_RATE: _whole(INT_MAX)}
_KEYS = {
    (CLIENT_ID,): _OF_CLIENTS,
    (USER,): _OF_CLIENTS,
    (CLIENT_ID, USER): _OF_CLIENTS,
    (IP,): _OF_ADDRESSES,
}
"""By the types of an entity: its keys, and what can be wrong with their values."""


def alter_client_quotas(image: Image, request: AlterClientQuotasRequest) -> Decision[AlterClientQuotasReply]:
    """Each entity gets all of its changes or none."""
    records: list[ClientQuotaRecord] = []
    answers = []
    seen: set[Entity] = set()
    for alteration in request.alterations:
        entity = entity_of(alteration.entity)
        try:
            if entity in seen:
                raise InvalidRequestError("the entity is named twice")
            seen.add(entity)
            records += _alter(image, entity, alteration)
        except KafkaError as error:
            answers.append(QuotaAnswer(alteration.entity, error.code, error.message))
        else:
            answers.append(QuotaAnswer(alteration.entity))
    return decided(() if request.validate_only else records, AlterClientQuotasReply(tuple(answers)))


def _alter(image: Image, entity: Entity, alteration: QuotaAlteration) -> list[ClientQuotaRecord]:
    faults = _check_entity(entity)
    current = image.quotas.get(entity, NO_QUOTAS)
    named = set()
    records = []
    for change in alteration.changes:
        if change.key in named:
            raise InvalidRequestError(f"{change.key} is named twice")
        named.add(change.key)
        _check_change(change, faults)
        if current.get(change.key) != change.value:
            records.append(ClientQuotaRecord(entity, change.key, change.value))
    return records


def _check_entity(entity: Entity) -> dict[str, Callable[[float], str | None]]:
    types = tuple(part.type for part in entity)
    if types not in _KEYS:
        known = "user, client-id, user with client-id, or ip"
        raise InvalidRequestError(f"a quota is for {known}; not for {' with '.join(types) or 'nobody'}")
    for type, name in entity:
        if name == "":
            raise InvalidRequestError(f"the name of {type} is empty; the default has none")
        if type == IP and name is not None and not _is_address(name):
            raise InvalidRequestError(f"{name} is no IP address; names of hosts are not looked up")
    return _KEYS[types]


def _check_change(change: QuotaChange, faults: dict[str, Callable[[float], str | None]]) -> None:
    key, value = change.key, change.value
    if key not in faults:
        known = ", ".join(faults)
        raise InvalidRequestError(f"{key!r} is not enforced for such an entity; there are {known}")
    if value is None:
        return
    if not math.isfinite(value) or value <= 0:
        raise InvalidRequestError(f"{key}={value:g} must be greater than 0")
    fault = faults[key](value)
    if fault is not None:
        raise InvalidRequestError(f"{key}={value:.17g} {fault}")


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
