"""Names of users, and how a certificate's subject becomes one.

A subject is written as Java writes it (RFC 2253), so that access rules made for Kafka go on to match: nine
attributes by name, all others as ``OID=#hex``. Then ``ssl.principal.mapping.rules`` are tried in order.
Patterns are matched by RE2, which never backtracks; what RE2 does not know (look-around, back
references in a pattern) is refused at the start.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import re2
from cryptography.x509 import load_der_x509_certificate

from rookery.core.security.sasl import user_problem

RULES_MAX = 16 * 1024
NAME_MAX = 4096
PATTERN_MEMORY_MAX = 1 << 20
USER = "User"


class PrincipalError(ValueError):
    """Rules that cannot be used, or a certificate that gives no name."""


class KafkaPrincipal(NamedTuple):
    """A user as access rules name it: ``User:alice``."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> "KafkaPrincipal":
        """``Type:name``; the name may hold colons. Raises PrincipalError."""
        kind, colon, name = text.partition(":")
        if not (colon and kind and name):
            raise PrincipalError(f"{text[:100]!r} is no principal: Type:name is expected, such as User:alice")
        return cls(kind, name)


ANONYMOUS = KafkaPrincipal(USER, "ANONYMOUS")
"""Whoever was not asked, or had no certificate."""


# --- mapping rules --------------------------------------------------------------------------------------------

_RULE = re.compile(
    r"RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)", re.DOTALL
)
_GAP = re.compile(r"[\s,]*")
_END = re.compile(r"\s*(?:,|$)")
_FORM = "DEFAULT or RULE:pattern/replacement/ with L or U at the end, separated by commas"

Piece = str | int
"""Of a replacement: literal text, or the number of a group."""


@dataclass(frozen=True, slots=True)
class Rule:
    """`pattern` None is DEFAULT: the whole name as it is."""

    pattern: str | None = None
    replacement: tuple[Piece, ...] = ()
    case: str = ""
    expression: Any = None

    def apply(self, name: str) -> str | None:
        """The new name; None if the pattern does not match the whole name.

        As in Kafka, every match of the pattern is then replaced, which is the whole name but for patterns
        that also match less.
        """
        if self.pattern is None:
            return name
        if self.expression.fullmatch(name) is None:
            return None
        made: list[str] = []
        at = 0
        for found in self.expression.finditer(name):
            made.append(name[at : found.start()])
            made.extend(
                found.group(each) or "" if isinstance(each, int) else each for each in self.replacement
            )
            at = found.end()
        text = "".join([*made, name[at:]])
        return text.lower() if self.case == "L" else text.upper() if self.case == "U" else text


@dataclass(frozen=True, slots=True)
class MappingRules:
    """``ssl.principal.mapping.rules``: the first rule that matches gives the name."""

    rules: tuple[Rule, ...]

    @classmethod
    def parse(cls, text: str) -> "MappingRules":
        """Raises PrincipalError. Empty rules are left out."""
        if len(text) > RULES_MAX:
            raise PrincipalError(f"mapping rules of {len(text)} characters: {RULES_MAX} may be")
        rules = []
        at = _end_of(_GAP, text, 0)
        while at < len(text):
            rule, at = _rule(text, at)
            rules.append(rule)
            end = _END.match(text, at)
            if end is None:
                raise PrincipalError(f"the mapping rule before character {at} does not end there: {_FORM}")
            at = _end_of(_GAP, text, end.end())
        return cls(tuple(rules))

    def name(self, subject: str) -> str:
        """The user's name for a subject. Raises PrincipalError: the connection is refused."""
        if len(subject) > NAME_MAX:
            raise PrincipalError(f"a certificate's subject of {len(subject)} characters: {NAME_MAX} may be")
        for rule in self.rules:
            name = rule.apply(subject)
            if name is not None:
                if problem := user_problem(name):
                    raise PrincipalError(f"a mapping rule gives no usable name: {problem}")
                return name
        raise PrincipalError("no rule of ssl.principal.mapping.rules matches the certificate's subject")


def _end_of(expression: re.Pattern[str], text: str, at: int) -> int:
    found = expression.match(text, at)
    return at if found is None else found.end()


