"""Brokers and the controller over real gRPC, in one process, on a quorum in memory."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest

from rookery.broker.controller_client import ATTEMPT_S, ControllerClient
from rookery.controller.access import Access
from rookery.controller.loop import ControllerLoop
from rookery.controller.rpc import ControllerService
from rookery.controller.settings import ControllerSettings
from rookery.core.clock import SystemClock
from rookery.core.errors import (
    ClusterAuthorizationFailedError,
    ErrorCode,
    InconsistentClusterIdError,
    InvalidRequestError,
    NotControllerError,
    RequestTimedOutError,
    StaleBrokerEpochError,
)
from rookery.core.metadata import requests as q
from rookery.core.metadata.features import RELEASE
from rookery.core.metadata.rpc import METHODS
from rookery.core.net.control import bind, open_channel, server_options
from rookery.proto import controller_pb2 as pb
from rookery.proto import raft_pb2
from tests.unit.controller.local_quorum import LocalQuorum
from tests.unit.controller.state.clusters import CLUSTER, register_request
from tests.unit.core.net.test_control import UNKNOWN


class Served:
    """One controller behind a port."""

    def __init__(self, node_id: int, hint: Callable[[], raft_pb2.Leader]) -> None:
        self.quorum = LocalQuorum(node_id, soon=asyncio.get_running_loop().call_soon)
        settings = ControllerSettings(node_id, CLUSTER, reconnect_grace_s=0.3)
        self.loop = ControllerLoop(settings, self.quorum, SystemClock())
        self.quorum.start(self.loop.controller)
        self.server = grpc.aio.server(options=server_options())
        ControllerService(self.loop, Access(CLUSTER, node_id), hint).register(self.server)
        self.address = f"127.0.0.1:{bind(self.server, '127.0.0.1:0')}"

    @property
    def image(self) -> Any:
        return self.loop.controller.committed

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Served"]:
        await self.server.start()
        task = asyncio.create_task(self.loop.serve())
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self.server.stop(None)


@pytest.fixture
async def pair() -> AsyncIterator[tuple[Served, Served]]:
    """Two controllers; the second is the one the first names as leader."""
    follower = Served(1, lambda: raft_pb2.Leader(id=2, epoch=1, endpoint=leader.address))
    leader = Served(2, lambda: raft_pb2.Leader(id=-1))
    async with follower.running(), leader.running():
        leader.quorum.lead()
        yield follower, leader


@pytest.fixture
async def client(pair: tuple[Served, Served]) -> AsyncIterator[ControllerClient]:
    client = ControllerClient(CLUSTER, 1, [pair[0].address])
    yield client
    await client.close()


async def registered(client: ControllerClient, served: Served, **fields: Any) -> int:
    epoch: int = (await client.ask(register_request(1, 1, **fields))).broker_epoch
    client.broker_epoch = epoch
    await client.ask(q.HeartbeatRequest(1, epoch, served.image.offset))
    return epoch


async def until(holds: Callable[[], bool], wait_s: float = 10.0) -> None:
    async with asyncio.timeout(wait_s):
        while not holds():
            await asyncio.sleep(0.01)


@pytest.mark.row(77)
async def test_any_controller_leads_to_the_active_one(
    pair: tuple[Served, Served], client: ControllerClient
) -> None:
    epoch = await registered(client, pair[1])
    assert client.address == pair[1].address
    assert pair[1].image.brokers[1].epoch == epoch
    assert pair[1].image.brokers[1].active



async def test_topics_configs_producer_ids_and_reassignments(
    pair: tuple[Served, Served], client: ControllerClient
) -> None:
    await registered(client, pair[1])
    created = await client.ask(
        q.CreateTopicsRequest((q.NewTopic("a", 2, 1, configs=(q.ConfigEntry("retention.ms", "5"),)), q.NewTopic("b!")))
    )
    assert [topic.error for topic in created.topics] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert (await client.ask(q.CreatePartitionsRequest((q.TopicGrowth("a", 3),)))).topics[0].error == 0
    change = q.ConfigChange("retention.ms", q.ConfigOp.DELETE)
    altered = await client.ask(q.AlterConfigsRequest((q.ConfigAlteration(2, "a", (change,)),)))
    assert altered.resources[0].error == 0
    first, second = [await client.allocate_producer_ids() for _ in range(2)]
    assert len(first) == len(second) == 1000
    assert first.stop <= second.start, "more than two blocks may be taken: an answer that is late is asked for again"
    moved = await client.ask(q.ReassignPartitionsRequest((q.Reassignment("a", 0, None),)))
    assert moved.partitions[0].error == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert (await client.ask(q.ListReassignmentsRequest())).partitions == ()
    elected = await client.ask(q.ElectLeadersRequest(q.ElectionType.PREFERRED, all_partitions=True))
    assert elected.partitions == ()
    image = pair[1].image
    assert sorted(image.topics[image.topic_ids["a"]].partitions) == [0, 1, 2]
    assert not image.topic_config("a")
    deleted = await client.ask(q.DeleteTopicsRequest((q.TopicReference(topic_id=image.topic_ids["a"]),)))
    assert deleted.topics[0].name == "a"


async def test_topics_whose_answer_is_lost_are_answered_as_made(
    pair: tuple[Served, Served], client: ControllerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller that makes a topic and resigns before it answers is asked again, or the next one is."""
    await registered(client, pair[1])
    ask = pair[1].loop.ask
    lost: list[Any] = []

    async def resigning(request: Any, *, timeout_s: float) -> Any:
        reply = await ask(request, timeout_s=timeout_s)
        if not lost:
            lost.append(reply)
            raise NotControllerError("resigned before the answer left")
        return reply

    monkeypatch.setattr(pair[1].loop, "ask", resigning)
    request = q.CreateTopicsRequest((q.NewTopic("a", 2, 1),))
    created = await client.ask(request)
    assert (created, created.topics[0].error) == (lost[0], 0)
    assert created.topics[0].topic_id == pair[1].image.topic_ids["a"]
    again = await client.ask(request)
    assert again.topics[0].error == ErrorCode.TOPIC_ALREADY_EXISTS, "asked for by another request"


