"""When batches are sent, again, and given up; which partition records without a key go to; options."""

from itertools import pairwise
from random import Random
from typing import Any

import pytest

from rookery.client.errors import ClosedError, ConfigurationError, DeliveryTimeoutError
from rookery.client.options import read_options
from rookery.client.producer import options as of
from rookery.client.producer.accumulator import Accumulator, AccumulatorSettings, Plan
from rookery.client.producer.batch import Batch, row_size
from rookery.client.producer.partitioners import Partitioner, Route
from rookery.client.types import TopicPartition
from rookery.core.errors import ErrorCode, error_for
from rookery.core.net.backoff import BackoffSettings
from rookery.core.net.connection import ConnectionLostError

PLACE = TopicPartition("t", 0)
LOST = ConnectionLostError("the answer is lost")


class Clocked:
    """An accumulator with a clock to be set, and one leader."""

    def __init__(self, **settings: Any) -> None:
        self.now = 0.0
        self.leader = 1
        self.core = Accumulator(AccumulatorSettings(**settings), lambda _: self.leader, Random(1), lambda: self.now)
        self.core.identify(1, 0)

    def send(self, value: bytes = b"v", place: TopicPartition = PLACE) -> Batch:
        size = row_size(None, value, ())
        return self.core.append(self.core.queue(place), size, 1, None, value, ())[0]

    def plan(self, at: float) -> Plan:
        self.now = at
        return self.core.plan(at)

    def lose(self, plan: Plan) -> None:
        for request in plan.requests:
            self.core.answered(request, self.now)
            for batch in request.batches:
                self.core.not_stored(batch, LOST, self.now)


@pytest.mark.row(3)
def test_linger_holds_a_lone_record_back_for_that_long_and_no_longer() -> None:
    clocked = Clocked(linger_s=0.5)
    batch = clocked.send()
    assert clocked.plan(0.499).requests == []
    assert clocked.plan(0.499).wake_at == 0.5
    assert [request.batches for request in clocked.plan(0.5).requests] == [[batch]]


@pytest.mark.row(2)
def test_a_full_batch_and_a_flush_do_not_wait() -> None:
    clocked = Clocked(linger_s=100, batch_size=200)
    first = clocked.send(b"x" * 60)
    second = clocked.send(b"x" * 60)
    assert [request.batches for request in clocked.plan(0).requests] == [[first]]
    clocked.core.begin_flush()
    assert [request.batches for request in clocked.plan(0).requests] == [[second]]


@pytest.mark.row(18)
def test_retries_are_separated_by_growing_pauses() -> None:
    clocked = Clocked(linger_s=0, backoff=BackoffSettings(0.1, 1.0), delivery_timeout_s=1e9)
    clocked.send()
    pauses = []
    for _ in range(8):
        plan = clocked.plan(clocked.now)
        assert len(plan.requests) == 1
        clocked.lose(plan)
        wake = clocked.plan(clocked.now).wake_at
        assert wake is not None
        pauses.append(wake - clocked.now)
        clocked.now = wake
    assert 0.08 <= pauses[0] <= 0.12
    assert 0.16 <= pauses[1] <= 0.24
    assert all(0.8 <= pause <= 1.2 for pause in pauses[4:])


@pytest.mark.row(8, 19)
def test_delivery_timeout_limits_the_total_time_and_names_the_cause() -> None:
    clocked = Clocked(linger_s=0, delivery_timeout_s=10)
    batch = clocked.send()
    while clocked.now < 9.9:
        plan = clocked.plan(clocked.now)
        clocked.lose(plan)
        clocked.now = min(clocked.core.plan(clocked.now).wake_at or 10, 10)
    clocked.plan(10)
    assert batch.settled
    with pytest.raises(DeliveryTimeoutError, match=r"not acknowledged in 10 s, after \d+ attempts.*the answer is lost"):
        raise batch.error or AssertionError


@pytest.mark.row(21)
def test_without_retries_a_record_is_sent_once() -> None:
    clocked = Clocked(linger_s=0, retries=0, idempotent=False)
    batch = clocked.send()
    clocked.lose(clocked.plan(0))
    assert batch.settled
    assert batch.error is LOST
    assert clocked.plan(100).requests == []


def test_a_partition_without_a_leader_waits_for_metadata_and_others_go_on() -> None:
    clocked = Clocked(linger_s=0)
    clocked.leader = -1
    clocked.send()
    plan = clocked.plan(0)
    assert (plan.requests, plan.stale) == ([], {"t"})
    clocked.leader = 2
    assert [request.node for request in clocked.plan(0).requests] == [2]


def test_no_more_requests_to_a_node_than_may_be_in_flight() -> None:
    clocked = Clocked(linger_s=0, batch_size=10, in_flight_max=3)
    for _ in range(10):
        clocked.send()
    assert len(clocked.plan(0).requests) == 3
    assert clocked.plan(0).requests == []


def test_a_throttled_node_is_left_alone() -> None:
    clocked = Clocked(linger_s=0)
    clocked.send()
    (request,) = clocked.plan(0).requests
    clocked.core.answered(request, 0, throttle_s=2)
    clocked.core.stored(request.batches[0], 0)
    clocked.send()
    plan = clocked.plan(0.1)
    assert (plan.requests, plan.wake_at) == ([], 2)
    assert len(clocked.plan(2).requests) == 1


