"""Writes the encoding function of one message in one version.

The function returns segments: everything goes into one bytearray, except records, which are handed on as they
are between the bytes before and the bytes after them. Neighbouring fields of fixed size are packed together,
and a short length or an empty set of tags rides along.
"""

from collections.abc import Callable
from struct import error as LayoutError
from struct import pack
from typing import Any

from rookery.core.wire.primitives import UVARINTS, Buffer, WireError, uvarint_bytes
from rookery.core.wire.schema import Array, Field, Records, Scalar, String, Struct, Uuid, field
from rookery.core.wire.source import Source

Encode = Callable[[Any], list[Buffer]]

_NAMES = {
    "WireError": WireError,
    "LayoutError": LayoutError,
    "UVARINTS": UVARINTS,
    "uvarint": uvarint_bytes,
    "pack": pack,
}


def compile_writer(title: str, cls: type[Struct], version: int, flexible: bool) -> Encode:
    """A function `(message) -> segments` for this version."""
    return _Writer(title, version, flexible).compile(cls)


class _Writer:
    def __init__(self, title: str, version: int, flexible: bool) -> None:
        self.title = title
        self.version = version
        self.flexible = flexible
        self.out = Source(_NAMES)
        self.run: list[tuple[str, str]] = []  # (layout code, expression) not yet packed

    def compile(self, cls: type[Struct]) -> Encode:
        out = self.out
        with out.block("try:"):
            start = len(out.lines)
            self.struct(cls, "message")
            if len(out.lines) == start and self.run:
                out.line(f"return [{self.packed(self.run)}]")  # nothing but numbers
            else:
                self.flush()
                out.line("parts.append(out)")
                out.line("return parts")
                out.lines.insert(start, "        out = bytearray(); parts = []")
        with out.block("except (LayoutError, AttributeError, TypeError, UnicodeEncodeError, OverflowError) as error:"):
            out.line(f"raise WireError(f'cannot encode {self.title}: {{error}}') from error")
        return out.compile(self.title, "def encode(message):")

    # fixed-size runs

    def put(self, code: str, expression: str = "") -> None:
        self.run.append((code, expression))

    def packed(self, run: list[tuple[str, str]]) -> str:
        """An expression for the bytes of a run; code `x` is a zero byte."""
        codes = "".join(code for code, _ in run)
        if not codes.strip("x"):
            return repr(bytes(len(codes)))
        arguments = ", ".join(expression for _, expression in run if expression)
        return f"{self.out.layout(codes, 'pack')}({arguments})"

    def flush(self) -> None:
        run, self.run = self.run, []
        if run:
            self.out.line(f"out += {self.packed(run)}")

    def count(self, n: str, code: str, large: bool = False) -> None:
        """A length or count that the local `n` holds, as it travels; `large` ones get two and three bytes
        without a call."""
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
        if large:
            low, high = ("B", f"{n} & 127 | 128"), ("B", f"{n} >> 7 & 127 | 128")
            with out.block(f"elif {n} < 0x4000:"):
                out.line(f"out += {self.packed([*run, low, ('B', f'{n} >> 7')])}")
            with out.block(f"elif {n} < 0x200000:"):
                out.line(f"out += {self.packed([*run, low, high, ('B', f'{n} >> 14')])}")
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
            self.nested(kind, nullable, expression, tagged=declared.tag is not None)
        else:
            self.blob(kind, nullable, expression)

    def nested(self, cls: type[Struct], nullable: bool, expression: str, *, tagged: bool) -> None:
        """A struct; null is -1 in its place, in tagged fields 0."""
        out = self.out
        name = expression
        if "." in expression:
            name = out.fresh("v")
            out.line(f"{name} = {expression}")
        if not nullable:
            self.struct(cls, name)
            return
        self.flush()
        with out.block(f"if {name} is None:"):
            out.line(r"out += b'\0'" if tagged else r"out += b'\xff'")
        with out.block("else:"):
            out.line(r"out += b'\x01'")
            self.struct(cls, name)
            self.flush()

    def measured(self, nullable: bool, expression: str, convert: str = "") -> tuple[str, str]:
        """Locals for a value and its length as it travels: one more in flexible versions, 0 or -1 for null."""
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
        self.count(n, "h" if kind is String else "i", large=kind is Records)
        if kind is not Records:
            self.out.line(f"out += {name}")
            return
        with self.out.block(f"if {name}:"):
            self.out.line(f"parts.append(out); parts.append({name}); out = bytearray()")

    def array(self, kind: Array, nullable: bool, expression: str) -> None:
        out = self.out
        name, n = self.measured(nullable, expression)
        if isinstance(kind.of, Scalar) and kind.of is not Uuid:
            self.scalars(name, n, kind.of)
            return
        self.count(n, "i")
        element = out.fresh("e")
        with out.block(f"for {element} in {name}:"):
            declared: Field = field(kind.of)
            self.value(declared, element)
            self.flush()

    def scalars(self, name: str, n: str, kind: Scalar) -> None:
        """Short lists of numbers are common (replicas), so count and numbers go through one ready layout."""
        out = self.out
        self.flush()
        few = out.layouts(kind.code, "pack", "B" if self.flexible else "i")
        with out.block(f"if 0 < {n} <= len({few}):" if self.flexible else f"if 0 <= {n} < len({few}):"):
            index = f"{n} - 1" if self.flexible else n
            out.line(f"out += {few}[{index}]({n}, *{name})")
        with out.block("else:"):
            self.count(n, "i")
            out.line(f"out += pack(f'>{{len({name})}}{kind.code}', *{name})")

    # tagged fields

    def tags(self, tagged: dict[str, Field], owner: str) -> None:
        """The tagged fields at the end of a struct: ascending, only those that differ from their default."""
        out = self.out
        if not tagged:
            self.put("x")
            return
        present: list[tuple[str, Field]] = []
        for name, declared in sorted(tagged.items(), key=lambda item: item[1].tag or 0):
            local = out.fresh("v")
            out.line(f"{local} = {owner}.{name}")
            present.append((local, declared))
        run, self.run = self.run, []
        tests = [self.differs(declared, local) for local, declared in present]
        with out.block(f"if {' or '.join(tests)}:"):
            if run:
                out.line(f"out += {self.packed(run)}")
            out.line(f"out.append({' + '.join(f'({test})' for test in tests)})")
            for test, (local, declared) in zip(tests, present, strict=True):
                with out.block(f"if {test}:"):
                    self.tag(local, declared)
        with out.block("else:"):
            out.line(f"out += {self.packed([*run, ('x', '')])}")

    def tag(self, local: str, declared: Field) -> None:
        """One tagged field: its bytes are made first, because their number stands before them."""
        out = self.out
        outer = out.fresh("outer")
        out.line(f"{outer} = out; out = bytearray()")
        self.value(declared, local)
        self.flush()
        out.line(f"{outer} += {uvarint_bytes(declared.tag or 0)!r} + uvarint(len(out)) + out; out = {outer}")

    def differs(self, declared: Field, local: str) -> str:
        """Whether a tagged field has another value than its default. Kafka's default of a struct is an empty one, so
        null is written where it may be."""
        if isinstance(declared.type, type) and self.version in declared.nullable:
            return "True"
        default = declared.default
        if default is None:
            return f"{local} is not None"
        if default == ():
            return f"{local} is None or len({local}) > 0"
        if isinstance(default, int | str | bytes):
            return f"{local} != {default!r}"
        return f"{local} != {self.out.bind('default', default, repr(default))}"
