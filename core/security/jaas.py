"""Logins as Java writes them: ``sasl.jaas.config`` and the files that ``java.security.auth.login.config`` names.

``Module flag key="value" ... ;`` is read as Kafka reads it. The module's name selects one of three forms;
no class is ever loaded. Errors name the place, the module and the key; never a value.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rookery.core.security.oauthbearer import OAUTHBEARER
from rookery.core.security.sasl import GSSAPI, PLAIN, user_problem
from rookery.core.security.scram import TOKEN_EXTENSION, ScramMechanism

TEXT_MAX = 1 << 20
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
MODULES = {
    PLAIN: PLAIN_MODULE,
    OAUTHBEARER: OAUTHBEARER_MODULE,
    **{each.mechanism: SCRAM_MODULE for each in ScramMechanism},
}
"""By mechanism."""
GSSAPI_REFUSED = (
    "GSSAPI (Kerberos) is not supported: name PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER "
    "in sasl.enabled.mechanisms"
)

_FLAGS = ("required", "requisite", "sufficient", "optional")
_USER_PREFIX = "user_"
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n\f]+|//[^\r\n]*|/\*.*?\*/)
    |(?P<word>[A-Za-z_$\xa0-\xff][A-Za-z0-9_$.\xa0-\xff*-]*)
    |(?P<text>"(?:[^"\\\r\n]|\\[^\r\n])*"|'(?:[^'\\\r\n]|\\[^\r\n])*')
    |(?P<mark>[=;{}])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)


class JaasError(ValueError):
    """A login that cannot be used. Holds no value of an option."""


@dataclass(frozen=True, slots=True)
class Login:
    """One module with its options."""

    module: str
    options: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class PlainLogin:
    """`username` is who this side says it is; `users` are those who may come in."""

    username: str | None
    password: str | None = field(repr=False)
    users: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ScramLogin:
    username: str | None
    password: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class OAuthBearerLogin:
    """Where a client gets its token. A broker needs none of it."""

    client_id: str | None
    client_secret: str | None = field(repr=False)
    scope: str | None = None
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)


# --- text -----------------------------------------------------------------------------------------------------


class _Token(NamedTuple):
    kind: str
    value: str
    line: int


def _tokens(text: str) -> Iterator[_Token]:
    if len(text) > TEXT_MAX:
        raise JaasError(f"a login of {len(text)} characters: {TEXT_MAX} may be")
    at, line = 0, 1
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise JaasError(
                f"line {line}: a character that is not understood here; values that are not plain words, numbers "
                "included, stand in quotes, and quotes end on their line"
            )
        if (kind := found.lastgroup or "") != "space":
            value = found.group()
            yield _Token(kind, _unescaped(value[1:-1]) if kind == "text" else value, line)
        line += found.group().count("\n")
        at = found.end()


def _unescaped(text: str) -> str:
    def replaced(found: re.Match[str]) -> str:
        escape = found[1]
        return chr(int(escape, 8)) if escape[0] in "01234567" else _ESCAPES.get(escape, escape)

    return _ESCAPED.sub(replaced, text)


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0

    @property
    def line(self) -> int:
        return self._tokens[min(self._at, len(self._tokens) - 1)].line if self._tokens else 1

    @property
    def ended(self) -> bool:
        return self._at == len(self._tokens)

    def take(self, kinds: tuple[str, ...], what: str) -> str:
        if self.ended or self._tokens[self._at].kind not in kinds:
            raise JaasError(f"line {self.line}: {what} is expected")
        self._at += 1
        return self._tokens[self._at - 1].value

    def next_is(self, mark: str) -> bool:
        if self.ended or self._tokens[self._at][:2] != ("mark", mark):
            return False
        self._at += 1
        return True

    def mark(self, mark: str) -> None:
        if not self.next_is(mark):
            raise JaasError(f"line {self.line}: {mark!r} is expected")

    def login(self) -> Login:
        module = self.take(("word",), "the name of a login module")
        flag = self.take(("word",), "the flag of the login module")
        if flag.lower() not in _FLAGS:
            raise JaasError(f"line {self.line}: the flag of a login module is one of {', '.join(_FLAGS)}")
        options: dict[str, str] = {}
        while not self.next_is(";"):
            key = self.take(("word", "text"), "an option or ';'")
            self.mark("=")
            value = self.take(("word", "text"), "the value of an option")
            if key in options:
                raise JaasError(f"line {self.line}: an option is given twice")
            options[key] = value
        return Login(module, options)


def parse(text: str) -> Login:
    """The value of ``sasl.jaas.config``: exactly one module. Raises JaasError."""
    reader = _Reader(text)
    if reader.ended:
        raise JaasError("the login is empty")
    login = reader.login()
    if not reader.ended:
        raise JaasError(f"line {reader.line}: sasl.jaas.config holds exactly one login module")
    return login


def parse_file(text: str) -> dict[str, Login]:
    """A JAAS file: logins by context, such as ``KafkaServer`` and ``KafkaClient``. Raises JaasError."""
    reader = _Reader(text)
    contexts: dict[str, Login] = {}
    while not reader.ended:
        name = reader.take(("word", "text"), "the name of a context")
        reader.mark("{")
        login = reader.login()
        if not reader.next_is("}"):
            raise JaasError(f"line {reader.line}: a context holds exactly one login module, then '}}'")
        reader.mark(";")
        if name in contexts:
            raise JaasError(f"line {reader.line}: a context is there twice")
        contexts[name] = login
    return contexts


# --- modules --------------------------------------------------------------------------------------------------


def check_module(login: Login, mechanism: str) -> None:
    """Raises JaasError unless the login is of the module that this mechanism needs."""
    if mechanism == GSSAPI or login.module == KERBEROS_MODULE:
        raise JaasError(GSSAPI_REFUSED)
    expected = MODULES.get(mechanism)
    if expected is None:
        raise JaasError(f"the SASL mechanism is none of {', '.join(sorted(MODULES))}")
    if login.module not in MODULES.values():
        raise JaasError(
            f"the login module is none of Kafka's own: {mechanism} needs {expected}; other classes are not loaded"
        )
    if login.module != expected:
        raise JaasError(f"{mechanism} needs the login module {expected}, not {login.module}")


def check_login(login: Login, mechanism: str) -> None:
    """Raises JaasError unless the login is one of this mechanism, without an option that it does not know."""
    scram = ScramMechanism.named(mechanism)
    if mechanism == PLAIN:
        plain_login(login)
    elif mechanism == OAUTHBEARER:
        oauthbearer_login(login)
    elif scram is not None:
        scram_login(login, scram)
    else:
        check_module(login, mechanism)


def plain_login(login: Login) -> PlainLogin:
    check_module(login, PLAIN)
    _known(login, ("username", "password"), (_USER_PREFIX,))
    users = {
        key.removeprefix(_USER_PREFIX): value
        for key, value in login.options.items()
        if key.startswith(_USER_PREFIX)
    }
    for name, password in users.items():
        if problem := user_problem(name):
            raise JaasError(f"an option that begins with {_USER_PREFIX}: {problem}")
        if not password:
            raise JaasError(f"an option that begins with {_USER_PREFIX}: the password is empty")
    return PlainLogin(*_own(login), users)


def scram_login(login: Login, mechanism: ScramMechanism) -> ScramLogin:
    check_module(login, mechanism.mechanism)
    _known(login, ("username", "password", TOKEN_EXTENSION))
    if login.options.get(TOKEN_EXTENSION, "false").lower() != "false":
        raise JaasError(f"{TOKEN_EXTENSION}: delegation tokens are not supported")
    return ScramLogin(*_own(login))


def oauthbearer_login(login: Login) -> OAuthBearerLogin:
    check_module(login, OAUTHBEARER)
    if any(key.startswith("unsecured") for key in login.options):
        raise JaasError(
            "tokens without a signature are not supported: remove the options that begin with unsecured"
        )
    _known(login, ("clientId", "clientSecret", "scope"), ("extension_",))
    return OAuthBearerLogin(
        login.options.get("clientId"),
        login.options.get("clientSecret"),
        login.options.get("scope"),
        {
            key.removeprefix("extension_"): value
            for key, value in login.options.items()
            if key.startswith("extension_")
        },
    )


def _own(login: Login) -> tuple[str | None, str | None]:
    user, password = login.options.get("username"), login.options.get("password")
    if (user is None) != (password is None):
        raise JaasError("username and password are given together or not at all")
    if user == "" or password == "":
        raise JaasError("username and password must not be empty")
    return user, password


def _known(login: Login, keys: tuple[str, ...], prefixes: tuple[str, ...] = ()) -> None:
    for place, key in enumerate(login.options, 1):
        if key not in keys and not (prefixes and key.startswith(prefixes)):
            allowed = [*keys, *(f"{prefix}NAME" for prefix in prefixes)]
            raise JaasError(f"option {place} of {login.module} is none of {', '.join(allowed)}")