async def test_isr_changes_are_sent_together(pair: tuple[Served, Served], client: ControllerClient) -> None:
    await registered(client, pair[1])
    await client.ask(q.CreateTopicsRequest((q.NewTopic("a", 20, 1),)))
    started = pair[1].loop.controller.metrics.events_started
    topic_id = pair[1].image.topic_ids["a"]
    changes = [q.IsrChange(topic_id, index, 0, 0, (q.IsrMember(1),)) for index in range(20)]
    changes[7] = q.IsrChange(topic_id, 7, 0, 3, (q.IsrMember(1),))
    answers = await asyncio.gather(*(client.alter_partition(change) for change in changes))
    assert answers[7] is ErrorCode.NOT_CONTROLLER
    assert answers.count(ErrorCode.NONE) == 19
    assert pair[1].loop.controller.metrics.events_started - started <= 4


async def test_who_gives_up_an_isr_change_does_not_take_others_along(
    pair: tuple[Served, Served], client: ControllerClient
) -> None:
    await registered(client, pair[1])
    await client.ask(q.CreateTopicsRequest((q.NewTopic("a", 2, 1),)))
    topic_id = pair[1].image.topic_ids["a"]
    first = asyncio.create_task(client.alter_partition(q.IsrChange(topic_id, 0, 0, 0, (q.IsrMember(1),))))
    other = asyncio.create_task(client.alter_partition(q.IsrChange(topic_id, 1, 0, 0, (q.IsrMember(1),))))
    await asyncio.sleep(0)
    first.cancel()
    assert await other is ErrorCode.NONE


@pytest.mark.invariant("M7")
async def test_errors_of_the_controller_are_raised(pair: tuple[Served, Served], client: ControllerClient) -> None:
    with pytest.raises(StaleBrokerEpochError, match="broker 1 is not registered"):
        await client.ask(q.HeartbeatRequest(1, 1, 1))
    with pytest.raises(ClusterAuthorizationFailedError, match="node 1 cannot speak for broker 9"):
        await client.ask(q.HeartbeatRequest(9, 1, 1))
    stranger = ControllerClient("another-cluster", 1, [pair[1].address])
    with pytest.raises(InconsistentClusterIdError, match="request is for cluster another-cluster"):
        await stranger.ask(q.ListReassignmentsRequest())
    await stranger.close()


async def test_bad_bytes_in_a_request_get_a_clear_answer(pair: tuple[Served, Served]) -> None:
    method = METHODS["AlterPartition"]
    channel = open_channel(pair[1].address)
    call = channel.unary_unary(
        method.path,
        request_serializer=method.request_message.SerializeToString,
        response_deserializer=method.reply_message.FromString,
    )
    message = pb.AlterPartitionRequest(
        caller=raft_pb2.Caller(cluster_id=CLUSTER, version=1, node_id=1, to_id=-1),
        partitions=[pb.IsrChange(topic_id=b"short")],
    )
    reply = await call(message)
    assert reply.failure.code == InvalidRequestError.code
    assert "AlterPartition cannot be read" in reply.failure.message
    await channel.close()


async def test_without_an_active_controller_a_call_ends_when_its_time_is_over(
    pair: tuple[Served, Served], client: ControllerClient
) -> None:
    pair[1].quorum.resign()
    with pytest.raises(RequestTimedOutError, match=r"no active controller answered in 0\.3 s"):
        await client.ask(q.ListReassignmentsRequest(), timeout_s=0.3)


@pytest.mark.row(69, 79)
async def test_a_call_survives_a_change_of_leadership(pair: tuple[Served, Served], client: ControllerClient) -> None:
    await registered(client, pair[1])
    pair[1].quorum.resign()
    waiting = asyncio.create_task(client.ask(q.CreateTopicsRequest((q.NewTopic("a", 1, 1),))))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    pair[1].quorum.lead()
    assert (await waiting).topics[0].error == 0


