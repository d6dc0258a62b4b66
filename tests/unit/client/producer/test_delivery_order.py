"""The accumulator against a leader that behaves as Kafka's does, over a connection that fails at any time.

What was acknowledged is in the log once, at its offset, and the log is in the order of the calls. What was given up is
there once or not at all.
"""

from collections import deque
from dataclasses import dataclass, field
from random import Random

import pytest

from rookery.client.producer.accumulator import Accumulator, AccumulatorSettings, Request
from rookery.client.producer.batch import Batch, row_size
from rookery.client.types import TopicPartition
from rookery.core.errors import ErrorCode, error_for
from rookery.core.net.backoff import BackoffSettings
from rookery.core.net.connection import ConnectionLostError
from rookery.core.wire.batch import read_header
from rookery.core.wire.records import read_records

PLACES = [TopicPartition("t", index) for index in range(2)]
LOST = ConnectionLostError("lost")


@dataclass
class Leader:
    """One partition: the checks of an idempotent producer as a broker makes them."""

    log: list[bytes] = field(default_factory=list)
    epoch: int = -1
    batches: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=5))
    batch_max: int = 1 << 30

    def write(self, data: bytearray) -> int | ErrorCode:
        header = read_header(data)
        if len(data) > self.batch_max:
            return ErrorCode.MESSAGE_TOO_LARGE
        if header.producer_epoch < self.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if header.producer_epoch > self.epoch:
            if header.base_sequence != 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            self.epoch = header.producer_epoch
            self.batches.clear()
        for sequence, count, offset in self.batches:
            if (sequence, count) == (header.base_sequence, header.record_count):
                return offset
        after = self.batches[-1][0] + self.batches[-1][1] if self.batches else 0
        if header.base_sequence != after:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        offset = len(self.log)
        self.batches.append((header.base_sequence, header.record_count, offset))
        self.log += [record.value or b"" for record in read_records(data)]
        return offset

    def forget(self) -> None:
        """The producer's state is gone, as after retention of all its records."""
        self.epoch = -1
        self.batches.clear()


