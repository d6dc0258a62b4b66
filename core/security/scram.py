"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677) as Kafka speaks them.

The broker keeps a salt, two keys and a number of iterations for each user and mechanism, never the
password. Both sides prove that they know the password or the keys; neither sends them.

Where this is narrower than the RFC: no channel binding (a client that asks for it, or that would have used
it, is refused), no delegation tokens (the extension ``tokenauth`` is refused), and no SASLprep, which Kafka
does not do either: a password is its UTF-8 bytes. Iterations go from 4096 to 16384 on both sides, so that
neither can make the other work long.

A user who does not exist gets the same messages at the same steps, made of a `Decoys` credential that
nobody can match.
"""

import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import new as new_hash
from hashlib import pbkdf2_hmac
from typing import NamedTuple

from rookery.core.security.sasl import (
    MESSAGE_BYTES_MAX,
    Challenge,
    Done,
    Failed,
    Outcome,
    SaslError,
    user_problem,
)

ITERATIONS_MIN = 4096
ITERATIONS_MAX = 16384
SALT_BYTES = 24
SALT_BYTES_MAX = 1024
TOKEN_EXTENSION = "tokenauth"

_NONCE = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_NAME_ESCAPE = re.compile("=2C|=3D|=")
_GS2_NONE = "n"
_TEXTUAL = b"0123456789abcdefghijklmnopqrstuvwxyz"


class ScramMechanism(IntEnum):
    """The codes of Kafka's records and requests."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism(self) -> str:
        """The name on the wire: SCRAM-SHA-256 or SCRAM-SHA-512."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"

    @property
    def key_bytes(self) -> int:
        return 32 if self is ScramMechanism.SCRAM_SHA_256 else 64

    @classmethod
    def named(cls, name: str) -> "ScramMechanism | None":
        return {each.mechanism: each for each in cls}.get(name)

    def hash(self, data: bytes) -> bytes:
        return new_hash(self.hash_name, data).digest()

    def hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self.hash_name)

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Slow on purpose, several milliseconds: shells call it in a thread."""
        return pbkdf2_hmac(self.hash_name, password.encode(), salt, iterations)


class ScramError(ValueError):
    """A credential that cannot be used, or a text that describes none. Holds no secret."""


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What the broker keeps of a user's password for one mechanism."""

    mechanism: ScramMechanism
    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        check_parameters(self.salt, self.iterations)
        if not len(self.stored_key) == len(self.server_key) == self.mechanism.key_bytes:
            raise ScramError(
                f"the keys of {self.mechanism.mechanism} have {self.mechanism.key_bytes} bytes each"
            )

    @classmethod
    def of_salted(
        cls, mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
    ) -> "ScramCredential":
        """As AlterUserScramCredentials brings it. Cheap; the salted password is as good as the password."""
        check_parameters(salt, iterations)
        if len(salted_password) != mechanism.key_bytes:
            raise ScramError(f"the salted password of {mechanism.mechanism} has {mechanism.key_bytes} bytes")
        client_key = mechanism.hmac(salted_password, b"Client Key")
        server_key = mechanism.hmac(salted_password, b"Server Key")
        return cls(mechanism, iterations, salt, mechanism.hash(client_key), server_key)

    @classmethod
    def of_password(
        cls, mechanism: ScramMechanism, password: str, salt: bytes, iterations: int = ITERATIONS_MIN
    ) -> "ScramCredential":
        """Slow on purpose: shells call it in a thread."""
        check_parameters(salt, iterations)
        if not password:
            raise ScramError("the password is empty")
        salted = mechanism.salted_password(password, salt, iterations)
        return cls.of_salted(mechanism, salted, salt, iterations)


def check_parameters(salt: bytes, iterations: int) -> None:
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise ScramError(f"{iterations} iterations: {ITERATIONS_MIN} to {ITERATIONS_MAX} may be")
    if not 0 < len(salt) <= SALT_BYTES_MAX:
        raise ScramError(f"a salt of {len(salt)} bytes: 1 to {SALT_BYTES_MAX} may be")


class Shape(NamedTuple):
    """What the first answer of an exchange shows of a credential besides random bytes."""

    salt_bytes: int = SALT_BYTES
    iterations: int = ITERATIONS_MIN
    textual: bool = False
    """Whether the salt is of lower-case letters and digits, as Java's tools make it."""

    @classmethod
    def of(cls, salt: bytes, iterations: int) -> "Shape":
        return cls(len(salt), iterations, not salt.strip(_TEXTUAL))


