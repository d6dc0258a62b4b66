"""Before authentication a connection can do nothing but say who it is, in few small frames and a short time."""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.broker.server.authentication import (
    API_VERSIONS_MAX,
    Admit,
    Answer,
    Authentication,
    AuthenticationSettings,
    Decision,
    Refuse,
    Serve,
    session_lifetime_ms,
)
from rookery.core.errors import ErrorCode
from rookery.core.security.principal import KafkaPrincipal
from rookery.core.security.sasl import Done, Outcome, PlainClient, PlainServer, PlainUsers
from rookery.core.security.scram import Decoys, ScramClient, ScramCredential, ScramMechanism, ScramServer
from rookery.core.wire.api import Api
from rookery.core.wire.apis.api_versions import API_VERSIONS, ApiVersionsRequest
from rookery.core.wire.apis.metadata import METADATA
from rookery.core.wire.apis.produce import PRODUCE
from rookery.core.wire.apis.sasl_authenticate import (
    SASL_AUTHENTICATE,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from rookery.core.wire.apis.sasl_handshake import SASL_HANDSHAKE, SaslHandshakeRequest, SaslHandshakeResponse
from rookery.core.wire.header import read_response_header, request_frame

SHA256 = ScramMechanism.SCRAM_SHA_256
PASSWORD = "alices-password"
USERS = PlainUsers.of({"alice": PASSWORD, "bob": "bobs-password"})
CREDENTIAL = ScramCredential.of_password(SHA256, PASSWORD, b"salt of alice")
WALL_MS = 1_800_000_000_000


@dataclass
class EndingLogin:
    """A mechanism whose credentials end; the token is the user's name."""

    expires_ms: int
    mechanism: str = "ENDING"

    def step(self, message: bytes, wall_ms: int) -> Outcome:
        return Done(message.decode(), expires_ms=self.expires_ms)


def settings(**reauth: int) -> AuthenticationSettings:
    def scram() -> ScramServer:
        return ScramServer(SHA256, {"alice": CREDENTIAL}.get, Decoys(b"secret"), "nonce")

    return AuthenticationSettings(
        {
            "PLAIN": lambda: PlainServer(USERS),
            "SCRAM-SHA-256": scram,
            "ENDING": lambda: EndingLogin(WALL_MS + 60_000),
        },
        reauth,
    )


@dataclass
class Talk:
    """A client at a connection of its own."""

    settings: AuthenticationSettings = field(default_factory=settings)
    now_ms: int = 1000

    def __post_init__(self) -> None:
        self.gate = Authentication(self.settings, self.now_ms)

    def raw(self, frame: bytes) -> Decision:
        return self.gate.received(frame, self.now_ms, WALL_MS + self.now_ms)

    def send(self, api: Api[Any, Any], version: int, request: Any) -> Decision:
        return self.raw(b"".join(request_frame(api, version, 7, "client", request))[4:])

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Decision:
        return self.send(SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism=mechanism))

    def token(self, token: bytes, version: int = 2) -> Decision:
        return self.send(SASL_AUTHENTICATE, version, SaslAuthenticateRequest(auth_bytes=token))

    def api_versions(self) -> Decision:
        return self.send(
            API_VERSIONS, 3, ApiVersionsRequest(client_software_name="x", client_software_version="1")
        )

    def log_in(
        self, mechanism: str = "PLAIN", token: bytes = PlainClient("alice", PASSWORD).first()
    ) -> Admit:
        assert isinstance(self.handshake(mechanism), Answer)
        admitted = self.token(token)
        assert isinstance(admitted, Admit)
        return admitted


def decoded(api: Api[Any, Any], version: int, decision: Decision) -> Any:
    assert isinstance(decision, Answer | Admit | Refuse)
    assert decision.frame is not None
    frame = b"".join(decision.frame)
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
    correlation, at = read_response_header(api, version, frame[4:])
    assert correlation == 7
    return api.decode_response(version, frame[4:], at)


def handshaken(decision: Decision) -> SaslHandshakeResponse:
    found: SaslHandshakeResponse = decoded(SASL_HANDSHAKE, 1, decision)
    return found


def authenticated(decision: Decision, version: int = 2) -> SaslAuthenticateResponse:
    found: SaslAuthenticateResponse = decoded(SASL_AUTHENTICATE, version, decision)
    return found


