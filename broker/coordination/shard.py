"""One shard of a coordinator: the state that lives in one partition of an internal topic.

A decision is a `Step`. Its records are appended as one batch (where there may be any number of them, in several) in the
epoch of this shard, then replayed: state is always what the log up to its end says, here and on whichever broker reads
the log next. Its answers, even those that only read, and its effects wait until that end is committed, so nothing
depends on what a change of leader could take back. A batch that cannot be appended changes nothing; a shard that lost
its partition is dropped whole, with all that was not committed. What such a shard still owed to others the next one
finds in the log: `ShardState.loaded` returns it again.

Records written within a transaction of a producer count when it ends with a commit; its marker is an input like any
other, appended and then applied to the state.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from rookery.broker.coordination.commit_queue import CommitQueue
from rookery.broker.coordination.reply import coordinator_error
from rookery.broker.coordination.step import Answer, Instant, Receiver, Step
from rookery.broker.log.producer_state import Guard
from rookery.broker.replication.partition import Partition
from rookery.core.clock import Clock
from rookery.core.errors import (
    ErrorCode,
    InvalidRequestError,
    KafkaError,
    MessageTooLargeError,
    NotCoordinatorError,
)
from rookery.core.event_logging import get_logger
from rookery.core.wire.batch import HEADER_SIZE
from rookery.core.wire.markers import EndMarker, build_marker
from rookery.core.wire.primitives import WireError
from rookery.core.wire.records import Record, build_batch

_log = get_logger("broker.coordination")

R = TypeVar("R")


class ShardState(Protocol[R]):
    """A coordinator's pure state."""

    def replay(self, record: R, at: int, producer_id: int = -1) -> None: ...

    def end_transaction(self, producer_id: int, committed: bool) -> None: ...

    def loaded(self, now: Instant) -> Step[R]:
        """The whole log was replayed, committed or not. The effects of this step wait until all of it is."""

    def not_written(self, records: Sequence[R], error: ErrorCode, now: Instant) -> Step[R]:
        """These records could not be appended: take back what was changed for them."""

    def abandon(self, error: ErrorCode) -> Step[R]:
        """Answer all that wait for a decision."""


Encode = Callable[[R], tuple[bytes, bytes | None]]
Encoded = tuple[R, bytes, bytes | None]
"""A record with its key and value."""
REPORT_AGAIN_S = 60.0
"""While writes fail for the same reason. Everybody who is refused tries again, several times a second."""
RECORD_OVERHEAD = 40
"""More than the bytes a record needs beside its key and value."""


def in_batches(rows: Iterable[Encoded[R]], bytes_max: int) -> Iterator[list[Encoded[R]]]:
    """Rows that fit into a batch each, uncompressed; a row that does not stands alone."""
    batch: list[Encoded[R]] = []
    size = HEADER_SIZE
    for row in rows:
        needed = RECORD_OVERHEAD + len(row[1]) + len(row[2] or b"")
        if batch and size + needed > bytes_max:
            yield batch
            batch, size = [], HEADER_SIZE
        batch.append(row)
        size += needed
    if batch:
        yield batch


def instant(clock: Clock) -> Instant:
    return Instant(int(clock.monotonic() * 1000), clock.wall_ms())


class ProducerTransaction(NamedTuple):
    """The transaction that records are part of."""

    producer_id: int
    producer_epoch: int
    guard: Guard | None
    """Needed for the first records of the transaction in this partition."""


_NOBODY = ProducerTransaction(-1, -1, None)


