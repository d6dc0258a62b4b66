"""What a user may want to do when partitions come and go."""

import inspect
from collections.abc import Awaitable, Collection

from rookery.core.types import TopicPartition


class RebalanceListener:
    """Override what you need; the methods may be coroutines.

    They run within your own call of poll, getmany or iteration, so no record is being processed by it meanwhile. They
    may commit, seek, pause and ask for positions. They may not poll: that is refused, not waited for.
    """

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Others will get these partitions: the last chance to commit for them."""

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> Awaitable[None] | None:
        """These partitions are new. What you seek to here is read; the others start at the committed offset."""

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Others have these partitions already; a commit would be refused."""
        return self.on_partitions_revoked(lost)


async def call(method: object, *args: object) -> None:
    """Call a function or a coroutine function."""
    if callable(method):
        result = method(*args)
        if inspect.isawaitable(result):
            await result
