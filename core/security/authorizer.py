"""What a principal may do, by the rules of Kafka's StandardAuthorizer.

In this order: a super user may do everything; an ACL that denies; an ACL that allows; if ACLs apply to the resource,
but none to this question, no; if no ACL applies to it at all, `allow.everyone.if.no.acl.found` decides.

An ACL applies to a resource of its type with the same name (literal), any name (literal `*`) or a name that begins with
its own (prefixed). It applies to a question of its principal or of everybody (`User:*`), from its host or from all
(`*`), about its operation or all (ALL). To allow READ, WRITE, DELETE or ALTER allows DESCRIBE, too, and ALTER_CONFIGS
allows DESCRIBE_CONFIGS; to deny something denies nothing else.
"""

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from itertools import chain, product, repeat
from typing import NamedTuple, TypeVar

from immutables import Map, MapMutation

from rookery.core.metadata.acl_codes import AclOperation, AclPermission, AclResourceType, PatternType
from rookery.core.metadata.acls import WILDCARD, described
from rookery.core.metadata.image import AccessControlEntry, Changes

K = TypeVar("K")
EVERYBODY = "User:*"
"""As the principal of an ACL: principals of every type."""

EVERYTHING = -1
"""The bits of all operations."""
_IMPLIED: dict[int, int] = {
    **dict.fromkeys(
        (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER), 1 << AclOperation.DESCRIBE
    ),
    AclOperation.ALTER_CONFIGS: 1 << AclOperation.DESCRIBE_CONFIGS,
}
OPERATIONS_OF = {AclResourceType.TOPIC: 3576, AclResourceType.GROUP: 3400, AclResourceType.CLUSTER: 8096}
"""The operations that a type of resource knows, as bits: what `authorized operations` in responses may name."""
_NO_NAME = ""
"""No resource has it, and no pattern but the wildcard applies to it."""


class _Cell(NamedTuple):
    """What one principal at one host is denied and allowed by the ACLs of one pattern. `rules` are (permission,
    operation), each as often as there are ACLs that say so: two ways to write a host are two ACLs."""

    denied: int = 0
    allowed: int = 0
    rules: tuple[tuple[int, int], ...] = ()

    def has(self, permission: int, operation: int) -> bool:
        """By its own words, without what is implied."""
        return (permission, operation) in self.rules or (permission, AclOperation.ALL) in self.rules


def _cell(rules: tuple[tuple[int, int], ...]) -> _Cell:
    denied = allowed = 0
    for permission, operation in rules:
        bits = EVERYTHING if operation == AclOperation.ALL else 1 << operation
        if permission == AclPermission.DENY:
            denied |= bits
        elif permission == AclPermission.ALLOW:
            allowed |= bits | _IMPLIED.get(operation, 0)
    return _Cell(denied, allowed, rules)


Rule = tuple[int, int]
"""Permission and operation."""


def _lengths(prefixes: Iterable[str]) -> tuple[int, ...]:
    return tuple(sorted(set(map(len, prefixes))))


@dataclass(frozen=True, slots=True)
class _Holding:
    """The ACLs of one principal at one host for resources of one type. Its dicts are never changed: they are read
    faster than persistent maps, and a change copies those of one holding."""

    literal: dict[str, _Cell] = field(default_factory=dict)
    prefixed: dict[str, _Cell] = field(default_factory=dict)
    lengths: tuple[int, ...] = ()
    """The lengths that prefixes have, ascending: what applies to a name is found with one look-up for each."""
    totals: Mapping[Rule, int] = field(default_factory=dict)
    """How many ACLs have a rule."""

    def changed(self, steps: "Iterable[_Step]") -> "_Holding":
        literal, prefixed, totals = dict(self.literal), dict(self.prefixed), Counter(self.totals)
        for acl, by in steps:
            cells = prefixed if acl.pattern_type == PatternType.PREFIXED else literal
            rule = (acl.permission_type, acl.operation)
            rules = list(cells.get(acl.resource_name, _NO_CELL).rules)
            if by > 0:
                insort(rules, rule)
            else:
                rules.remove(rule)
            totals[rule] += by
            if rules:
                cells[acl.resource_name] = _cell(tuple(rules))
            else:
                del cells[acl.resource_name]
        lengths = self.lengths if prefixed.keys() == self.prefixed.keys() else _lengths(prefixed)
        return _Holding(literal, prefixed, lengths, dict(+totals))

    def has(self, rule: Rule) -> bool:
        return rule in self.totals or (rule[0], AclOperation.ALL) in self.totals

    def applying(self, name: str) -> list[_Cell]:
        """What applies to the resource `name`."""
        found = []
        cell = self.literal.get(name)
        if cell is not None:
            found.append(cell)
        cell = self.literal.get(WILDCARD)
        if cell is not None and name != WILDCARD:
            found.append(cell)
        size = len(name)
        for length in self.lengths:
            if length > size:
                break
            cell = self.prefixed.get(name[:length])
            if cell is not None:
                found.append(cell)
        return found

    def with_rule(self, rule: Rule) -> "Iterator[_Pattern]":
        """The patterns of ACLs for the operation itself or ALL."""
        if self.has(rule):
            for name, cell in self.literal.items():
                if cell.has(*rule):
                    yield PatternType.LITERAL, name
            for name, cell in self.prefixed.items():
                if cell.has(*rule):
                    yield PatternType.PREFIXED, name


