"""How an option is declared, and how its text becomes a value.

SEGMENT_BYTES = Option("log.segment.bytes", Int(at_least=14), 1 << 30, "Largest size of a segment.")
settings[SEGMENT_BYTES]     # an int, for mypy too
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1


HIDDEN = "(hidden)"
"""Stands in errors and logs for what may be a secret."""


class ConfigError(ValueError):
    """A value that cannot be used. Names the key, the value and what is allowed."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        super().__init__(f"{key}={value!r} cannot be used: {allowed}")
        self.key = key
        self.value = value
        self.allowed = allowed


class Kind(Protocol[T_co]):
    """The type of an option: reads text, and says what it accepts."""

    @property
    def type_name(self) -> str: ...

    def parse(self, text: str) -> T_co:
        """The value of `text`; raises ValueError when it is not allowed."""

    def allowed(self) -> str:
        """What is accepted, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Int:
    """A whole number; `type_name` is Kafka's name of its width."""

    at_least: int = -(2**63)
    at_most: int = LONG_MAX
    type_name: str = "long"

    def parse(self, text: str) -> int:
        value = int(text.strip())
        if not self.at_least <= value <= self.at_most:
            raise ValueError(text)
        return value

    def allowed(self) -> str:
        low = None if self.at_least <= -(2**63) else self.at_least
        high = None if self.at_most >= LONG_MAX else self.at_most
        match (low, high):
            case (None, None):
                return "a whole number is needed"
            case (_, None):
                return f"a whole number of at least {low} is needed"
            case (None, _):
                return f"a whole number of at most {high} is needed"
            case _:
                return f"a whole number from {low} to {high} is needed"


def int32(at_least: int = -(2**31), at_most: int = INT_MAX) -> Int:
    return Int(at_least, at_most, "int")


@dataclass(frozen=True, slots=True)
class Double:
    at_least: float = float("-inf")
    at_most: float = float("inf")
    type_name: str = "double"

    def parse(self, text: str) -> float:
        value = float(text.strip())
        if not self.at_least <= value <= self.at_most:
            raise ValueError(text)
        return value

    def allowed(self) -> str:
        return f"a number from {self.at_least} to {self.at_most} is needed"


@dataclass(frozen=True, slots=True)
class Boolean:
    type_name: str = "boolean"

    def parse(self, text: str) -> bool:
        word = text.strip().lower()
        if word not in ("true", "false"):
            raise ValueError(text)
        return word == "true"

    def allowed(self) -> str:
        return "true or false is needed"


@dataclass(frozen=True, slots=True)
class String:
    choices: tuple[str, ...] = ()
    type_name: str = "string"

    def parse(self, text: str) -> str:
        word = text.strip()
        if self.choices and word not in self.choices:
            raise ValueError(text)
        return word

    def allowed(self) -> str:
        return f"one of {', '.join(self.choices)} is needed" if self.choices else "a text is needed"


@dataclass(frozen=True, slots=True)
class Password:
    """A text that is never shown."""

    type_name: str = "password"

    def parse(self, text: str) -> str:
        return text

    def allowed(self) -> str:
        return "a text is needed"


@dataclass(frozen=True, slots=True)
class WordList:
    """Comma-separated words; `choices` limits them, `at_least` asks for some."""

    choices: tuple[str, ...] = ()
    at_least: int = 0
    type_name: str = "list"

    def parse(self, text: str) -> tuple[str, ...]:
        words = tuple(word for word in (part.strip() for part in text.split(",")) if word)
        if len(words) < self.at_least or any(self.choices and word not in self.choices for word in words):
            raise ValueError(text)
        return words

    def allowed(self) -> str:
        what = f"a list of {', '.join(self.choices)}" if self.choices else "a list of words"
        return f"{what}, separated by commas, is needed" + (", not empty" if self.at_least else "")


class UpdateMode(IntEnum):
    """Whether a change needs a restart, as Kafka names it."""

    READ_ONLY = 0
    PER_BROKER = 1
    CLUSTER_WIDE = 2


@dataclass(frozen=True, slots=True)
class Option(Generic[T_co]):
    """One key: its name, its type, its default and its meaning."""

    name: str
    kind: Kind[T_co]
    default: T_co
    doc: str
    reach: UpdateMode = UpdateMode.READ_ONLY
    synonyms: tuple[str, ...] = ()
    """Other keys that set the same thing, most important first (for topic options: the broker's keys)."""
    nullable: bool = False
    """Kafka's default is null: while the option is not set, tools are shown no value."""

    def parse(self, text: str) -> T_co:
        try:
            return self.kind.parse(text)
        except ValueError:
            raise ConfigError(self.name, HIDDEN if self.sensitive else text, self.kind.allowed()) from None

    @property
    def sensitive(self) -> bool:
        return self.kind.type_name == "password"


def as_text(value: object) -> str | None:
    """A value as Kafka's tools would print it; None stays None."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(str(part) for part in value)
    return str(value)


class Table:
    """All options of one kind of thing (a node, a topic), in the order of their declaration."""

    def __init__(self, options: Iterable[Option[object]]) -> None:
        self._options = {option.name: option for option in options}

    def __contains__(self, name: object) -> bool:
        return name in self._options

    def __iter__(self) -> Iterator[Option[object]]:
        return iter(self._options.values())

    def __len__(self) -> int:
        return len(self._options)

    def __getitem__(self, name: str) -> Option[object]:
        return self._options[name]

    def find(self, name: str) -> Option[object] | None:
        """The option of that name; None if there is none."""
        if name not in self:
            return None
        return self[name]

    def names(self) -> list[str]:
        return list(self._options)


def options_of(namespace: Mapping[str, object]) -> Iterator[Option[object]]:
    """The options declared in a module."""
    return (value for value in namespace.values() if isinstance(value, Option))


def table_of(namespace: Mapping[str, object]) -> Table:
    """The table of all options declared in a module: ``TABLE = table_of(vars())`` at its end."""
    return Table(options_of(namespace))


@dataclass(frozen=True, slots=True)
class Settings:
    """Values for a table's options; options that are not set have their defaults."""

    table: Table
    given: Mapping[str, object] = field(default_factory=dict, repr=False)
    """Only what was set, by name, already parsed. Passwords are among it, so it is not shown."""

    def __getitem__(self, option: Option[T]) -> T:
        return self.given.get(option.name, option.default)  # type: ignore[return-value]

    def is_set(self, option: Option[T]) -> bool:
        return option.name in self.given

    def having(self, texts: Mapping[str, str]) -> "Settings":
        """The same settings with some keys set from text; raises ConfigError for a wrong one."""
        parsed = {name: self.table[name].parse(text) for name, text in texts.items()}
        return Settings(self.table, {**self.given, **parsed})

    def overlaid(self, *layers: Mapping[str, str]) -> "Settings":
        """The same settings under what was set while running, the last layer strongest. Keys without effect here are
        stored among them, too, and left out."""
        texts = {name: text for layer in layers for name, text in layer.items() if name in self.table}
        return self.having(texts) if texts else self
