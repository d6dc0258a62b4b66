"""Connections of listeners with TLS or SASL: who the client is comes first, then requests are served.

`SecuredConnection` puts the gate of `authentication.py` in front of what every connection does. Listeners without
TLS and SASL have plain connections, which pay nothing for it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from ssl import SSLContext
from typing import Any

from rookery.broker.server.authentication import (
    Admit,
    Answer,
    Authentication,
    AuthenticationSettings,
    Refuse,
)
from rookery.broker.server.client import Awaited, Call
from rookery.broker.server.connection import Connection, Shared
from rookery.broker.server.tls import ListenerTls
from rookery.core.clock import Timer
from rookery.core.event_logging import get_logger
from rookery.core.metrics import Metrics
from rookery.core.net.tls_listener import Handshake
from rookery.core.security.principal import (
    USER,
    KafkaPrincipal,
    MappingRules,
    PrincipalError,
    certificate_subject,
)
from rookery.core.wire.apis.sasl_authenticate import SASL_AUTHENTICATE
from rookery.core.wire.apis.sasl_handshake import SASL_HANDSHAKE
from rookery.core.wire.primitives import Buffer

SMALL_SEGMENT = 16 * 1024
"""Every segment becomes a TLS record of its own: shorter ones are joined first."""
LAST_ANSWER_S = 0.2
"""Between the answer that authentication failed and the end of the connection: some clients that see both at once
report the end alone."""
_NO_TLS = "the client does not speak TLS: its security.protocol must be SSL or SASL_SSL"
REMEDIES = {
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "HTTP_REQUEST": _NO_TLS,
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust this listener's certificate: look at its trust store",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client refuses this listener's certificate: look at its trust store",
    "CERTIFICATE_VERIFY_FAILED": "the client's certificate is not of an authority in ssl.truststore, or not valid",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "ssl.client.auth=required, and the client has no certificate",
    "UNSUPPORTED_PROTOCOL": "the client's versions of TLS are too old",
    "NO_SHARED_CIPHER": "client and listener have no cipher in common",
}
"""What to look at, by OpenSSL's reason."""
_SASL_KEYS = (SASL_HANDSHAKE.key, SASL_AUTHENTICATE.key)
_METRIC = "kafka_server_socket_server_metrics_"
_log = get_logger("broker.security")


@dataclass(slots=True)
class AuthenticationCounts:
    """Counts of authentications on one listener."""

    succeeded: int = 0
    failed: int = 0
    succeeded_again: int = 0
    failed_again: int = 0
    expired: int = 0
    handshakes_failed: int = 0


@dataclass(frozen=True, slots=True)
class Protection:
    """How one listener is secured."""

    tls: ListenerTls | None = None
    sasl: AuthenticationSettings | None = None
    """None: the client is who its certificate names, or anonymous."""
    rules: MappingRules = field(default_factory=lambda: MappingRules.parse("DEFAULT"))
    failure_delay_s: float = 0.1
    handshake_timeout_s: float = 10.0
    wall_ms: Callable[[], int] = lambda: 0
    counts: AuthenticationCounts = field(default_factory=AuthenticationCounts)


class ListenerAdmission:
    """Takes TLS connections of one listener in, within the limits of the server."""

    def __init__(self, listener: str, protection: Protection, shared: Shared) -> None:
        assert protection.tls is not None
        self._listener = listener
        self._tls = protection.tls
        self._counts = protection.counts
        self._shared = shared
        self.handshake_timeout_s = protection.handshake_timeout_s

    @property
    def context(self) -> SSLContext:
        return self._tls.context

    def admit(self, handshake: Handshake) -> bool:
        shared, address = self._shared, handshake.address
        refusal = self._enter(handshake)
        if refusal is not None:
            shared.sparing.warning("connection.refused", listener=self._listener, peer=address, limit=refusal)
        return refusal is None

    def _enter(self, handshake: Handshake) -> str | None:
        """Limits that occupy no slot are checked first, so that a refused connection closes no other one."""
        shared, address = self._shared, handshake.address
        handshakes = shared.slots.handshakes
        refusal = handshakes.refusal(address)
        if refusal is None and shared.quotas.connections_limited and shared.quotas.connected(address):
            refusal = "connection_creation_rate"
        refusal = refusal or shared.slots.admit(self._listener, address)
        return refusal or handshakes.enter(handshake, address, self._listener, handshake.give_up)

    def done(self, handshake: Handshake) -> None:
        self._shared.slots.handshakes.leave(handshake)

    def failed(self, handshake: Handshake, error: Exception | None) -> None:
        address = handshake.address
        self._shared.slots.handshakes.leave(handshake)
        self._shared.limits.release(address)
        if error is None:
            return
        self._counts.handshakes_failed += 1
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        more = {"todo": REMEDIES[reason]} if reason in REMEDIES else {}
        sparing = self._shared.sparing
        sparing.warning("tls.handshake.failed", listener=self._listener, peer=address, reason=reason, **more)