def _rule(text: str, at: int) -> tuple[Rule, int]:
    if text.startswith("DEFAULT", at):
        return Rule(), at + len("DEFAULT")
    found = _RULE.match(text, at)
    if found is None:
        raise PrincipalError(f"the mapping rule at character {at} cannot be read: {_FORM}")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_MEMORY_MAX
    try:
        expression = re2.compile(found["pattern"], options=options)
    except (re2.error, UnicodeEncodeError):
        raise PrincipalError(
            f"the pattern of the mapping rule at character {at} is none that RE2 knows"
        ) from None
    replacement = tuple(_pieces(found["replacement"], expression.groups, at))
    return Rule(found["pattern"], replacement, found["case"], expression), found.end()


def _pieces(text: str, groups: int, where: int) -> Iterator[Piece]:
    """As Java reads a replacement: a backslash takes the next character as it is; of ``$12`` as many digits
    count as there are groups for; a group that does not exist is literal text."""
    at = 0
    while at < len(text):
        if text[at] == "\\":
            yield text[at + 1]
            at += 2
        elif text[at] != "$":
            yield text[at]
            at += 1
        else:
            end = at + 1
            while end < len(text) and text[end] in "0123456789" and int(text[at + 1 : end + 1]) <= groups:
                end += 1
            if end > at + 1:
                yield int(text[at + 1 : end])
            elif groups and text[at + 1 : at + 2].isdecimal():
                yield "$"
            else:
                raise PrincipalError(
                    f"the replacement of the mapping rule at character {where} refers to a group that its pattern "
                    "has not; a literal $ is written as \\$"
                )
            at = end


# --- subjects -------------------------------------------------------------------------------------------------

_NAMES = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_SEQUENCE, _SET, _OID = 0x30, 0x31, 0x06
_TEXTS = (12, 19, 20, 22, 27, 30)
"""Types of text, from UTF8String to BMPString. Java takes the bytes of each of them for UTF-8."""
_SPECIAL = frozenset(',=+<>#;"\\')


def certificate_subject(certificate: bytes) -> str:
    """The subject of a certificate in DER form, as Java writes it. Raises PrincipalError."""
    try:
        subject = load_der_x509_certificate(certificate).subject.public_bytes()
    except ValueError:
        raise PrincipalError("the peer's certificate cannot be read") from None
    return rfc2253(subject)


def rfc2253(name: bytes) -> str:
    """A name in DER form as text, the last part first. Raises PrincipalError."""
    try:
        tag, content, rest = _der(name)
        if tag != _SEQUENCE or rest:
            raise PrincipalError("not a name")
        parts = [
            "+".join(_part(each) for _, each in _items(part, _SEQUENCE)) for _, part in _items(content, _SET)
        ]
    except (IndexError, PrincipalError):
        raise PrincipalError("the subject of the peer's certificate cannot be read") from None
    return ",".join(reversed(parts))


def _der(data: bytes) -> tuple[int, bytes, bytes]:
    """The first element: its tag, its content, and what follows it."""
    size, at = data[1], 2
    if size & 0x80:
        at += size & 0x7F
        if not 2 < at <= 6:
            raise PrincipalError("an element of unknown or impossible length")
        size = int.from_bytes(data[2:at], "big")
    if len(data) < at + size:
        raise PrincipalError("an element is cut off")
    return data[0], data[at : at + size], data[at + size :]


def _items(content: bytes, expected: int) -> Iterator[tuple[int, bytes]]:
    while content:
        tag, item, content = _der(content)
        if tag != expected:
            raise PrincipalError("another element than expected")
        yield tag, item


def _part(attribute: bytes) -> str:
    tag, oid, value = _der(attribute)
    kind, content, rest = _der(value)
    if tag != _OID or rest:
        raise PrincipalError("an attribute is a type and a value")
    dotted = _dotted(oid)
    if dotted not in _NAMES or kind not in _TEXTS:
        return f"{_NAMES.get(dotted, dotted)}=#{value.hex()}"
    return f"{_NAMES[dotted]}={_escaped(content.decode(errors='replace'))}"


def _dotted(oid: bytes) -> str:
    numbers, number = [], 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if number >= 1 << 63:
            raise PrincipalError("an object identifier with a huge number")
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers or oid[-1] & 0x80:
        raise PrincipalError("an object identifier is cut off")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escaped(text: str) -> str:
    inner = text.lstrip(" ")
    leading, inner = len(text) - len(inner), inner.rstrip(" ")
    trailing = len(text) - leading - len(inner)
    made = "".join("\\00" if each == "\0" else f"\\{each}" if each in _SPECIAL else each for each in inner)
    return "\\ " * leading + made + "\\ " * trailing