class Shard(Generic[R]):
    """Active from the end of loading until its partition has another leader, or another epoch."""

    def __init__(
        self,
        partition: Partition,
        epoch: int,
        state: ShardState[R],
        encode: Encode[R],
        commits: CommitQueue,
        clock: Clock,
        *,
        codec: int = 0,
        on_lost: Callable[["Shard[Any]"], None],
    ) -> None:
        self.partition = partition
        self.epoch = epoch
        self.state = state
        self._encode = encode
        self._commits = commits
        self._clock = clock
        self._codec = codec
        self._on_lost = on_lost
        self._reported: dict[ErrorCode, float] = {}
        """Until when a reason need not be reported again."""
        self.closed = False

    def run(self, step: Step[R], within: ProducerTransaction | None = None) -> None:
        """Write the records, as part of a transaction if there is one, give the answers and carry out the effects."""
        try:
            encoded = [(record, *self._encode(record)) for record in step.records]
        except WireError as error:
            self._failed(step.records, step.answers, InvalidRequestError(f"it cannot be stored: {error}"))
            return
        allowed = self.partition.log.config.max_message_bytes
        batches = [encoded] if step.atomic else list(in_batches(encoded, allowed))
        for number, rows in enumerate(batches):
            try:
                self._write(rows, allowed, within)
            except KafkaError as error:
                self._failed([row[0] for rest in batches[number:] for row in rest], step.answers, error)
                return
        if self._reported and encoded:
            self._resumed()
        self._commits.add(step.answers, step.effects)

    def _write(self, rows: Sequence[Encoded[R]], allowed: int, within: ProducerTransaction | None) -> None:
        if not rows:
            return
        now_ms = self._clock.wall_ms()
        records = [Record(number, now_ms, key, value) for number, (_, key, value) in enumerate(rows)]
        producer, epoch, guard = within or _NOBODY
        batch = build_batch(
            records,
            codec=self._codec,
            producer_id=producer,
            producer_epoch=epoch,
            transactional=within is not None,
        )
        if len(batch) > allowed:
            raise MessageTooLargeError(
                f"{len(records)} records of {self.partition.topic_partition} need {len(batch)} bytes, but "
                f"max.message.bytes is {allowed}"
            )
        appended = self.partition.append_own(batch, self.epoch, now_ms, guard=guard)
        for number, (record, _, _) in enumerate(rows):
            self.state.replay(record, appended.base_offset + number, producer)

    def end(
        self, producer_id: int, producer_epoch: int, marker: EndMarker, to: Receiver, *, transaction_version: int
    ) -> None:
        """A transaction is over: `to` is answered when the marker is committed and applied to the state."""
        now_ms = self._clock.wall_ms()
        batch = build_marker(marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=now_ms)
        try:
            self.partition.append_own(batch, self.epoch, now_ms, transaction_version=transaction_version)
        except KafkaError as error:
            self._failed((), [Answer(to, None)], error)
            return
        self.state.end_transaction(producer_id, marker.commit)
        self._commits.add([Answer(to, None)])

    def _failed(self, records: Sequence[R], answers: Sequence[Answer], error: KafkaError) -> None:
        code = coordinator_error(error)
        now = self._clock.monotonic()
        if now >= self._reported.get(code, now):
            self._reported[code] = now + REPORT_AGAIN_S
            _log.warning("coordinator.write.failed", partition=str(self.partition.topic_partition), reason=str(error))
        undone = self.state.not_written(records, code, instant(self._clock))
        for to, _ in answers:
            to.refuse(error)
        for to, response in undone.answers:
            to.complete(response)
        if code is ErrorCode.NOT_COORDINATOR:
            self._on_lost(self)

    def _resumed(self) -> None:
        if self._reported.pop(ErrorCode.COORDINATOR_NOT_AVAILABLE, None) is not None:
            _log.info("coordinator.write.resumed", partition=str(self.partition.topic_partition))

    def close(self) -> None:
        """The partition is led elsewhere, or anew: all that wait have to ask the new coordinator."""
        if self.closed:
            return
        self.closed = True
        place = self.partition.topic_partition
        self._commits.close(NotCoordinatorError(f"broker lost {place} at leader epoch {self.epoch}"))
        for to, response in self.state.abandon(ErrorCode.NOT_COORDINATOR).answers:
            to.complete(response)
