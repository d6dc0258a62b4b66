"""A produce request with acks=all that waits for its replicas."""

from collections.abc import Callable, Sequence
from typing import Any

from rookery.broker.handlers.produce_entry import Entry
from rookery.broker.replication.partition import Partition
from rookery.broker.server.pending import Pending
from rookery.core.errors import (
    NotEnoughReplicasAfterAppendError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
)


class DelayedProduce:
    """Done when every partition has committed its batch, or cannot any more. It holds offsets, not bytes."""

    kind = "Produce"

    def __init__(
        self, waiting: Sequence[Entry], pending: Pending[Any], response: Callable[[], object]
    ) -> None:
        self._waiting = list(waiting)
        self._pending = pending
        self._response = response

    @property
    def partitions(self) -> list[Partition]:
        return [entry.partition for entry in self._waiting]

    def try_complete(self, changed: Sequence[Partition]) -> bool:
        self._waiting = [
            entry for entry in self._waiting if entry.partition not in changed or not _settled(entry)
        ]
        if self._waiting:
            return False
        self._pending.complete(self._response())
        return True

    def expire(self) -> None:
        for entry in self._waiting:
            entry.error = RequestTimedOutError(
                f"{entry.partition.topic_partition}: not all in-sync replicas had the batch in time; it may "
                "still be committed"
            )
        self._pending.complete(self._response())

    def fail(self, error: Exception) -> None:
        self._pending.fail(error)


def _settled(entry: Entry) -> bool:
    """Whether an entry's fate is known now; an error is written into it."""
    partition = entry.partition
    if not partition.is_leader or partition.state.leader_epoch != entry.leader_epoch:
        entry.error = NotLeaderOrFollowerError(
            f"{partition.topic_partition} got another leader before the batch was committed"
        )
        return True
    if not partition.is_committed(entry.appended):
        return False
    if partition.below_min_isr:
        entry.error = NotEnoughReplicasAfterAppendError(
            f"{partition.topic_partition}: the batch was written, but too few replicas are in sync now"
        )
    return True