def silent(decision: Decision) -> bool:
    return isinstance(decision, Refuse) and decision.frame is None


# --- the way in -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2])
def test_plain(version: int) -> None:
    talk = Talk()
    assert talk.api_versions() == Serve()
    answer = handshaken(talk.handshake())
    assert (answer.error_code, list(answer.mechanisms)) == (0, ["ENDING", "PLAIN", "SCRAM-SHA-256"])
    admit = talk.token(PlainClient("alice", PASSWORD).first(), version)

    assert isinstance(admit, Admit)
    assert (admit.principal, admit.mechanism, admit.session_lifetime_ms, admit.again) == (
        KafkaPrincipal("User", "alice"), "PLAIN", 0, False,
    )  # fmt: skip
    assert authenticated(admit, version).error_code == 0
    assert talk.gate.admitted
    assert talk.gate.deadline_ms is None
    assert talk.gate.serve(10**12) == Serve()


def test_scram() -> None:
    talk, client = Talk(), ScramClient(SHA256, "alice", PASSWORD, "client")
    talk.handshake("SCRAM-SHA-256")
    challenge = talk.token(client.first())
    assert repr(challenge) == "Answer()"
    final = client.step(bytes(authenticated(challenge).auth_bytes))
    assert final is not None
    assert not talk.gate.admitted
    admit = talk.token(final)

    assert isinstance(admit, Admit)
    assert client.step(bytes(authenticated(admit).auth_bytes)) is None


def test_tokens_of_old_clients_are_frames_of_their_own() -> None:
    talk, client = Talk(), ScramClient(SHA256, "alice", PASSWORD, "client")
    talk.handshake("SCRAM-SHA-256", version=0)

    def content(decision: Decision) -> bytes:
        assert isinstance(decision, Answer | Admit)
        frame = b"".join(decision.frame)
        assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
        return frame[4:]

    final = client.step(content(talk.raw(client.first())))
    assert final is not None
    assert client.step(content(talk.raw(final))) is None
    assert talk.gate.admitted


def test_an_empty_token_of_an_old_client_is_no_empty_segment() -> None:
    """The transports of asyncio since Python 3.12 never finish writing when the last segment is empty."""
    talk = Talk()
    talk.handshake(version=0)
    admit = talk.raw(PlainClient("alice", PASSWORD).first())

    assert isinstance(admit, Admit)
    assert [bytes(segment) for segment in admit.frame] == [bytes(4)]


# --- refusals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("user", ["alice", "nobody"])
@pytest.mark.attack(15, 16)
def test_a_wrong_password_is_an_error_that_reveals_nothing(user: str) -> None:
    talk = Talk()
    talk.handshake()
    refuse = talk.token(PlainClient(user, "wrong-password").first())

    assert isinstance(refuse, Refuse)
    assert refuse.failed
    answer = authenticated(refuse)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Authentication failed: invalid credentials with SASL mechanism PLAIN"
    assert "wrong-password" not in repr(refuse)
    assert user not in refuse.reason


def test_after_a_refusal_nothing_is_served() -> None:
    talk = Talk()
    talk.handshake()
    talk.token(b"wrong")

    assert silent(talk.raw(struct.pack(">hhih", PRODUCE.key, 9, 1, -1)))
    assert silent(talk.token(PlainClient("alice", PASSWORD).first()))
    assert isinstance(talk.gate.serve(talk.now_ms), Refuse)


@pytest.mark.parametrize("key", [METADATA.key, PRODUCE.key, 999, -1])
@pytest.mark.attack(1, 12)
def test_other_requests_are_not_answered_and_not_parsed(key: int) -> None:
    for prepare in (lambda _: None, Talk.api_versions, Talk.handshake):
        talk = Talk()
        prepare(talk)
        assert silent(talk.raw(struct.pack(">h", key) + b"\xff" * 100))


@pytest.mark.attack(2)
def test_sasl_authenticate_first_is_not_answered() -> None:
    assert silent(Talk().token(PlainClient("alice", PASSWORD).first()))


