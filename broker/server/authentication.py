"""What a client may do before it has authenticated, and when it must authenticate again.

`Authentication` is one connection of a SASL listener. The shell gives it every frame until `admitted`, and
after that the frames of SaslHandshake and SaslAuthenticate and a look at the time (`serve`) for all others.
It answers with one of four values and touches nothing itself.

| state | accepted | all else |
|---|---|---|
| begin | ApiVersions (a few), SaslHandshake | close without an answer |
| after SaslHandshake 1 | SaslAuthenticate | ILLEGAL_SASL_STATE if it is SASL, else close |
| after SaslHandshake 0 | frames that are bare tokens | close without an answer |
| admitted | everything; SaslHandshake begins re-authentication if the session has an end | |

An API that is not allowed is known by its key: its body is not parsed. The number of frames is bounded by
the table, as every mechanism ends after a fixed number of steps; their size by
``sasl.server.max.receive.size``, and by `SMALL_BYTES_MAX` until a token may be large; the time by `deadline_ms`.

The client learns that its credentials are invalid, and with which mechanism; the reason is in
`Refuse.reason`, for the log.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from struct import Struct as Layout
from typing import Any

from rookery.core.errors import ErrorCode
from rookery.core.security.oauthbearer import OAUTHBEARER
from rookery.core.security.principal import USER, KafkaPrincipal
from rookery.core.security.sasl import Challenge, Done, Failed, Outcome, SaslServer
from rookery.core.wire.api import Api
from rookery.core.wire.apis.api_versions import API_VERSIONS
from rookery.core.wire.apis.sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticateResponse
from rookery.core.wire.apis.sasl_handshake import SASL_HANDSHAKE, SaslHandshakeResponse
from rookery.core.wire.header import response_frame
from rookery.core.wire.primitives import Buffer, WireError
from rookery.core.wire.request_header import read_request_fields

RECEIVE_BYTES_MAX = 524_288
"""Default of ``sasl.server.max.receive.size``."""
SMALL_BYTES_MAX = 65_536
"""Of every request but tokens of OAUTHBEARER: nothing else that is asked before authentication is as large."""
API_VERSIONS_MAX = 4
"""Before SaslHandshake: a client whose version is not known asks again."""
REAUTHENTICATION_INTERVAL_MS = 1000

_KEY = Layout(">h")
_SIZE = Layout(">i")
_SASL: Mapping[int, Api[Any, Any]] = {api.key: api for api in (SASL_HANDSHAKE, SASL_AUTHENTICATE)}


@dataclass(frozen=True, slots=True)
class Serve:
    """Serve the request like any other."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Send this; the exchange goes on."""

    frame: list[Buffer] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Admit:
    """Send this; from the next frame on the client is `principal`."""

    frame: list[Buffer] = field(repr=False)
    principal: KafkaPrincipal
    mechanism: str
    session_lifetime_ms: int
    """0: it does not end."""
    again: bool
    """The client was admitted before: this is re-authentication."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Read nothing more, wait ``connection.failed.authentication.delay.ms``, send the frame if there is one, close."""

    frame: list[Buffer] | None = field(repr=False)
    reason: str
    """For the log. Holds nothing that the client sent."""
    failed: bool = True
    """Whether it counts as a failed authentication; a session that is over does not."""


Decision = Serve | Answer | Admit | Refuse


@dataclass(frozen=True, slots=True)
class AuthenticationSettings:
    mechanisms: Mapping[str, Callable[[], SaslServer]]
    """What the listener offers: how an exchange begins, by the mechanism's name."""
    max_reauth_ms: Mapping[str, int]
    """``connections.max.reauth.ms`` by mechanism; absent or 0: sessions do not end by it."""
    receive_bytes_max: int = RECEIVE_BYTES_MAX
    timeout_ms: int = 10_000
    """From the connection to the end of the first authentication."""


class _State(Enum):
    BEGIN = auto()
    TOKENS = auto()
    RAW_TOKENS = auto()
    ADMITTED = auto()
    CLOSED = auto()


