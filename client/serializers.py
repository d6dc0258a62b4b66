"""What turns keys and values into bytes and back: bytes, text, JSON, or a function of your own."""

import json
from collections.abc import Callable
from typing import Any, cast

from rookery.client.errors import SerializationError

Serializer = Callable[[Any], bytes | None]
Deserializer = Callable[[bytes | None], Any]


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(cast(bytearray, value))
    raise TypeError(
        f"bytes are needed, not {type(value).__name__}; choose a serializer such as 'str' or 'json'"
    )


def _text(value: Any) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"a str is needed, not {type(value).__name__}")
    return value.encode()


def _json(value: Any) -> bytes | None:
    return None if value is None else json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _same(data: bytes | None) -> bytes | None:
    return data


def _from_text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def _from_json(data: bytes | None) -> Any:
    return None if data is None else json.loads(data)


SERIALIZERS: dict[str, Serializer] = {"bytes": _bytes, "str": _text, "string": _text, "json": _json}
DESERIALIZERS: dict[str, Deserializer] = {
    "bytes": _same,
    "str": _from_text,
    "string": _from_text,
    "json": _from_json,
}


def is_serializer(value: Any) -> bool:
    return callable(value) or (isinstance(value, str) and value in SERIALIZERS)


def serializer(value: Any) -> Serializer | None:
    """The function; None for bytes, which need none."""
    if value == "bytes":
        return None
    return SERIALIZERS[value] if isinstance(value, str) else value


def deserializer(value: Any) -> Deserializer | None:
    """The function; None for bytes, which need none."""
    if value == "bytes":
        return None
    return DESERIALIZERS[value] if isinstance(value, str) else value


def serialize(function: Serializer | None, what: str, value: Any) -> bytes | None:
    """`value` as bytes. Raises SerializationError with the cause."""
    try:
        made = _bytes(value) if function is None else function(value)
        return made if type(made) is bytes or made is None else _bytes(made)
    except Exception as error:
        raise SerializationError(f"the {what} cannot be serialized: {error}") from error
