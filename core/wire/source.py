"""Straight-line Python, written line by line and compiled once: what reader and writer share."""

import linecache
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from struct import Struct as Layout
from typing import Any

_FEW = 17
_LAYOUTS: dict[tuple[str, str, str], tuple[Callable[..., Any], ...]] = {}


class Source:
    """A function that is being generated: its lines, fresh names, and the objects its code refers to."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.lines: list[str] = []
        self.names = dict(names)
        self._depth = 1
        self._counter = 0
        self._bound: dict[tuple[str, Any], str] = {}

    def line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        self._counter += 1
        return f"{stem}{self._counter}"

    def bind(self, stem: str, value: Any, key: Any) -> str:
        """A name for an object the generated code uses; the same object keeps one name."""
        name = self._bound.get((stem, key))
        if name is None:
            name = self._bound[stem, key] = f"{stem}_{len(self._bound)}"
            self.names[name] = value
        return name

    def layout(self, codes: str, method: str) -> str:
        """A bound method of the `struct` layout for these big-endian codes."""
        return self.bind(method, getattr(Layout(">" + codes), method), codes)

    def layouts(self, code: str, method: str, before: str = "") -> str:
        """The same for 0, 1, 2 ... of one code, with another code in front."""
        key = (code, method, before)
        if key not in _LAYOUTS:
            _LAYOUTS[key] = tuple(getattr(Layout(f">{before}{n}{code}"), method) for n in range(_FEW))
        return self.bind("few", _LAYOUTS[key], key)

    def compile(self, title: str, head: str) -> Callable[..., Any]:
        """The function, with its text kept where tracebacks look for it."""
        text = "\n".join([head, *self.lines, ""])
        name = head[4 : head.index("(")]
        filename = f"<{name} {title}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        exec(compile(text, filename, "exec"), self.names)
        function: Callable[..., Any] = self.names[name]
        return function
