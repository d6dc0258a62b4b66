"""What the client of a connection may do.

Every connection has an `Access`. Without an authorizer it is `OPEN`, one for all, which allows everything and keeps
nothing. With one it is a `CheckedAccess` of its own: it keeps what its principal may do with each resource until the
ACLs change, so that a request that repeats itself asks a dict.

`allowed` is for what a client asks for: a denial is counted and logged. `shows` is for what an answer leaves out.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from rookery.core.metadata.acl_codes import CLUSTER_NAME, AclResourceType
from rookery.core.metadata.image import Changes
from rookery.core.security.authorizer import OPERATIONS_OF, Authorizer
from rookery.core.security.principal import KafkaPrincipal

CACHED_MAX = 10_000
"""Resources of which a connection keeps the answer; then it begins anew."""
KEPT_NAME_MAX = 1000
"""Longer names, which clients choose, are not kept."""

TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
TRANSACTIONAL_ID = AclResourceType.TRANSACTIONAL_ID


class Access:
    """Everything is allowed."""

    __slots__ = ()
    restricted = False
    """False: nothing is ever denied, so a handler need not ask for each resource."""

    def allowed(self, operation: int, type: int, name: str) -> bool:
        """Whether the client may do this. A denial is logged."""
        return True

    def shows(self, operation: int, type: int, name: str) -> bool:
        """The same, where what may not be seen is left out in silence."""
        return True

    def allowed_somewhere(self, operation: int, type: int) -> bool:
        """Whether there can be a resource of the type with which the client may do this."""
        return True

    def operations(self, type: AclResourceType, name: str) -> int:
        """What the client may do, as the bits of `authorized operations` in responses."""
        return OPERATIONS_OF[type]

    def topic(self, operation: int, name: str) -> bool:
        return self.allowed(operation, TOPIC, name)

    def knows_topic(self, bit: int, name: str) -> bool:
        """Whether it is known already that the client may do `bit`, 1 << operation, with a topic; if not, `topic`
        decides. For requests of which every tenth of a microsecond counts."""
        return True

    def group(self, operation: int, name: str) -> bool:
        return self.allowed(operation, GROUP, name)

    def transactional_id(self, operation: int, name: str) -> bool:
        return self.allowed(operation, TRANSACTIONAL_ID, name)

    def cluster(self, operation: int) -> bool:
        return self.allowed(operation, CLUSTER, CLUSTER_NAME)

    @property
    def version(self) -> object:
        """Another object when answers may have changed, and for another client; for those who keep answers."""
        return None

    def serving(self, api: str) -> None:
        """A request of this API asks next; for the log."""


OPEN = Access()


@dataclass(frozen=True, slots=True)
class Denial:
    """Who was denied what."""

    principal: str
    host: str
    operation: int
    type: int
    name: str
    api: str
    authorizer: Authorizer
    """Which decided it, and can explain it."""


class Guard:
    """The authorizer of a broker, which all its connections share."""

    def __init__(self, authorizer: Authorizer, on_denied: Callable[[Denial], None] = lambda denial: None) -> None:
        self.authorizer = authorizer
        """Another object whenever the ACLs have changed."""
        self._on_denied = on_denied
        self.acls = 0
        """How many there are."""
        self.allowed = 0
        self.denied = 0

    def on_changes(self, changes: Changes) -> None:
        """The image has changed."""
        if changes.acls:
            self.acls = len(changes.after.acls)
            self.authorizer = replace(self.authorizer, index=self.authorizer.index.moved(changes))

    def access(self, principal: KafkaPrincipal, host: str) -> Access:
        return CheckedAccess(self, str(principal), host)

    def deny(self, denial: Denial) -> None:
        self.denied += 1
        self._on_denied(denial)


class CheckedAccess(Access):
    """What one principal at one host may do."""

    __slots__ = ("_api", "_authorizer", "_granted", "_guard", "_host", "_principal", "_topics", "_version", "cached")
    restricted = True

    def __init__(self, guard: Guard, principal: str, host: str) -> None:
        self._guard = guard
        self._principal = principal
        self._host = host
        self._api = ""
        self._forget(guard.authorizer)

    def _forget(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._version = object()
        self._granted: dict[int, dict[str, int]] = {type: {} for type in AclResourceType}
        self._topics = self._granted[TOPIC]
        self.cached = 0

    def serving(self, api: str) -> None:
        self._api = api

    @property
    def version(self) -> object:
        if self._authorizer is not self._guard.authorizer:
            self._forget(self._guard.authorizer)
        return self._version

    def allowed(self, operation: int, type: int, name: str) -> bool:
        guard = self._guard
        if self._authorizer is guard.authorizer:
            granted = self._granted[type].get(name)
            if granted is None:
                granted = self._ask(type, name)
        else:
            granted = self._ask(type, name)
        if granted >> operation & 1:
            guard.allowed += 1
            return True
        guard.deny(Denial(self._principal, self._host, operation, type, name, self._api, self._authorizer))
        return False

    def knows_topic(self, bit: int, name: str) -> bool:
        guard = self._guard
        if self._authorizer is guard.authorizer and self._topics.get(name, 0) & bit:
            guard.allowed += 1
            return True
        return False

    def shows(self, operation: int, type: int, name: str) -> bool:
        return bool(self._of(type, name) >> operation & 1)

    def allowed_somewhere(self, operation: int, type: int) -> bool:
        return self._guard.authorizer.allows_any(self._principal, self._host, operation, type)

    def operations(self, type: AclResourceType, name: str) -> int:
        return self._of(type, name) & OPERATIONS_OF[type]

    def _of(self, type: int, name: str) -> int:
        granted = self._granted[type].get(name) if self._authorizer is self._guard.authorizer else None
        return self._ask(type, name) if granted is None else granted

    def _ask(self, type: int, name: str) -> int:
        authorizer = self._guard.authorizer
        if authorizer is not self._authorizer or self.cached >= CACHED_MAX:
            self._forget(authorizer)
        granted = authorizer.granted(self._principal, self._host, type, name)
        if len(name) <= KEPT_NAME_MAX:
            self._granted[type][name] = granted
            self.cached += 1
        return granted
