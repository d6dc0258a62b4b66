"""OAUTHBEARER (RFC 7628): the messages, the check of a signed token, and the keys it is checked with.

A token is checked against keys that are here already; nothing is fetched on its way. A token that names an unknown key
is refused, and `KeyRefresh` says whether that is a reason to fetch the keys early. Only public keys verify: ``none``
and the shared secrets of ``HS256`` are not among the algorithms, so a public key is never taken for a secret.

Where this is stricter than Kafka: there is no mode without signatures, headers that bring a key or its
address are refused, and so are doubled names in the JSON.
"""

import json
import re
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

from rookery.core.security.sasl import Challenge, Done, Failed, Outcome, SaslError, user_problem
from rookery.core.security.scram import unescape_name

OAUTHBEARER = "OAUTHBEARER"
TOKEN_BYTES_MAX = 64 * 1024
KEY_SET_BYTES_MAX = 1 << 20
KEYS_MAX = 256
KEY_ID_MAX = 1000
RSA_BITS_MIN, RSA_BITS_MAX = 2048, 16384
CLOCK_SKEW_S = 30

_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES = {
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
    "Ed25519": ("EdDSA",),
    "Ed448": ("EdDSA",),
}
_ALGORITHMS: Final = frozenset({*_RSA, "ES256", "ES384", "ES512", "EdDSA"})
_FOREIGN_KEYS = ("jku", "jwk", "x5u", "x5c", "crit")
"""Headers that bring a key or its address, or that must be understood: none is."""

_BASE64URL = re.compile("[A-Za-z0-9_-]*")
_INVALID_TOKEN = b'{"status":"invalid_token"}'
_SEPARATOR = "\x01"
_PAIR = re.compile("([A-Za-z]+)=([\\x21-\\x7e \\t\\r\\n]*)")
_AUTH = re.compile("(?i:bearer) +([-_.A-Za-z0-9]+)")


def _verifier(algorithm: str) -> Any:
    """Loaded when the first token is looked at: most clients never see one."""
    from jwt.algorithms import get_default_algorithms

    return get_default_algorithms()[algorithm]


def _key_error() -> type[Exception]:
    from jwt.exceptions import PyJWTError

    return PyJWTError


class TokenError(ValueError):
    """A token or a set of keys that cannot be used. Says why, and quotes nothing of it."""


class UnknownKeyError(TokenError):
    """The token is signed with a key that is not in the set: it may be newer than the set."""

    def __init__(self, key_id: str | None) -> None:
        super().__init__("the token is signed with a key that is not among the known ones")
        self.key_id = key_id


# --- JSON and base64 from unauthenticated clients -------------------------------------------------------------


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("doubled name")
    return made


def _refuse_constant(_: str) -> Any:
    raise ValueError("NaN and Infinity are no JSON")