class Run:
    """One connection to the node that leads all partitions."""

    def __init__(self, seed: int, **settings: object) -> None:
        self.rng = Random(seed)
        self.now = 0.0
        values: dict[str, object] = {
            "batch_size": 200,
            "linger_s": 0.01,
            "delivery_timeout_s": 5.0,
            "backoff": BackoffSettings(0.1, 0.5),
            **settings,
        }
        self.core = Accumulator(AccumulatorSettings(**values), lambda place: 1, self.rng, lambda: self.now)  # type: ignore[arg-type]
        self.core.identify(9, 0)
        self.leaders = {place: Leader() for place in PLACES}
        self.flying: deque[tuple[Request, list[bytearray]]] = deque()
        self.sent: dict[bytes, tuple[Batch, int]] = {}
        self.forgot = False

    def send(self) -> None:
        value = b"%06d" % len(self.sent)
        size = row_size(None, value, ())
        self.sent[value] = self.core.append(
            self.core.queue(self.rng.choice(PLACES)), size, 1, None, value, ()
        )

    def plan(self) -> None:
        for request in self.core.plan(self.now).requests:
            self.flying.append((request, [batch.encoded() for batch in request.batches]))
        assert len(self.flying) <= self.core.settings.in_flight_max

    def answer(self, fault: str = "") -> None:
        """The oldest request; a connection that breaks takes the others with it."""
        if not self.flying:
            return
        request, written = self.flying.popleft()
        self.core.answered(request, self.now)
        for batch, data in zip(request.batches, written, strict=True):
            leader = self.leaders[batch.place]
            if fault == "not_leader":
                error = error_for(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                self.core.not_stored(batch, error, self.now)
                continue
            outcome = leader.write(data) if fault != "lost_before" else None
            if fault:
                self.core.not_stored(batch, LOST, self.now)
            elif isinstance(outcome, ErrorCode):
                self.core.not_stored(batch, error_for(outcome), self.now)
            else:
                assert outcome is not None
                self.core.stored(batch, outcome)
        if fault.startswith("lost"):
            while self.flying:
                rest = self.rng.choice(["lost_before", fault])
                fault = "lost_before" if rest == "lost_before" else fault
                self._drop(*self.flying.popleft(), stored=fault == "lost_after")

    def _drop(self, request: Request, written: list[bytearray], stored: bool) -> None:
        self.core.answered(request, self.now)
        for batch, data in zip(request.batches, written, strict=True):
            if stored:
                self.leaders[batch.place].write(data)
            self.core.not_stored(batch, LOST, self.now)

    def step(self, faults: list[str]) -> None:
        match self.rng.randrange(6):
            case 0 | 1:
                self.send()
            case 2:
                self.plan()
            case 3:
                self.answer()
            case 4:
                self.answer(self.rng.choice(faults))
            case 5:
                self.now += self.rng.choice([0.001, 0.02, 0.3, 1.5])

    def finish(self) -> None:
        """The faults are over: what is sent from now on is delivered."""
        self.settle()
        before = len(self.sent)
        for _ in range(6):
            self.send()
        self.settle()
        assert all(batch.error_of(number) is None for batch, number in list(self.sent.values())[before:])

    def settle(self) -> None:
        for _ in range(2000):
            if not self.core.incomplete:
                break
            self.plan()
            self.answer()
            self.now += 0.05
        assert not self.core.incomplete
        while self.flying:
            self.answer()
        assert self.core.used == 0
        assert self.core.in_flight == 0

    def check(self) -> None:
        for place, leader in self.leaders.items():
            assert len(set(leader.log)) == len(leader.log), f"{place}: a record is there twice"
            assert leader.log == sorted(leader.log), f"{place}: records are not in the order of the calls"
        for value, (batch, number) in self.sent.items():
            if batch.error_of(number) is None:
                metadata = batch.metadata(number, 1)
                assert self.leaders[TopicPartition("t", metadata.partition)].log[metadata.offset] == value


@pytest.mark.parametrize("seed", range(200))
def test_once_and_in_order_whatever_the_connection_does(seed: int) -> None:
    run = Run(seed)
    for _ in range(300):
        run.step(["lost_before", "lost_after", "not_leader"])
    run.finish()
    run.check()
    assert sum(len(leader.log) for leader in run.leaders.values()) > 0


@pytest.mark.parametrize("seed", range(50))
def test_batches_that_are_too_large_are_split(seed: int) -> None:
    run = Run(seed)
    for leader in run.leaders.values():
        leader.batch_max = 110
    for _ in range(200):
        run.step(["lost_before", "lost_after", "not_leader"])
    run.finish()
    run.check()


@pytest.mark.parametrize("seed", range(50))
def test_a_leader_that_lost_the_producers_state_is_written_to_with_a_new_epoch(seed: int) -> None:
    """Without lost answers: nobody could tell a double then."""
    run = Run(seed, delivery_timeout_s=1e6)
    for _ in range(300):
        run.step(["not_leader"])
        if run.rng.random() < 0.02:
            for leader in run.leaders.values():
                leader.forget()
    run.finish()
    run.check()
    assert all(batch.error_of(number) is None for batch, number in run.sent.values())


def test_no_plan_is_wanted_while_there_is_nothing_to_do() -> None:
    run = Run(1)
    assert run.core.plan(run.now).wake_at is None
    run.send()
    plan = run.core.plan(run.now)
    assert plan.requests == []
    assert plan.wake_at == pytest.approx(0.01)
    run.now = 0.01
    run.plan()
    run.answer()
    assert run.core.plan(run.now).wake_at is None


def test_a_batch_that_nobody_acknowledges_is_given_up_in_time() -> None:
    run = Run(1)
    run.send()
    (batch, _) = run.sent[b"000000"]
    run.now = 0.02
    run.plan()
    run.now = 5.0
    plan = run.core.plan(run.now)
    assert batch.settled
    assert "not acknowledged in 5 s" in str(batch.error)
    assert plan.requests == []
    assert run.core.used == 0
    run.answer()  # late, and nobody minds
    assert run.leaders[batch.place].log == [b"000000"]