def test_an_error_that_does_not_pass_fails_the_batch_and_the_next_takes_its_number() -> None:
    clocked = Clocked(linger_s=0, batch_size=10)
    first, second = clocked.send(), clocked.send()
    requests = clocked.plan(0).requests
    assert [request.batches for request in requests] == [[first], [second]]
    for request in requests:
        clocked.core.answered(request, 0)
    clocked.core.not_stored(first, error_for(ErrorCode.INVALID_RECORD), 0)
    clocked.core.not_stored(second, error_for(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), 0)
    assert first.settled
    (again,) = clocked.plan(10).requests
    assert (again.batches, second.stamp.sequence, second.stamp.epoch) == ([second], 0, 0)


# --- partitioners -------------------------------------------------------------------------------------------


def route(partitions: int, core: Accumulator) -> Route:
    places = [TopicPartition("t", index) for index in range(partitions)]
    return Route("t", [core.queue(place) for place in places], range(partitions))


def partitioner(kind: str = "default", **options: Any) -> Partitioner:
    return Partitioner(kind, Random(2), **{"ignore_keys": False, "adaptive": True, "batch_size": 1000, **options})


@pytest.mark.row(25)
def test_the_sticky_partitioner_fills_one_batch_then_moves_on() -> None:
    clocked = Clocked()
    line, chooser = route(4, clocked.core), partitioner(adaptive=False)
    chosen = [chooser.choose(line, None, 100) for _ in range(100)]
    batches = [chosen[first : first + 10] for first in range(0, 100, 10)]
    assert all(len(set(batch)) == 1 for batch in batches)
    assert all(one[0] != other[0] for one, other in pairwise(batches))
    assert set(chosen) == {0, 1, 2, 3}


def test_partitions_with_a_long_queue_get_less() -> None:
    clocked = Clocked(batch_size=10)
    for _ in range(20):
        clocked.send(place=TopicPartition("t", 0))
    line, chooser = route(2, clocked.core), partitioner(batch_size=1)
    chosen = [chooser.choose(line, None, 1) for _ in range(500)]
    assert 0 < chosen.count(0) < 100


# --- options ------------------------------------------------------------------------------------------------


def read(**keywords: Any) -> Any:
    settings = read_options(of.CLIENT, of.TABLE, {"bootstrap_servers": "a:1", **keywords})
    of.check(settings)
    return settings


@pytest.mark.row(16)
@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"acks": 1, "enable_idempotence": True}, "acks=1 contradicts enable.idempotence=true"),
        ({"retries": 0, "enable_idempotence": True}, "retries=0 contradicts"),
        ({"max_in_flight_requests_per_connection": 6, "enable_idempotence": True}, "at most 5 requests"),
        ({"transactional_id": "x", "acks": "1"}, "acks=1 contradicts transactional.id"),
        ({"transactional_id": "x", "enable_idempotence": False}, "transactions need idempotence"),
        ({"delivery_timeout_ms": 100}, "delivery.timeout.ms=100 contradicts"),
        ({"partitioner": "sticky"}, "partitioner='sticky' cannot be used"),
        ({"value_serializer": "avro"}, "value.serializer='avro' cannot be used"),
        ({"group_id": "g"}, "'group_id' is not an option"),
    ],
)
def test_contradictions_are_refused_by_name(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message.replace(".", r"\.")):
        read(**keywords)


def test_idempotence_is_on_unless_another_option_excludes_it() -> None:
    assert of.idempotent(read())
    assert not of.idempotent(read(acks=1))
    assert not of.idempotent(read(retries=0))
    assert not of.idempotent(read(max_in_flight_requests_per_connection=10))
    assert not of.idempotent(read(enable_idempotence=False))


def test_one_request_in_flight_keeps_the_order_over_a_change_of_leader() -> None:
    clocked = Clocked(linger_s=0, idempotent=False, in_flight_max=1, backoff=BackoffSettings(0.1, 0.1))
    first = clocked.send()
    before = clocked.plan(0)
    assert [request.batches for request in before.requests] == [[first]]
    clocked.send()
    clocked.leader = 2
    assert clocked.plan(0.1).requests == []
    clocked.lose(before)
    assert [request.batches for request in clocked.plan(1).requests] == [[first]]


def test_the_parts_of_a_split_batch_expire_with_it_although_younger_ones_wait() -> None:
    clocked = Clocked(delivery_timeout_s=10, linger_s=0, batch_size=300)
    parts = clocked.send(b"x" * 60)
    assert clocked.send(b"x" * 60) is parts
    [request] = clocked.plan(0).requests
    clocked.now = 5
    younger = clocked.send(b"y", TopicPartition("t", 1))
    clocked.core.answered(request, 5)
    clocked.core.not_stored(parts, error_for(ErrorCode.MESSAGE_TOO_LARGE, ""), 5)
    clocked.leader = -1
    assert clocked.plan(9).wake_at == 10
    clocked.plan(10)
    assert parts.settled
    assert isinstance(parts.error_of(0), DeliveryTimeoutError)
    assert isinstance(parts.error_of(1), DeliveryTimeoutError)
    assert not younger.settled


def test_a_record_that_comes_after_the_end_is_refused() -> None:
    clocked = Clocked()
    batch = clocked.send()
    clocked.core.abandon_all(ClosedError("closed"))
    assert batch.settled
    with pytest.raises(ClosedError):
        clocked.send()
    assert not clocked.core.incomplete
