"""One transactional id: its producer, and the transaction that this producer has open or had last. Pure.

A `Transaction` is a value. Each decision returns the value to be stored next, or raises the error for the
producer; the same value means that there is nothing to store. The state becomes what was stored, never anything else.

There are two sets of rules. Up to transaction version 1 a producer keeps its epoch from one transaction to the next,
so a late EndTxn can hit the wrong one. From version 2 on every EndTxn raises the epoch, which shuts out all that is
late. Which rules hold is said by the request. What the coordinator ends by itself follows the version that the cluster
has agreed on.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

from rookery.core.errors import (
    ConcurrentTransactionsError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    KafkaError,
    ProducerFencedError,
)
from rookery.core.types import TopicPartition

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_TIMESTAMP = -1
LAST_EPOCH = 32766
"""The last epoch that a producer is given. The one after it is kept for fencing that producer."""
EPOCH_MAX = 32767
BUMPING = 2
"""The transaction version from which on the end of a transaction raises the epoch."""

NewId = Callable[[], int]
"""An unused producer id. Raises CoordinatorLoadInProgressError while there is none at hand."""


class State(IntEnum):
    """As stored. The last two are never stored, and never needed here: whatever is decided is written at once."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """As tools show it."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def prepared(self) -> bool:
        """It is decided how the transaction ends, and not all of its partitions know yet."""
        return self in _PREPARED

    @property
    def idle(self) -> bool:
        """No transaction is open."""
        return self in _IDLE


NEVER_STORED = frozenset({State.DEAD, State.PREPARE_EPOCH_FENCE})
_PREPARED = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
_IDLE = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})


class Producer(NamedTuple):
    """Who asks, or whom to go on as."""

    id: int
    epoch: int


class Markers(NamedTuple):
    """An effect: the end of a transaction is to be written into each of its partitions."""

    transactional_id: str
    producer: Producer
    commit: bool
    partitions: frozenset[TopicPartition]
    coordinator_epoch: int
    version: int
    """The transaction version by whose rules it ended."""