@dataclass(frozen=True, slots=True)
class Decoys:
    """Credentials of users who do not exist: the same for the same name on every node, and unlike any password's.

    `secret` is the cluster's, so that two brokers show the same salt. `shapes` are those of the users who exist, by
    mechanism: each decoy has one of them, chosen by its name, so that no shape shows whether a user exists.
    """

    secret: bytes = field(repr=False)
    shapes: Mapping[ScramMechanism, tuple[Shape, ...]] = field(default_factory=dict)

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        def derived(what: str, size: int) -> bytes:
            made = b""
            while len(made) < size:
                text = f"{what} {len(made)} {mechanism.mechanism} {user}"
                made += hmac.digest(self.secret, text.encode(), "sha512")
            return made[:size]

        shapes = self.shapes.get(mechanism) or (Shape(),)
        shape = max(shapes, key=lambda each: derived(f"shape {each}", 8)) if len(shapes) > 1 else shapes[0]
        salt = derived("salt", shape.salt_bytes)
        if shape.textual:
            salt = bytes(_TEXTUAL[byte % len(_TEXTUAL)] for byte in salt)
        size = mechanism.key_bytes
        return ScramCredential(
            mechanism, shape.iterations, salt, derived("stored key", size), derived("server key", size)
        )


# --- the text of kafka-storage's --add-scram ------------------------------------------------------------------

_ADD_SCRAM = re.compile(r"(?P<mechanism>[^=\[\]]+)=\[(?P<options>.*)\]", re.DOTALL)
_ADD_SCRAM_KEYS = ("name", "password", "saltedpassword", "salt", "iterations")
_ADD_SCRAM_FORM = "SCRAM-SHA-256=[name=USER,password=PASSWORD,iterations=N,salt=BASE64]"


@dataclass(frozen=True, slots=True)
class AddScram:
    """A first user, as the one who forms a cluster names it. `credential` does the slow part."""

    user: str
    mechanism: ScramMechanism
    iterations: int
    salt: bytes | None = field(repr=False)
    """None: the shell chooses a random one."""
    password: str | None = field(repr=False)
    salted_password: bytes | None = field(repr=False)

    def credential(self, random_salt: bytes) -> ScramCredential:
        """Slow if a password was given: shells call it in a thread."""
        salt = random_salt if self.salt is None else self.salt
        if self.salted_password is not None:
            return ScramCredential.of_salted(self.mechanism, self.salted_password, salt, self.iterations)
        assert self.password is not None
        return ScramCredential.of_password(self.mechanism, self.password, salt, self.iterations)


def parse_add_scram(text: str) -> AddScram:
    """``SCRAM-SHA-512=[name=alice,password=...]``, with ``iterations`` and ``salt`` if wanted, and with
    ``saltedpassword`` in place of ``password``; bytes in base64. Values may stand in double quotes. Raises
    ScramError, which quotes no value."""
    found = _ADD_SCRAM.fullmatch(text.strip()) if len(text) <= MESSAGE_BYTES_MAX else None
    if found is None:
        raise ScramError(f"a SCRAM user is given as {_ADD_SCRAM_FORM}")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ScramError("the text of a SCRAM user is not UTF-8")
    mechanism = ScramMechanism.named(found["mechanism"].strip())
    if mechanism is None:
        raise ScramError("the mechanism of a SCRAM user is SCRAM-SHA-256 or SCRAM-SHA-512")
    options = _add_scram_options(found["options"])
    user = options.get("name", "")
    if problem := user_problem(user):
        raise ScramError(f"name: {problem}")
    if ("password" in options) == ("saltedpassword" in options):
        raise ScramError("a SCRAM user needs a password or a saltedpassword, and not both")
    if "saltedpassword" in options and "salt" not in options:
        raise ScramError("saltedpassword needs the salt it was made with")
    if options.get("password") == "":
        raise ScramError("the password is empty")
    iterations = options.get("iterations", str(ITERATIONS_MIN))
    if not re.fullmatch("[0-9]{1,9}", iterations):
        raise ScramError("iterations must be a number")
    salt = _option_bytes(options, "salt")
    check_parameters(b"." if salt is None else salt, int(iterations))
    salted = _option_bytes(options, "saltedpassword")
    if salted is not None and len(salted) != mechanism.key_bytes:
        raise ScramError(f"the saltedpassword of {mechanism.mechanism} has {mechanism.key_bytes} bytes")
    return AddScram(user, mechanism, int(iterations), salt, options.get("password"), salted)


