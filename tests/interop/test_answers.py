"""What is wrong with a request is told with the error that Kafka tells: ask its own server the same
(ROOKERY_TESTS_AIM=kafka)."""

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from rookery.core.errors import ErrorCode
from rookery.core.net.cluster import Cluster
from rookery.core.wire.schema import Struct
from tests.cluster.commits import commit
from tests.cluster.local import LocalCluster
from tests.interop.aim import aimed_cluster
from tests.interop.peers.peer import PATIENCE_S
from tests.interop.wrong_requests import THERE, Case, cases


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with aimed_cluster(1, offsets__topic__num__partitions="1") as running:
        running.create_topic(THERE, 2, 1)
        producer = Producer({"bootstrap.servers": running.bootstrap, "log_level": 0})
        producer.produce(THERE, b"one", partition=0)
        assert producer.flush(PATIENCE_S) == 0
        make_coordinator(running.bootstrap)
        yield running


def make_coordinator(bootstrap: str) -> None:
    """The first who asks for one makes its topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "first", "log_level": 0})
    commit(consumer, TopicPartition(THERE, 0, 1))
    consumer.close()


def errors(answer: object) -> Iterator[int]:
    """All error codes in an answer, outermost first."""
    if isinstance(answer, Struct):
        if getattr(answer, "error_code", 0):
            yield answer.error_code  # type: ignore[attr-defined]
        for name in answer.fields:
            yield from errors(getattr(answer, name))
    elif isinstance(answer, list | tuple):
        for each in answer:
            yield from errors(each)


async def ask(bootstrap: str, case: Case) -> ErrorCode:
    async with Cluster(bootstrap, request_timeout_s=30) as client:
        answer = await client.ask_any(case.api, case.request, at_most=case.version)
    return ErrorCode(next(errors(answer), 0))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in cases()])
def test_an_error_is_the_one_that_clients_know(cluster: LocalCluster, case: Case) -> None:
    assert asyncio.run(ask(cluster.bootstrap, case)) is case.error
