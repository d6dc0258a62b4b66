"""Steps of a broker's start and stop that belong to no single part."""

from typing import TYPE_CHECKING

from rookery.core.event_logging import get_logger
from rookery.core.service import Service

if TYPE_CHECKING:
    from rookery.broker.node.broker_role import BrokerRole

UNFENCE_TIMEOUT_S = 60.0
_log = get_logger("broker")


class LogDirService(Service):
    """The log directories: recovered first, closed last, and marked clean with the epoch this broker had."""

    name = "log dirs"

    def __init__(self, role: "BrokerRole") -> None:
        self._role = role

    async def start(self) -> None:
        await self._role.log_dirs.start()

    async def stop(self) -> None:
        await self._role.log_dirs.stop(self._role.lifecycle.epoch)
        await self._role.close()


class Boot(Service):
    """From a process that follows the metadata log to a broker that may serve."""

    name = "boot"

    def __init__(self, role: "BrokerRole") -> None:
        self._role = role

    async def start(self) -> None:
        role = self._role
        role.lifecycle.storage_found(
            tuple(each.directory_id for each in role.log_dirs.dirs),
            previous_epoch=previous_epoch([each.clean_epoch for each in role.log_dirs.dirs]),
        )
        await role.lifecycle.register()
        role.in_sync.broker_epoch = role.lifecycle.epoch
        role.replicas.activate()
        await role.replicas.settled()
        role.lifecycle.ready()
        await role.lifecycle.unfenced(UNFENCE_TIMEOUT_S)


def previous_epoch(clean_epochs: list[int | None]) -> int:
    """The epoch of the last clean shutdown, if all directories agree on one; else -1: nobody may count on what
    this broker had."""
    first = clean_epochs[0] if clean_epochs else None
    return first if first is not None and all(epoch == first for epoch in clean_epochs) else -1