def _add_scram_options(text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    rest = text
    while rest.strip():
        key, equals, rest = rest.partition("=")
        key = key.strip()
        if not equals or key not in _ADD_SCRAM_KEYS:
            raise ScramError(
                f"option {len(options) + 1} of a SCRAM user is none of {', '.join(_ADD_SCRAM_KEYS)}; "
                "a value that holds a comma stands in double quotes"
            )
        if key in options:
            raise ScramError(f"{key} is given twice")
        if rest.startswith('"'):
            value, quote, rest = rest[1:].partition('"')
            rest = rest.lstrip()
            if not quote or (rest and not rest.startswith(",")):
                raise ScramError(f"the quotes of {key} do not end before a comma or the bracket")
            rest = rest[1:]
        else:
            value, _, rest = rest.partition(",")
            value = value.strip()
        options[key] = value
    return options


def _option_bytes(options: dict[str, str], key: str) -> bytes | None:
    if key not in options:
        return None
    decoded = _base64(options[key])
    if decoded is None:
        raise ScramError(f"{key} must be base64")
    return decoded


# --- messages -------------------------------------------------------------------------------------------------


def escape_name(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def unescape_name(text: str) -> str | None:
    """None if an equals sign stands there that escapes nothing, as the RFC demands."""
    if any(found.group() == "=" for found in _NAME_ESCAPE.finditer(text)):
        return None
    return _NAME_ESCAPE.sub(lambda found: "," if found.group() == "=2C" else "=", text)


def _base64(text: str) -> bytes | None:
    try:
        return b64decode(text.encode("ascii"), validate=True)
    except (Base64Error, UnicodeEncodeError, ValueError):
        return None


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(left, right, strict=True))


class _Refused(Exception):
    """Why a message is refused; never leaves this module."""


def _text(message: bytes) -> str:
    if len(message) > MESSAGE_BYTES_MAX:
        raise _Refused(f"a message of {len(message)} bytes: {MESSAGE_BYTES_MAX} may be")
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise _Refused("the message is not UTF-8") from None


def _attribute(text: str, letter: str) -> str:
    if not text.startswith(f"{letter}="):
        raise _Refused(f"attribute {letter} is missing or out of order")
    return text[2:]


# --- server ---------------------------------------------------------------------------------------------------


class ScramServer:
    """One exchange, seen by the broker. It costs two HMACs and a hash, no key derivation.

    `server_nonce` must be random for each exchange, printable and without a comma.
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        find: Callable[[str], ScramCredential | None],
        decoys: Decoys,
        server_nonce: str,
    ) -> None:
        """`find` gives the credential of a user for this mechanism."""
        if not _NONCE.fullmatch(server_nonce):
            raise ValueError("a nonce of SCRAM is printable ASCII without commas")
        self.mechanism = mechanism.mechanism
        self._kind = mechanism
        self._find = find
        self._decoys = decoys
        self._server_nonce = server_nonce
        self._step = self._first

    def step(self, message: bytes, wall_ms: int) -> Outcome:
        step, self._step = self._step, self._over
        try:
            return step(message)
        except _Refused as refused:
            return Failed(str(refused))

    def _over(self, message: bytes) -> Outcome:
        raise _Refused("a message after the end of the exchange")

    def _first(self, message: bytes) -> Outcome:
        parts = _text(message).split(",")
        if len(parts) < 4:
            raise _Refused("the first message has too few attributes")
        binding, authorization_id, name, nonce, *extensions = parts
        if binding != _GS2_NONE:
            raise _Refused("channel binding is not supported")
        user = unescape_name(_attribute(name, "n"))
        if user is None:
            raise _Refused("the user's name has an equals sign or comma that is not escaped")
        if problem := user_problem(user):
            raise _Refused(problem)
        if authorization_id and unescape_name(_attribute(authorization_id, "a")) != user:
            raise _Refused("the authorization id is not the user")
        self._client_nonce = _attribute(nonce, "r")
        if not _NONCE.fullmatch(self._client_nonce):
            raise _Refused("the client's nonce is empty or not printable")
        if any(extension.startswith(TOKEN_EXTENSION) for extension in extensions):
            raise _Refused("delegation tokens are not supported")

        stored = self._find(user)
        decoy = self._decoys.credential(self._kind, user)
        credential = decoy if stored is None or stored.mechanism is not self._kind else stored
        self._user, self._exists, self._credential = user, credential is not decoy, credential
        header = f"{binding},{authorization_id},".encode()
        self._bindings = [b64encode(header).decode()]
        if authorization_id:
            self._bindings.append("biws")  # some clients leave the authorization id out here
        self._nonce = self._client_nonce + self._server_nonce
        self._first_bare = message[len(header) :]
        answer = f"r={self._nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}"
        self._server_first = answer.encode()
        self._step = self._final
        return Challenge(self._server_first)

    def _final(self, message: bytes) -> Outcome:
        text = _text(message)
        without_proof, comma, proof_text = text.rpartition(",p=")
        binding, _, rest = without_proof.partition(",")
        nonce, _, _ = rest.partition(",")
        proof = _base64(proof_text)
        kind, credential = self._kind, self._credential
        if not comma or proof is None or len(proof) != kind.key_bytes:
            raise _Refused("the proof is missing or has a wrong size")
        if _attribute(binding, "c") not in self._bindings:
            raise _Refused("channel binding is not what the first message said")
        if not hmac.compare_digest(_attribute(nonce, "r").encode(), self._nonce.encode()):
            raise _Refused("the nonce is not the one of this exchange")
        signed = b",".join((self._first_bare, self._server_first, without_proof.encode()))
        client_key = _xor(proof, kind.hmac(credential.stored_key, signed))
        matches = hmac.compare_digest(kind.hash(client_key), credential.stored_key)
        signature = kind.hmac(credential.server_key, signed)
        if not (matches and self._exists):
            raise _Refused("unknown user or wrong password")
        return Done(self._user, b"v=" + b64encode(signature))


# --- client ---------------------------------------------------------------------------------------------------


class ScramClient:
    """One exchange, seen by the client. `step` derives a key, several milliseconds: shells call it in a thread."""

    def __init__(self, mechanism: ScramMechanism, user: str, password: str, nonce: str) -> None:
        if not user or not password:
            raise SaslError("user and password of SCRAM must not be empty")
        if not _NONCE.fullmatch(nonce):
            raise ValueError("a nonce of SCRAM is printable ASCII without commas")
        self.mechanism = mechanism.mechanism
        self._kind = mechanism
        self._password = password
        self._nonce = nonce
        self._first_bare = f"n={escape_name(user)},r={nonce}"
        self._step: Callable[[str], bytes | None] = self._server_first

    def first(self) -> bytes:
        return f"n,,{self._first_bare}".encode()

    def step(self, message: bytes) -> bytes | None:
        try:
            return self._step(_text(message))
        except _Refused as refused:
            raise SaslError(f"the server's message is refused: {refused}") from None

    def _over(self, text: str) -> bytes | None:
        raise _Refused("it comes after the end of the exchange")

    def _server_first(self, text: str) -> bytes:
        self._step = self._over
        parts = text.split(",")
        if len(parts) < 3:
            raise _Refused("it has too few attributes")
        nonce, salt_text, count = (
            _attribute(part, letter) for part, letter in zip(parts[:3], "rsi", strict=True)
        )
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce) or not _NONCE.fullmatch(nonce):
            raise _Refused("its nonce does not continue the client's")
        salt = _base64(salt_text)
        if not salt or not re.fullmatch("[0-9]{1,9}", count):
            raise _Refused("its salt or its iterations cannot be read")
        try:
            check_parameters(salt, int(count))
        except ScramError as error:
            raise _Refused(str(error)) from None
        kind = self._kind
        salted = kind.salted_password(self._password, salt, int(count))
        without_proof = f"c=biws,r={nonce}"
        signed = f"{self._first_bare},{text},{without_proof}".encode()
        client_key = kind.hmac(salted, b"Client Key")
        proof = _xor(client_key, kind.hmac(kind.hash(client_key), signed))
        self._expected = kind.hmac(kind.hmac(salted, b"Server Key"), signed)
        self._step = self._server_final
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def _server_final(self, text: str) -> None:
        self._step = self._over
        if text.startswith("e="):
            raise _Refused("the server refuses the credentials")
        signature = _base64(_attribute(text, "v").partition(",")[0])
        if signature is None or not hmac.compare_digest(signature, self._expected):
            raise _Refused("the server does not know the user's keys")
