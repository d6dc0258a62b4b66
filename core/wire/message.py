"""A versioned message: a struct class, its range of versions, and codecs compiled when first used."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rookery.core.wire.primitives import Buffer, WireError
from rookery.core.wire.reader import compile_reader
from rookery.core.wire.schema import Struct, Versions
from rookery.core.wire.writer import compile_writer

Value = TypeVar("Value", bound=Struct)
Compile = Callable[[str, type[Struct], int, bool], Callable[..., Any]]


class Message(Generic[Value]):
    """Requests and responses are messages, and so is everything else that travels in Kafka's schema language.

    `readers` and `writers` give the compiled function for a version.
    """

    def __init__(
        self, name: str, struct: type[Value], versions: str, flexible: str = "", *, read: Compile = compile_reader
    ) -> None:
        self.name = name
        self.struct = struct
        self.min_version, self.max_version = Versions.parse(versions)
        self.flexible_from: int | None = Versions.parse(flexible).first if flexible else None
        self.readers = _Codecs(self, read)
        self.writers = _Codecs(self, compile_writer)

    def flexible(self, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields."""
        return self.flexible_from is not None and version >= self.flexible_from

    def supports(self, version: int) -> bool:
        """Whether the version is declared at all."""
        return self.min_version <= version <= self.max_version

    def decode(self, version: int, buf: Buffer, pos: int = 0) -> Value:
        """The value that starts at `pos`; bytes after it are ignored."""
        return self.readers[version](buf, pos)  # type: ignore[no-any-return]

    def encode(self, version: int, value: Value) -> list[Buffer]:
        """The value as segments."""
        return self.writers[version](value)  # type: ignore[no-any-return]


class _Codecs(dict[int, Callable[..., Any]]):
    """The functions of one message by version, each made when it is first asked for."""

    def __init__(self, message: Message[Any], make: Compile) -> None:
        super().__init__()
        self._message = message
        self._make = make

    def __missing__(self, version: int) -> Callable[..., Any]:
        message = self._message
        if not message.supports(version):
            raise WireError(
                f"{message.name} has versions {message.min_version} to {message.max_version}, not {version}"
            )
        title = f"{message.name} v{version}"
        codec = self._make(title, message.struct, version, message.flexible(version))
        self[version] = codec
        return codec
