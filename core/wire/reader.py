"""Writes the decoding function of one message in one version.

Neighbouring fields of fixed size are unpacked together, and the first byte of a length, of an array's count or of the
tags' count rides along. Nothing is taken on trust: a length or count is compared with the bytes that remain before
anything is sliced or looped over, because Python slices silently stop at the end of a buffer. In requests the elements
of all arrays are counted, too: bytes alone do not say what they cost.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from struct import error as LayoutError
from struct import unpack_from
from typing import Any

from rookery.core.wire.primitives import (
    SHORT,
    TAGS_MAX,
    WireError,
    bytes_at,
    compact_bytes,
    finish_uvarint,
    read_uvarint,
    skip_tags,
    uuid_of,
)
from rookery.core.wire.schema import Array, Field, Records, Scalar, String, Struct, Uuid, field
from rookery.core.wire.source import Source

Decode = Callable[..., Any]

ELEMENTS_MAX = 200_000
"""Of all arrays of one request together. An element of three bytes becomes an object of a hundred, and costs time that
other clients wait for; a large follower names some thousands of partitions."""

_SIZES = {"?": 1, "b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}
_NAMES = {
    "WireError": WireError,
    "LayoutError": LayoutError,
    "SHORT": SHORT,
    "bytes_at": bytes_at,
    "compact_bytes": compact_bytes,
    "finish": finish_uvarint,
    "varint": read_uvarint,
    "skip_tags": skip_tags,
    "uuid_of": uuid_of,
    "unpack_from": unpack_from,
    "new": object.__new__,
}


def compile_reader(title: str, cls: type[Struct], version: int, flexible: bool) -> Decode:
    """A function `(buf, pos=0) -> cls` for this version."""
    return _Reader(title, version, flexible, bounded=False).compile(cls)


def compile_request_reader(title: str, cls: type[Struct], version: int, flexible: bool) -> Decode:
    """The same for requests of clients: at most `ELEMENTS_MAX` elements in all arrays together."""
    return _Reader(title, version, flexible, bounded=True).compile(cls)


def smallest(kind: Any, version: int, flexible: bool) -> int:
    """The fewest bytes a value of this type can take: what bounds an array's count."""
    if isinstance(kind, Scalar):
        return kind.size
    if kind is String:
        return 1 if flexible else 2
    if not (isinstance(kind, type) and issubclass(kind, Struct)):
        return 1 if flexible else 4
    size = 1 if flexible else 0
    for declared in kind.fields.values():
        if version in declared.versions and declared.tag is None:
            nullable_struct = version in declared.nullable and isinstance(declared.type, type)
            size += 1 if nullable_struct else smallest(declared.type, version, flexible)
    return size


