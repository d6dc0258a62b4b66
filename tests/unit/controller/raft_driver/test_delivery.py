"""What is committed reaches those who follow it, whatever happens to snapshots meanwhile."""

import asyncio
from collections.abc import Sequence

import pytest

from rookery.controller.raft.delivery import Delivery
from rookery.core.metadata_log import CommittedBatch, SnapshotId

OLD, NEW = SnapshotId(5, 1), SnapshotId(9, 1)


class Snapshots:
    """The first is replaced by the second, and removed, when somebody is about to read it."""

    def __init__(self, storage: "Storage", *, replaced: bool) -> None:
        self._storage = storage
        self._replaced = replaced

    def load(self, snapshot: SnapshotId) -> tuple[bytes, list[bytes]]:
        if snapshot == OLD:
            if self._replaced:
                self._storage.latest_snapshot = NEW
            raise FileNotFoundError(str(snapshot))
        return b"", [b"new"]


class Storage:
    def __init__(self, *, replaced: bool) -> None:
        self.latest_snapshot = OLD
        self.start_offset = 5
        self.snapshots = Snapshots(self, replaced=replaced)


class Listener:
    def __init__(self) -> None:
        self.heard: asyncio.Future[tuple[SnapshotId, list[bytes]]] = asyncio.get_running_loop().create_future()

    def on_commit(self, batch: CommittedBatch) -> None:
        raise AssertionError("nothing was committed")

    def on_snapshot(self, snapshot: SnapshotId, values: Sequence[bytes]) -> None:
        self.heard.set_result((snapshot, list(values)))

    def on_leader(self, leader_id: int, epoch: int) -> None: ...


async def deliver(storage: Storage) -> tuple[SnapshotId, list[bytes]]:
    delivery, listener = Delivery(storage), Listener()  # type: ignore[arg-type]
    delivery.subscribe(listener)
    running = asyncio.ensure_future(delivery.run())
    try:
        await asyncio.wait((running, listener.heard), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        return listener.heard.result()
    finally:
        running.cancel()


@pytest.mark.invariant("R15")
async def test_a_snapshot_that_is_replaced_while_it_is_read_is_read_again() -> None:
    assert await deliver(Storage(replaced=True)) == (NEW, [b"new"])


async def test_a_snapshot_that_is_gone_is_reported() -> None:
    with pytest.raises(FileNotFoundError):
        await deliver(Storage(replaced=False))
