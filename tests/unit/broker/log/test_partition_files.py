"""Who may work on the files of a partition at the same time."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rookery.broker.log.partition_files import FilesClosed, PartitionFiles


async def turns(count: int = 10) -> None:
    """Let everybody who can go on do so."""
    for _ in range(count):
        await asyncio.sleep(0)


class Visitor:
    """Takes a lease and keeps it until told to leave."""

    def __init__(self, files: PartitionFiles, *, alone: bool, hurry: bool = False) -> None:
        self._files, self._alone, self._hurry = files, alone, hurry
        self.inside = False
        self.asked_to_give_up = threading.Event()
        self._leave = asyncio.Event()
        self.task = asyncio.get_running_loop().create_task(self._visit())

    async def _visit(self) -> None:
        files = self._files
        access = files.alone("test", hurry=self._hurry) if self._alone else files.shared("test")
        async with access as lease:
            self.inside = True
            self.asked_to_give_up = lease.revoked
            await self._leave.wait()
        self.inside = False

    async def leave(self) -> None:
        self._leave.set()
        await self.task


async def test_readers_share_and_whoever_changes_files_is_alone() -> None:
    files = PartitionFiles()
    readers = [Visitor(files, alone=False) for _ in range(2)]
    writer = Visitor(files, alone=True)
    late = Visitor(files, alone=False)
    await turns()
    assert [reader.inside for reader in readers] == [True, True]
    assert not writer.inside
    assert not late.inside, "readers that come later do not keep a writer waiting for ever"
    assert not files.shareable
    for reader in readers:
        await reader.leave()
    await turns()
    assert writer.inside
    assert files.try_shared("flush") is None
    assert not late.inside
    await writer.leave()
    await turns()
    assert late.inside
    await late.leave()
    assert files.idle


async def test_a_flush_does_not_wait_for_those_who_wait_for_a_long_reader() -> None:
    """Retention waits for the cleaner; producers whose records are to be on the device must not wait with it."""
    files = PartitionFiles()
    cleaner = Visitor(files, alone=False)
    await turns()
    retention = Visitor(files, alone=True)
    await turns()
    flush = files.try_shared("flush")
    assert flush is not None
    await cleaner.leave()
    again = Visitor(files, alone=False)
    await turns()
    assert not retention.inside
    files.give_back(flush)
    assert files.try_shared("the next flush") is None, "one flush after the other keeps nobody out"
    await turns()
    assert retention.inside
    await retention.leave()
    await again.leave()
    assert files.idle


async def test_one_in_a_hurry_comes_first_and_asks_readers_to_give_up() -> None:
    files = PartitionFiles()
    reader = Visitor(files, alone=False)
    patient = Visitor(files, alone=True)
    await turns()
    assert not reader.asked_to_give_up.is_set(), "retention waits for the cleaner"
    hasty = Visitor(files, alone=True, hurry=True)
    await turns()
    assert reader.asked_to_give_up.is_set()
    await reader.leave()
    await turns()
    assert (hasty.inside, patient.inside) == (True, False)
    await hasty.leave()
    await turns()
    assert patient.inside
    await patient.leave()


async def test_closing_refuses_who_waits_and_waits_for_who_is_inside() -> None:
    files = PartitionFiles()
    reader = Visitor(files, alone=False)
    writer = Visitor(files, alone=True)
    await turns()
    closing = [asyncio.create_task(files.close()) for _ in range(2)]
    await turns()
    assert reader.asked_to_give_up.is_set()
    with pytest.raises(FilesClosed):
        await writer.task
    assert not any(each.done() for each in closing)
    with pytest.raises(FilesClosed):
        async with files.shared("scrub"):
            pass
    await reader.leave()
    await asyncio.gather(*closing)
    await files.close()
    assert files.try_shared("flush") is None


async def test_whoever_stops_waiting_lets_the_next_one_in() -> None:
    files = PartitionFiles()
    freed: list[bool] = []
    files.on_free = lambda: freed.append(files.shareable)
    reader = Visitor(files, alone=False)
    await turns()
    writer = Visitor(files, alone=True)
    await turns()
    late = Visitor(files, alone=False)
    await turns()
    writer.task.cancel()
    await turns()
    assert late.inside
    assert freed == [True], "a flush that was kept waiting hears of it"
    await reader.leave()
    await late.leave()
    granted = Visitor(files, alone=True)
    granted.task.cancel()  # before it noticed that it was let in
    await turns()
    assert files.idle


async def test_a_lease_lasts_as_long_as_its_thread() -> None:
    files = PartitionFiles()
    begun, seen = threading.Event(), threading.Event()

    async def work() -> None:
        async with files.shared("clean") as lease:

            def slow() -> None:
                begun.set()
                assert lease.revoked.wait(30), "whoever is cancelled asks its thread to give up"
                seen.set()

            await lease.run(thread, slow)

    with ThreadPoolExecutor(1) as thread:
        task = asyncio.create_task(work())
        assert await asyncio.to_thread(begun.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen.is_set(), "nobody gets the files while the thread uses them"
    assert files.idle
