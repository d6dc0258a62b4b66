"""What is sent while a transaction ends, and what is left of one whose end was cancelled."""

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from rookery.client.errors import IllegalStateError, TransactionAbortedError
from rookery.client.producer.accumulator import Accumulator
from rookery.client.producer.partitioners import Route
from rookery.client.producer.producer import Producer
from rookery.client.producer.routes import Routes
from rookery.client.producer.transaction_calls import leave_transaction
from rookery.client.producer.transaction_state import Phase
from rookery.client.producer.transactions import LeftOpen
from rookery.client.types import TopicPartition
from rookery.core.errors import NotCoordinatorError


class World:
    """A producer in a transaction, without a cluster: nothing is sent until the test settles it."""

    def __init__(self) -> None:
        self.producer = Producer(bootstrap_servers="localhost:1", transactional_id="id")
        self.core = Accumulator(self.producer._core, lambda _: 1, Random(1), asyncio.get_running_loop().time)
        self.room = asyncio.Event()
        self.ends: list[bool] = []
        self.silent = False
        self.added = asyncio.Event()
        self.added.set()
        self.refused: Exception | None = None
        sender: Any = SimpleNamespace(
            accumulator=self.core,
            kick=lambda: None,
            crowded=False,
            wait_for_room=self._wait_for_room,
            additions=self._additions,
        )
        self.sender = self.producer._sender = sender
        transactions: Any = SimpleNamespace(version=2, producer_id=1, epoch=0, end=self._end)
        self.producer._transactions = transactions
        routes = Routes(None, self.core, create=False, check_running=lambda: None)  # type: ignore[arg-type]
        routes.known["t"] = Route("t", [self.core.queue(TopicPartition("t", 0))], [0])
        self.producer._routes = routes
        assert self.producer._state is not None
        self.state = self.producer._state
        self.state.initialized()

    async def _wait_for_room(self, size: int, timeout_s: float) -> None:
        await self.room.wait()

    async def _additions(self) -> None:
        await self.added.wait()
        if self.refused is not None:
            self.state.failed(self.refused)

    async def _end(self, commit: bool) -> None:
        self.ends.append(commit)
        if self.silent:
            self.silent = False
            await asyncio.sleep(60)

    def settle(self) -> None:
        for batch in list(self.core.incomplete):
            queue = self.core.queue(batch.place)
            queue.take(False, 0.0)
            self.core.wrote = True
            self.core.stored(batch, 0)


async def test_a_record_that_waits_for_room_is_refused_when_its_transaction_ended() -> None:
    world = World()
    await world.producer.begin_transaction()
    world.sender.crowded = True
    sending = asyncio.create_task(world.producer.send("t", b"v"))
    await asyncio.sleep(0)
    await world.producer.abort_transaction()
    await world.producer.begin_transaction()
    world.room.set()
    with pytest.raises(TransactionAbortedError):
        await sending
    assert not world.core.incomplete


async def test_nothing_is_sent_into_a_transaction_that_is_being_committed() -> None:
    world = World()
    await world.producer.begin_transaction()
    await world.producer.send("t", b"v")
    committing = asyncio.create_task(world.producer.commit_transaction())
    await asyncio.sleep(0)
    with pytest.raises(IllegalStateError, match="being committed"):
        await world.producer.send("t", b"late")
    world.settle()
    await committing
    assert world.ends == [True]


@pytest.mark.parametrize("silent", [False, True])
async def test_a_transaction_whose_commit_was_cancelled_is_not_left_open(silent: bool) -> None:
    """Cancelled while records are on their way, or while the coordinator says nothing."""
    world = World()
    world.silent = silent

    async def work() -> None:
        async with world.producer.transaction() as transaction:
            await transaction.send("t", b"v")
            if silent:
                world.settle()
            else:
                world.core.wrote = True

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(work(), 0.05)
    assert world.ends[-1] is False
    assert world.state.phase is Phase.READY
    await world.producer.begin_transaction()


@pytest.mark.parametrize("refused", [None, NotCoordinatorError("later")])
async def test_a_transaction_ends_after_the_partitions_that_are_being_added(refused: Exception | None) -> None:
    world = World()
    await world.producer.begin_transaction()
    world.state.started = True
    world.added.clear()
    world.refused = refused
    aborting = asyncio.create_task(world.producer.abort_transaction())
    await asyncio.sleep(0.01)
    assert world.ends == []
    world.added.set()
    await aborting
    assert world.ends == [False]
    assert world.state.phase is Phase.READY


async def test_a_transaction_is_left_open_when_its_records_are_delivered() -> None:
    world = World()
    await world.producer.begin_transaction()
    await world.producer.send("t", b"v")
    leaving = asyncio.create_task(leave_transaction(world.producer))
    await asyncio.sleep(0)
    assert not leaving.done()
    world.settle()
    assert await leaving == LeftOpen("id", 1, 0, 2, wrote=True)
    await world.producer._finish(world.sender)
    assert world.ends == []


async def test_a_transaction_with_a_lost_record_is_not_left_but_aborted() -> None:
    world = World()
    await world.producer.begin_transaction()
    world.core.failed = NotCoordinatorError("lost")
    with pytest.raises(TransactionAbortedError):
        await leave_transaction(world.producer)
    world.core.wrote = True
    await world.producer._finish(world.sender)
    assert world.ends == [False]
