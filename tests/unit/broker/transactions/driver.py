"""One shard of the transaction coordinator under test: requests in, answers and markers out, time by hand."""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from rookery.broker.coordination.step import Instant
from rookery.broker.transactions.records import TransactionRecord, decode, encode
from rookery.broker.transactions.state import Step, TransactionOptions, TransactionsState
from rookery.broker.transactions.transaction import Markers, Producer, State, Transaction
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.types import TopicPartition
from tests.unit.broker.groups.driver import Caller

ID = "payments"
TIMEOUT_MS = 60_000
START = Instant(1_000_000, 1_700_000_000_000)
A, B, C = (TopicPartition("t", index) for index in range(3))


def some(*partitions: TopicPartition) -> frozenset[TopicPartition]:
    return frozenset(partitions)


@dataclass
class Driver:
    """Records are taken as committed at once, through their bytes; the log is kept."""

    version: int = 2
    now: Instant = START
    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    markers: list[Markers] = field(default_factory=list)
    """Sent and not yet answered."""
    epoch: int = 1
    options: TransactionOptions = field(default_factory=TransactionOptions)

    def __post_init__(self) -> None:
        self.ids = count(1000)
        self.state = self._new_state()

    def _new_state(self) -> TransactionsState:
        return TransactionsState(self.options, self.epoch, lambda: next(self.ids), lambda: self.version)

    @property
    def one(self) -> Transaction:
        return self.state.transactions[ID]

    def put(self, **values: Any) -> Transaction:
        """Start from a state of our choice."""
        transaction = Transaction(ID, **{"producer_id": 7, "epoch": 5, "timeout_ms": TIMEOUT_MS, **values})
        self.state.replay(TransactionRecord(ID, transaction), 0)
        self.log.append(encode(TransactionRecord(ID, transaction), self.version))
        return transaction

    def wait(self, ms: int) -> None:
        self.now = Instant(self.now.ms + ms, self.now.wall_ms + ms)

    def run(self, step: Step) -> None:
        for record in step.records:
            stored = encode(record, self.version)
            again = decode(*stored)
            assert again is not None
            live = again
            if record.transaction is not None and again.transaction is not None:
                live = again._replace(
                    transaction=replace(again.transaction, last_epoch=record.transaction.last_epoch)
                )
            assert live == record, "what is stored is all there is, but for the last epoch"
            self.log.append(stored)
            self.state.replay(record, len(self.log))
        for to, response in step.answers:
            to.complete(response)
        self.markers += step.effects
        known = self.state.transactions.values()
        assert +self.state.by_state == Counter(one.state for one in known)
        late = Instant(0, sys.maxsize)
        assert list(self.state.overdue(late)) == sorted(one.id for one in known if one.state is State.ONGOING)

    def ask(self, decide: Callable[[TransactionsState, Caller], Step]) -> Any:
        """The answer, or the error's code."""
        caller = Caller()
        try:
            step = decide(self.state, caller)
        except KafkaError as error:
            return error.code
        self.run(step)
        assert caller.answers == 1
        return caller.response

    # --- requests ---------------------------------------------------------------------------------------------

    def init(self, expected: Producer | None = None, timeout_ms: int = TIMEOUT_MS, name: str = ID) -> Any:
        return self.ask(lambda state, to: state.init_producer_id(name, timeout_ms, expected, to, self.now))

    def add(self, producer: Producer, *partitions: TopicPartition, version: int = 0, name: str = ID) -> Any:
        """One code for all partitions, as they all have the same."""
        answer = self.ask(
            lambda state, to: state.add_partitions(name, producer, some(*partitions), version, to, self.now)
        )
        if isinstance(answer, dict):
            assert set(answer) == set(partitions)
            (answer,) = set(answer.values())
        return answer

    def verify(self, producer: Producer, *partitions: TopicPartition, name: str = ID) -> Any:
        return self.ask(lambda state, to: state.verify_partitions(name, producer, some(*partitions), to))

    def end(self, producer: Producer, commit: bool, version: int = 2, name: str = ID) -> Any:
        return self.ask(lambda state, to: state.end(name, producer, commit, version, to, self.now))

    # --- what happens besides ---------------------------------------------------------------------------------

    def finish(self) -> None:
        """All markers that were sent are written."""
        markers, self.markers = self.markers, []
        for each in markers:
            self.run(self.state.markers_written(each, self.now))

    def time_out(self) -> list[str]:
        overdue = list(self.state.overdue(self.now))
        for name in overdue:
            self.run(self.state.time_out(name, self.now))
        return overdue

    def fail_over(self) -> None:
        """Another broker reads the log. What was sent stays sent."""
        before = {
            name: replace(one, last_epoch=-1) for name, one in self.state.transactions.items()
        }
        self.epoch += 1
        self.state = self._new_state()
        for at, (key, value) in enumerate(self.log):
            record = decode(key, value)
            assert record is not None
            self.state.replay(record, at)
        assert self.state.transactions == before, "replay of the log is the live state"
        self.run(self.state.loaded(self.now))


PREPARED = {True: State.PREPARE_COMMIT, False: State.PREPARE_ABORT}
COMPLETE = {True: State.COMPLETE_COMMIT, False: State.COMPLETE_ABORT}
NONE = ErrorCode.NONE
