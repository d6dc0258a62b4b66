"""Access control lists: the meaning of an ACL, and which ACLs a filter finds.

An ACL is an `AccessControlEntry` of the image. Its codes are Kafka's. What ACLs allow is core/security/authorizer.py's
business.
"""

import json
from dataclasses import astuple, dataclass
from enum import IntEnum
from uuid import UUID, uuid5

from rookery.core.errors import InvalidRequestError
from rookery.core.metadata.acl_codes import (
    CLUSTER_NAME,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from rookery.core.metadata.image import AccessControlEntry

WILDCARD = "*"
"""As the name of a literal pattern: all resources of the type. As a host: all hosts."""


_IN_ACLS: tuple[tuple[str, type[IntEnum], frozenset[int]], ...] = (
    ("resource_type", AclResourceType, frozenset(AclResourceType) - {0, 1}),
    ("pattern_type", PatternType, frozenset({PatternType.LITERAL, PatternType.PREFIXED})),
    ("operation", AclOperation, frozenset(AclOperation) - {0, 1}),
    ("permission_type", AclPermission, frozenset({AclPermission.DENY, AclPermission.ALLOW})),
)
"""The codes of an ACL by field, and which of them an ACL may have. A filter may have all but UNKNOWN."""


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Which ACLs are meant. None and the codes ANY stand for everything."""

    resource_type: int = AclResourceType.ANY
    resource_name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = AclOperation.ANY
    permission_type: int = AclPermission.ANY

    @property
    def exact(self) -> AccessControlEntry | None:
        """The only ACL that it can find; None where there may be several."""
        if self.resource_name is None or self.principal is None or self.host is None:
            return None
        if any(getattr(self, field) not in allowed for field, _, allowed in _IN_ACLS):
            return None
        return AccessControlEntry(
            self.resource_type,
            self.resource_name,
            self.pattern_type,
            self.principal,
            self.host,
            self.operation,
            self.permission_type,
        )

    def matches(self, acl: AccessControlEntry) -> bool:
        return (
            self.resource_type in (AclResourceType.ANY, acl.resource_type)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission_type in (AclPermission.ANY, acl.permission_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self._matches_pattern(acl.pattern_type, acl.resource_name)
        )

    def _matches_pattern(self, pattern_type: int, name: str) -> bool:
        if self.pattern_type == PatternType.MATCH and self.resource_name is not None:
            return applies(pattern_type, name, self.resource_name)
        right_type = self.pattern_type in (PatternType.ANY, PatternType.MATCH, pattern_type)
        return right_type and self.resource_name in (None, name)


def applies(pattern_type: int, pattern: str, name: str) -> bool:
    """Whether a pattern applies to the resource `name`."""
    if pattern_type == PatternType.PREFIXED:
        return name.startswith(pattern)
    return pattern in (name, WILDCARD)


def check_acl(acl: AccessControlEntry) -> None:
    """Raises INVALID_REQUEST for an ACL that cannot be."""
    for field, codes, allowed in _IN_ACLS:
        code = getattr(acl, field)
        if code not in allowed:
            names = ", ".join(codes(each).name for each in sorted(allowed))
            raise InvalidRequestError(f"{field} {_name(codes, code)} cannot stand in an ACL; use one of {names}")
    if not acl.resource_name:
        raise InvalidRequestError("the name of the resource is empty")
    if acl.resource_type == AclResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise InvalidRequestError(f"the cluster is called {CLUSTER_NAME}, not {acl.resource_name!r}")
    if ":" not in acl.principal:
        raise InvalidRequestError(f"principal {acl.principal!r} has no type; write User:{acl.principal}")


def check_filter(wanted: AclFilter) -> None:
    """Raises INVALID_REQUEST for a filter with codes that this release does not know."""
    for field, codes, allowed in _IN_ACLS:
        code = getattr(wanted, field)
        also = {PatternType.ANY, PatternType.MATCH} if codes is PatternType else {1}
        if code not in allowed | also:
            raise InvalidRequestError(f"the filter's {field} {_name(codes, code)} is not known")


def id_of(acl: AccessControlEntry) -> UUID:
    """The id under which an ACL is kept. It follows from the content: an ACL is there or not, never twice."""
    return uuid5(_IDS, json.dumps(astuple(acl)))


_IDS = UUID("9f0f77c2-6c0b-4c4b-9a52-4f5d6ad1a0b7")


def described(acl: AccessControlEntry) -> str:
    """An ACL for people, as logs show it."""
    return (
        f"{_name(AclPermission, acl.permission_type)} {acl.principal} from {acl.host} "
        f"{_name(AclOperation, acl.operation)} on {_name(AclResourceType, acl.resource_type)}:"
        f"{_name(PatternType, acl.pattern_type)}:{acl.resource_name}"
    )


def _name(codes: type[IntEnum], code: int) -> str:
    try:
        return codes(code).name
    except ValueError:
        return str(code)
