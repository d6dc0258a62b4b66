"""Partitions of a follower's session in which nothing happens are not visited.

Nothing is lost by that: neither data, nor what the leader knows of the follower.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from rookery.broker.handlers.fetch_read import FetchRead, Quiet
from rookery.broker.handlers.fetch_rest import PartitionsAtRest
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.waiters import Waiters
from rookery.core.errors import ErrorCode
from rookery.core.metadata.requests import DeleteTopicsRequest, TopicReference
from rookery.core.wire.apis.fetch import FETCH, FetchRequest, FetchResponse, ForgottenTopic, ReplicaState
from tests.unit.broker.handlers.test_fetch_session_lines import request
from tests.unit.broker.talk import QuietBroker, batch_of

FOLLOWER = 2
VERSION = 15
TOPIC = "orders"


class Follower:
    """A follower's session with all partitions of the topic; `offsets` are what it has."""

    def __init__(self, broker: QuietBroker, partitions: int) -> None:
        self.broker = broker
        self.talk, self.writer = broker.talk(), broker.talk()
        self.offsets = [0] * partitions
        self.epoch = 1
        self.session_id = self.session_epoch = 0
        for index in range(partitions):
            share(self.partition(index))

    def partition(self, index: int = 0) -> Partition:
        return self.broker.partition(TOPIC, index)

    def request(self, *moved: int, forgotten: tuple[int, ...] = (), max_wait_ms: int = 0) -> FetchRequest:
        topic_id = self.partition().topic_id
        me = ReplicaState(replica_id=FOLLOWER, replica_epoch=self.epoch)
        asked = request(
            self.session_id,
            self.session_epoch,
            *((index, self.offsets[index]) for index in moved),
            replica_state=me,
            max_wait_ms=max_wait_ms,
        )
        for topic in asked.topics:
            topic.topic_id = topic_id
        if forgotten:
            asked.forgotten_topics_data = [ForgottenTopic(topic_id=topic_id, partitions=list(forgotten))]
        return asked

    async def fetch(self, *moved: int, forgotten: tuple[int, ...] = ()) -> FetchResponse:
        """One fetch without a wait."""
        self.talk.send(FETCH, VERSION, self.request(*moved, forgotten=forgotten))
        return await self.answer()

    async def answer(self) -> FetchResponse:
        (answer,) = await self.talk.receive_some(1)
        assert isinstance(answer, FetchResponse)
        self.session_id, self.session_epoch = answer.session_id, self.session_epoch + 1
        return answer

    async def settle(self) -> None:
        """Begin a session, and fetch until all partitions rest."""
        await self.fetch(*range(len(self.offsets)))
        for index in range(len(self.offsets)):
            self.offsets[index] = self.partition(index).log.end_offset
        await self.fetch(*range(len(self.offsets)))
        await self.fetch()

    async def produce(self, index: int = 0) -> None:
        await self.writer.produce(TOPIC, batch_of(b"x"), index=index, acks=1)


def share(partition: Partition, *isr: int) -> None:
    """Give the partition a second replica."""
    state, both = partition.state, (partition.state.leader, FOLLOWER)
    partition.apply(state._replace(replicas=both, isr=isr or both, partition_epoch=state.partition_epoch + 1))


def told(answer: FetchResponse) -> dict[int, tuple[int, int, int, int]]:
    return {
        one.partition_index: (one.error_code, one.high_watermark, one.log_start_offset, len(one.records or b""))
        for topic in answer.responses
        for one in topic.partitions
    }