@dataclass(frozen=True, slots=True)
class Transaction:
    id: str
    producer_id: int
    epoch: int = NO_EPOCH
    timeout_ms: int = 0
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    updated_ms: int = NO_TIMESTAMP
    started_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    """The id before this one, whose epochs ran out."""
    next_producer_id: int = NO_PRODUCER_ID
    """The id to go on with when the markers of this transaction are written."""
    version: int = 0
    """The transaction version by whose rules the last change was made."""
    last_epoch: int = NO_EPOCH
    """The epoch that the same producer had before, or none. Not stored: after a change of coordinators a repeated
    request for a new epoch is refused."""

    @property
    def producer(self) -> Producer:
        return Producer(self.producer_id, self.epoch)

    @property
    def exhausted(self) -> bool:
        """This producer id has no more epochs to give."""
        return self.epoch >= LAST_EPOCH

    # --- InitProducerId ---------------------------------------------------------------------------------------

    def init(
        self, timeout_ms: int, expected: Producer | None, new_id: NewId, version: int, now_ms: int
    ) -> "Transaction":
        """A producer starts, or goes on after an error and says who it was. Its next epoch shuts out those before it.
        Where a transaction is open it is aborted first: the result is then prepared, and the producer has to come
        again."""
        if expected is not None and not self._may_have_been(expected):
            raise self._fenced(expected)
        if self.state.prepared:
            raise self._busy()
        if self.state is State.ONGOING:
            return self.fence(new_id, version, now_ms)
        producer_id, previous_id = self.producer_id, self.previous_producer_id
        if self.exhausted and (expected is None or expected.epoch == self.epoch):
            producer_id, epoch, previous_id = new_id(), 0, self.producer_id if expected else NO_PRODUCER_ID
            last_epoch = self.epoch if expected else NO_EPOCH
        elif expected is None:
            epoch, last_epoch = self.epoch + 1, NO_EPOCH
        elif self.epoch in (NO_EPOCH, expected.epoch):
            epoch, last_epoch = self.epoch + 1, self.epoch
        elif expected.epoch == self.last_epoch:
            epoch, last_epoch = self.epoch, self.last_epoch
        else:
            raise self._fenced(expected)
        return Transaction(
            self.id,
            producer_id,
            epoch,
            timeout_ms,
            updated_ms=now_ms,
            previous_producer_id=previous_id,
            last_epoch=last_epoch,
        )

    def _may_have_been(self, expected: Producer) -> bool:
        if self.epoch == NO_EPOCH or expected.id == self.producer_id:
            return True
        return expected.id == self.previous_producer_id and expected.epoch >= LAST_EPOCH

    # --- AddPartitionsToTxn, AddOffsetsToTxn ------------------------------------------------------------------

    def add(
        self, producer: Producer, partitions: frozenset[TopicPartition], version: int, now_ms: int
    ) -> "Transaction":
        """The transaction is about to write to these partitions; the first of them opens it."""
        self.check(producer)
        if self.state is State.ONGOING:
            if partitions <= self.partitions:
                return self
            return replace(self, partitions=self.partitions | partitions, updated_ms=now_ms, version=version)
        return replace(
            self, state=State.ONGOING, partitions=partitions, started_ms=now_ms, updated_ms=now_ms, version=version
        )

    def check(self, producer: Producer) -> None:
        """Raises where this producer may not write now. `partitions` are those it may write to."""
        if producer.id != self.producer_id:
            raise self._mapped(producer)
        if producer.epoch != self.epoch:
            raise self._fenced(producer)
        if self.state.prepared:
            raise self._busy()

    # --- EndTxn -----------------------------------------------------------------------------------------------

    def end(self, producer: Producer, commit: bool, now_ms: int) -> "Transaction":
        """By the rules before version 2: the epoch stays. A repeated request finds the state it asked for."""
        if producer.id != self.producer_id:
            raise self._mapped(producer)
        if producer.epoch != self.epoch:
            raise self._fenced(producer)
        if self.state is State.ONGOING:
            return replace(self, state=_prepare(commit), updated_ms=now_ms, version=0)
        if self.state is _complete(commit):
            return self
        if self.state is _prepare(commit):
            raise self._busy()
        raise self._not_possible(commit)

    def end_and_bump(self, producer: Producer, commit: bool, new_id: NewId, now_ms: int) -> "Transaction":
        """By the rules of version 2. What comes from the epoch before this one is a repeated request; `go_on_as` of the
        result is the answer to both."""
        repeated_after_overflow = (
            producer.id == self.previous_producer_id and producer.epoch == LAST_EPOCH and self.epoch == 0
        )
        if producer.id != self.producer_id and not repeated_after_overflow:
            raise self._mapped(producer)
        current = producer == self.producer
        one_behind = producer == Producer(self.producer_id, self.epoch - 1)
        repeated = one_behind or repeated_after_overflow
        if self.state.prepared:
            if not one_behind:
                raise self._fenced(producer)
            raise self._busy() if self.state is _prepare(commit) else self._not_possible(commit)
        if repeated and self.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
            if self.state is not _complete(commit):
                raise self._not_possible(commit)
            return self
        if not current:
            raise self._fenced(producer)
        if self.state is not State.ONGOING and commit:
            raise self._not_possible(commit)
        opened_ms = self.started_ms if self.state is State.ONGOING else now_ms
        bumped = self._bumped(new_id, BUMPING)
        return replace(
            bumped, state=_prepare(commit), started_ms=opened_ms, updated_ms=now_ms, last_epoch=self.epoch
        )

    @property
    def go_on_as(self) -> Producer:
        """Whom the producer is from now on."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return Producer(self.next_producer_id, 0)
        return self.producer

    # --- what the coordinator does by itself ------------------------------------------------------------------

    def fence(self, new_id: NewId, version: int, now_ms: int) -> "Transaction":
        """Abort an open transaction in an epoch above that of its producer, who is shut out by it."""
        bumped = self._bumped(new_id, version)
        return replace(bumped, state=State.PREPARE_ABORT, updated_ms=now_ms, last_epoch=NO_EPOCH)

    def complete(self, now_ms: int) -> "Transaction":
        """All markers are written."""
        rotates = self.next_producer_id != NO_PRODUCER_ID
        return replace(
            self,
            producer_id=self.next_producer_id if rotates else self.producer_id,
            epoch=0 if rotates else self.epoch,
            previous_producer_id=self.producer_id if rotates else self.previous_producer_id,
            next_producer_id=NO_PRODUCER_ID,
            state=_complete(self.state is State.PREPARE_COMMIT),
            partitions=frozenset(),
            updated_ms=now_ms,
            last_epoch=NO_EPOCH if rotates else self.last_epoch,
        )

    def markers(self, coordinator_epoch: int) -> Markers:
        commit = self.state is State.PREPARE_COMMIT
        return Markers(self.id, self.producer, commit, self.partitions, coordinator_epoch, self.version)

    def is_overdue(self, now_ms: int) -> bool:
        """Open for longer than its producer asked for."""
        return self.state is State.ONGOING and self.started_ms + self.timeout_ms < now_ms

    def has_expired(self, after_ms: int, now_ms: int) -> bool:
        return self.state.idle and self.updated_ms <= now_ms - after_ms

    def _bumped(self, new_id: NewId, version: int) -> "Transaction":
        """The next epoch. The last one of a producer id is for its markers alone; the next transaction gets a new id,
        where the rules know of it."""
        rotates = self.exhausted and version >= BUMPING
        return replace(
            self,
            epoch=min(self.epoch + 1, EPOCH_MAX),
            next_producer_id=new_id() if rotates else NO_PRODUCER_ID,
            version=version,
        )

    # --- refusals ---------------------------------------------------------------------------------------------

    def _mapped(self, producer: Producer) -> KafkaError:
        return InvalidProducerIdMappingError(f"{self.id!r} belongs to another producer id than {producer.id}")

    def _fenced(self, producer: Producer) -> KafkaError:
        return ProducerFencedError(
            f"epoch {producer.epoch} of producer {producer.id} is not the one of {self.id!r}, which is {self.epoch}: "
            "another producer with this transactional id has started, or the transaction took too long"
        )

    def _busy(self) -> KafkaError:
        return ConcurrentTransactionsError(f"the last transaction of {self.id!r} is still being ended: try again")

    def _not_possible(self, commit: bool) -> KafkaError:
        asked = "commit" if commit else "abort"
        return InvalidTxnStateError(f"{self.id!r} is {self.state.title}: there is nothing to {asked}")


def _prepare(commit: bool) -> State:
    return State.PREPARE_COMMIT if commit else State.PREPARE_ABORT


def _complete(commit: bool) -> State:
    return State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT
