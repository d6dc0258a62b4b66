"""From files, environment and command line to settings.

A ``.properties`` file is overridden by the environment, the environment by ``--set``. Unknown keys are warned of, with
the nearest known name; known keys without effect here are warned of with the consequence. Keys of security that are
unknown or without effect are refused: an operator who sets one relies on it.
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
