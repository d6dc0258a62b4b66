"""Hypothesis strategies that follow the schema."""

from typing import Any

from hypothesis import strategies as st

from rookery.core.wire.schema import Array, Field, Scalar, String, Struct

_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "uuid": st.uuids(),
    "uint16": st.integers(0, 2**16 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    **{f"int{bits}": st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
}


def messages(cls: type[Struct], version: int) -> st.SearchStrategy[Any]:
    """Structs with what this version carries; the rest has its default."""
    return st.builds(
        cls,
        **{
            name: _field(declared, version) if version in declared.versions else st.just(declared.default)
            for name, declared in cls.fields.items()
        },
    )


def _field(declared: Field, version: int) -> st.SearchStrategy[Any]:
    kind = declared.type
    if isinstance(kind, Array):
        values: st.SearchStrategy[Any] = st.lists(_one(kind.of, version), max_size=3)
    else:
        values = _one(kind, version)
    if declared.tag is not None:
        values = st.just(declared.default) | values
    return st.none() | values if version in declared.nullable else values


def _one(kind: Any, version: int) -> st.SearchStrategy[Any]:
    if isinstance(kind, type):
        return messages(kind, version)
    if isinstance(kind, Scalar):
        return _SCALARS[kind.name]
    if kind is String:
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
    return st.binary(max_size=200)