@pytest.mark.row(79)
async def test_a_topic_whose_answer_got_lost_is_known_to_the_request_that_made_it(
    pair: tuple[Served, Served], client: ControllerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await registered(client, pair[1])
    attempt = client._attempt
    lost: list[Any] = []

    async def loses_the_first_answer(*arguments: Any) -> Any:
        reply = await attempt(*arguments)
        if not lost:
            lost.append(reply)
            raise NotControllerError("the controller changed before it answered")
        return reply

    monkeypatch.setattr(client, "_attempt", loses_the_first_answer)
    creation = q.CreateTopicsRequest((q.NewTopic("a", 1, 1),))
    reply = await client.ask(creation)
    assert (reply.topics[0].error, reply.topics) == (0, lost[0].topics)
    again = await client.ask(creation)
    assert again.topics[0].error == ErrorCode.TOPIC_ALREADY_EXISTS, "another request for the same name"


@pytest.mark.row(53, 79)
async def test_a_slow_change_is_waited_for_and_not_asked_for_twice(
    pair: tuple[Served, Served], client: ControllerClient
) -> None:
    """Its disk is slow. The second request would be told that the topic exists."""
    await registered(client, pair[1])
    late: list[Callable[[], None]] = []
    pair[1].quorum._soon = late.append
    waiting = asyncio.create_task(client.ask(q.CreateTopicsRequest((q.NewTopic("a", 1, 1),))))
    done, _ = await asyncio.wait([waiting], timeout=ATTEMPT_S + 0.5)
    assert not done
    pair[1].quorum._soon = asyncio.get_running_loop().call_soon
    for commit in late:
        commit()
    assert (await waiting).topics[0].error == 0


@pytest.mark.row(69)
async def test_a_broker_whose_connection_closes_is_fenced_within_the_grace(
    pair: tuple[Served, Served], client: ControllerClient
) -> None:
    await registered(client, pair[1])
    holder = ControllerClient(CLUSTER, 1, [pair[1].address])
    holder.broker_epoch = client.broker_epoch
    held = asyncio.create_task(holder.hold_session())
    sessions = pair[1].loop.controller.sessions
    await until(lambda: sessions._sessions[1].holds == 1)
    await asyncio.sleep(0.5)
    assert not pair[1].image.brokers[1].fenced
    held.cancel()
    await asyncio.gather(held, return_exceptions=True)
    await holder.close()
    await until(lambda: bool(pair[1].image.brokers[1].fenced), wait_s=5.0)


async def test_a_held_session_moves_with_the_leadership(pair: tuple[Served, Served], client: ControllerClient) -> None:
    await registered(client, pair[1])
    held = asyncio.create_task(client.hold_session())
    sessions = pair[1].loop.controller.sessions
    await until(lambda: sessions._sessions[1].holds == 1)
    pair[1].quorum.resign()
    pair[1].quorum.lead()
    await until(lambda: sessions._sessions[1].holds == 1)
    assert not held.done()
    held.cancel()
    await asyncio.gather(held, return_exceptions=True)


async def test_a_held_session_of_an_earlier_life_is_refused(
    pair: tuple[Served, Served], client: ControllerClient
) -> None:
    epoch = await registered(client, pair[1])
    client.broker_epoch = epoch + 1
    with pytest.raises(StaleBrokerEpochError):
        await client.hold_session()


async def test_a_snapshot_holds_the_committed_image(pair: tuple[Served, Served], client: ControllerClient) -> None:
    await registered(client, pair[1])
    pair[1].loop.controller.write_snapshot()
    assert pair[1].quorum.snapshot is not None
    levels = len(RELEASE.features)
    assert len(pair[1].quorum.snapshot[1]) == levels + 2  # and the cluster's min.insync.replicas, and a broker


async def test_a_bug_in_a_handler_ends_the_service(
    pair: tuple[Served, Served], client: ControllerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = Served(5, lambda: raft_pb2.Leader(id=-1))
    served.quorum.lead()

    def broken(events_max: int | None = None) -> bool:
        raise ZeroDivisionError

    monkeypatch.setattr(served.loop.controller, "run", broken)
    serving = asyncio.create_task(served.loop.serve())
    await asyncio.sleep(0)
    served.loop.controller.submit(q.ListReassignmentsRequest(), lambda reply: None)
    with pytest.raises(ZeroDivisionError):
        await serving


async def test_a_controller_whose_name_is_unknown_is_looked_up_anew() -> None:
    """Its container is down. The old channel would look the name up after pauses of up to two minutes."""
    client = ControllerClient(CLUSTER, 1, [UNKNOWN])
    before = client._channel(UNKNOWN)
    method = next(iter(METHODS.values()))
    with pytest.raises(grpc.aio.AioRpcError):
        await client._attempt(method, method.request_message(), 30)
    assert client._channel(UNKNOWN) is not before
    await client.close()
