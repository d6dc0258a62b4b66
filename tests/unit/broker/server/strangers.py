"""What strangers send before anybody knows them: mutated logins, through the cores that have to bear them.

A case is one mutated frame. It goes through the framing to the gate of a connection, and from there to PLAIN, SCRAM
or OAUTHBEARER. Logins that would succeed are mutated too: who gets in must have sent the whole secret.
"""

import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any

from rookery.broker.server.authentication import (
    API_VERSIONS_MAX,
    Admit,
    Answer,
    Authentication,
    AuthenticationSettings,
    Refuse,
    Serve,
)
from rookery.core.security.oauthbearer import OAuthBearerClient, OAuthBearerServer
from rookery.core.security.sasl import Challenge, PlainClient, PlainServer, PlainUsers, SaslServer
from rookery.core.security.scram import Decoys, ScramClient, ScramCredential, ScramMechanism, ScramServer
from rookery.core.wire.api import Api
from rookery.core.wire.apis.api_versions import API_VERSIONS, ApiVersionsRequest
from rookery.core.wire.apis.metadata import METADATA, MetadataRequest
from rookery.core.wire.apis.sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticateRequest
from rookery.core.wire.apis.sasl_handshake import SASL_HANDSHAKE, SaslHandshakeRequest
from rookery.core.wire.framing import FrameReader
from rookery.core.wire.header import request_frame
from rookery.core.wire.primitives import WireError
from tests.unit.core.security.test_oauthbearer import KEYS, NOW_MS, RULES, signed

KIND = ScramMechanism.SCRAM_SHA_256
PASSWORD = "the-password"
USERS = PlainUsers.of({"alice": PASSWORD})
CREDENTIAL = ScramCredential.of_password(KIND, PASSWORD, b"salt of alice")
TOKEN = signed()
FRAMES_MAX = 2 * API_VERSIONS_MAX + 8
"""So many frames a stranger may send, valid or not, until it is known or refused."""
LIMIT = 16_384
METADATA_KEY = METADATA.key.to_bytes(2, "big")
RSS_GROWTH_MB_MAX = 64
BYSTANDER_EVERY = 10_000
_VALUES = (0, 1, 17, 36, 44, 61, 127, 128, 255)

Login = tuple[bytes, ...]


def mechanisms() -> dict[str, Callable[[], SaslServer]]:
    def scram() -> SaslServer:
        return ScramServer(KIND, {"alice": CREDENTIAL}.get, Decoys(b"s"), "server-nonce")

    return {
        "PLAIN": lambda: PlainServer(USERS),
        KIND.mechanism: scram,
        "OAUTHBEARER": lambda: OAuthBearerServer(KEYS, RULES),
    }


def framed(api: Api[Any, Any], version: int, request: Any) -> bytes:
    return b"".join(bytes(each) for each in request_frame(api, version, 7, "stranger", request))


def _bare(token: bytes) -> bytes:
    return len(token).to_bytes(4, "big") + token


def _tokens(password: str) -> dict[str, list[bytes]]:
    """What a client with this password sends, by mechanism. The server's nonce is known, so it is always the same."""
    client, server = ScramClient(KIND, "alice", password, "client-nonce"), mechanisms()[KIND.mechanism]()
    challenge = server.step(client.first(), NOW_MS)
    assert isinstance(challenge, Challenge)
    final = client.step(challenge.message)
    token = TOKEN if password == PASSWORD else TOKEN[:-8] + "AAAAAAAA"
    return {
        "PLAIN": [PlainClient("alice", password).first()],
        KIND.mechanism: [client.first(), final or b""],
        "OAUTHBEARER": [OAuthBearerClient(token).first(), b"\x01"],
    }


def logins() -> list[Login]:
    """Whole logins, right and wrong, of old clients and new ones."""
    versions = framed(API_VERSIONS, 3, ApiVersionsRequest(client_software_name="x", client_software_version="1"))
    made: list[Login] = []
    for password in ("guess", PASSWORD):
        for mechanism, tokens in _tokens(password).items():
            for version in (0, 1):
                begin = framed(SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism=mechanism))
                rest = [
                    framed(SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=token)) if version else _bare(token)
                    for token in tokens
                ]
                made.append((versions, begin, *rest, framed(METADATA, 5, MetadataRequest(topics=[]))))
    return made


SECRETS = [PASSWORD.encode(), _tokens(PASSWORD)[KIND.mechanism][1].rpartition(b",p=")[2][:-2], TOKEN.encode()[:-1]]
"""Who got in has sent one of these; the last letter of base64 can be written in several ways."""


