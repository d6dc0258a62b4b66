"""A fetch of a client that may be limited: what it costs, and what it gets if it is held."""

from collections.abc import Callable

from rookery.broker.handlers.fetch_session import NO_SESSION, Session, Sessions
from rookery.broker.quotas.client_quotas import ClientQuotas
from rookery.broker.quotas.precedence import Who
from rookery.core.wire.apis.fetch import FetchRequest, FetchResponse


class FetchAccount:
    """Begins with the request. The time of a fetch that waits is that of its reads."""

    __slots__ = ("_clock", "_quotas", "_sessions", "_since", "_spent_s", "_who")

    def __init__(self, quotas: ClientQuotas, who: Who, sessions: Sessions, clock: Callable[[], float]) -> None:
        self._quotas = quotas
        self._who = who
        self._sessions = sessions
        self._clock = clock
        self._spent_s = 0.0
        self._since = clock()

    def cap(self, request: FetchRequest) -> None:
        """Read no more than the client could get at all."""
        bytes_max = self._quotas.fetch_bytes_max(self._who)
        if bytes_max is not None:
            request.max_bytes = min(request.max_bytes, bytes_max)

    def pause(self) -> None:
        """The fetch waits."""
        self._spent_s += self._clock() - self._since

    def resume(self) -> None:
        self._since = self._clock()

    def settle(self, size: int) -> int:
        """`size` bytes were found: for how many milliseconds the client is held instead of getting them."""
        self.pause()
        return self._quotas.fetched(self._who, size, self._spent_s)

    def held(self, session: Session | None, is_full: bool, delay_ms: int) -> FetchResponse:
        """The answer without any partition. To clients that means, where all were asked for, that there is no
        session; where one goes on, that there is no news."""
        if session is not None and is_full:
            self._sessions.close(session.id)
            session = None
        session_id = session.id if session is not None else NO_SESSION
        return FetchResponse(throttle_time_ms=delay_ms, session_id=session_id, responses=())