def session_lifetime_ms(max_reauth_ms: int, expires_ms: int | None, wall_ms: int) -> int:
    """How long a session lives (KIP-368); 0: without end.

    A credential that is over, by the skew that clocks may have, gives the shortest life, not an endless one.
    """
    ends = [max_reauth_ms] if max_reauth_ms > 0 else []
    if expires_ms is not None:
        ends.append(max(1, expires_ms - wall_ms))
    return min(ends, default=0)


class Authentication:
    """One connection. `now_ms` is a clock that never jumps; `wall_ms` counts from 1970 and is for
    credentials that end."""

    def __init__(self, settings: AuthenticationSettings, now_ms: int) -> None:
        self.principal: KafkaPrincipal | None = None
        self.session_ends_ms: int | None = None
        self.deadline_ms: int | None = now_ms + settings.timeout_ms
        """Close the connection then; None once the client is admitted."""
        self._settings = settings
        self._state = _State.BEGIN
        self._asked = 0
        self._mechanism = ""
        self._server: SaslServer | None = None
        self._admitted_mechanism = ""
        self._begun_again_ms: int | None = None

    @property
    def admitted(self) -> bool:
        """Whether the client has authenticated; False while it does so again."""
        return self._state is _State.ADMITTED

    @property
    def frame_limit(self) -> int | None:
        """The largest frame to take; None: the listener's own limit."""
        if self.principal is not None:
            return None
        most = self._settings.receive_bytes_max
        return most if self._mechanism == OAUTHBEARER else min(most, SMALL_BYTES_MAX)

    def serve(self, now_ms: int) -> Decision:
        """For a request that is not SASL's, of an admitted client. A session that is over ends here."""
        if not self.admitted:
            return self._close("a request before the end of authentication")
        if self.session_ends_ms is not None and now_ms >= self.session_ends_ms:
            return self._close("the session is over and the client did not authenticate again", failed=False)
        return Serve()

    def received(self, frame: Buffer, now_ms: int, wall_ms: int) -> Decision:
        """One frame, without its size. Any bytes give a decision."""
        if refused := self._out_of_bounds(frame, now_ms):
            return refused
        if self._state is _State.RAW_TOKENS:
            return self._token(bytes(frame), now_ms, wall_ms, None)
        (key,) = _KEY.unpack_from(frame) if len(frame) >= _KEY.size else (-1,)
        api = _SASL.get(key)
        if api is None:
            return self._other(key, now_ms)
        try:
            _, version, correlation, _, body = read_request_fields(frame)
            if not api.min_version <= version <= api.max_version:
                return self._close(f"{api.name} in version {version}")
            request = api.decode_request(version, frame, body)
        except WireError:
            return self._close(f"a malformed {api.name}")
        call = _Call(api, version, correlation)
        if api is SASL_HANDSHAKE:
            return self._handshake(request.mechanism, call, now_ms)
        if self._state is _State.TOKENS:
            return self._token(bytes(request.auth_bytes), now_ms, wall_ms, call)
        if self._state is _State.ADMITTED:
            return Answer(call.illegal())
        return self._close("SaslAuthenticate before SaslHandshake")

    def _out_of_bounds(self, frame: Buffer, now_ms: int) -> Refuse | None:
        if self._state is _State.CLOSED:
            return self._close("a frame after the end")
        if self._state is _State.ADMITTED:
            return None
        if len(frame) > (self.frame_limit or self._settings.receive_bytes_max):
            return self._close(f"a frame of {len(frame)} bytes before authentication")
        if self.deadline_ms is not None and now_ms >= self.deadline_ms:
            return self._close("authentication took too long")
        return None

    # --- requests -----------------------------------------------------------------------------------------------

    def _other(self, key: int, now_ms: int) -> Decision:
        if self._state is _State.ADMITTED:
            return self.serve(now_ms)
        if self._state is _State.BEGIN and key == API_VERSIONS.key and self._asked < API_VERSIONS_MAX:
            self._asked += 1
            return Serve()
        return self._close(f"a request with API key {key} before authentication")

    def _handshake(self, mechanism: str, call: "_Call", now_ms: int) -> Decision:
        if self._state is _State.TOKENS:
            return self._close("SaslHandshake in the middle of authentication", call.illegal())
        if self._state is _State.ADMITTED:
            last = self._begun_again_ms
            if self.session_ends_ms is None or (
                last is not None and now_ms - last < REAUTHENTICATION_INTERVAL_MS
            ):
                return Answer(call.illegal())
            self._begun_again_ms = now_ms
            self.deadline_ms = now_ms + self._settings.timeout_ms
        offered = sorted(self._settings.mechanisms)
        begin = self._settings.mechanisms.get(mechanism)
        if begin is None:
            frame = call.frame(
                SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered)
            )
            return self._close("a SASL mechanism that this listener does not offer", frame)
        self._mechanism = mechanism
        self._server = begin()
        self._state = _State.TOKENS if call.version > 0 else _State.RAW_TOKENS
        return Answer(call.frame(SaslHandshakeResponse(mechanisms=offered)))

    def _token(self, token: bytes, now_ms: int, wall_ms: int, call: "_Call | None") -> Decision:
        assert self._server is not None
        outcome: Outcome
        if self._admitted_mechanism not in ("", self._mechanism):
            outcome = Failed("re-authentication with another mechanism")
        else:
            outcome = self._server.step(token, wall_ms)
        if isinstance(outcome, Done) and self.principal not in (None, KafkaPrincipal(USER, outcome.user)):
            outcome = Failed("re-authentication as another user")
        match outcome:
            case Challenge(message):
                return Answer(_token_frame(call, message, 0))
            case Done():
                return self._admit(outcome, now_ms, wall_ms, call)
            case Failed(reason):
                text = f"Authentication failed: invalid credentials with SASL mechanism {self._mechanism}"
                frame = None if call is None else call.failed(ErrorCode.SASL_AUTHENTICATION_FAILED, text)
                return self._close(reason, frame)

    def _admit(self, done: Done, now_ms: int, wall_ms: int, call: "_Call | None") -> Decision:
        limit = self._settings.max_reauth_ms.get(self._mechanism, 0)
        lifetime = session_lifetime_ms(limit, done.expires_ms, wall_ms)
        again = self.principal is not None
        self.principal = KafkaPrincipal(USER, done.user)
        self.session_ends_ms = now_ms + lifetime if lifetime else None
        self.deadline_ms = None
        self._admitted_mechanism = self._mechanism
        self._server = None
        self._state = _State.ADMITTED
        frame = _token_frame(call, done.message, lifetime)
        return Admit(frame, self.principal, self._mechanism, lifetime, again)

    def _close(self, reason: str, frame: list[Buffer] | None = None, *, failed: bool = True) -> Refuse:
        self._state = _State.CLOSED
        self._server = None
        return Refuse(frame, reason, failed)


@dataclass(frozen=True, slots=True)
class _Call:
    api: Api[Any, Any]
    version: int
    correlation_id: int

    def frame(self, response: Any) -> list[Buffer]:
        return response_frame(self.api, self.version, self.correlation_id, response)

    def failed(self, code: ErrorCode, text: str) -> list[Buffer]:
        if self.api is SASL_HANDSHAKE:
            return self.frame(SaslHandshakeResponse(error_code=code, mechanisms=()))
        return self.frame(SaslAuthenticateResponse(error_code=code, error_message=text, auth_bytes=b""))

    def illegal(self) -> list[Buffer]:
        return self.failed(ErrorCode.ILLEGAL_SASL_STATE, ErrorCode.ILLEGAL_SASL_STATE.text)


def _token_frame(call: _Call | None, token: bytes, lifetime_ms: int) -> list[Buffer]:
    """After SaslHandshake 0 a token is a frame of its own, in one piece: an empty token would be an empty segment."""
    if call is None:
        return [_SIZE.pack(len(token)) + token]
    return call.frame(SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime_ms))
