"""A request that wrote batches and waits: with acks=all for the replicas, with acks=1 for the device if the topic
asks."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rookery.broker.log.partition_log import LeaderAppend
from rookery.broker.replication.partition import ACKS_ALL, Partition
from rookery.broker.server.pending import Pending
from rookery.broker.server.request_metrics import Traffic
from rookery.core.errors import (
    KafkaError,
    KafkaStorageError,
    NotEnoughReplicasAfterAppendError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
)


class Written(NamedTuple):
    """A batch that is in this broker's log, and the answer that says so unless something goes wrong."""

    answer: Any
    """The part of the response that concerns its partition."""
    topic: str
    partition: Partition
    appended: LeaderAppend
    leader_epoch: int
    traffic: Traffic


class DelayedProduce:
    """Done when every partition has committed its batch, or cannot any more. It holds offsets, not bytes."""

    kind = "Produce"

    def __init__(
        self,
        waiting: Sequence[Written],
        response: Any,
        acks: int,
        refuse: Callable[[Written, KafkaError], None],
    ) -> None:
        self.pending: Pending[Any] = Pending(blocks=False)
        self._waiting = list(waiting)
        self._response = response
        self._acks = acks
        self._refuse = refuse

    @property
    def partitions(self) -> list[Partition]:
        return [written.partition for written in self._waiting]

    def try_complete(self, changed: Sequence[Partition]) -> bool:
        touched = set(changed)
        self._waiting = [
            written
            for written in self._waiting
            if written.partition not in touched or not self._settled(written)
        ]
        if self._waiting:
            return False
        self.pending.complete(self._response)
        return True

    def expire(self) -> None:
        for written in self._waiting:
            self._refuse(written, RequestTimedOutError(
                f"{written.partition.topic_partition}: not all in-sync replicas had the batch in time; it may "
                "still be committed"
            ))  # fmt: skip
        self.pending.complete(self._response)

    def fail(self, error: Exception) -> None:
        self.pending.fail(error)

    def _settled(self, written: Written) -> bool:
        """Whether the fate of a batch is known now."""
        partition = written.partition
        if not partition.is_leader or partition.state.leader_epoch != written.leader_epoch:
            self._refuse(written, NotLeaderOrFollowerError(
                f"{partition.topic_partition} got another leader before the batch was committed"
            ))  # fmt: skip
            return True
        if partition.offline:
            self._refuse(written, KafkaStorageError(
                f"the log directory of {partition.topic_partition} failed before the batch was committed"
            ))  # fmt: skip
            return True
        if not partition.is_acknowledged(written.appended, self._acks):
            return False
        if self._acks == ACKS_ALL and partition.below_min_isr:
            self._refuse(written, NotEnoughReplicasAfterAppendError(
                f"{partition.topic_partition}: the batch was written, but too few replicas are in sync now"
            ))  # fmt: skip
        else:
            written.traffic.acked += written.appended.last_offset - written.appended.base_offset + 1
        return True
