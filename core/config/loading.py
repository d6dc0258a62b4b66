"""From files, environment and command line to settings.

A ``.properties`` file is overridden by the environment, the environment by ``--set``. Unknown keys are warned
of, with the nearest known name; known keys without effect here are warned of with the consequence. Keys of security
that are unknown or without effect are refused: whoever sets one relies on it.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rookery.core.config import ignored, node, security
from rookery.core.config.options import HIDDEN, ConfigError, Option, Settings, Table

ENVIRONMENT_PREFIX = "KAFKA_"
_JAAS_FILE = re.compile(r"-Djava\.security\.auth\.login\.config==?(\S+)")

_NOT_OPTIONS: dict[str, str] = {
    "KAFKA_HEAP_OPTS": "there is no JVM here",
    "KAFKA_JVM_PERFORMANCE_OPTS": "there is no JVM here",
    "KAFKA_JMX_OPTS": "there is no JMX: scrape /metrics at rookery.http.listener",
    "KAFKA_JMX_HOSTNAME": "there is no JMX: scrape /metrics at rookery.http.listener",
    "KAFKA_LOG4J_LOGGERS": "",
    "KAFKA_LOG4J_ROOT_LOGLEVEL": "",
}
"""Variables of Kafka's image that are no options; an empty text means they are read elsewhere."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, where each value came from, and warnings for the operator."""

    settings: Settings
    sources: Mapping[str, str]
    warnings: tuple[str, ...]


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


def read_environment(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The options set by the environment, and notes on variables that have no effect here."""
    values: dict[str, str] = {}
    notes: list[str] = []
    for name, value in sorted(environ.items()):
        if name == "CLUSTER_ID":
            values[node.CLUSTER_ID.name] = value
        elif name == "KAFKA_OPTS":
            found = _JAAS_FILE.search(value)
            if found is not None:
                values[security.JAAS_FILE.name] = found[1].strip("\"'")
            else:
                notes.append("KAFKA_OPTS is ignored: there is no JVM here")
        elif name in _NOT_OPTIONS:
            if _NOT_OPTIONS[name]:
                notes.append(f"{name} is ignored: {_NOT_OPTIONS[name]}")
        elif name.startswith(ENVIRONMENT_PREFIX):
            values[_key_of(name)] = value
    return values, notes


def _key_of(variable: str) -> str:
    """The key that a variable sets: the mapping of Apache Kafka's image."""
    rest = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
    return rest.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def read_overrides(pairs: Iterable[str]) -> dict[str, str]:
    """The ``--set key=value`` arguments."""
    values: dict[str, str] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            raise ConfigError("--set", pair, "key=value is needed")
        values[key.strip()] = value
    return values


def load(
    layers: Iterable[tuple[str, Mapping[str, str]]],
    *,
    table: Table = node.TABLE,
    unsupported: Mapping[str, str] = ignored.UNSUPPORTED,
    notes: Iterable[str] = (),
) -> Loaded:
    """Settings from named layers, weakest first. Raises ConfigError for a value that is not allowed."""
    names = _synonyms(table)
    texts: dict[str, str] = {}
    sources: dict[str, str] = {}
    warnings = list(notes)
    for origin, layer in layers:
        for key, text in layer.items():
            option = names.get(key) or table.find(key)
            if option is not None:
                texts[option.name] = text
                sources[option.name] = origin
            elif (remedy := security.refusal(key)) is not None:
                raise ConfigError(key, HIDDEN, remedy)
            elif key in unsupported:
                warnings.append(f"{key} has no effect: {unsupported[key]}")
            else:
                warnings.append(_unknown(key, names))
    return Loaded(Settings(table).having(texts), sources, tuple(warnings))


def _synonyms(table: Table) -> dict[str, Option[object]]:
    names: dict[str, Option[object]] = {}
    for option in table:
        for synonym in option.synonyms:
            names[synonym] = option
    names.update({option.name: option for option in table})
    return names


def _unknown(key: str, names: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.75)
    return f"{key} is not an option and is ignored" + (f"; did you mean {near[0]}?" if near else "")
