"""Keys and values as people write them: ``.properties`` files and ``key=value`` arguments."""

import re
from collections.abc import Iterable, Mapping

from rookery.core.config.options import HIDDEN, ConfigError


def read_properties(text: str, origin: str = "file") -> dict[str, str]:
    """The keys of a ``.properties`` text, as Java reads them: ``key=value``, ``key: value`` or ``key value``, ``#`` and
    ``!`` comments, ``\\`` before the end of a line joins the next one, ``\\n``, ``\\t``, ``\\uXXXX`` and the like
    stand for characters; blanks at the end belong to the value."""
    values: dict[str, str] = {}
    lines = enumerate(re.split("\r\n|\r|\n", text), 1)
    for number, raw in lines:
        line = raw.lstrip(_BLANK)
        if not line or line[0] in "#!":
            continue
        while _continues(line):
            line = line[:-1] + next(lines, (0, ""))[1].lstrip(_BLANK)
        found = _PAIR.fullmatch(line)
        if found is None:
            raise ConfigError(f"{origin}, line {number}", HIDDEN, "key=value is needed")
        values[_unescaped(found["key"], origin, number)] = _unescaped(found["value"], origin, number)
    return values


def properties_text(values: Mapping[str, str]) -> str:
    """The text of a ``.properties`` file that gives these values when it is read."""
    return "".join(f"{key}={_escaped(value)}\n" for key, value in values.items())


_BLANK = " \t\f"
_PAIR = re.compile(
    r"(?P<key>(?:\\.|[^=: \t\f\\])+)(?:[ \t\f]*[=:][ \t\f]*|[ \t\f]+)(?P<value>.*)", re.DOTALL
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str, origin: str, number: int) -> str:
    if "\\" not in text:
        return text

    def character(found: re.Match[str]) -> str:
        escape = found[1]
        if escape == "u":
            raise ConfigError(f"{origin}, line {number}", HIDDEN, "\\u needs four hexadecimal digits")
        return chr(int(escape[1:], 16)) if len(escape) > 1 else _CHARACTERS.get(escape, escape)

    return _ESCAPE.sub(character, text)


def _escaped(value: str) -> str:
    text = value.replace("\\", "\\\\")
    for letter, character in _CHARACTERS.items():
        text = text.replace(character, f"\\{letter}")
    return "\\" + text if text.startswith(" ") else text


def read_overrides(pairs: Iterable[str]) -> dict[str, str]:
    """The ``--set key=value`` arguments."""
    values: dict[str, str] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            raise ConfigError("--set", pair, "key=value is needed")
        values[key.strip()] = value
    return values