def mutated(random: Random, frame: bytes) -> bytes:
    """Mostly a few bytes are others; sometimes bytes are missing, doubled, or the size lies."""
    data, size = bytearray(frame), len(frame)
    dice = random.random()
    if dice < 0.75:
        for _ in range(1 + (dice < 0.1)):
            at = 4 + int(random.random() * (size - 4))
            data[at] = _VALUES[int(dice * 97) % 9] if dice < 0.5 else data[at] ^ (1 << int(random.random() * 8))
        return bytes(data)
    at = 4 + int(random.random() * (size - 4))
    if dice < 0.85:
        del data[at:]
    elif dice < 0.95:
        data[at:at] = data[at : at + int(random.random() * 40)]
    else:
        return int(random.random() * 2**32).to_bytes(4, "big") + frame[4:]
    data[:4] = (len(data) - 4).to_bytes(4, "big")
    return bytes(data)


def streams(random: Random) -> Iterator[Login]:
    """Logins of which one or all frames are mutated, or in another order."""
    originals = logins()
    everything = [frame for login in originals for frame in login]
    while True:
        login = list(originals[int(random.random() * len(originals))])
        dice = random.random()
        if dice < 0.6:
            at = int(random.random() * len(login))
            login[at] = mutated(random, login[at])
        elif dice < 0.8:
            login = [mutated(random, frame) for frame in login]
        else:
            login = [mutated(random, everything[int(random.random() * len(everything))]) for _ in range(6)]
        yield tuple(login)


@dataclass(slots=True)
class Totals:
    cases: int = 0
    streams: int = 0
    admitted: int = 0
    refused: int = 0
    unread: int = 0
    grown_mb: float = 0.0


def rss_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def fuzz_gate(cases: int, seed: int) -> Totals:
    """At least so many frames; raises AssertionError, which names the seed, when a core misbehaves."""
    random, totals, before_mb = Random(seed), Totals(), rss_mb()
    settings = AuthenticationSettings(mechanisms(), {"PLAIN": 60_000}, receive_bytes_max=LIMIT)
    numbers = count()
    for stream in streams(random):
        number = next(numbers)
        try:
            _one(stream, settings, totals, number % 64 == 0)
        except Exception as error:
            raise AssertionError(f"seed {seed}, stream {number}: {type(error).__name__}: {error}") from error
        if number % BYSTANDER_EVERY == 0:
            _bystander(settings)
        if totals.cases >= cases:
            break
    totals.streams = next(numbers)
    totals.grown_mb = rss_mb() - before_mb
    assert totals.grown_mb < RSS_GROWTH_MB_MAX, f"seed {seed}: memory grew by {totals.grown_mb:.0f} MB"
    return totals


def _one(stream: Login, settings: AuthenticationSettings, totals: Totals, in_pieces: bool) -> None:
    gate, reader = Authentication(settings, 0), FrameReader(LIMIT, read_size=1024)
    sent, served = b"".join(stream), 0
    pieces = [sent[at : at + 37] for at in range(0, len(sent), 37)] if in_pieces else [sent]
    for piece in pieces:
        try:
            for frame in _frames(reader, piece):
                served += 1
                totals.cases += 1
                metadata = gate.admitted and bytes(frame[:2]) == METADATA_KEY
                decision = gate.serve(5) if metadata else gate.received(frame, 5, NOW_MS)
                if isinstance(decision, Refuse):
                    totals.refused += 1
                    assert in_pieces is False or PASSWORD not in repr(decision)
                    return
                if isinstance(decision, Admit):
                    assert any(secret in sent for secret in SECRETS), "somebody got in without the secret"
                    assert str(decision.principal) == "User:alice"
                    totals.admitted += 1
                assert isinstance(decision, Admit | Answer | Serve)
                assert gate.principal is not None or served <= FRAMES_MAX, "a stranger is still connected"
        except WireError:
            totals.unread += 1
            totals.cases += 1
            return


def _frames(reader: FrameReader, data: bytes) -> Iterator[memoryview]:
    view = memoryview(data)
    while len(view):
        room = reader.get_buffer()
        size = min(len(room), len(view))
        room[:size] = view[:size]
        view = view[size:]
        reader.received(size)
        yield from reader.frames()


def _bystander(settings: AuthenticationSettings) -> None:
    """Somebody with the right password, whatever happened before."""
    for login in logins()[len(logins()) // 2 :]:
        gate = Authentication(settings, 0)
        decisions = [gate.received(frame[4:], 5, NOW_MS) for frame in login[:-1]]
        assert any(isinstance(each, Admit) for each in decisions)
