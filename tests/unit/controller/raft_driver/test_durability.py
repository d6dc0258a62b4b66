"""Nothing is told to anybody before it would survive a power cut."""

import random
from contextlib import suppress
from pathlib import Path

import pytest

from rookery.core.errors import KafkaStorageError
from rookery.core.testing.disk import MemoryDisk
from tests.unit.controller.raft_driver.nodes import Member, Nodes, until


async def live_and_lose_power(member: Member, disk: MemoryDisk, before: list[bytes]) -> tuple[int, list[bytes]]:
    """Lead, commit some more, and lose power the moment they are committed; the epoch and what must be there."""
    await member.start()
    await until("it leads", lambda: member.leads)
    assert member.words.values == before
    epoch = member.words.leader[1]
    wanted = [*before, *(b"%d-%d" % (epoch, number) for number in range(5))]
    for value in wanted[len(before) :]:
        member.propose(value)
    await until("all are committed", lambda: member.words.values == wanted)
    disk.power_cut()
    with suppress(KafkaStorageError):  # its files were closed under it
        await member.node.stop()
    await member.server.stop()
    return epoch, wanted


@pytest.mark.invariant("R2", "R3", "R8")
@pytest.mark.parametrize("seed", range(6))
async def test_what_was_committed_survives_a_power_cut_at_that_moment(tmp_path: Path, seed: int) -> None:
    disk = MemoryDisk(random.Random(seed))
    given = Nodes(tmp_path, 1).members[0]
    disk.mkdir(given.settings.folder)
    epochs, expected = [0], list[bytes]()
    for _ in range(3):
        epoch, expected = await live_and_lose_power(given.again_on(disk), disk, expected)
        assert epoch > epochs[-1], "an epoch is never used twice"
        epochs.append(epoch)
