"""Which quota holds for a client. Pure.

The one that says most of it: a user's client id before the user, the user before the client id, and a name
before the default, in Kafka's order. A quota for client ids, given by name or for all, is each client id's own; a
quota for a user alone is shared by all that come in the user's name.
"""

from collections.abc import Iterator
from typing import NamedTuple

from rookery.core.metadata.client_quotas import CLIENT_ID, USER, Entity, Quotas
from rookery.core.metadata.image import QuotaEntity


class Who(NamedTuple):
    """A client, or with an empty part all of them that have the other."""

    user: str
    client_id: str


class Limit(NamedTuple):
    """What those that share a quota may use of something in a second."""

    key: str
    shared_by: Who
    bound: float


def limit_of(quotas: Quotas, who: Who, key: str) -> Limit | None:
    """The limit for one client, if there is any."""
    for entity in _from_the_closest(who):
        bound = quotas[entity].get(key) if entity in quotas else None
        if bound is not None:
            types = {part.type for part in entity}
            shared_by = Who(who.user if USER in types else "", who.client_id if CLIENT_ID in types else "")
            return Limit(key, shared_by, bound)
    return None


def _from_the_closest(who: Who) -> Iterator[Entity]:
    client_ids = QuotaEntity(CLIENT_ID, who.client_id), QuotaEntity(CLIENT_ID, None)
    for user in (QuotaEntity(USER, who.user), QuotaEntity(USER, None)):
        for client_id in client_ids:
            yield client_id, user
        yield (user,)
    for client_id in client_ids:
        yield (client_id,)
