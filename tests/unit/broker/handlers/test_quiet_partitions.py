"""Partitions of a session that have nothing new are glanced at instead of read: nothing may be missed by that."""

import pytest

from rookery.broker.log.partition_log import PartitionLog
from rookery.core.errors import ErrorCode
from rookery.core.metadata.requests import DeleteTopicsRequest, TopicReference
from rookery.core.wire.apis.fetch import FETCH, PartitionData
from tests.unit.broker.handlers.test_fetch_session_lines import ask, request, told
from tests.unit.broker.talk import QuietBroker, Talk, batch_of

FOLLOWER = 2


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partitions whose log was read."""
    seen: list[int] = []
    read = PartitionLog.read

    def counted(self: PartitionLog, *args: object, **options: object) -> object:
        seen.append(self.partition.partition)
        return read(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(PartitionLog, "read", counted)
    return seen


async def begin(talk: Talk, partitions: int) -> int:
    places = [(index, 0) for index in range(partitions)]
    return (await ask(talk, request(0, 0, *places))).session_id


def only(answers: list[PartitionData]) -> PartitionData:
    (answer,) = answers
    return answer


async def test_only_what_has_news_is_read(broker: QuietBroker, reads: list[int]) -> None:
    await broker.create("orders", partitions=5)
    talk, writer = broker.talk(), broker.talk()
    session_id = await begin(talk, 5)
    reads.clear()
    assert told(await ask(talk, request(session_id, 1))) == []
    assert reads == []
    await writer.produce("orders", batch_of(b"x"), index=3)
    assert told(await ask(talk, request(session_id, 2))) == [3]
    assert reads == [3]


async def test_a_wait_reads_only_what_has_grown(broker: QuietBroker, reads: list[int]) -> None:
    await broker.create("orders", partitions=5)
    talk, writer = broker.talk(), broker.talk()
    session_id = await begin(talk, 5)
    reads.clear()
    talk.send(FETCH, 12, request(session_id, 1, max_wait_ms=500))
    await writer.produce("orders", batch_of(b"x"), index=4)
    (answer,) = await talk.receive_some(1)
    assert told(answer) == [4]
    assert reads == [4]


async def test_a_batch_that_found_no_room_is_not_forgotten(broker: QuietBroker) -> None:
    """An empty answer does not mean that there is nothing."""
    await broker.create("orders", partitions=2)
    talk, writer = broker.talk(), broker.talk()
    for index in (0, 1):
        await writer.produce("orders", batch_of(b"x" * 100), index=index)
    first = await ask(talk, request(0, 0, (0, 0), (1, 0), max_bytes=1))
    assert [bool(one.records) for one in first.responses[0].partitions] == [True, False]
    second = await ask(talk, request(first.session_id, 1, (0, 1), max_bytes=1))
    assert [one.partition_index for one in second.responses[0].partitions if one.records] == [1]


async def test_a_deleted_topic_is_reported(broker: QuietBroker) -> None:
    await broker.create("orders")
    talk = broker.talk()
    session_id = await begin(talk, 1)
    await broker.cluster.ask(DeleteTopicsRequest((TopicReference(name="orders"),)))
    answer = only([*(await ask(talk, request(session_id, 1))).responses[0].partitions])
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_lost_leadership_is_reported(broker: QuietBroker) -> None:
    await broker.create("orders")
    talk = broker.talk()
    session_id = await begin(talk, 1)
    partition = broker.partition("orders")
    epoch = partition.state.leader_epoch + 1
    partition.apply(partition.state._replace(replicas=(FOLLOWER,), leader=FOLLOWER, leader_epoch=epoch))
    answer = only([*(await ask(talk, request(session_id, 1))).responses[0].partitions])
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_deleted_prefix_is_reported(broker: QuietBroker) -> None:
    await broker.create("orders")
    talk, writer = broker.talk(), broker.talk()
    await writer.produce("orders", batch_of(b"x"))
    session_id = (await ask(talk, request(0, 0, (0, 1)))).session_id
    broker.partition("orders").log.delete_records(1)
    answer = only([*(await ask(talk, request(session_id, 1))).responses[0].partitions])
    assert answer.log_start_offset == 1
