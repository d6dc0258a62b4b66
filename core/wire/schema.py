"""Messages as plain annotated classes.

A struct class describes one piece of a message for *all* versions of its API:

    class FetchPartition(Struct):
        partition: int = field(Int32)
        current_leader_epoch: int = field(Int32, "9+", default=-1)
        fetch_offset: int = field(Int64)

`field` says how the attribute travels: its wire type, the versions that carry it (all unless said), the
versions in which it may be null, its tag if it is a tagged field. To the type checker these are dataclass
fields with keyword-only arguments; at run time the class has slots and nothing else. A field without a
default must be given when the struct is built.

Versions an attribute does not exist in: encoding leaves it out, decoding sets the default.
A tagged field is left out when it has its default value; a tagged struct is None when absent. One that may be
null is always written, because Kafka takes an absent one for an empty struct.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, dataclass_transform

from rookery.core.wire.primitives import NO_UUID

MAX_VERSION = 0x7FFF


class Versions(NamedTuple):
    """An inclusive range; `first > last` is the empty one."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    @staticmethod
    @lru_cache(maxsize=256)
    def parse(text: str) -> "Versions":
        """`"3+"`, `"0-12"`, `"7"` or `""` for none."""
        if not text:
            return Versions(1, 0)
        if text.endswith("+"):
            return Versions(int(text[:-1]), MAX_VERSION)
        first, _, last = text.partition("-")
        return Versions(int(first), int(last or first))


class Scalar(NamedTuple):
    """A type of fixed size: its `struct` letters, its size, its value when nothing is said."""

    name: str
    code: str
    size: int
    zero: object


class Blob(NamedTuple):
    """A type with a length in front: text, bytes that are copied, or records that never are."""

    name: str
    zero: object


class Array(NamedTuple):
    """Any number of one thing."""

    of: "Scalar | Blob | type[Struct]"


Bool = Scalar("bool", "?", 1, False)
Int8 = Scalar("int8", "b", 1, 0)
Int16 = Scalar("int16", "h", 2, 0)
Int32 = Scalar("int32", "i", 4, 0)
Int64 = Scalar("int64", "q", 8, 0)
UInt16 = Scalar("uint16", "H", 2, 0)
UInt32 = Scalar("uint32", "I", 4, 0)
Float64 = Scalar("float64", "d", 8, 0.0)
Uuid = Scalar("uuid", "16s", 16, NO_UUID)
String = Blob("string", "")
Bytes = Blob("bytes", b"")
Records = Blob("records", None)

_REQUIRED: Any = type("Required", (), {"__repr__": lambda self: "required"})()


class Field(NamedTuple):
    """How one attribute travels."""

    type: Any  # Scalar | Blob | Array | type[Struct]; Any spares every reader of it a cast
    versions: Versions
    nullable: Versions
    tag: int | None
    given: Any

    @property
    def required(self) -> bool:
        return self.given is _REQUIRED

    @property
    def default(self) -> Any:
        """What an attribute is in a version that does not carry it."""
        if self.given is not _REQUIRED:
            return self.given
        if isinstance(self.type, Array):
            return ()
        return getattr(self.type, "zero", None)


def field(
    type: Any, versions: str = "0+", *, nullable: str = "", tag: int | None = None, default: Any = _REQUIRED
) -> Any:
    """Declare one attribute of a `Struct`."""
    return Field(type, Versions.parse(versions), Versions.parse(nullable), tag, default)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class StructType(type):
    """Turns declared fields into slots; the constructor is compiled when the first one is built by name."""

    fields: Mapping[str, Field]

    def __new__(mcs, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> "StructType":
        fields = {key: value for key, value in space.items() if isinstance(value, Field)}
        kept = {key: value for key, value in space.items() if key not in fields}
        cls = super().__new__(mcs, name, bases, {**kept, "__slots__": tuple(fields)})
        cls.fields = fields
        return cls


class Struct(metaclass=StructType):
    """One piece of a message, whatever the version."""

    fields: ClassVar[Mapping[str, Field]]

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        setattr(cls, "__init__", _constructor(cls))  # noqa: B010 - mypy forbids the plain assignment
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_same(getattr(self, name), getattr(other, name)) for name in self.fields)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.fields)
        return f"{type(self).__name__}({inside})"


def _same(one: object, other: object) -> bool:
    """Equal, and a list equals a tuple: decoding makes lists, defaults are tuples."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return list(one) == list(other)
    return one == other


def _constructor(cls: type[Struct]) -> Any:
    """An `__init__` that stores each argument in its slot.

    Callers name all arguments, the type checker sees to it; that the function itself does not insist, and
    has the required ones first, makes the call cheaper.
    """
    required = [name for name, declared in cls.fields.items() if declared.required]
    defaults = {name: declared.given for name, declared in cls.fields.items() if not declared.required}
    space: dict[str, Any] = {f"_{name}": value for name, value in defaults.items()}
    arguments = ", ".join(["self", *required, *(f"{name}=_{name}" for name in defaults)])
    body = "\n".join(f"    self.{name} = {name}" for name in cls.fields) or "    pass"
    exec(f"def __init__({arguments}):\n{body}\n", space)
    return space["__init__"]
