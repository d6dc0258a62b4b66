"""Fetch sessions (checklist line 37)."""

from random import Random

import pytest

from rookery.broker.handlers.fetch_session import EPOCH_MAX, EVICT_AFTER_S, Sessions
from rookery.core.errors import ErrorCode, InvalidFetchSessionEpochError
from rookery.core.wire.apis.fetch import (
    FETCH,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from tests.unit.broker.talk import QuietBroker, Talk, batch_of


def request(
    session_id: int, epoch: int, *partitions: tuple[int, int], topic: str = "orders", **options: object
) -> FetchRequest:
    """A fetch of (partition, offset) pairs within a session."""
    wanted = [FetchPartition(partition=p, fetch_offset=o, partition_max_bytes=1 << 20) for p, o in partitions]
    topics = [FetchTopic(topic=topic, partitions=wanted)] if wanted else []
    values = {"max_wait_ms": 0, "min_bytes": 1, **options}
    return FetchRequest(session_id=session_id, session_epoch=epoch, topics=topics, **values)  # type: ignore[arg-type]


async def ask(talk: Talk, fetch: FetchRequest, version: int = 12) -> FetchResponse:
    answer: FetchResponse = await talk.ask(FETCH, version, fetch)
    return answer


def told(answer: FetchResponse) -> list[int]:
    return [partition.partition_index for topic in answer.responses for partition in topic.partitions]


async def test_line_37_without_a_session_everything_is_reported_each_time(broker: QuietBroker) -> None:
    await broker.create("orders", partitions=2)
    talk = broker.talk()
    for session_id, epoch in ((0, -1), (0, -1), (-1, -1)):
        answer = await ask(talk, request(session_id, epoch, (0, 0), (1, 0)))
        assert (answer.session_id, told(answer)) == (0, [0, 1])


async def test_line_37_a_session_reports_only_what_changed(broker: QuietBroker) -> None:
    await broker.create("orders", partitions=3)
    talk, writer = broker.talk(), broker.talk()
    first = await ask(talk, request(0, 0, (0, 0), (1, 0), (2, 0)))
    assert first.session_id > 0
    assert told(first) == [0, 1, 2]
    nothing = await ask(talk, request(first.session_id, 1))
    assert (nothing.session_id, told(nothing)) == (first.session_id, [])
    await writer.produce("orders", batch_of(b"x"), index=1)
    news = await ask(talk, request(first.session_id, 2))
    assert told(news) == [1]
    assert news.responses[0].partitions[0].high_watermark == 1
    assert told(await ask(talk, request(first.session_id, 3, (1, 1)))) == []


async def test_line_37_an_unread_batch_is_reported_again(broker: QuietBroker) -> None:
    await broker.create("orders")
    talk, writer = broker.talk(), broker.talk()
    await writer.produce("orders", batch_of(b"x"))
    session_id = (await ask(talk, request(0, 0, (0, 0)))).session_id
    assert told(await ask(talk, request(session_id, 1))) == [0]


async def test_line_37_partitions_can_be_added_and_forgotten(broker: QuietBroker) -> None:
    await broker.create("orders", partitions=3)
    talk = broker.talk()
    session_id = (await ask(talk, request(0, 0, (0, 0)))).session_id
    assert told(await ask(talk, request(session_id, 1, (2, 0)))) == [2]
    forgotten = [ForgottenTopic(topic="orders", partitions=[0])]
    await ask(talk, request(session_id, 2, forgotten_topics_data=forgotten))
    for index in (0, 2):
        await talk.produce("orders", batch_of(b"x"), index=index)
    assert told(await ask(talk, request(session_id, 3))) == [2]


async def test_line_37_a_session_waits_for_data_like_any_fetch(broker: QuietBroker) -> None:
    await broker.create("orders", partitions=2)
    talk, writer = broker.talk(), broker.talk()
    session_id = (await ask(talk, request(0, 0, (0, 0), (1, 0)))).session_id
    talk.send(FETCH, 12, request(session_id, 1, max_wait_ms=500))
    assert talk.receive() == []
    await writer.produce("orders", batch_of(b"x"), index=1)
    (answer,) = talk.receive()
    assert told(answer) == [1]


async def test_line_37_an_unknown_session_is_an_error(broker: QuietBroker) -> None:
    answer = await ask(broker.talk(), request(4711, 1))
    assert (answer.error_code, answer.session_id) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    assert answer.responses == []


async def test_line_37_a_wrong_epoch_is_an_error_and_the_session_lives_on(broker: QuietBroker) -> None:
    await broker.create("orders")
    talk = broker.talk()
    session_id = (await ask(talk, request(0, 0, (0, 0)))).session_id
    for epoch in (2, 7):
        assert (await ask(talk, request(session_id, epoch))).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert (await ask(talk, request(session_id, 1))).error_code == ErrorCode.NONE
    repeated = await ask(talk, request(session_id, 1))
    assert repeated.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


async def test_line_37_ids_and_names_do_not_mix(broker: QuietBroker) -> None:
    await broker.create("orders")
    talk = broker.talk()
    session_id = (await ask(talk, request(0, 0, (0, 0)), version=12)).session_id
    answer = await ask(talk, request(session_id, 1), version=13)
    assert answer.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


async def test_line_37_a_final_epoch_ends_the_session(broker: QuietBroker) -> None:
    await broker.create("orders")
    talk = broker.talk()
    session_id = (await ask(talk, request(0, 0, (0, 0)))).session_id
    last = await ask(talk, request(session_id, -1, (0, 0)))
    assert (last.session_id, told(last)) == (0, [0])
    assert (await ask(talk, request(session_id, 1))).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_line_37_errors_are_reported_and_reported_again(broker: QuietBroker) -> None:
    await broker.create("orders")
    talk = broker.talk()
    session_id = (await ask(talk, request(0, 0, (0, 0), (9, 0)))).session_id
    for epoch in (1, 2):
        answer = await ask(talk, request(session_id, epoch))
        assert told(answer) == [9]
        assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_line_36_in_a_session_partitions_that_had_data_are_read_last(broker: QuietBroker) -> None:
    await broker.create("orders", partitions=3)
    talk = broker.talk()
    for index in range(3):
        for _ in range(3):
            await talk.produce("orders", batch_of(b"x" * 500), index=index)
    session_id, first = 0, []
    for epoch in range(3):
        partitions = [(0, 0), (1, 0), (2, 0)] if epoch == 0 else []
        answer = await ask(talk, request(session_id, epoch, *partitions, max_bytes=1))
        session_id = answer.session_id
        first += [p.partition_index for p in answer.responses[0].partitions if p.records]
    assert sorted(first) == [0, 1, 2]


# --- the cache, by itself ---------------------------------------------------------------------------------


def opening(sessions: Sessions, now: float, *, is_follower: bool = False) -> int:
    session = sessions.open(request(0, 0, (0, 0)), 12, is_follower=is_follower, now=now)
    return session.id if session is not None else 0


def test_a_full_cache_refuses_unless_somebody_was_idle_for_long() -> None:
    sessions = Sessions(2, Random(1))
    first, second = opening(sessions, 0.0), opening(sessions, 1.0)
    assert first
    assert opening(sessions, EVICT_AFTER_S) == 0, "nobody has been idle for long enough"
    sessions.resume(request(first, 1), 12, 100.0)
    third = opening(sessions, EVICT_AFTER_S + 2.0)
    assert third
    assert len(sessions) == 2
    assert sessions.resume(request(first, 2), 12, 200.0).id == first
    with pytest.raises(Exception, match=str(second)):
        sessions.resume(request(second, 1), 12, 200.0)


def test_followers_come_before_consumers() -> None:
    sessions = Sessions(1, Random(1))
    assert opening(sessions, 0.0)
    assert opening(sessions, 1.0, is_follower=True)
    assert not opening(sessions, 2.0, is_follower=True)


def test_epochs_go_on_at_1_after_the_largest() -> None:
    sessions = Sessions(1, Random(1))
    session = sessions.open(request(0, 0, (0, 0)), 12, is_follower=False, now=0.0)
    assert session is not None
    session.epoch = EPOCH_MAX
    sessions.resume(request(session.id, EPOCH_MAX), 12, 1.0)
    assert session.epoch == 1
    with pytest.raises(InvalidFetchSessionEpochError):
        sessions.resume(request(session.id, EPOCH_MAX), 12, 1.0)


def test_no_slots_mean_no_sessions() -> None:
    sessions = Sessions(0, Random(1))
    assert opening(sessions, 0.0) == 0
