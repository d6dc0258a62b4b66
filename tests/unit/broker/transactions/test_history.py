"""Histories of one transactional id: producers that come and go, a network that loses, delays and doubles, coordinators
that change with or without what was not committed. Checked against what the committed log and the answers say."""

from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.broker.coordination.step import Answer, Instant
from rookery.broker.transactions.records import TransactionRecord, decode, encode
from rookery.broker.transactions.state import Refused, Step, TransactionOptions, TransactionsState
from rookery.broker.transactions.transaction import (
    LAST_EPOCH,
    NEVER_STORED,
    Markers,
    Producer,
    State,
    Transaction,
)
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.types import TopicPartition
from tests.unit.broker.groups.driver import Caller
from tests.unit.broker.transactions.driver import ID, START, TIMEOUT_MS, some

RETRIED = {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR}
PARTITIONS = [TopicPartition("t", index) for index in range(3)]


@dataclass
class Producing:
    """One producer with the rules of version 2, as it sees itself."""

    number: int
    producer: Producer | None = None
    added: frozenset[TopicPartition] = frozenset()
    request: "Request | None" = None
    """What it waits for."""
    dead: bool = False


@dataclass
class Request:
    owner: Producing
    kind: str
    producer: Producer | None = None
    partitions: frozenset[TopicPartition] = frozenset()
    commit: bool = False


@dataclass
class Owed:
    end: int
    answers: list[Answer]
    effects: list[Markers]


@dataclass
class Told:
    """Takes an answer to the producer, if it still waits for it."""

    machine: "Transactions"
    request: Request
    caller: Caller = field(default_factory=Caller)

    def complete(self, response: Any) -> None:
        self.machine.answered(self.request, response)

    def refuse(self, error: KafkaError) -> None:
        self.machine.answered(self.request, error.code)


