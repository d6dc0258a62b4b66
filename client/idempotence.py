"""Handlers whose effect happens once, although a record may be handed to them several times.

A consumer that crashes, or loses its partitions, reads records again that were processed and not committed. Two ways to
bear that, both with a store of what was done:

- `idempotent` wraps a handler. The record is marked as done when the handler returned. A crash between its effect and
  the mark lets it run once more: for effects that cannot be part of a transaction.
- `SqliteStore.once` is a transaction of the store. An effect that is written through its connection and the mark are
  stored together or not at all: exactly once, whatever crashes.
"""

import asyncio
import inspect
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from rookery.client.consumer.deserializing import AnyRecord

H = TypeVar("H", bound=Callable[..., Any])
L = TypeVar("L")
KEEP_S = 7 * 24 * 3600.0
FORGET_EVERY = 1000
"""Marks between two looks for old ones."""


class Store(Protocol):
    """Remembers what was done. Implement it for your own database: `add` must be durable when it returns."""

    def has(self, identity: str) -> bool: ...

    def add(self, identity: str) -> None: ...


def by_place(record: AnyRecord) -> str:
    """The identity of a record that is in the log once: topic, partition and offset."""
    return f"{record.topic}-{record.partition}@{record.offset}"


def by_header(name: str) -> Callable[[AnyRecord], str]:
    """The identity that the sender gave in a header: also for records that a producer without idempotence stored
    twice. A record without it is known by its place."""

    def identity(record: AnyRecord) -> str:
        value = next((value for key, value in record.headers if key == name and value is not None), None)
        return by_place(record) if value is None else f"{name}={value.decode(errors='backslashreplace')}"

    return identity


def idempotent(store: Store, identity: Callable[[AnyRecord], str] = by_place) -> Callable[[H], H]:
    """A handler that does nothing for records it has handled. For coroutine functions and plain ones; calls for the
    same identity wait for each other. If the handler raises, nothing is marked."""

    def wrap(handler: H) -> H:
        if inspect.iscoroutinefunction(handler):
            waiting = _Turns(asyncio.Lock)

            @wraps(handler)
            async def once(record: AnyRecord) -> Any:
                name = identity(record)
                with waiting.turn(name) as turn:
                    async with turn:
                        if store.has(name):
                            return None
                        result = await handler(record)
                        store.add(name)
                        return result

            return once  # type: ignore[return-value]
        turns = _Turns(threading.Lock)

        @wraps(handler)
        def once_blocking(record: AnyRecord) -> Any:
            name = identity(record)
            with turns.turn(name) as turn, turn:
                if store.has(name):
                    return None
                result = handler(record)
                store.add(name)
                return result

        return once_blocking  # type: ignore[return-value]

    return wrap


class _Turns(Generic[L]):
    """A lock for each identity, kept while anybody has it or waits for it."""

    def __init__(self, make: Callable[[], L]) -> None:
        self._make = make
        self._guard = threading.Lock()
        self._locks: dict[str, tuple[L, int]] = {}

    @contextmanager
    def turn(self, name: str) -> Iterator[L]:
        with self._guard:
            lock, users = self._locks.get(name) or (self._make(), 0)
            self._locks[name] = lock, users + 1
        try:
            yield lock
        finally:
            with self._guard:
                lock, users = self._locks.pop(name)
                if users > 1:
                    self._locks[name] = lock, users - 1


class SqliteStore:
    """Marks in a table of an SQLite file, which may hold your own tables, too. Marks are forgotten after `keep_s`,
    which must be longer than a record can come again: at least as long as the topic keeps it, or as nobody resets
    the group."""

    def __init__(self, path: str | Path, *, keep_s: float = KEEP_S, clock: Callable[[], float] = time.time) -> None:
        self._keep_s = keep_s
        self._clock = clock
        self._lock = threading.RLock()
        self._added = 0
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS rookery_done (identity TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID"
        )

    def has(self, identity: str) -> bool:
        with self._lock:
            found = self._connection.execute("SELECT 1 FROM rookery_done WHERE identity = ?", (identity,))
            return found.fetchone() is not None

    def add(self, identity: str) -> None:
        with self.once(identity):
            pass

    @contextmanager
    def once(self, identity: str) -> Iterator[sqlite3.Connection | None]:
        """``with store.once(identity) as database``: None if it was done before. Otherwise write the effect through
        `database`; it is committed with the mark, or rolled back if an exception comes out. Do not wait within."""
        with self._lock:
            database = self._connection
            database.execute("BEGIN IMMEDIATE")
            try:
                made = database.execute(
                    "INSERT OR IGNORE INTO rookery_done VALUES (?, ?)", (identity, self._clock())
                )
                yield database if made.rowcount else None
                self._forget_old()
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")

    def _forget_old(self) -> None:
        if self._added % FORGET_EVERY == 0:
            self._connection.execute("DELETE FROM rookery_done WHERE at < ?", (self._clock() - self._keep_s,))
        self._added += 1

    def close(self) -> None:
        with self._lock:
            self._connection.close()