@pytest.mark.attack(3)
def test_the_versions_can_be_asked_again_a_few_times() -> None:
    talk = Talk()
    for _ in range(API_VERSIONS_MAX):
        assert talk.api_versions() == Serve()
    assert silent(talk.api_versions())

    again = Talk()
    again.handshake()
    assert silent(again.api_versions())


@pytest.mark.parametrize("mechanism", ["GSSAPI", "OAUTHBEARER", "plain", "", "x" * 1000])
@pytest.mark.attack(26)
def test_a_mechanism_that_is_off_is_answered_by_those_that_are_on(mechanism: str) -> None:
    refuse = Talk().handshake(mechanism)

    assert isinstance(refuse, Refuse)
    assert handshaken(refuse).error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert list(handshaken(refuse).mechanisms) == ["ENDING", "PLAIN", "SCRAM-SHA-256"]


def test_a_second_handshake_in_the_middle_is_illegal() -> None:
    talk = Talk()
    talk.handshake()

    refuse = talk.handshake()
    assert isinstance(refuse, Refuse)
    assert handshaken(refuse).error_code == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.attack(25)
def test_requests_after_an_old_handshake_are_tokens_and_fail_without_an_answer() -> None:
    talk = Talk()
    talk.handshake(version=0)

    assert silent(talk.api_versions())


@pytest.mark.attack(4, 6)
def test_large_frames_and_late_ones_are_refused() -> None:
    talk = Talk()
    assert talk.gate.frame_limit == 65_536
    assert silent(talk.raw(bytes(65_537)))
    talk = Talk()
    talk.handshake()
    assert talk.gate.frame_limit == 65_536, "no password is as long"

    late = Talk()
    late.handshake()
    late.now_ms += 10_000
    assert late.gate.deadline_ms == late.now_ms
    assert silent(late.token(PlainClient("alice", PASSWORD).first()))


@pytest.mark.attack(4)
def test_only_a_token_may_be_large() -> None:
    offered = {"OAUTHBEARER": lambda: PlainServer(PlainUsers.of({}))}
    gate = Authentication(AuthenticationSettings(offered, {}), 0)
    assert gate.frame_limit == 65_536
    asked = request_frame(SASL_HANDSHAKE, 1, 1, "t", SaslHandshakeRequest(mechanism="OAUTHBEARER"))
    assert isinstance(gate.received(b"".join(map(bytes, asked))[4:], 0, 0), Answer)
    assert gate.frame_limit == 524_288
    assert gate.received(bytes(524_289), 0, 0) == Refuse(None, "a frame of 524289 bytes before authentication")


@pytest.mark.parametrize("version", [-1, 2, 3, 99])
def test_unknown_versions_of_the_handshake_are_not_answered(version: int) -> None:
    assert silent(Talk().raw(struct.pack(">hhih", SASL_HANDSHAKE.key, version, 1, -1) + b"\0\5PLAIN"))


# --- after admission --------------------------------------------------------------------------------------------


def test_the_limit_of_frames_is_the_listeners_once_admitted() -> None:
    talk = Talk()
    talk.log_in()

    assert talk.gate.frame_limit is None
    assert talk.raw(struct.pack(">h", PRODUCE.key) + bytes(1_000_000)) == Serve()


def test_without_an_end_there_is_no_second_authentication() -> None:
    talk = Talk()
    talk.log_in()

    assert handshaken(talk.handshake()).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert authenticated(talk.token(b"")).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert talk.gate.serve(talk.now_ms) == Serve()


@pytest.mark.attack(28)
def test_a_session_ends_with_its_next_request() -> None:
    talk = Talk(settings(PLAIN=5000))
    admit = talk.log_in()
    assert admit.session_lifetime_ms == authenticated(admit).session_lifetime_ms == 5000
    talk.now_ms += 4999
    assert talk.gate.serve(talk.now_ms) == Serve()
    talk.now_ms += 1

    refuse = talk.gate.serve(talk.now_ms)
    assert isinstance(refuse, Refuse)
    assert not refuse.failed


def test_authenticating_again_gives_a_new_session_even_after_the_end() -> None:
    talk = Talk(settings(PLAIN=5000))
    talk.log_in()
    talk.now_ms += 6000
    admit = talk.log_in()

    assert admit.again
    talk.now_ms += 4000
    assert talk.gate.serve(talk.now_ms) == Serve()
    assert talk.gate.deadline_ms is None


