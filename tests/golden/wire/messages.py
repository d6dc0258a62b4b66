"""Random messages of any API and version, from a seed."""

from random import Random
from typing import Any
from uuid import UUID

from rookery.core.wire.api import Api
from rookery.core.wire.api_table import ALL
from rookery.core.wire.schema import (
    Array,
    Bool,
    Bytes,
    Field,
    Float64,
    Records,
    Scalar,
    String,
    Struct,
    UInt16,
    UInt32,
    Uuid,
)

SIDES = ("request", "response")
EVERY_VERSION = [(api, version) for api in ALL for version in range(api.min_version, api.max_version + 1)]

_TEXTS = ("", "a", "orders", "größe-ß", "日本語", "x" * 127, "y" * 128, "z" * 300)
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def case_id(value: object) -> str:
    """A readable test id for an API; the rest is left to pytest."""
    return value.name if isinstance(value, Api) else str(value)


def random_message(cls: type[Struct], version: int, rng: Random, *, plausible: bool = False) -> Any:
    """A struct with every field that this version carries filled at random, and nothing else.

    `plausible` keeps to values that libraries with richer types than ours can hold: known error codes,
    times that are dates.
    """
    message = object.__new__(cls)
    for name, declared in cls.fields.items():
        value = declared.default
        if version in declared.versions:
            value = _value(name, declared, version, rng, plausible)
        setattr(message, name, value)
    return message


def _value(name: str, declared: Field, version: int, rng: Random, plausible: bool) -> Any:
    kind = declared.type
    if declared.tag is not None and rng.random() < 0.4:
        return declared.default
    if version in declared.nullable and rng.random() < 0.25:
        return None
    if isinstance(kind, Array):
        return [_one(name, kind.of, version, rng, plausible) for _ in range(rng.choice((0, 1, 2, 3)))]
    return _one(name, kind, version, rng, plausible)


def _one(name: str, kind: Any, version: int, rng: Random, plausible: bool) -> Any:
    if isinstance(kind, type):
        return _random_struct(kind, version, rng, plausible)
    if isinstance(kind, Scalar):
        return _scalar(name, kind, rng, plausible)
    if kind is String:
        return rng.choice(_TEXTS)
    if kind in (Bytes, Records):
        return rng.randbytes(rng.choice((0, 1, 20, 200)))
    raise TypeError(kind)


def _random_struct(cls: type[Struct], version: int, rng: Random, plausible: bool) -> Any:
    """One that differs somewhere from its defaults: other libraries leave a tagged one out if it does not."""
    while True:
        made = random_message(cls, version, rng, plausible=plausible)
        if any(getattr(made, name) != declared.default for name, declared in cls.fields.items()):
            return made


def _scalar(name: str, kind: Scalar, rng: Random, plausible: bool) -> Any:
    if kind is Bool:
        return rng.random() < 0.5
    if kind is Float64:
        return rng.choice((0.0, -1.5, 1e300, 12345.678))
    if kind is Uuid:
        return UUID(bytes=rng.randbytes(16))
    if kind in (UInt16, UInt32):
        return rng.randrange(1 << (8 * kind.size))
    if plausible and name.endswith("error_code"):
        return rng.randrange(0, 120)
    if plausible and ("timestamp" in name or name.endswith("_ms")):
        return rng.randrange(0, 1 << (31 if kind.size == 4 else 41))
    half = 1 << (_BITS[kind.name] - 1)
    return rng.choice((0, 1, -1, half - 1, -half, rng.randrange(-half, half)))