class SecuredConnection(Connection):
    """The shell around one socket whose client has to authenticate."""

    def __init__(self, shared: Shared, listener: str, protection: Protection) -> None:
        super().__init__(shared, listener)
        self._protection = protection
        self._gate: Authentication | None = None
        self._deadline: Timer | None = None

    # --- the transport's calls ---------------------------------------------------------------------------

    def _begin(self) -> None:
        protection = self._protection
        if protection.sasl is not None:
            if self._is_one_too_many():
                return
            self._gate = Authentication(protection.sasl, self._now_ms())
            self._limit_frames(self._gate)
            self._set_deadline()
        elif self._know_by_certificate():
            self._keep_place()

    def _is_one_too_many(self) -> bool:
        """Whether there are too many unauthenticated connections already; then this one is not served."""
        give_way = partial(self.give_way, "others need its place, and of those that are not known yet it is the oldest")
        refusal = self._shared.slots.unauthenticated.enter(self, self.client.address, self._listener, give_way)
        if refusal is not None:
            self._refuse_connection(refusal)
        return refusal is not None

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        self._shared.slots.unauthenticated.leave(self)
        super().connection_lost(exc)

    def _admit(self, address: str) -> str | None:
        if self._protection.tls is not None:
            return None  # `ListenerAdmission` has counted it
        return self._shared.slots.unauthenticated.refusal(address) or super()._admit(address)

    def _pause_ms(self, address: str) -> int:
        return super()._pause_ms(address) if self._protection.tls is None else 0

    def _know_by_certificate(self) -> bool:
        """False if the certificate gives no user."""
        shown = self._transport.get_extra_info("ssl_object").getpeercert(True)
        counts = self._protection.counts
        if shown is not None:
            try:
                name = self._protection.rules.name(certificate_subject(shown))
            except PrincipalError as error:
                counts.failed += 1
                self._refuse(f"the client's certificate gives no name: {error}")
                return False
            self.client.identify(KafkaPrincipal(USER, name))
        counts.succeeded += 1
        return True

    # --- the gate ----------------------------------------------------------------------------------------

    def _request(self, frame: memoryview, now: float) -> float:
        gate = self._gate
        if gate is None:
            return super()._request(frame, now)
        key = int.from_bytes(frame[:2], "big", signed=True)
        if gate.admitted and key not in _SASL_KEYS:
            if gate.session_ends_ms is None:
                return super()._request(frame, now)
            decision = gate.serve(self._now_ms())
        else:
            decision = gate.received(frame, self._now_ms(), self._protection.wall_ms())
        match decision:
            case Answer(answer):
                self._reply(answer, now)
                self._limit_frames(gate)
                self._set_deadline()
            case Admit(answer):
                if self._admitted(decision):
                    self._reply(answer, now)
            case Refuse():
                self._reject(decision)
            case _:
                return super()._request(frame, now)
        return self._clock()

    def _limit_frames(self, gate: Authentication) -> None:
        limit = gate.frame_limit
        self._frames.limit = self._settings.request_bytes_max if limit is None else limit

    def _admitted(self, admitted: Admit) -> bool:
        """The client is known; false if there is no place for it."""
        if not admitted.again and not self._keep_place():
            return False
        counts = self._protection.counts
        counts.succeeded_again += admitted.again
        counts.succeeded += not admitted.again
        if not admitted.again:
            self.client.identify(admitted.principal)
        self._shared.slots.unauthenticated.leave(self)
        self._frames.limit = self._settings.request_bytes_max
        self._cancel_deadline()
        _log.debug(
            "authentication.succeeded",
            peer=self.client.address,
            listener=self._listener,
            mechanism=admitted.mechanism,
            principal=str(admitted.principal),
        )
        return True

    def _reply(self, segments: list[Buffer], now: float) -> None:
        """Answers that are owed still leave before this one. It counts as SaslAuthenticate's, whose tokens may also
        come as bare frames."""
        size = sum(map(len, segments))
        if not self._queue:
            self._out += segments
            self._unsent += size
            return
        awaited = Awaited(Call(self._dispatch.route(SASL_AUTHENTICATE.key), 0, 0, None, self.client), now, now, 0)
        awaited.segments, awaited.size = segments, size
        self._behind += size
        self._queue.append(awaited)

    def _reject(self, refused: Refuse) -> None:
        """Read nothing more; answer late, to slow down guessing, and close."""
        gate, counts = self._gate, self._protection.counts
        again = gate is not None and gate.principal is not None
        if refused.failed:
            counts.failed_again += again
            counts.failed += not again
            peer, sparing = self.client.address, self._shared.sparing
            sparing.warning("authentication.failed", listener=self._listener, peer=peer, reason=refused.reason)
        else:
            counts.expired += 1
            _log.info("session.expired", peer=self.client.address, listener=self._listener, reason=refused.reason)
        self._cancel_deadline()
        self._flush(self._clock())
        self._set_reading(False)
        self._closed = self._may_be_held = True
        frame = refused.frame or []
        delay_s = self._protection.failure_delay_s if refused.failed else 0.0
        self._resting = self._shared.scheduler.call_later(delay_s, lambda: self._send_refusal(frame))

    def _send_refusal(self, frame: list[Buffer]) -> None:
        self._resting = None
        if not frame:
            self.close()
            return
        self._transport.writelines(frame)
        self._resting = self._shared.scheduler.call_later(LAST_ANSWER_S, self.close)

    # --- deadlines ---------------------------------------------------------------------------------------

    def _set_deadline(self) -> None:
        gate = self._gate
        if gate is None or gate.deadline_ms is None or self._deadline is not None:
            return
        left_s = max(0.0, (gate.deadline_ms - self._now_ms()) / 1000)
        self._deadline = self._shared.scheduler.call_later(left_s, self._too_late)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._deadline = None
        if not self._closed:
            self._protection.counts.failed += 1
            self._refuse("authentication took too long")

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)

    # --- writing -----------------------------------------------------------------------------------------

    def _write(self) -> None:
        if self._protection.tls is not None and len(self._out) > 1:
            self._out = joined(self._out)
        super()._write()