_NOTHING = _Holding()
_NO_CELL = _Cell()
_Holder = tuple[int, str, str]
_Pattern = tuple[int, str]
_Step = tuple[AccessControlEntry, int]
"""An ACL that comes (1) or goes (-1)."""


@dataclass(frozen=True, slots=True)
class AclIndex:
    """All ACLs, found by who asks and what for. A value: a change makes a new one that shares nearly everything."""

    _holdings: Map[_Holder, _Holding] = field(default_factory=Map)
    _named: Map[tuple[int, int, str], int] = field(default_factory=Map)
    """How many ACLs have a resource type, pattern type and name, whoever they are for."""
    _lengths: Map[tuple[int, int], int] = field(default_factory=Map)
    """How many of these are prefixes of a type with a length."""

    @classmethod
    def of(cls, acls: Iterable[AccessControlEntry]) -> "AclIndex":
        return cls().changed((), acls)

    def moved(self, changes: Changes) -> "AclIndex":
        """The index of the next image, where this is that of the image before."""
        if not changes.acls:
            return self
        before, after = changes.before.acls, changes.after.acls
        return self.changed(
            (before[acl_id] for acl_id in changes.acls if acl_id in before),
            (after[acl_id] for acl_id in changes.acls if acl_id in after),
        )

    def changed(self, gone: Iterable[AccessControlEntry], come: Iterable[AccessControlEntry]) -> "AclIndex":
        """Raises ValueError where what goes is not there."""
        steps: dict[_Holder, list[_Step]] = {}
        holdings, named, lengths = self._holdings.mutate(), self._named.mutate(), self._lengths.mutate()
        for acl, by in chain(zip(gone, repeat(-1)), zip(come, repeat(1))):
            steps.setdefault(_holder(acl), []).append((acl, by))
            _count(named, (acl.resource_type, acl.pattern_type, acl.resource_name), by)
            if acl.pattern_type == PatternType.PREFIXED:
                _count(lengths, (acl.resource_type, len(acl.resource_name)), by)
        for holder, mine in steps.items():
            holding = holdings.get(holder, _NOTHING).changed(mine)
            if holding.totals:
                holdings[holder] = holding
            else:
                holdings.pop(holder, None)
        return AclIndex(holdings.finish(), named.finish(), lengths.finish())

    def names(self, type: int, name: str) -> bool:
        """Whether any ACL applies to the resource, whoever it is for."""
        named = self._named
        if (type, PatternType.LITERAL, name) in named or (type, PatternType.LITERAL, WILDCARD) in named:
            return True
        size = len(name)  # clients choose it: what is looked up does not grow with it
        return any(
            (type, PatternType.PREFIXED, name[:length]) in named
            for prefixed, length in self._lengths
            if prefixed == type and length <= size
        )

    def holdings(self, type: int, principal: str, host: str) -> list[_Holding]:
        """What applies to `principal` at `host`, whatever the resource."""
        get = self._holdings.get
        found = [
            get((type, principal, host)),
            get((type, principal, WILDCARD)),
            get((type, EVERYBODY, host)),
            get((type, EVERYBODY, WILDCARD)),
        ]
        return [holding for holding in found if holding is not None]

    def acls(self, type: int, principal: str, host: str, name: str) -> Iterator[AccessControlEntry]:
        """What applies to `principal` at `host` and the resource, with hosts in their one form."""
        for who, where in product((principal, EVERYBODY), (host, WILDCARD)):
            held = self._holdings.get((type, who, where), _NOTHING)
            found = [(PatternType.LITERAL, each, held.literal.get(each)) for each in (name, WILDCARD)]
            prefixes = [name[:length] for length in held.lengths]
            found += [(PatternType.PREFIXED, each, held.prefixed.get(each)) for each in prefixes]
            for pattern, resource, cell in found:
                for permission, operation in () if cell is None else cell.rules:
                    yield AccessControlEntry(type, resource, pattern, who, where, operation, permission)


