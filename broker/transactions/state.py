"""All transactional ids of one partition of `__transaction_state`: the state of one coordinator shard. Pure.

Whatever is decided here is decided on what the log holds up to its end, committed or not: answers and effects wait for
the commit. So there is no state between the decision and its record, and no client has to retry because of one.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rookery.broker.coordination.step import Instant, Receiver
from rookery.broker.coordination.step import Step as AnyStep
from rookery.broker.transactions.records import TransactionRecord
from rookery.broker.transactions.transaction import (
    BUMPING,
    Markers,
    NewId,
    Producer,
    State,
    Transaction,
)
from rookery.core.errors import (
    ConcurrentTransactionsError,
    ErrorCode,
    InvalidProducerIdMappingError,
    InvalidRequestError,
    InvalidTransactionTimeoutError,
    KafkaError,
    TransactionalIdNotFoundError,
)
from rookery.core.types import TopicPartition

Step = AnyStep[TransactionRecord]


@dataclass(frozen=True, slots=True)
class TransactionOptions:
    max_timeout_ms: int = 900_000
    expiration_ms: int = 604_800_000


class TransactionsState:
    """`new_id` gives producer ids, `version` returns the cluster's `transaction.version`. `coordinator_epoch` is the
    leader epoch in which the shard was loaded; markers carry it."""

    def __init__(
        self, options: TransactionOptions, coordinator_epoch: int, new_id: NewId, version: Callable[[], int]
    ) -> None:
        self.transactions: dict[str, Transaction] = {}
        self._ongoing: set[str] = set()
        """The ids with an open transaction: there may be very many others."""
        self.by_state: Counter[State] = Counter()
        self._options = options
        self._coordinator_epoch = coordinator_epoch
        self._new_id = new_id
        self._version = version

    # --- the log ----------------------------------------------------------------------------------------------

    def replay(self, record: TransactionRecord, at: int, producer_id: int = -1) -> None:
        before, after = self.transactions.get(record.id), record.transaction
        if before is not None:
            self.by_state[before.state] -= 1
        if after is None:
            self.transactions.pop(record.id, None)
        else:
            self.transactions[record.id] = after
            self.by_state[after.state] += 1
        if after is not None and after.state is State.ONGOING:
            self._ongoing.add(record.id)
        else:
            self._ongoing.discard(record.id)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Nothing in this topic is written in a transaction."""

    def loaded(self, now: Instant) -> Step:
        """Whatever was decided and not seen to its end is ended here."""
        return Step(effects=[self._markers(one) for one in self.transactions.values() if one.state.prepared])

    def not_written(self, records: Sequence[TransactionRecord], error: ErrorCode, now: Instant) -> Step:
        return Step()

    def abandon(self, error: ErrorCode) -> Step:
        return Step()

    # --- requests ---------------------------------------------------------------------------------------------

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: Producer | None, to: Receiver, now: Instant
    ) -> Step:
        """Answers with a `Producer`."""
        _check_id(transactional_id)
        if not 0 < timeout_ms <= self._options.max_timeout_ms:
            raise InvalidTransactionTimeoutError(
                f"a timeout of {timeout_ms} ms is not between 1 and the {self._options.max_timeout_ms} of "
                "transaction.max.timeout.ms"
            )
        before = self.transactions.get(transactional_id)
        if before is None:
            before = Transaction(transactional_id, self._new_id())
        after = before.init(timeout_ms, expected, self._new_id, self._version(), now.wall_ms)
        step = self._stored(before, after)
        if after.state.prepared:
            error = ConcurrentTransactionsError(f"the open transaction of {transactional_id!r} is aborted first")
            step.answer(Refused(to, error), None)
        else:
            step.answer(to, after.producer)
        return step

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        version: int,
        to: Receiver,
        now: Instant,
    ) -> Step:
        """Answers with an error code for each partition. `version` is the transaction version of who asks."""
        before = self._known(transactional_id)
        step = self._stored(before, before.add(producer, partitions, version, now.wall_ms))
        step.answer(to, dict.fromkeys(partitions, ErrorCode.NONE))
        return step

    def verify_partitions(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition], to: Receiver
    ) -> Step:
        """As `add_partitions`, but nothing is added: what does not belong to the transaction has to be aborted."""
        known = self._known(transactional_id)
        known.check(producer)
        step = Step()
        step.answer(
            to,
            {
                each: ErrorCode.NONE if each in known.partitions else ErrorCode.TRANSACTION_ABORTABLE
                for each in partitions
            },
        )
        return step

    def end(
        self, transactional_id: str, producer: Producer, commit: bool, version: int, to: Receiver, now: Instant
    ) -> Step:
        """Answers with the `Producer` to go on as. The answer waits for the decision, not for its markers."""
        before = self._known(transactional_id)
        if version >= BUMPING:
            after = before.end_and_bump(producer, commit, self._new_id, now.wall_ms)
        else:
            after = before.end(producer, commit, now.wall_ms)
        step = self._stored(before, after)
        step.answer(to, after.go_on_as)
        return step

    def describe(self, transactional_id: str, to: Receiver) -> Step:
        """Answers with the `Transaction`."""
        _check_id(transactional_id)
        found = self.transactions.get(transactional_id)
        if found is None:
            raise TransactionalIdNotFoundError(f"nothing is known of {transactional_id!r}")
        step = Step()
        step.answer(to, found)
        return step

    def ending_for(self, transactional_id: str, now: Instant) -> int:
        """For how many milliseconds it has been decided how the transaction ends. For a known id only."""
        return now.wall_ms - self.transactions[transactional_id].updated_ms

    # --- timeouts, expiry -------------------------------------------------------------------------------------

    def markers_written(self, markers: Markers, now: Instant) -> Step:
        """Nothing, if the transaction has gone on since, or another coordinator has sent them."""
        before = self.transactions.get(markers.transactional_id)
        if before is None or not before.state.prepared or self._markers(before) != markers:
            return Step()
        return self._stored(before, before.complete(now.wall_ms))

    def overdue(self, now: Instant) -> Iterator[str]:
        """The ids whose transactions take too long."""
        return (
            name
            for name in sorted(self._ongoing)
            if (one := self.transactions.get(name)) is not None and one.is_overdue(now.wall_ms)
        )

    def time_out(self, transactional_id: str, now: Instant) -> Step:
        """Abort an overdue transaction. Raises while there is no producer id to go on with."""
        before = self.transactions.get(transactional_id)
        if before is None or not before.is_overdue(now.wall_ms):
            return Step()
        return self._stored(before, before.fence(self._new_id, self._version(), now.wall_ms))

    def expire(self, now: Instant) -> Step:
        """Forget the ids that were not used for a long time."""
        gone = [
            TransactionRecord(name, None)
            for name, one in self.transactions.items()
            if one.has_expired(self._options.expiration_ms, now.wall_ms)
        ]
        return Step(gone, atomic=False)

    # ----------------------------------------------------------------------------------------------------------

    def _known(self, transactional_id: str) -> Transaction:
        _check_id(transactional_id)
        found = self.transactions.get(transactional_id)
        if found is None:
            raise InvalidProducerIdMappingError(f"nothing is known of {transactional_id!r}: perhaps it has expired")
        return found

    def _stored(self, before: Transaction, after: Transaction) -> Step:
        if after is before:
            return Step()
        step = Step([TransactionRecord(after.id, after)])
        if after.state.prepared:
            step.effects.append(self._markers(after))
        return step

    def _markers(self, transaction: Transaction) -> Markers:
        return transaction.markers(self._coordinator_epoch)


class Refused:
    """Has a refusal wait for its turn: what it was decided on may not be committed yet."""

    __slots__ = ("_error", "_to")

    def __init__(self, to: Receiver, error: KafkaError) -> None:
        self._to = to
        self._error = error

    def complete(self, response: object) -> None:
        self._to.refuse(self._error)

    def refuse(self, error: KafkaError) -> None:
        self._to.refuse(error)


def _check_id(transactional_id: str) -> None:
    if not transactional_id:
        raise InvalidRequestError("the transactional id is empty")
