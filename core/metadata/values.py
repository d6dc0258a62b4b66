"""Small operations on immutable values that replay is made of."""

from typing import TypeVar

from immutables import Map

K = TypeVar("K")
V = TypeVar("V")


class ReplayError(Exception):
    """A record cannot follow the state before it: a bug, or a damaged log."""


def either(value: V | None, otherwise: V) -> V:
    return otherwise if value is None else value


def with_value(values: Map[K, V], key: K, value: V | None) -> Map[K, V]:
    """`values` with `key` set, or without it where the value is None."""
    return without(values, key) if value is None else values.set(key, value)


def without(values: Map[K, V], key: K) -> Map[K, V]:
    return values.delete(key) if key in values else values


def nested(values: Map[K, Map[str, V]], outer: K, inner: str, value: V | None) -> Map[K, Map[str, V]]:
    """`values` with one inner value set or removed; an outer key without inner values goes too."""
    empty: Map[str, V] = Map()
    changed = with_value(values.get(outer, empty), inner, value)
    return with_value(values, outer, changed or None)