def joined(segments: list[Buffer]) -> list[Buffer]:
    """The same bytes, with runs of short segments in one piece."""
    made: list[Buffer] = []
    run: list[Buffer] = []
    for segment in segments:
        if len(segment) < SMALL_SEGMENT:
            run.append(segment)
            continue
        if run:
            made.append(b"".join(run))
            run = []
        made.append(segment)
    if run:
        made.append(b"".join(run))
    return made


def publish_authentication(metrics: Metrics, protections: dict[str, Protection]) -> None:
    """Kafka's counts of authentications, by listener."""

    def family(name: str, text: str, count: Callable[[AuthenticationCounts], int]) -> None:
        metrics.read(
            _METRIC + name,
            text,
            lambda: [((listener,), count(each.counts)) for listener, each in protections.items()],
            labels=("listener",),
            kind="counter",
        )

    family("successful_authentication", "Clients that authenticated.", lambda each: each.succeeded)
    family("failed_authentication", "Clients that failed to authenticate.", lambda each: each.failed)
    family("successful_reauthentication", "Clients that authenticated again.", lambda each: each.succeeded_again)
    family("failed_reauthentication", "Clients that failed to authenticate again.", lambda each: each.failed_again)
    family("expired_connections_killed", "Sessions that were not renewed.", lambda each: each.expired)
    family("tls_handshake_failed", "TLS handshakes that failed.", lambda each: each.handshakes_failed)


def secured(shared: Shared, listener: str, protection: Protection | None) -> Callable[[], Any]:
    """What makes the connections of a listener."""
    if protection is None:
        return lambda: Connection(shared, listener)
    return lambda: SecuredConnection(shared, listener, protection)