def test_in_the_middle_of_authenticating_again_nothing_else_is_served() -> None:
    talk = Talk(settings(PLAIN=5000))
    talk.log_in()
    talk.handshake()

    assert not talk.gate.admitted
    assert silent(talk.raw(struct.pack(">hhih", PRODUCE.key, 9, 1, -1)))


@pytest.mark.attack(27)
def test_authenticating_again_is_allowed_once_a_second() -> None:
    talk = Talk(settings(PLAIN=5000))
    talk.log_in()
    talk.log_in()
    talk.now_ms += 999
    assert handshaken(talk.handshake()).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert talk.gate.admitted
    talk.now_ms += 1
    talk.log_in()


@pytest.mark.parametrize(
    ("mechanism", "token"),
    [
        ("PLAIN", PlainClient("bob", "bobs-password").first()),
        ("ENDING", b"alice"),
        ("PLAIN", b"\0alice\0wrong"),
    ],
)
@pytest.mark.attack(27)
def test_authenticating_again_as_another_or_otherwise_fails(mechanism: str, token: bytes) -> None:
    talk = Talk(settings(PLAIN=5000))
    talk.log_in()
    assert handshaken(talk.handshake(mechanism)).error_code == 0
    refuse = talk.token(token)

    assert isinstance(refuse, Refuse)
    assert authenticated(refuse).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert talk.gate.principal == KafkaPrincipal("User", "alice")
    assert isinstance(talk.gate.serve(talk.now_ms), Refuse)


def test_a_session_lives_no_longer_than_its_credential() -> None:
    assert Talk(now_ms=0).log_in("ENDING", b"alice").session_lifetime_ms == 60_000
    assert Talk(settings(ENDING=5000), now_ms=0).log_in("ENDING", b"alice").session_lifetime_ms == 5000


@pytest.mark.parametrize(
    ("limit", "expires", "lifetime"),
    [(0, None, 0), (5, None, 5), (0, 107, 7), (5, 107, 5), (9, 107, 7), (0, 100, 1), (5, 90, 1)],
)
def test_the_life_of_a_session(limit: int, expires: int | None, lifetime: int) -> None:
    assert session_lifetime_ms(limit, expires, 100) == lifetime


# --- anything ---------------------------------------------------------------------------------------------------


def mutate(random: Random, frame: bytes) -> bytes:
    data = bytearray(frame)
    for _ in range(random.randrange(3)):
        if data:
            data[random.randrange(len(data))] = random.choice((0, 1, 17, 36, 127, 255, random.randrange(256)))
    if random.random() < 0.2:
        del data[random.randrange(len(data) + 1) :]
    return bytes(data)


def frames() -> list[Callable[[], bytes]]:
    def of(api: Api[Any, Any], version: int, request: Any) -> bytes:
        return b"".join(request_frame(api, version, 7, "c", request))[4:]

    scram = ScramClient(SHA256, "alice", "guess", "n").first()
    return [
        lambda: of(SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN")),
        lambda: of(SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="SCRAM-SHA-256")),
        lambda: of(SASL_HANDSHAKE, 0, SaslHandshakeRequest(mechanism="SCRAM-SHA-256")),
        lambda: of(SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=scram)),
        lambda: of(SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=b"\0alice\0guess")),
        lambda: of(API_VERSIONS, 3, ApiVersionsRequest()),
        lambda: scram,
    ]


@given(st.integers(0, 2**32))
def test_whatever_a_stranger_sends_ends_soon_and_lets_nobody_in(seed: int) -> None:
    random = Random(seed)
    talk = Talk()
    made = frames()
    for _ in range(API_VERSIONS_MAX + 8):
        decision = talk.raw(mutate(random, random.choice(made)()))
        assert isinstance(decision, Serve | Answer | Refuse)
        assert not talk.gate.admitted
        assert "guess" not in repr(decision)
        if isinstance(decision, Refuse):
            return
    pytest.fail("a stranger is still connected")


@given(st.binary(max_size=64))
def test_any_bytes_give_a_decision(frame: bytes) -> None:
    for prepare in (lambda _: None, Talk.handshake):
        talk = Talk()
        prepare(talk)
        assert isinstance(talk.raw(frame), Serve | Answer | Refuse)
