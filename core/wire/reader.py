"""Writes the decoding function of one message in one version.

Neighbouring fields of fixed size are unpacked together, and the first byte of a length, of an array's count
or of the tags' count rides along. Nothing is taken on trust: a length or count is compared with the bytes
that remain before anything is sliced or looped over, because Python slices run past the end in silence.
"""

from collections.abc import Callable
from struct import error as LayoutError
from struct import unpack_from as _unpack_from
from typing import Any

from rookery.core.wire.primitives import WireError, finish_uvarint, read_uvarint, skip_tags, uuid_of
from rookery.core.wire.schema import Array, Bytes, Field, Records, Scalar, String, Struct, Uuid, field
from rookery.core.wire.source import Source

Decode = Callable[..., Any]

_SIZES = {"?": 1, "b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8}


def compile_reader(title: str, cls: type[Struct], version: int, flexible: bool) -> Decode:
    """A function `(buf, pos=0) -> cls` for this version."""
    return _Reader(title, version, flexible).compile(cls)


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


def _carries_records(cls: type[Struct]) -> bool:
    return any(
        declared.type is Records
        or (isinstance(declared.type, type) and _carries_records(declared.type))
        or (isinstance(declared.type, Array) and isinstance(declared.type.of, type)
            and _carries_records(declared.type.of))
        for declared in cls.fields.values()
    )


class _Reader:
    def __init__(self, title: str, version: int, flexible: bool) -> None:
        self.title = title
        self.version = version
        self.flexible = flexible
        self.out = Source()
        self.run: list[tuple[str, str]] = []  # (layout code, local name) not yet unpacked
        self.views = False

    def compile(self, cls: type[Struct]) -> Decode:
        out = self.out
        out.names.update(
            WireError=WireError, LayoutError=LayoutError, finish=finish_uvarint, varint=read_uvarint,
            skip_tags=skip_tags, uuid_of=uuid_of, new=object.__new__,
        )
        self.views = _carries_records(cls)
        with out.block("try:"):
            if self.views:
                out.line("if type(buf) is not memoryview: buf = memoryview(buf)")
            else:
                out.line("if type(buf) is not bytes: buf = bytes(buf)")
            out.line("end = len(buf)")
            out.line(f"return {self.struct(cls)}")
        with out.block("except (LayoutError, IndexError, UnicodeDecodeError) as error:"):
            out.line(f"raise WireError(f'malformed {self.title}: {{error}}') from error")
        return out.compile(self.title, "def decode(buf, p=0):")

    # fixed-size runs

    def take(self, code: str, name: str) -> None:
        self.run.append((code, name))

    def flush(self) -> None:
        run, self.run = self.run, []
        if not run:
            return
        if run == [("B", run[0][1])]:
            self.out.line(f"{run[0][1]} = buf[p]; p += 1")
            return
        codes = "".join(code for code, _ in run)
        size = sum(16 if code == "16s" else _SIZES[code] for code, _ in run)
        names = ", ".join(name for _, name in run)
        comma = "," if len(run) == 1 else ""
        self.out.line(f"{names}{comma} = {self.out.layout(codes, 'unpack_from')}(buf, p); p += {size}")

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
        if value is None or isinstance(value, (int, str, bytes)) or value == ():
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
            return self.optional_struct(kind, where) if nullable else self.struct(kind)
        return self.blob(kind, nullable, where)

    def optional_struct(self, cls: type[Struct], where: str) -> str:
        out = self.out
        marker, name = out.fresh("n"), out.fresh("v")
        self.take("b", marker)
        self.flush()
        with out.block(f"if {marker} < 0:"):
            out.line(f"{name} = None")
        with out.block("else:"):
            out.line(f"{name} = {self.struct(cls)}")
        return name

    def length(self, code: str) -> str:
        """Code that reads a length or count; the local holding it, below zero for null."""
        n = self.out.fresh("n")
        self.take("B" if self.flexible else code, n)
        self.flush()
        if self.flexible:
            self.out.line(f"if {n} > 127: {n}, p = finish(buf, p, {n})")
            self.out.line(f"{n} -= 1")
        return n

    def null_or(self, name: str, n: str, nullable: bool, where: str) -> Any:
        """Open the block in which the value is there."""
        with self.out.block(f"if {n} < 0:"):
            if nullable:
                self.out.line(f"{name} = None")
            else:
                self.out.line(f"raise WireError('{self.title}: {where} must not be null')")
        return self.out.block("else:")

    def blob(self, kind: Any, nullable: bool, where: str) -> str:
        out = self.out
        n = self.length("h" if kind is String else "i")
        name = out.fresh("v")
        with self.null_or(name, n, nullable, where):
            out.line(f"q = p + {n}")
            with out.block("if q > end:"):
                out.line(f"raise WireError(f'{self.title}: {where} of {{{n}}} bytes, {{end - p}} remain')")
            if kind is String:
                out.line(f"{name} = " + ("str(buf[p:q], 'utf-8')" if self.views else "buf[p:q].decode()"))
            elif kind is Bytes:
                out.line(f"{name} = " + ("bytes(buf[p:q])" if self.views else "buf[p:q]"))
            else:
                out.line(f"{name} = buf[p:q]")
            out.line("p = q")
        return name

    def array(self, kind: Array, nullable: bool, where: str) -> str:
        out = self.out
        n = self.length("i")
        name = out.fresh("v")
        least = smallest(kind.of, self.version, self.flexible)
        if least == 0:
            raise TypeError(f"{self.title}: elements of {where} take no bytes, so their count has no bound")
        with self.null_or(name, n, nullable, where):
            with out.block(f"if {n} * {least} > end - p:"):
                out.line(f"raise WireError(f'{self.title}: {{{n}}} of {where}, {{end - p}} bytes remain')")
            if isinstance(kind.of, Scalar):
                self.scalars(name, n, kind.of)
            else:
                out.line(f"{name} = []")
                with out.block(f"for _ in range({n}):"):
                    element = self.value(_plain(kind.of), where)
                    self.flush()
                    out.line(f"{name}.append({element})")
        return name

    def scalars(self, name: str, n: str, kind: Scalar) -> None:
        out = self.out
        if kind is Uuid:
            out.line(f"{name} = [uuid_of(bytes(buf[i:i + 16])) for i in range(p, p + 16 * {n}, 16)]")
        else:
            unpack = out.bind("unpack_from", _unpack_from, "")
            out.line(f"{name} = list({unpack}(f'>{{{n}}}{kind.code}', buf, p))")
        out.line(f"p += {kind.size} * {n}")

    # tagged fields

    def tags(self, tagged: dict[str, Field], values: dict[str, str], cls: type[Struct]) -> None:
        """The tagged fields at the end of a struct; those nobody declared are stepped over."""
        out = self.out
        t = out.fresh("t")
        self.take("B", t)
        self.flush()
        for name, declared in tagged.items():
            out.line(f"{values[name]} = {self.constant(declared)}")
        with out.block(f"if {t}:"):
            if not tagged:
                out.line(f"p = skip_tags(buf, p, {t})")
                return
            out.line(f"if {t} > 127: {t}, p = finish(buf, p, {t})")
            tag, size, stop = out.fresh("tag"), out.fresh("n"), out.fresh("stop")
            with out.block(f"if {t} * 2 > end - p:"):
                out.line(f"raise WireError(f'{self.title}: {{{t}}} tagged fields, {{end - p}} bytes remain')")
            with out.block(f"for _ in range({t}):"):
                out.line(f"{tag}, p = varint(buf, p)")
                out.line(f"{size}, p = varint(buf, p)")
                out.line(f"{stop} = p + {size}")
                with out.block(f"if {stop} > end:"):
                    out.line(f"raise WireError(f'{self.title}: tag {{{tag}}} reaches past the message')")
                word = "if"
                for name, declared in tagged.items():
                    with out.block(f"{word} {tag} == {declared.tag}:"):
                        value = self.value(declared, f"{cls.__name__}.{name}")
                        self.flush()
                        out.line(f"{values[name]} = {value}")
                    word = "elif"
                with out.block(f"if p > {stop}:"):
                    out.line(f"raise WireError(f'{self.title}: tag {{{tag}}} is longer than its size says')")
                out.line(f"p = {stop}")


def _plain(kind: Any) -> Field:
    declared: Field = field(kind)
    return declared