def _json_object(data: bytes, what: str) -> dict[str, Any]:
    try:
        found = json.loads(data.decode(), object_pairs_hook=_no_doubles, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise TokenError(f"{what} is not JSON, or has a name twice") from None
    if not isinstance(found, dict):
        raise TokenError(f"{what} is not a JSON object")
    return found


def _base64url(text: str, what: str) -> bytes:
    if not _BASE64URL.fullmatch(text):
        raise TokenError(f"{what} is not base64url")
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (Base64Error, ValueError):
        raise TokenError(f"{what} is not base64url") from None


# --- keys -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """A public key, and the algorithms it may be used with."""

    key_id: str | None
    algorithms: tuple[str, ...]
    key: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeySet:
    """The keys of an issuer: what its JWKS document says."""

    keys: tuple[VerifyingKey, ...] = ()

    @classmethod
    def parse(cls, document: bytes) -> "KeySet":
        """Keys of other kinds and for other uses are left out. Raises TokenError if none is left."""
        if len(document) > KEY_SET_BYTES_MAX:
            raise TokenError(f"a key set of {len(document)} bytes: {KEY_SET_BYTES_MAX} may be")
        listed = _json_object(document, "the key set").get("keys")
        if not isinstance(listed, list):
            raise TokenError("the key set has no list of keys")
        if len(listed) > KEYS_MAX:
            raise TokenError(f"a key set of {len(listed)} keys: {KEYS_MAX} may be")
        keys = tuple(key for each in listed if isinstance(each, dict) and (key := _verifying_key(each)))
        if not keys:
            raise TokenError("the key set has no public key to verify signatures with")
        return cls(keys)

    def find(self, algorithm: str, key_id: str | None) -> tuple[VerifyingKey, ...]:
        """A token without a key id may be signed by any key of its kind."""
        return tuple(
            key
            for key in self.keys
            if algorithm in key.algorithms and (key_id is None or key.key_id == key_id)
        )


def _verifying_key(jwk: dict[str, Any]) -> VerifyingKey | None:
    match jwk.get("kty"):
        case "RSA":
            usable: tuple[str, ...] = _RSA
        case "EC" | "OKP":
            usable = _CURVES.get(str(jwk.get("crv")), ())
        case _:
            return None
    key_id, named = jwk.get("kid"), jwk.get("alg")
    if jwk.get("use", "sig") != "sig" or not (key_id is None or isinstance(key_id, str)):
        return None
    if named is not None:
        usable = tuple(each for each in usable if each == named)
    if not usable:
        return None
    public = {name: value for name, value in jwk.items() if name in ("kty", "crv", "n", "e", "x", "y")}
    try:
        key = _verifier(usable[0]).from_jwk(public)
    except (_key_error(), ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None
    if jwk["kty"] == "RSA" and not RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX:
        return None
    return VerifyingKey(key_id, usable, key)


class KeyRefresh:
    """When to fetch the keys: at fixed times, sooner after a failure, and early for a key that is not known.

    Strangers can name as many unknown keys as they like; they cause one fetch a minute.
    """

    EARLY_MS = 60_000
    REMEMBERED_MAX = 16

    def __init__(self, refresh_ms: int = 3_600_000, retry_ms: int = 100, retry_max_ms: int = 10_000) -> None:
        self._refresh_ms, self._retry_ms, self._retry_max_ms = refresh_ms, retry_ms, retry_max_ms
        self._failures = 0
        self._early_ms: int | None = None
        self._unknown: dict[str, None] = {}
        self.due_ms = 0
        """When to fetch next."""

    def fetched(self, now_ms: int) -> None:
        self._failures = 0
        self.due_ms = now_ms + self._refresh_ms

    def failed(self, now_ms: int) -> None:
        wait = min(self._retry_max_ms, self._retry_ms << min(self._failures, 20))
        self._failures += 1
        self.due_ms = now_ms + wait

    def unknown(self, key_id: str | None, now_ms: int) -> bool:
        """Whether this token is a reason to fetch now; `due_ms` then says so, too. A key that was not found is not
        looked for again until others have been."""
        if key_id is None or len(key_id) > KEY_ID_MAX or key_id in self._unknown:
            return False
        if self._early_ms is not None and now_ms - self._early_ms < self.EARLY_MS:
            return False
        if len(self._unknown) >= self.REMEMBERED_MAX:
            del self._unknown[next(iter(self._unknown))]
        self._unknown[key_id] = None
        self._early_ms = now_ms
        self.due_ms = min(self.due_ms, now_ms)
        return True


# --- tokens ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What ``sasl.oauthbearer.*`` expects of a token."""

    audiences: frozenset[str] = frozenset()
    issuer: str | None = None
    clock_skew_s: int = CLOCK_SKEW_S
    subject_claim: str = "sub"
    scope_claim: str = "scope"


@dataclass(frozen=True, slots=True)
class Identity:
    """What a valid token says."""

    user: str
    expires_ms: int
    scopes: frozenset[str] = frozenset()


def check_token(token: str, keys: KeySet, rules: TokenRules, wall_ms: int) -> Identity:
    """The identity in a signed token. Raises TokenError; UnknownKeyError if its key is not in the set.

    No claim is looked at before the signature is right.
    """
    if len(token) > TOKEN_BYTES_MAX:
        raise TokenError(f"a token of {len(token)} characters: {TOKEN_BYTES_MAX} may be")
    parts = token.split(".")
    if len(parts) != 3:
        raise TokenError("the token has not three parts")
    header = _json_object(_base64url(parts[0], "the token's header"), "the token's header")
    algorithm, key_id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in _ALGORITHMS:
        raise TokenError(f"the token's algorithm is none of {', '.join(sorted(_ALGORITHMS))}")
    if key_id is not None and not (isinstance(key_id, str) and len(key_id) <= KEY_ID_MAX):
        raise TokenError(f"the token's key id is no text of at most {KEY_ID_MAX} characters")
    if foreign := [name for name in _FOREIGN_KEYS if name in header]:
        raise TokenError(f"the token's header has {foreign[0]}, which is refused")
    candidates = keys.find(algorithm, key_id)
    if not candidates:
        raise UnknownKeyError(key_id)
    signature = _base64url(parts[2], "the token's signature")
    signed = f"{parts[0]}.{parts[1]}".encode("ascii", "replace")
    verifier = _verifier(algorithm)
    if not any(verifier.verify(signed, candidate.key, signature) for candidate in candidates):
        raise TokenError("the token's signature is wrong")
    return _identity(
        _json_object(_base64url(parts[1], "the token's claims"), "the token's claims"), rules, wall_ms
    )


def _identity(claims: Mapping[str, Any], rules: TokenRules, wall_ms: int) -> Identity:
    now_s, skew = wall_ms / 1000, rules.clock_skew_s
    expires, issued = _seconds(claims, "exp"), _seconds(claims, "iat")
    if expires is None or issued is None:
        raise TokenError("the token has no exp or no iat")
    if expires + skew <= now_s:
        raise TokenError("the token has expired")
    if issued - skew > now_s:
        raise TokenError("the token was issued in the future")
    begins = _seconds(claims, "nbf")
    if begins is not None and begins - skew > now_s:
        raise TokenError("the token is not valid yet")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise TokenError("the token has another issuer than expected")
    _check_audience(claims.get("aud"), rules)
    user = claims.get(rules.subject_claim)
    if not isinstance(user, str) or user_problem(user) or user != user.strip():
        raise TokenError("the token's subject is missing or cannot be a user's name")
    return Identity(user, int(expires * 1000), _scopes(claims.get(rules.scope_claim)))


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    found = claims.get(name)
    if found is None:
        return None
    if (
        isinstance(found, bool)
        or not isinstance(found, int | float)
        or not isfinite(found)
        or not 0 <= found < 2**40
    ):
        raise TokenError(f"the token's {name} is no time")
    return float(found)


def _check_audience(found: object, rules: TokenRules) -> None:
    listed = [found] if isinstance(found, str) else found
    if found is None:
        named: set[str] = set()
    elif isinstance(listed, list) and all(isinstance(each, str) for each in listed):
        named = set(listed)
    else:
        raise TokenError("the token's audience is neither a text nor a list of texts")
    if named and not rules.audiences:
        raise TokenError("the token is for an audience and none is expected here")
    if rules.audiences and not named & rules.audiences:
        raise TokenError("the token is for another audience than expected")


def _scopes(found: object) -> frozenset[str]:
    if found is None:
        return frozenset()
    if isinstance(found, str):
        return frozenset(found.split())
    if isinstance(found, list) and all(isinstance(each, str) for each in found):
        return frozenset(found)
    raise TokenError("the token's scope is neither a text nor a list of texts")


# --- messages -------------------------------------------------------------------------------------------------


class OAuthBearerServer:
    """``n,[a=user],`` and pairs, each ended by \\x01; a last \\x01. A bad token is answered by a status; the client
    then sends \\x01 and is refused."""

    mechanism = OAUTHBEARER

    def __init__(self, keys: KeySet, rules: TokenRules) -> None:
        self._keys = keys
        self._rules = rules
        self._begun = False
        self._refusal: str | None = None
        self.unknown_key: UnknownKeyError | None = None
        """Set if the token's key was not known: ask `KeyRefresh`."""

    def step(self, message: bytes, wall_ms: int) -> Outcome:
        if self._begun:
            reason, self._refusal = self._refusal, None
            return Failed(reason or "a message after the end of the exchange")
        self._begun = True
        try:
            token, authorization_id = _parse_first(message)
        except TokenError as error:
            return Failed(str(error))
        try:
            identity = check_token(token, self._keys, self._rules, wall_ms)
        except TokenError as error:
            if isinstance(error, UnknownKeyError):
                self.unknown_key = error
            self._refusal = str(error)
            return Challenge(_INVALID_TOKEN)
        if authorization_id not in ("", identity.user):
            return Failed("the authorization id is not the user")
        return Done(identity.user, expires_ms=identity.expires_ms)


def _parse_first(message: bytes) -> tuple[str, str]:
    """The token and the authorization id. Extensions are read and left alone."""
    if len(message) > 2 * TOKEN_BYTES_MAX:
        raise TokenError(f"a message of {len(message)} bytes: {2 * TOKEN_BYTES_MAX} may be")
    try:
        header, *pairs = message.decode().split(_SEPARATOR)
    except UnicodeDecodeError:
        raise TokenError("the message is not UTF-8") from None
    fields = header.split(",")
    if len(fields) != 3 or fields[2]:
        raise TokenError("the message does not begin with a GS2 header")
    if fields[0] != "n":
        raise TokenError("channel binding is not supported")
    authorization_id = unescape_name(fields[1][2:]) if fields[1][:2] in ("", "a=") else None
    if authorization_id is None or (fields[1] and not authorization_id):
        raise TokenError("the authorization id cannot be read")
    if len(pairs) < 3 or pairs[-2:] != ["", ""]:
        raise TokenError("the message does not end as it must")
    found: dict[str, str] = {}
    for pair in pairs[:-2]:
        matched = _PAIR.fullmatch(pair)
        if matched is None or matched[1] in found:
            raise TokenError("a pair of the message cannot be read, or is there twice")
        found[matched[1]] = matched[2]
    bearer = _AUTH.fullmatch(found.get("auth", ""))
    if bearer is None:
        raise TokenError("the message holds no bearer token")
    return bearer[1], authorization_id


class OAuthBearerClient:
    mechanism = OAUTHBEARER

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        pairs = {"auth": f"Bearer {token}"}
        for name, value in (extensions or {}).items():
            if name == "auth" or not _PAIR.fullmatch(f"{name}={value}"):
                raise SaslError(
                    "an extension's name has letters only and is not auth; its value is printable ASCII"
                )
            pairs[name] = value
        if not _AUTH.fullmatch(pairs["auth"]):
            raise SaslError("the token is no signed token in compact form")
        text = "".join(f"{name}={value}{_SEPARATOR}" for name, value in pairs.items())
        self._message = f"n,,{_SEPARATOR}{text}{_SEPARATOR}".encode()
        self._refused = False

    def first(self) -> bytes:
        return self._message

    def step(self, message: bytes) -> bytes | None:
        """A status means that the token is refused: the answer to it ends the exchange with the server's error."""
        if self._refused:
            raise SaslError("the server refuses the token")
        if not message:
            return None
        self._refused = True
        return _SEPARATOR.encode()
