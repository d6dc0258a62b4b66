"""Writes the encoding function of one message in one version.

The function returns segments: everything goes into one bytearray, except records, which are handed on as they
are between the bytes before and the bytes after them. Neighbouring fields of fixed size are packed together,
and a short length or an empty set of tags rides along.
"""

from collections.abc import Callable
from struct import error as LayoutError
from struct import pack as _pack
from typing import Any

from rookery.core.wire.primitives import UVARINTS, Buffer, WireError, uvarint_bytes
from rookery.core.wire.schema import Array, Field, Records, Scalar, String, Struct, Uuid, field
from rookery.core.wire.source import Source

Encode = Callable[[Any], list[Buffer]]


def compile_writer(title: str, cls: type[Struct], version: int, flexible: bool) -> Encode:
    """A function `(message) -> segments` for this version."""
    return _Writer(title, version, flexible).compile(cls)


class _Writer:
    def __init__(self, title: str, version: int, flexible: bool) -> None:
        self.title = title
        self.version = version
        self.flexible = flexible
        self.out = Source()
        self.run: list[tuple[str, str]] = []  # (layout code, expression) not yet packed

    def compile(self, cls: type[Struct]) -> Encode:
        out = self.out
        out.names.update(
            WireError=WireError, LayoutError=LayoutError, UVARINTS=UVARINTS, uvarint=uvarint_bytes, pack=_pack
        )
        with out.block("try:"):
            out.line("out = bytearray(); parts = []")
            self.struct(cls, "message")
            self.flush()
            out.line("if out: parts.append(out)")
            out.line("return parts")
        with out.block("except (LayoutError, AttributeError, TypeError, UnicodeEncodeError) as error:"):
            out.line(f"raise WireError(f'cannot encode {self.title}: {{error}}') from error")
        return out.compile(self.title, "def encode(message):")

    # fixed-size runs

    def put(self, code: str, expression: str = "") -> None:
        self.run.append((code, expression))

    def packed(self, run: list[tuple[str, str]]) -> str:
        """An expression for the bytes of a run."""
        codes = "".join(code for code, _ in run)
        if not codes.strip("x"):
            return repr(bytes(len(codes)))
        arguments = ", ".join(expression for _, expression in run if expression)
        return f"{self.out.layout(codes, 'pack')}({arguments})"

    def flush(self) -> None:
        run, self.run = self.run, []
        if run:
            self.out.line(f"out += {self.packed(run)}")

    def count(self, n: str, code: str) -> None:
        """A length or count that the local `n` holds, already plus one if the version is flexible."""
        out = self.out
        if not self.flexible:
            self.put(code, n)
            self.flush()
            return
        run, self.run = self.run, []
        if not run:
            out.line(f"out += UVARINTS[{n}] if {n} < {len(UVARINTS)} else uvarint({n})")
            return
        with out.block(f"if {n} < 128:"):
            out.line(f"out += {self.packed([*run, ('B', n)])}")
        with out.block("else:"):
            out.line(f"out += {self.packed(run)}")
            out.line(f"out += uvarint({n})")

    # values

    def struct(self, cls: type[Struct], owner: str) -> None:
        tagged: dict[str, Field] = {}
        for name, declared in cls.fields.items():
            if self.version in declared.versions:
                if declared.tag is None:
                    self.value(declared, f"{owner}.{name}")
                else:
                    tagged[name] = declared
        if self.flexible:
            self.tags(tagged, owner)

    def value(self, declared: Field, expression: str) -> None:
        kind = declared.type
        nullable = self.version in declared.nullable
        if isinstance(kind, Scalar):
            self.put(kind.code, f"{expression}.bytes" if kind is Uuid else expression)
        elif isinstance(kind, Array):
            self.array(kind, nullable, expression)
        elif isinstance(kind, type):
            self.nested(kind, nullable, expression)
        else:
            self.blob(kind, nullable, expression)

    def nested(self, cls: type[Struct], nullable: bool, expression: str) -> None:
        out = self.out
        name = out.fresh("v")
        out.line(f"{name} = {expression}")
        if not nullable:
            self.struct(cls, name)
            return
        self.flush()
        with out.block(f"if {name} is None:"):
            out.line(r"out += b'\xff'")
        with out.block("else:"):
            out.line(r"out += b'\x01'")
            self.struct(cls, name)
            self.flush()

    def measured(self, nullable: bool, expression: str, convert: str) -> tuple[str, str]:
        """Locals for a value and its length: plus one in flexible versions, 0 or -1 for null."""
        out = self.out
        name, n = out.fresh("v"), out.fresh("n")
        plus = " + 1" if self.flexible else ""
        if not nullable:
            out.line(f"{name} = {expression}{convert}")
            out.line(f"{n} = len({name}){plus}")
            return name, n
        out.line(f"{name} = {expression}")
        with out.block(f"if {name} is None:"):
            out.line(f"{name} = b''; {n} = {0 if self.flexible else -1}")
        with out.block("else:"):
            if convert:
                out.line(f"{name} = {name}{convert}")
            out.line(f"{n} = len({name}){plus}")
        return name, n

    def blob(self, kind: Any, nullable: bool, expression: str) -> None:
        name, n = self.measured(nullable, expression, ".encode()" if kind is String else "")
        self.count(n, "h" if kind is String else "i")
        if kind is not Records:
            self.out.line(f"out += {name}")
            return
        with self.out.block(f"if {name}:"):
            self.out.line(f"parts.append(out); parts.append({name}); out = bytearray()")

    def array(self, kind: Array, nullable: bool, expression: str) -> None:
        out = self.out
        name, n = self.measured(nullable, expression, "")
        self.count(n, "i")
        if isinstance(kind.of, Scalar) and kind.of is not Uuid:
            out.line(f"if {name}: out += pack(f'>{{len({name})}}{kind.of.code}', *{name})")
            return
        element = out.fresh("e")
        with out.block(f"for {element} in {name}:"):
            declared: Field = field(kind.of)
            self.value(declared, element)
            self.flush()

    # tagged fields

    def tags(self, tagged: dict[str, Field], owner: str) -> None:
        """The tagged fields at the end of a struct: ascending, only those that differ from their default."""
        out = self.out
        if not tagged:
            self.put("x")
            return
        present: list[tuple[str, str, Field]] = []
        for name, declared in sorted(tagged.items(), key=lambda item: item[1].tag or 0):
            local, there = out.fresh("v"), out.fresh("c")
            out.line(f"{local} = {owner}.{name}")
            out.line(f"{there} = {self.differs(declared, local)}")
            present.append((local, there, declared))
        run, self.run = self.run, []
        with out.block(f"if {' or '.join(there for _, there, _ in present)}:"):
            if run:
                out.line(f"out += {self.packed(run)}")
            out.line(f"out += UVARINTS[{' + '.join(there for _, there, _ in present)}]")
            for local, there, declared in present:
                with out.block(f"if {there}:"):
                    self.tag(local, declared)
        with out.block("else:"):
            out.line(f"out += {self.packed([*run, ('x', '')])}")

    def tag(self, local: str, declared: Field) -> None:
        out = self.out
        outer = out.fresh("outer")
        out.line(f"{outer} = out; out = bytearray()")
        self.value(declared, local)
        self.flush()
        out.line(f"{outer} += {uvarint_bytes(declared.tag or 0)!r} + uvarint(len(out)) + out; out = {outer}")

    def differs(self, declared: Field, local: str) -> str:
        """Whether a tagged field has another value than its default."""
        default = declared.default
        if default is None:
            return f"{local} is not None"
        if default == ():
            return f"{local} is None or len({local}) > 0"
        if isinstance(default, (int, str, bytes)):
            return f"{local} != {default!r}"
        return f"{local} != {self.out.bind('default', default, repr(default))}"