class Transactions:
    version = 2

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.acknowledged = 0
        self.ids = count(1000)
        self.now = START
        self.log: list[tuple[bytes, bytes | None]] = []
        self.high_watermark = 0
        self.epoch = 0
        self.owed: list[Owed] = []
        self.sent: list[Markers] = []
        self.written: list[Markers] = []
        self.network: list[Request] = []
        self.producers: list[Producing] = []
        self.state = self._new_state()
        # begin close to the end of the epochs
        nearly = Transaction(ID, next(self.ids), LAST_EPOCH - 3, TIMEOUT_MS, updated_ms=self.now.wall_ms)
        self._run(Step([TransactionRecord(ID, nearly)]))
        self.high_watermark = len(self.log)
        self._release()

    def play(self, steps: int) -> None:
        names = list(WEIGHTS)
        for name in self.rng.choices(names, [WEIGHTS[name] for name in names], k=steps):
            getattr(self, name)()
            self.decisions_stand()
            self.markers_are_justified()
        self.faults_are_over()

    # --- the coordinator's shell ------------------------------------------------------------------------------

    def _new_state(self) -> TransactionsState:
        return TransactionsState(TransactionOptions(), self.epoch, lambda: next(self.ids), lambda: self.version)

    def _run(self, step: Step) -> None:
        for record in step.records:
            self.log.append(encode(record, self.version))
            self.state.replay(record, len(self.log))
        self.owed.append(Owed(len(self.log), step.answers, step.effects))
        self._release()

    def _release(self) -> None:
        while self.owed and self.owed[0].end <= self.high_watermark:
            owed = self.owed.pop(0)
            for to, response in owed.answers:
                to.complete(response)
            self.sent += owed.effects

    def committed(self) -> list[Transaction]:
        found = []
        for key, value in self.log[: self.high_watermark]:
            record = decode(key, value)
            assert record is not None
            assert record.transaction is not None
            found.append(record.transaction)
        return found

    # --- what may happen --------------------------------------------------------------------------------------

    def commit(self) -> None:
        self.high_watermark = min(len(self.log), self.high_watermark + self.rng.randint(1, 3))
        self._release()

    def fail_over(self) -> None:
        """Another coordinator; perhaps one that has nothing but what was committed."""
        if self.rng.random() < 0.5:
            del self.log[self.high_watermark :]
        owed, self.owed = self.owed, []
        for each in owed:
            for to, _ in each.answers:
                told = to._to if isinstance(to, Refused) else to
                told.complete(ErrorCode.NOT_COORDINATOR)
        self.epoch += 1
        self.state = self._new_state()
        for at, (key, value) in enumerate(self.log):
            record = decode(key, value)
            assert record is not None
            self.state.replay(record, at)
        self._run(self.state.loaded(self.now))

    def start(self) -> None:
        """Another instance of the application: those before it are zombies from now on."""
        if len(self.producers) > 12:
            return
        producing = Producing(len(self.producers))
        self.producers.append(producing)
        self._send(Request(producing, "init"))

    def _send(self, request: Request) -> None:
        request.owner.request = request
        self.network.append(request)

    def _free(self) -> list[Producing]:
        return [p for p in self.producers if p.request is None and p.producer is not None and not p.dead]

    def add(self) -> None:
        for producing in self.rng.sample(self._free(), min(1, len(self._free()))):
            partition = self.rng.choice(PARTITIONS)
            self._send(Request(producing, "add", producing.producer, some(partition)))

    def end(self) -> None:
        for producing in self.rng.sample(self._free(), min(1, len(self._free()))):
            commit = bool(producing.added) and self.rng.random() < 0.6
            self._send(Request(producing, "end", producing.producer, producing.added, commit))

    def deliver(self) -> None:
        """One of the requests under way, mostly one of the newest; sometimes a copy of it stays under way."""
        if not self.network:
            return
        request = self.rng.choice(self.network[-3:] if self.rng.random() < 0.7 else self.network)
        if self.rng.random() < 0.8:
            self.network.remove(request)
        to = Told(self, request)
        try:
            self._run(self._decide(request, to))
        except KafkaError as error:
            refused: Step = Step()
            refused.answer(Refused(to, error), None)
            self._run(refused)

    def _decide(self, request: Request, to: Told) -> Step:
        state = self.state
        if request.kind == "init":
            return state.init_producer_id(ID, TIMEOUT_MS, None, to, self.now)
        assert request.producer is not None
        if request.kind == "add":
            return state.add_partitions(ID, request.producer, request.partitions, 2, to, self.now)
        return state.end(ID, request.producer, request.commit, 2, to, self.now)

    def repeat(self) -> None:
        """A producer hears nothing and asks again."""
        self.network += [p.request for p in self.producers if p.request is not None and self.rng.random() < 0.5]

    def write_markers(self) -> None:
        if self.sent:
            self._write(self.rng.choice(self.sent))

    def _write(self, markers: Markers) -> None:
        self.sent.remove(markers)
        self.written.append(markers)
        if markers.coordinator_epoch == self.epoch:
            self._run(self.state.markers_written(markers, self.now))

    def wait(self) -> None:
        self._wait(self.rng.choice([1, TIMEOUT_MS // 2, TIMEOUT_MS + 1]))

    def _wait(self, ms: int) -> None:
        self.now = Instant(self.now.ms + ms, self.now.wall_ms + ms)
        for name in list(self.state.overdue(self.now)):
            self._run(self.state.time_out(name, self.now))

    # --- what must hold ---------------------------------------------------------------------------------------

    def answered(self, request: Request, answer: Any) -> None:
        producing = request.owner
        if producing.request is not request:
            return  # an answer to a copy
        if isinstance(answer, ErrorCode) and answer in RETRIED:
            self.network.append(request)
            return
        producing.request = None
        if isinstance(answer, ErrorCode):
            producing.dead = True
            if request.kind == "end" and request.commit:
                self._check_not_decided(request, commit=True)
        elif request.kind == "init":
            producing.producer = answer
            newest = max((p for p in self.producers if p.producer is not None), key=lambda p: p.number)
            if producing is newest:
                assert self.state.transactions[ID].producer >= answer
        elif request.kind == "add":
            producing.added |= request.partitions
        else:
            self.acknowledged += 1
            self._check_ended(request)
            producing.producer, producing.added = answer, frozenset()

    def _decisions(self, request: Request) -> list[Transaction]:
        assert request.producer is not None
        marked = Producer(request.producer.id, request.producer.epoch + 1)
        return [one for one in self.committed() if one.state.prepared and one.producer == marked]

    def _check_ended(self, request: Request) -> None:
        """An acknowledged end is committed, with all that was acknowledged before it, and nothing says otherwise."""
        decisions = self._decisions(request)
        wanted = State.PREPARE_COMMIT if request.commit else State.PREPARE_ABORT
        assert {one.state for one in decisions} == {wanted}
        assert all(one.partitions >= request.partitions for one in decisions)

    def _check_not_decided(self, request: Request, *, commit: bool) -> None:
        """What was refused for good is not done (A.6, 12)."""
        wanted = State.PREPARE_COMMIT if commit else State.PREPARE_ABORT
        assert wanted not in {one.state for one in self._decisions(request)}

    def decisions_stand(self) -> None:
        """A stored decision is followed by its completion alone, and epochs never fall."""
        before: Transaction | None = None
        for one in self.committed():
            if before is not None:
                if before.state is State.PREPARE_COMMIT:
                    assert one.state is State.COMPLETE_COMMIT
                if before.state is State.PREPARE_ABORT:
                    assert one.state is State.COMPLETE_ABORT
                assert one.producer >= before.producer
                if one.state is State.ONGOING and before.state is State.ONGOING:
                    assert one.partitions >= before.partitions
            before = one

    def markers_are_justified(self) -> None:
        """Each marker that was sent has its decision in the committed log, and all of one epoch say the same."""
        decided = {
            (one.producer, one.state is State.PREPARE_COMMIT, one.partitions)
            for one in self.committed()
            if one.state.prepared
        }
        results: dict[Producer, bool] = {}
        for markers in self.sent + self.written:
            assert (markers.producer, markers.commit, markers.partitions) in decided
            assert results.setdefault(markers.producer, markers.commit) is markers.commit

    def faults_are_over(self) -> None:
        """Everything that was decided is ended, and what is open times out."""
        for _ in range(10):
            self.high_watermark = len(self.log)
            self._release()
            for markers in list(self.sent):
                self._write(markers)
            self._wait(TIMEOUT_MS + 1)
        assert self.state.transactions[ID].state.idle
        decided = {one.producer for one in self.committed() if one.state.prepared}
        assert decided == {markers.producer for markers in self.written}


WEIGHTS = {
    "deliver": 8,
    "commit": 8,
    "write_markers": 6,
    "add": 4,
    "end": 3,
    "repeat": 1,
    "wait": 0.4,
    "start": 0.4,
    "fail_over": 0.4,
}


@pytest.mark.invariant("T6", "T7", "T11", "T12")
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_histories_of_one_transactional_id(seed: int) -> None:
    Transactions(seed).play(300)


def test_the_histories_are_worth_something() -> None:
    """Most of them end many transactions, by commit and by abort."""
    played = [Transactions(seed) for seed in range(5)]
    for history in played:
        history.play(300)
    assert sum(history.acknowledged for history in played) > 10
    results = {one.state for history in played for one in history.committed()}
    assert results == set(State) - NEVER_STORED
    assert any(one.previous_producer_id != -1 for history in played for one in history.committed())
