"""The offset checkpoints of one log dir and their only writer: one save at a time, each of what is true when it
begins."""

import asyncio
from collections.abc import Callable, Mapping

from rookery.core.disk import Disk
from rookery.core.event_logging import get_logger
from rookery.core.log import LogDirFailed
from rookery.core.log.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    CheckpointDamaged,
    read_offsets,
    save_offsets,
    write_offsets,
)
from rookery.core.types import TopicPartition

log = get_logger("broker.log")

CLEANER_OFFSETS = "cleaner-offset-checkpoint"
SCRUB_OFFSETS = "rookery-scrub-offset-checkpoint"
CHECKPOINTS = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_OFFSETS, SCRUB_OFFSETS)

Offsets = Mapping[TopicPartition, int]
Current = Callable[[str], Offsets]
"""What the checkpoint of this name should say now."""


class OffsetCheckpoints:
    """`read` at start; from then on `written` is what the files hold, or will hold once a save is done."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        self._saving = asyncio.Lock()
        self.written: dict[str, Offsets] = {name: {} for name in CHECKPOINTS}

    def read(self) -> bool:
        """Blocks. A damaged checkpoint counts as none, and then the logs are to be checked as after a crash; False if
        that is so for the recovery points."""
        sound = True
        for name in CHECKPOINTS:
            try:
                self.written[name] = read_offsets(self._disk, self._path(name))
            except CheckpointDamaged as error:
                log.warning("checkpoint.damaged", dir=self._folder, file=name, reason=str(error))
                sound = sound and name != RECOVERY_POINTS
        return sound

    def offset(self, name: str, partition: TopicPartition) -> int | None:
        return self.written[name].get(partition)

    async def save(self, name: str, current: Current) -> None:
        """Replace a checkpoint. Raises `LogDirFailed`: the caller must not rely on what it should hold."""
        async with self._saving:
            before, path = self.written[name], self._path(name)
            self.written[name] = offsets = current(name)
            try:
                await save_offsets(self._disk, path, offsets)
            except OSError as error:
                self.written[name] = before
                raise LogDirFailed("writing", path, error) from error

    async def forget(self, partition: TopicPartition, current: Current) -> None:
        """Before a partition is made: no checkpoint may speak of an earlier one of that name, not even until a save
        that is under way is done."""
        async with self._saving:
            mentioned = [name for name in CHECKPOINTS if partition in self.written[name]]
        for name in mentioned:
            await self.save(name, current)

    def write_all(self, current: Current) -> None:
        """Blocks; for the shutdown, when no other save runs."""
        for name in CHECKPOINTS:
            self.written[name] = current(name)
            write_offsets(self._disk, self._path(name), self.written[name])

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"