class _Reader:
    def __init__(self, title: str, version: int, flexible: bool, *, bounded: bool) -> None:
        self.title = title
        self.bounded = bounded
        self.version = version
        self.flexible = flexible
        self.out = Source(_NAMES)
        self.run: list[tuple[str, str]] = []  # (layout code, local name) not yet unpacked

    def compile(self, cls: type[Struct]) -> Decode:
        out = self.out
        with out.block("try:"):
            if _has_records(cls):
                out.line("if type(buf) is not memoryview: buf = memoryview(buf)")
            start = len(out.lines)
            out.line(f"return {self.struct(cls)}")
            if any(" end" in line for line in out.lines):
                out.lines.insert(start, "        end = len(buf)")
            if any("left -=" in line for line in out.lines):
                out.lines.insert(start, f"        left = {ELEMENTS_MAX}")
        with out.block("except (LayoutError, IndexError, UnicodeDecodeError) as error:"):
            out.line(f"raise WireError(f'malformed {self.title}: {{error}}') from error")
        return out.compile(self.title, "def decode(buf, p=0):")

    # fixed-size runs

    def take(self, code: str, name: str) -> None:
        self.run.append((code, name))

    def flush(self, stay: int = 0) -> None:
        """Unpack what is waiting; the position stays on the last `stay` bytes of it."""
        run, self.run = self.run, []
        if not run:
            return
        codes = "".join(code for code, _ in run)
        size = sum(_SIZES[code] for code, _ in run) - stay
        names = ", ".join(name for _, name in run)
        read = "buf[p]"
        if codes != "B":
            comma = "," if len(run) == 1 else ""
            names, read = names + comma, f"{self.out.layout(codes, 'unpack_from')}(buf, p)"
        self.out.line(f"{names} = {read}" + (f"; p += {size}" if size else ""))

    # values

    def struct(self, cls: type[Struct]) -> str:
        """Code that reads the struct; the name of the local that holds it."""
        out = self.out
        made = out.fresh("o")
        values: dict[str, str] = {}
        tagged: dict[str, Field] = {}
        for name, declared in cls.fields.items():
            if self.version not in declared.versions:
                values[name] = self.constant(declared)
            elif declared.tag is not None:
                tagged[name] = declared
                values[name] = out.fresh("v")
            else:
                values[name] = self.value(declared, f"{cls.__name__}.{name}")
        if self.flexible:
            self.tags(tagged, values, cls)
        self.flush()
        out.line(f"{made} = new({out.bind(cls.__name__, cls, cls)})")
        for name, value in values.items():
            out.line(f"{made}.{name} = {value}")
        return made

    def constant(self, declared: Field) -> str:
        value = declared.default
        if value is None or isinstance(value, int | str | bytes) or value == ():
            return repr(value)
        return self.out.bind("default", value, repr(value))

    def value(self, declared: Field, where: str) -> str:
        """Code that reads one field; an expression for it, valid once the run is flushed."""
        kind = declared.type
        nullable = self.version in declared.nullable
        if isinstance(kind, Scalar):
            name = self.out.fresh("v")
            self.take(kind.code, name)
            return f"uuid_of({name})" if kind is Uuid else name
        if isinstance(kind, Array):
            return self.array(kind, nullable, where)
        if isinstance(kind, type):
            return self.optional_struct(kind, tagged=declared.tag is not None) if nullable else self.struct(kind)
        if kind is Records:
            return self.records(nullable, where)
        return self.blob(kind, nullable, where)

    def optional_struct(self, cls: type[Struct], *, tagged: bool = False) -> str:
        """Null is -1 before the struct, in tagged fields 0."""
        out = self.out
        marker, name = out.fresh("n"), out.fresh("v")
        self.take("b", marker)
        self.flush()
        with out.block(f"if {marker} {'<=' if tagged else '<'} 0:"):
            out.line(f"{name} = None")
        with out.block("else:"):
            out.line(f"{name} = {self.struct(cls)}")
        return name

    def length(
        self, code: str, name: str, nullable: bool, where: str, large: bool = False
    ) -> tuple[str, AbstractContextManager[None]]:
        """Code that reads a length or count: its local, and the block in which there is a value at all.

        In flexible versions the local is one more than the length, 0 for null, as it travels. Lengths that
        are often `large` have the second and third byte of their varint read in place.
        """
        out = self.out
        n = out.fresh("n")
        self.take("B" if self.flexible else code, n)
        self.flush()
        if self.flexible and large:
            with out.block(f"if {n} > 127:"):
                out.line("m = buf[p]; k = buf[p + 1]")
                out.line(f"if m < 128: {n} = {n} & 127 | m << 7; p += 1")
                out.line(f"elif k < 128: {n} = {n} & 127 | (m & 127) << 7 | k << 14; p += 2")
                out.line(f"else: {n}, p = finish(buf, p, {n})")
        elif self.flexible:
            out.line(f"if {n} > 127: {n}, p = finish(buf, p, {n})")
        with out.block(f"if {n} == 0:" if self.flexible else f"if {n} < 0:"):
            if nullable:
                out.line(f"{name} = None")
            else:
                out.line(f"raise WireError('{self.title}: {where} must not be null')")
        return (f"{n} - 1" if self.flexible else n), out.block("else:")

    def blob(self, kind: Any, nullable: bool, where: str) -> str:
        """Text or bytes, copied out of the buffer."""
        if self.flexible:
            return self.compact_blob(kind, nullable)
        name = self.out.fresh("v")
        n, there = self.length("h" if kind is String else "i", name, nullable, where)
        decode = ".decode()" if kind is String else ""
        with there:
            self.out.line(f"{name} = bytes_at(buf, p, {n}){decode}; p += {n}")
        return name

    def compact_blob(self, kind: Any, nullable: bool) -> str:
        """The same in flexible versions; up to 126 bytes need one look-up and one call."""
        out = self.out
        name, n = out.fresh("v"), out.fresh("n")
        self.take("B", n)
        self.flush(stay=1)
        decode = ".decode()" if kind is String else ""
        if nullable:
            out.line(f"if {n} == 0: {name} = None; p += 1")
        word = "elif" if nullable else "if"
        out.line(f"{word} {n} < 128: {name} = SHORT[{n}](buf, p)[0]{decode}; p += {n}")
        with out.block("else:"):
            out.line(f"{name}, p = compact_bytes(buf, p)")
            if decode:
                out.line(f"{name} = {name}{decode}")
        return name

    def records(self, nullable: bool, where: str) -> str:
        """A view into the buffer."""
        out = self.out
        name = out.fresh("v")
        n, there = self.length("i", name, nullable, where, large=True)
        with there:
            out.line(f"q = p + {n}")
            with out.block("if q > end:"):
                out.line(f"raise WireError(f'{self.title}: {where} reaches {{q - end}} bytes past the message')")
            out.line(f"{name} = buf[p:q]; p = q")
        return name

    def array(self, kind: Array, nullable: bool, where: str) -> str:
        out = self.out
        name = out.fresh("v")
        least = smallest(kind.of, self.version, self.flexible)
        if least == 0:
            raise TypeError(f"{self.title}: elements of {where} take no bytes, so their count has no bound")
        n, there = self.length("i", name, nullable, where)
        with there:
            out.line(f"n = {n}")
            with out.block(f"if n * {least} > end - p:"):
                out.line(f"raise WireError(f'{self.title}: {{n}} of {where}, {{end - p}} bytes remain')")
            self.count("n")
            if isinstance(kind.of, Scalar):
                self.scalars(name, kind.of)
            else:
                self.elements(name, kind.of, where)
        return name

    def count(self, number: str) -> None:
        """Code that counts elements, and refuses too many."""
        if self.bounded:
            self.out.line(f"left -= {number}")
            with self.out.block("if left < 0:"):
                self.out.line(f"raise WireError('{self.title}: more than {ELEMENTS_MAX} elements')")

    def scalars(self, name: str, kind: Scalar) -> None:
        out = self.out
        if kind is Uuid:
            out.line(f"{name} = [uuid_of(bytes(buf[i:i + 16])) for i in range(p, p + 16 * n, 16)]")
        else:
            few = out.layouts(kind.code, "unpack_from")
            many = f"unpack_from(f'>{{n}}{kind.code}', buf, p)"
            out.line(f"{name} = list({few}[n](buf, p) if n < len({few}) else {many})")
        out.line(f"p += {kind.size} * n")

    def elements(self, name: str, kind: Any, where: str) -> None:
        out = self.out
        out.line(f"{name} = []")
        with out.block("for _ in range(n):"):
            declared: Field = field(kind)
            element = self.value(declared, where)
            self.flush()
            out.line(f"{name}.append({element})")

    # tagged fields

    def tags(self, tagged: dict[str, Field], values: dict[str, str], cls: type[Struct]) -> None:
        """The tagged fields at the end of a struct; those that are not declared are stepped over."""
        out = self.out
        t = out.fresh("t")
        self.take("B", t)
        self.flush()
        for name, declared in tagged.items():
            out.line(f"{values[name]} = {self.constant(declared)}")
        with out.block(f"if {t}:"):
            self.count(t)
            if tagged:
                self.known_tags(t, tagged, values, cls)
            else:
                out.line(f"p = skip_tags(buf, p, {t})")

    def known_tags(self, t: str, tagged: dict[str, Field], values: dict[str, str], cls: type[Struct]) -> None:
        out = self.out
        tag, stop = out.fresh("tag"), out.fresh("stop")
        out.line(f"if {t} > 127: {t}, p = finish(buf, p, {t})")
        with out.block(f"if {t} * 2 > end - p or {t} > {TAGS_MAX}:"):
            out.line(f"raise WireError(f'{self.title}: {{{t}}} tagged fields, {{end - p}} bytes remain')")
        with out.block(f"for _ in range({t}):"):
            out.line(f"{tag}, p = varint(buf, p)")
            out.line("n, p = varint(buf, p)")
            out.line(f"{stop} = p + n")
            with out.block(f"if {stop} > end:"):
                out.line(f"raise WireError(f'{self.title}: tag {{{tag}}} reaches past the message')")
            for name, declared in tagged.items():
                with out.block(f"if {tag} == {declared.tag}:"):
                    value = self.value(declared, f"{cls.__name__}.{name}")
                    self.flush()
                    out.line(f"{values[name]} = {value}")
            with out.block(f"if p > {stop}:"):
                out.line(f"raise WireError(f'{self.title}: tag {{{tag}}} is longer than its size says')")
            out.line(f"p = {stop}")


def _has_records(cls: type[Struct]) -> bool:
    for declared in cls.fields.values():
        inner = declared.type.of if isinstance(declared.type, Array) else declared.type
        if inner is Records or (isinstance(inner, type) and _has_records(inner)):
            return True
    return False
