"""A handler's effect happens once, although records come again and the program ends in between."""

import asyncio
import threading
from pathlib import Path

import pytest

from rookery import Record, SqliteStore, idempotent
from rookery.client.idempotence import FORGET_EVERY, by_header

RawRecord = Record[bytes | None, bytes | None]


def record(offset: int, **fields: object) -> RawRecord:
    made: RawRecord = Record("t", 0, offset, 0, None, b"v")
    return made._replace(**fields)  # type: ignore[arg-type]


@pytest.mark.row(129)
async def test_ten_times_the_same_record_one_effect(tmp_path: Path) -> None:
    effects: list[int] = []
    for _ in range(10):  # ten lives of a program
        store = SqliteStore(tmp_path / "done.db")

        @idempotent(store)
        async def handle(one: RawRecord) -> None:
            await asyncio.sleep(0)
            effects.append(one.offset)

        await asyncio.gather(*(handle(record(offset)) for offset in (1, 2, 1)))
        store.close()
    assert sorted(effects) == [1, 2]


@pytest.mark.row(129)
def test_effects_in_the_same_database_are_stored_with_the_mark_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "bank.db"
    store = SqliteStore(path)
    with store.once("schema") as database:
        assert database is not None
        database.execute("CREATE TABLE account (balance INTEGER)")
        database.execute("INSERT INTO account VALUES (0)")

    def pay(identity: str, crash: bool) -> None:
        with store.once(identity) as database:
            if database is not None:
                database.execute("UPDATE account SET balance = balance + 10")
                if crash:
                    raise RuntimeError("the program ends here")

    for _ in range(3):
        with pytest.raises(RuntimeError):
            pay("p1", crash=True)
    for _ in range(10):
        pay("p1", crash=False)
    store.close()
    store = SqliteStore(path)
    with store.once("schema") as database:
        assert database is None
    with store.once("look") as database:
        assert database is not None
        assert database.execute("SELECT balance FROM account").fetchall() == [(10,)]
    store.close()


def test_a_handler_that_fails_is_called_again() -> None:
    calls = []
    store = SqliteStore(":memory:")

    @idempotent(store)
    def handle(one: RawRecord) -> None:
        calls.append(one.offset)
        if len(calls) == 1:
            raise ValueError

    with pytest.raises(ValueError):
        handle(record(1))
    handle(record(1))
    handle(record(1))
    assert calls == [1, 1]
    store.close()


def test_threads_and_identities_of_the_sender() -> None:
    effects = []
    store = SqliteStore(":memory:")

    @idempotent(store, identity=by_header("id"))
    def handle(one: RawRecord) -> None:
        effects.append(one.offset)

    same = [record(offset, headers=(("id", b"42"),)) for offset in range(4)]
    threads = [threading.Thread(target=handle, args=(each,)) for each in same]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    handle(record(9))
    assert len(effects) == 2
    assert effects[-1] == 9
    store.close()


def test_old_marks_are_forgotten() -> None:
    now = [0.0]
    store = SqliteStore(":memory:", keep_s=100, clock=lambda: now[0])
    store.add("old")
    now[0] = 101
    for number in range(FORGET_EVERY):
        store.add(f"new-{number}")
    assert not store.has("old")
    assert store.has("new-0")
    store.close()


async def test_a_call_that_comes_while_others_wait_waits_with_them() -> None:
    """The first call fails. Those behind it run one after the other, whoever comes when."""
    store = SqliteStore(":memory:")
    calls = running = 0

    @idempotent(store)
    async def handle(one: RawRecord) -> None:
        nonlocal calls, running
        calls += 1
        running += 1
        try:
            assert running == 1
            for _ in range(5):
                await asyncio.sleep(0)
            if calls == 1:
                raise ValueError
        finally:
            running -= 1

    async def late(first: asyncio.Task[None]) -> None:
        while not first.done():
            await asyncio.sleep(0)
        await handle(record(1))

    first = asyncio.create_task(handle(record(1)))
    others = [asyncio.create_task(handle(record(1))), asyncio.create_task(late(first))]
    with pytest.raises(ValueError):
        await first
    await asyncio.gather(*others)
    assert calls == 2
    store.close()


def test_threads_with_other_records_do_not_wait() -> None:
    store = SqliteStore(":memory:")
    met = threading.Barrier(2)

    @idempotent(store)
    def handle(one: RawRecord) -> None:
        met.wait(10)  # both are in the handler at once, or this fails

    other = threading.Thread(target=handle, args=(record(1),))
    other.start()
    handle(record(2))
    other.join()
    assert store.has("t-0@1")
    store.close()