def _count(counts: MapMutation[K, int], key: K, by: int) -> None:
    total = counts.get(key, 0) + by
    if total:
        counts[key] = total
    else:
        del counts[key]


def _holder(acl: AccessControlEntry) -> _Holder:
    return acl.resource_type, acl.principal, host_of(acl.host)


@lru_cache(maxsize=4096)
def host_of(text: str) -> str:
    """The one form of an address, however it is written: Java writes IPv6 in full, a socket for both protocols shows
    IPv4 as IPv6. The zone of a link-local address does not count. What is no address stays as it is."""
    try:
        address = ip_address(text.partition("%")[0] if ":" in text else text)
    except ValueError:
        return text
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


def super_users(text: str) -> frozenset[str]:
    """The principals of `super.users`, which semicolons separate; raises ValueError for one without a type."""
    users = frozenset(user for part in text.split(";") if (user := part.strip()))
    for user in users:
        type, colon, name = user.partition(":")
        if not (type and colon and name):
            raise ValueError(f"super.users names {user!r}; a principal has a type and a name, like User:admin")
    return users


class Verdict(NamedTuple):
    """An answer with its reason, for the log."""

    allowed: bool
    rule: str


@dataclass(frozen=True, slots=True)
class Authorizer:
    """Answers by one state of the ACLs. Operations and types are Kafka's codes; a host is the peer's address."""

    index: AclIndex = field(default_factory=AclIndex)
    super_users: frozenset[str] = frozenset()
    allow_everyone: bool = False
    """`allow.everyone.if.no.acl.found`"""

    def granted(self, principal: str, host: str, type: int, name: str) -> int:
        """All operations that `principal` may do with the resource, as bits."""
        if principal in self.super_users:
            return EVERYTHING
        cells: list[_Cell] = []
        for holding in self.index.holdings(type, principal, host_of(host)):
            cells += holding.applying(name)
        if not cells:
            return EVERYTHING if self.allow_everyone and not self.index.names(type, name) else 0
        denied = allowed = 0
        for cell in cells:
            denied |= cell.denied
            allowed |= cell.allowed
        return allowed & ~denied

    def allows(self, principal: str, host: str, operation: int, type: int, name: str) -> bool:
        return bool(self.granted(principal, host, type, name) >> operation & 1)

    def allows_any(self, principal: str, host: str, operation: int, type: int) -> bool:
        """Whether there can be a resource of the type with which `principal` may do this. Only ACLs for the operation
        itself or ALL count, except that the wildcard may imply it."""
        if self.allows(principal, host, operation, type, _NO_NAME):
            return True
        holdings = self.index.holdings(type, principal, host_of(host))
        allowing, denying = (AclPermission.ALLOW, operation), (AclPermission.DENY, operation)
        if not any(held.has(denying) for held in holdings):
            return any(held.has(allowing) for held in holdings)
        denied = {pattern for held in holdings for pattern in held.with_rule(denying)}
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(not _covered(pattern, denied) for held in holdings for pattern in held.with_rule(allowing))

    def explain(self, principal: str, host: str, operation: int, type: int, name: str) -> Verdict:
        """What `allows` answers, and why: for what is logged."""
        allowed = self.allows(principal, host, operation, type, name)
        if principal in self.super_users:
            return Verdict(allowed, "SuperUser")
        permission = AclPermission.ALLOW if allowed else AclPermission.DENY
        for acl in self.index.acls(type, principal, host_of(host), name):
            cell = _cell(((acl.permission_type, acl.operation),))
            if acl.permission_type == permission and (cell.allowed | cell.denied) >> operation & 1:
                return Verdict(allowed, described(acl))
        return Verdict(allowed, "DefaultAllow" if allowed else "DefaultDeny")


def _covered(pattern: _Pattern, denied: set[_Pattern]) -> bool:
    """Whether all that an ACL with this pattern allows is denied."""
    type, name = pattern
    if type == PatternType.LITERAL and pattern in denied:
        return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))
