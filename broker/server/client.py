"""Who is calling, and with what: the part of a connection and of a request that handlers may see."""

from typing import TYPE_CHECKING, Any

from rookery.broker.quotas.client_quotas import QuotaClient
from rookery.broker.server.access import OPEN, Access, Guard
from rookery.core.errors import ErrorCode
from rookery.core.security.principal import ANONYMOUS, KafkaPrincipal
from rookery.core.wire.primitives import Buffer

if TYPE_CHECKING:
    from rookery.broker.server.dispatch import Route
    from rookery.broker.server.pending import Pending


class Client:
    """The other end of one connection."""

    __slots__ = ("_guard", "access", "address", "listener", "principal", "software_name", "software_version")

    def __init__(
        self, listener: str, address: str, principal: KafkaPrincipal = ANONYMOUS, guard: Guard | None = None
    ) -> None:
        self.listener = listener
        """Name of the listener it came in by; decides which advertised addresses it gets."""
        self.address = address
        self._guard = guard
        self.identify(principal)
        self.software_name = "unknown"
        self.software_version = "unknown"

    def identify(self, principal: KafkaPrincipal) -> None:
        """From now on the client is `principal`, with what that one may do."""
        self.principal = principal
        self.access: Access = OPEN if self._guard is None else self._guard.access(principal, self.address)


class Call:
    """One request: what its handler may know of it besides its content."""

    __slots__ = ("client", "client_id", "correlation_id", "route", "version")

    def __init__(
        self, route: "Route", version: int, correlation_id: int, client_id: str | None, client: Client
    ) -> None:
        self.route = route
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.client = client

    @property
    def who(self) -> QuotaClient:
        """Whose quotas it counts for."""
        return QuotaClient(self.client.principal.name, self.client_id or "")

    @property
    def access(self) -> Access:
        """What the caller may do."""
        access = self.client.access
        if access.restricted:
            access.serving(self.route.name)
        return access

    def error(self, code: ErrorCode) -> None:
        """Count an error that the answer will carry."""
        self.route.metrics.error(code.name)


class Awaited:
    """A call whose answer cannot leave yet, with its place in the order of answers."""

    __slots__ = ("call", "handled_at", "pending", "request_size", "segments", "settled_at", "size", "started_at")

    def __init__(self, call: Call, started_at: float, handled_at: float, request_size: int) -> None:
        self.call = call
        self.request_size = request_size
        self.pending: Pending[Any] | None = None
        self.segments: list[Buffer] | None = None
        """The encoded answer, once there is one; empty where none is to be sent."""
        self.size = 0
        self.started_at = started_at
        self.handled_at = handled_at
        self.settled_at = 0.0

    @property
    def can_be_dropped(self) -> bool:
        """Nothing was done yet that the client must be informed of."""
        pending = self.pending
        return pending is not None and pending.blocks and pending.on_abandon is not None

    def ready(self, response: Any) -> None:
        self.segments = []
        if response is not None:
            call = self.call
            self.segments, self.size = call.route.answer(call.version, call.correlation_id, response)

    def times(self, now: float) -> tuple[float, float, float]:
        """Seconds in the handler, until the answer was there, and until it could leave."""
        return self.handled_at - self.started_at, self.settled_at - self.handled_at, now - self.settled_at