@pytest.fixture
def time(broker: QuietBroker, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lets the leader's time pass."""
    now = [1000]
    monkeypatch.setattr(broker.brokers, "now_ms", lambda: now[0])

    def pass_ms(amount: int) -> None:
        now[0] += amount

    return pass_ms


@pytest.fixture
def visits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All that is done for single partitions while a follower fetches."""
    seen: list[str] = []

    def counted(owner: type, name: str) -> None:
        real = getattr(owner, name)

        def call(*args: object, **options: object) -> object:
            seen.append(name)
            return real(*args, **options)

        monkeypatch.setattr(owner, name, call)

    counted(Partition, "on_follower_fetch")
    counted(Partition, "read")
    counted(FetchRead, "_read_one")
    counted(FetchRead, "_is_quiet")
    counted(Quiet, "lasts")
    counted(Waiters, "watch")
    counted(Waiters, "unwatch")
    park = Waiters.park

    def parked(waiters: Waiters[Partition], waiter: object, keys: list[Partition], *args: Any, **options: Any) -> Any:
        seen.extend(f"parked under {key.index}" for key in keys)
        return park(waiters, waiter, keys, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Waiters, "park", parked)
    return seen


async def begin(broker: QuietBroker, partitions: int) -> Follower:
    await broker.create(TOPIC, partitions=partitions)
    follower = Follower(broker, partitions)
    await follower.settle()
    return follower


def progress(partition: Partition) -> tuple[int, int, int]:
    """What the leader knows of the follower."""
    assert partition.leading is not None
    found = partition.leading.followers[FOLLOWER]
    return found.log_end, found.last_fetch_ms, found.had_all_ms()


async def test_a_quiet_fetch_visits_no_partition(broker: QuietBroker, visits: list[str]) -> None:
    """However many there are: neither when it comes, nor while it waits, nor when it is answered."""
    follower = await begin(broker, 50)
    visits.clear()
    for _ in range(3):
        follower.talk.send(FETCH, VERSION, follower.request(max_wait_ms=500))
        assert follower.talk.receive() == []
        broker.advance(0.5)
        assert told(await follower.answer()) == {}
    assert visits == []


async def test_one_busy_partition_leaves_the_others_alone(broker: QuietBroker, visits: list[str]) -> None:
    follower = await begin(broker, 50)
    visits.clear()
    follower.talk.send(FETCH, VERSION, follower.request(max_wait_ms=500))
    await follower.produce(7)
    assert list(told(await follower.answer())) == [7]
    follower.offsets[7] += 1
    assert list(told(await follower.fetch(7))) == [7]  # the new high watermark
    assert told(await follower.fetch(7)) == {}
    assert len(visits) < 20
    visits.clear()
    await follower.fetch()
    assert visits == []


async def test_a_fetch_acknowledges_all_that_rests(broker: QuietBroker, time: Callable[[int], None]) -> None:
    follower = await begin(broker, 3)
    time(400)
    await follower.fetch()
    assert [progress(follower.partition(index)) for index in range(3)] == [(0, 1400, 1400)] * 3
    time(100)
    await follower.produce(1)
    time(100)
    await follower.fetch()
    assert progress(follower.partition(0)) == (0, 1600, 1600)
    assert progress(follower.partition(1)) == (0, 1600, 1400)  # it fetched, but has not had all since


@pytest.mark.invariant("P10")
async def test_who_is_behind_in_one_partition_leaves_that_isr(
    broker: QuietBroker, time: Callable[[int], None]
) -> None:
    follower = await begin(broker, 3)
    await follower.produce(1)
    for _ in range(4):
        time(10_000)
        await follower.fetch()
    proposals = [follower.partition(index).tick() for index in range(3)]
    assert [None if each is None else each.isr for each in proposals] == [None, (1,), None]


@pytest.mark.invariant("P10")
async def test_who_fell_silent_is_late_as_soon_as_a_partition_grows(
    broker: QuietBroker, time: Callable[[int], None]
) -> None:
    follower = await begin(broker, 2)
    time(30_001)
    await follower.produce(1)
    assert follower.partition(0).tick() is None
    proposal = follower.partition(1).tick()
    assert proposal is not None
    assert proposal.isr == (1,)


@pytest.mark.invariant("P9")
async def test_a_fetch_of_an_earlier_life_acknowledges_nothing(
    broker: QuietBroker, time: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = await begin(broker, 2)
    monkeypatch.setattr(broker.brokers, "may_join", lambda _: follower.epoch + 1)
    time(500)
    answer = told(await follower.fetch())
    assert [one[0] for one in answer.values()] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert progress(follower.partition())[1:] == (1000, 1000)


async def test_a_partition_that_is_given_up_is_not_acknowledged(
    broker: QuietBroker, time: Callable[[int], None]
) -> None:
    follower = await begin(broker, 2)
    time(500)
    await follower.fetch(forgotten=(1,))
    assert [progress(follower.partition(index))[1] for index in range(2)] == [1500, 1000]
    await follower.produce(1)
    assert told(await follower.fetch()) == {}


async def test_the_end_of_a_rest_reaches_a_fetch_that_waits(broker: QuietBroker) -> None:
    follower = await begin(broker, 3)
    follower.talk.send(FETCH, VERSION, follower.request(max_wait_ms=500))
    partition = follower.partition(2)
    partition.apply(partition.state._replace(leader=FOLLOWER, leader_epoch=partition.state.leader_epoch + 1))
    answer = told(await follower.answer())
    assert {index: one[0] for index, one in answer.items()} == {2: ErrorCode.NOT_LEADER_OR_FOLLOWER}


async def test_a_deleted_topic_is_reported(broker: QuietBroker) -> None:
    follower = await begin(broker, 2)
    asked = follower.request()
    await broker.cluster.ask(DeleteTopicsRequest((TopicReference(name=TOPIC),)))
    follower.talk.send(FETCH, VERSION, asked)
    assert [one[0] for one in told(await follower.answer()).values()] == [ErrorCode.UNKNOWN_TOPIC_ID] * 2


async def test_a_second_session_takes_over(broker: QuietBroker, time: Callable[[int], None]) -> None:
    """The connection was lost: the session before knows nothing that matters any more, and misses nothing either."""
    before = await begin(broker, 2)
    follower = Follower(broker, 0)
    follower.offsets = [0, 0]
    await follower.settle()
    time(500)
    await before.fetch()
    assert progress(follower.partition())[1] == 1500
    time(500)
    await follower.produce(0)
    assert list(told(await follower.fetch())) == [0]
    assert list(told(await before.fetch())) == [0]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.invariant("P1", "P9", "P10")
async def test_leaders_know_what_visits_would_have_shown_them(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same history with and without rest: the same answers, and the same knowledge of followers."""
    rested: list[int] = []
    histories = []
    for rests in (True, False):
        with monkeypatch.context() as patch:
            if not rests:
                patch.setattr(PartitionsAtRest, "take", lambda *_: None)
            histories.append(await history(Random(seed), patch, rested))
    assert histories[0] == histories[1]
    assert max(rested) > 2


async def history(rng: Random, patch: pytest.MonkeyPatch, rested: list[int]) -> list[object]:
    now, partitions = [1000], 5
    patch.setattr(QuietBroker, "_propose_isr", lambda *_: None)
    broker = QuietBroker()
    patch.setattr(broker.brokers, "now_ms", lambda: now[0])
    patch.setattr(broker.brokers, "may_join", lambda _: 1)
    await broker.create(TOPIC, partitions=partitions)
    follower = Follower(broker, partitions)
    found: list[object] = []
    stale: dict[int, None] = dict.fromkeys(range(partitions))
    for _ in range(120):
        now[0] += rng.choice((0, 10, 500, 20_000))
        index = rng.randrange(partitions)
        partition = follower.partition(index)
        step = rng.choice(("fetch", "fetch", "fetch", "fetch", "produce", "tick", "shrink", "delete", "settings"))
        if step == "fetch":
            moved = tuple(stale)
            stale.clear()
            answer = told(await follower.fetch(*moved))
            rested.append(max(map(len, resting(broker)), default=0))
            for one, (error, _, _, size) in answer.items():
                assert error == 0
                if size:
                    follower.offsets[one] = follower.partition(one).log.end_offset
                stale[one] = None
            found.append(answer)
        elif step == "produce":
            await follower.produce(index)
        elif step == "tick":
            found.append(partition.tick())
        elif step == "shrink":
            leader = partition.state.leader
            share(partition, *rng.choice(((leader,), (leader, FOLLOWER))))
        elif step == "delete":
            partition.log.delete_records(partition.log.high_watermark)
        else:
            partition.settings = partition.settings
        found.append([progress(follower.partition(each)) for each in range(partitions)])
        leading = [follower.partition(each).leading for each in range(partitions)]
        found.append([(one.high_watermark, one.isr) for one in leading if one is not None])
    await broker.stop()
    return found


def resting(broker: QuietBroker) -> list[PartitionsAtRest]:
    """Those who watch partitions."""
    watched = broker.waiters._watched.values()
    return [watcher for each in watched for watcher in each.values() if isinstance(watcher, PartitionsAtRest)]
