"""What one unbatched record costs a leader, in counts: a guard against more work, without a clock.

acks=all and two followers whose fetches wait. Each figure is the least that the protocol needs; a change that adds a
look, a read, a write or a turn of a connection fails here.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from rookery.broker.handlers.delayed_produce import DelayedProduce
from rookery.broker.handlers.fetch_answer import DelayedFetch
from rookery.broker.server.connection import Connection
from rookery.core.log.log import Log
from rookery.core.log.segment import Segment
from rookery.core.wire.apis.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic, ReplicaState
from rookery.core.wire.apis.produce import PRODUCE
from tests.unit.broker.one_broker import NODE_ID
from tests.unit.broker.talk import QuietBroker, Talk, batch_of, produce_request

FOLLOWERS = (2, 3)
COUNTED = {
    "look of a produce": (DelayedProduce, "try_complete"),
    "look of a fetch": (DelayedFetch, "try_complete"),
    "read of the log": (Log, "read"),
    "pread": (Segment, "_pread"),
    "write to the log": (Segment, "_write"),
    "turn of a connection": (Connection, "_serve"),
}


class Follower:
    """Fetches over one session, always from where it is."""

    def __init__(self, broker: QuietBroker, node_id: int) -> None:
        self.talk: Talk = broker.talk()
        self._node_id = node_id
        self._topic_id = broker.partition("orders").topic_id
        self._session, self._epoch = 0, 0

    async def begin(self) -> None:
        self.fetch(0)
        (answer,) = await self.talk.receive_some(1)
        self._session = answer.session_id

    def fetch(self, offset: int | None) -> None:
        """`offset` is what it has acknowledged since; None: nothing new."""
        topics = []
        if offset is not None:
            asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, log_start_offset=0)
            topics = [FetchTopic(topic_id=self._topic_id, partitions=[asked])]
        self.talk.send(FETCH, 15, FetchRequest(
            replica_state=ReplicaState(replica_id=self._node_id), min_bytes=1, max_wait_ms=500 if self._epoch else 0,
            session_id=self._session, session_epoch=self._epoch,
            topics=topics,
        ))  # fmt: skip
        self._epoch += 1


def counters(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    found: Counter[str] = Counter()

    def counting(name: str, of: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*words: Any, **options: Any) -> Any:
            found[name] += 1
            return of(*words, **options)

        return counted

    for name, (owner, method) in COUNTED.items():
        monkeypatch.setattr(owner, method, counting(name, getattr(owner, method)))
    return found


async def replicated(broker: QuietBroker) -> list[Follower]:
    await broker.create("orders")
    partition, members = broker.partition("orders"), (NODE_ID, *FOLLOWERS)
    state = partition.state
    partition.apply(state._replace(replicas=members, isr=members, partition_epoch=state.partition_epoch + 1))
    followers = [Follower(broker, node_id) for node_id in FOLLOWERS]
    for follower in followers:
        await follower.begin()
        follower.fetch(None)
        assert follower.talk.receive() == []
    return followers


@pytest.mark.parametrize("records", [1, 5])
async def test_acks_all(broker: QuietBroker, monkeypatch: pytest.MonkeyPatch, records: int) -> None:
    """The records come in one pass, as those of a producer with that many requests in flight."""
    followers = await replicated(broker)
    producer, end = broker.talk(), 0

    def one_round() -> None:
        nonlocal end
        frames = [produce_request("orders", batch_of(b"x"), acks=-1) for _ in range(records)]
        for request in frames:
            producer.send(PRODUCE, 10, request)
        assert producer.receive() == []
        end += records
        for follower in followers:
            (answer,) = follower.talk.receive()
            assert answer.responses[0].partitions[0].records
            follower.fetch(end)
        assert len(producer.receive()) == records

    one_round()
    found = counters(monkeypatch)
    one_round()
    assert found == {
        "look of a produce": records,  # when it is committed, and not before
        "look of a fetch": 3,  # one for each follower, however many records; one after its own acknowledgement
        "read of the log": 2,
        "pread": 2,
        "write to the log": records,
        "turn of a connection": records + 2,  # each request is fed by itself here
    }


async def test_acks_1_wakes_nobody_but_followers(broker: QuietBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    followers = await replicated(broker)
    found = counters(monkeypatch)
    talk = broker.talk()
    await talk.produce("orders", batch_of(b"x"))
    assert found["look of a produce"] == 0
    assert found["look of a fetch"] == len(followers)


async def test_a_follower_that_has_all_asks_nothing_of_the_log(
    broker: QuietBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = await replicated(broker)
    await broker.talk().produce("orders", batch_of(b"x"))
    assert len(first.talk.receive()) == 1
    found = counters(monkeypatch)
    first.fetch(1)
    assert first.talk.receive() == []
    assert found["read of the log"] == found["pread"] == 0
