"""What every SASL mechanism gives and takes, and PLAIN (RFC 4616).

A server machine answers each message with one of three values: `Challenge`, `Done` or `Failed`. A client
machine begins with `first()`; `step` then answers what the server sent, or returns None when the server has
proven what it must. Both end after a fixed number of steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest
from typing import Protocol

PLAIN = "PLAIN"
GSSAPI = "GSSAPI"
MESSAGE_BYTES_MAX = 16 * 1024
"""Of PLAIN and SCRAM, whose messages hold a name, a password or a nonce."""

_NOBODY = sha256(b"no user has this password").digest()


class SaslError(Exception):
    """The server did not prove who it is, or sent what the mechanism does not allow. Holds no secret."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """The exchange goes on: send this and wait for the next message."""

    message: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Done:
    """The client has proven who it is."""

    user: str
    message: bytes = field(default=b"", repr=False)
    """The server's last message."""
    expires_ms: int | None = None
    """When the credential ends, in milliseconds since 1970; None if it does not."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The client is refused. The reason is for the log of the broker; the client does not get it."""

    reason: str


Outcome = Challenge | Done | Failed


class SaslServer(Protocol):
    """One exchange, seen by the broker. Any bytes give an outcome; nothing is raised."""

    @property
    def mechanism(self) -> str: ...

    def step(self, message: bytes, wall_ms: int) -> Outcome: ...


class SaslClient(Protocol):
    """One exchange, seen by the client."""

    @property
    def mechanism(self) -> str: ...

    def first(self) -> bytes: ...

    def step(self, message: bytes) -> bytes | None:
        """The answer to the server's message; None at the end. Raises SaslError."""


def user_problem(name: str) -> str | None:
    """Why this cannot be a user's name; None if it can. ``*`` would stand for everybody in access rules."""
    if not name:
        return "the user's name is empty"
    if name == "*":
        return "the user's name is the wildcard of access rules"
    if any(ord(character) < 32 or ord(character) == 127 for character in name):
        return "the user's name holds a control character"
    return None


# --- PLAIN ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlainUsers:
    """Passwords by user, as JAAS gives them. Only digests are kept, so that all compares take the same time."""

    digests: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def of(cls, passwords: Mapping[str, str]) -> "PlainUsers":
        return cls({user: sha256(password.encode()).digest() for user, password in passwords.items()})

    def accept(self, user: str, password: str) -> bool:
        """The work is the same for users that do not exist."""
        expected = self.digests.get(user)
        same = compare_digest(_NOBODY if expected is None else expected, sha256(password.encode()).digest())
        return same and expected is not None


class PlainServer:
    """``[authzid] NUL user NUL password``. The authorization id must be absent or the user: a user cannot act for
    another."""

    mechanism = PLAIN

    def __init__(self, users: PlainUsers) -> None:
        self._users = users
        self._over = False

    def step(self, message: bytes, wall_ms: int) -> Outcome:
        if self._over:
            return Failed("a message after the end of the exchange")
        self._over = True
        if len(message) > MESSAGE_BYTES_MAX:
            return Failed(f"a message of {len(message)} bytes: {MESSAGE_BYTES_MAX} may be")
        try:
            parts = message.decode().split("\0")
        except UnicodeDecodeError:
            return Failed("the message is not UTF-8")
        if len(parts) != 3:
            return Failed(
                f"the message has {len(parts)} parts: authorization id, user and password are expected"
            )
        authorization_id, user, password = parts
        if problem := user_problem(user):
            return Failed(problem)
        if not password:
            return Failed("the password is empty")
        accepted = self._users.accept(user, password)
        if authorization_id not in ("", user):
            return Failed("the authorization id is not the user")
        return Done(user) if accepted else Failed("unknown user or wrong password")


class PlainClient:
    mechanism = PLAIN

    def __init__(self, user: str, password: str) -> None:
        if "\0" in user + password or not user or not password:
            raise SaslError("user and password of PLAIN must not be empty nor hold a NUL")
        self._message = f"\0{user}\0{password}".encode()

    def first(self) -> bytes:
        return self._message

    def step(self, message: bytes) -> bytes | None:
        if message:
            raise SaslError("the server sent a challenge: PLAIN has none")
        return None
