"""Every group API over a socket, in every version that is served."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from rookery.broker.handlers import classic_groups, find_coordinator, group_admin, offset_commit, offset_fetch
from rookery.core.errors import ErrorCode
from rookery.core.metadata.requests import CreateTopicsRequest, NewTopic
from rookery.core.net.connection import Connection
from rookery.core.wire.api import Api
from rookery.core.wire.apis.delete_groups import DELETE_GROUPS, DeleteGroupsRequest
from rookery.core.wire.apis.describe_groups import DESCRIBE_GROUPS, DescribeGroupsRequest
from rookery.core.wire.apis.find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from rookery.core.wire.apis.heartbeat import HEARTBEAT, HeartbeatRequest
from rookery.core.wire.apis.join_group import JOIN_GROUP, JoinGroupRequest, JoinGroupRequestProtocol
from rookery.core.wire.apis.leave_group import LEAVE_GROUP, LeaveGroupRequest, MemberIdentity
from rookery.core.wire.apis.list_groups import LIST_GROUPS, ListGroupsRequest
from rookery.core.wire.apis.offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from rookery.core.wire.apis.offset_delete import (
    OFFSET_DELETE,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from rookery.core.wire.apis.offset_fetch import (
    OFFSET_FETCH,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from rookery.core.wire.apis.sync_group import SYNC_GROUP, SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.broker.groups.driver import subscription
from tests.unit.broker.one_broker import OneBroker, running_broker
from tests.unit.broker.waiting import until

GROUP = "g"


class Wire:
    """A client that says which version it speaks."""

    def __init__(self, broker: OneBroker, connection: Connection) -> None:
        self.broker = broker
        self._connection = connection

    async def ask(self, api: Api[Any, Any], version: int, request: Any) -> Any:
        return await self._connection.request(api, version, request, 10)

    async def join(self, version: int, member_id: str = "") -> Any:
        return await self.ask(JOIN_GROUP, version, JoinGroupRequest(
            group_id=GROUP, session_timeout_ms=6000, rebalance_timeout_ms=6000, member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription("t"))],
        ))  # fmt: skip

    async def member(self, version: int = 9, sync_version: int = 5) -> str:
        """Joined and synced, alone."""
        joined = await self.join(version)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            joined = await self.join(version, joined.member_id)
        assert joined.error_code == 0
        member_id: str = joined.member_id
        synced = await self.ask(SYNC_GROUP, sync_version, SyncGroupRequest(
            group_id=GROUP, generation_id=joined.generation_id, member_id=member_id,
            assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"mine")],
        ))  # fmt: skip
        assert (synced.error_code, synced.assignment) == (0, b"mine")
        return member_id

    async def commit(self, version: int, offset: int, member_id: str = "", generation: int = -1) -> int:
        answer = await self.ask(OFFSET_COMMIT, version, OffsetCommitRequest(
            group_id=GROUP, generation_id_or_member_epoch=generation, member_id=member_id,
            topics=[OffsetCommitRequestTopic(name="t", partitions=[
                OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="m")
            ])],
        ))  # fmt: skip
        code: int = answer.topics[0].partitions[0].error_code
        return code

    async def fetch(self, version: int, group: str = GROUP) -> Any:
        return await self.ask(OFFSET_FETCH, version, OffsetFetchRequest(
            group_id=group, topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])],
            groups=[OffsetFetchRequestGroup(
                group_id=group, topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
            )],
        ))  # fmt: skip


@asynccontextmanager
async def wire() -> AsyncIterator[Wire]:
    config = {
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
    }
    async with running_broker(config=config) as broker:
        await broker.cluster.ask(CreateTopicsRequest((NewTopic("t", 1, 1),)))
        connection = await Connection.open("127.0.0.1", broker.port, client_id="unit")
        client = Wire(broker, connection)
        try:
            await client.ask(FIND_COORDINATOR, 0, FindCoordinatorRequest(key=GROUP))
            await until(lambda: len(broker.groups.shards) == 3)
            yield client
        finally:
            connection.close()


def test_versions_that_are_served() -> None:
    served = [
        find_coordinator.FindCoordinatorHandler.served,
        classic_groups.JoinGroupHandler.served,
        classic_groups.SyncGroupHandler.served,
        classic_groups.HeartbeatHandler.served,
        classic_groups.LeaveGroupHandler.served,
        offset_commit.OffsetCommitHandler.served,
        offset_fetch.OffsetFetchHandler.served,
        group_admin.OffsetDeleteHandler.served,
        group_admin.DeleteGroupsHandler.served,
        group_admin.DescribeGroupsHandler.served,
        group_admin.ListGroupsHandler.served,
    ]
    assert {each.api.name: (each.lowest_advertised, each.max) for each in served} == {
        "FindCoordinator": (0, 6), "JoinGroup": (0, 9), "SyncGroup": (0, 5), "Heartbeat": (0, 4),
        "LeaveGroup": (0, 5), "OffsetCommit": (2, 10), "OffsetFetch": (1, 10), "OffsetDelete": (0, 0),
        "DeleteGroups": (0, 2), "DescribeGroups": (0, 6), "ListGroups": (0, 5),
    }  # fmt: skip


@pytest.mark.parametrize("version", range(10))
async def test_membership_in_every_version(version: int) -> None:
    async with wire() as client:
        member = await client.member(version, min(version, 5))
        for beat in range(5):
            request = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member)
            assert (await client.ask(HEARTBEAT, beat, request)).error_code == 0
        leave = LeaveGroupRequest(
            group_id=GROUP, member_id=member, members=[MemberIdentity(member_id=member)]
        )
        left = await client.ask(LEAVE_GROUP, min(version, 5), leave)
        assert left.error_code == 0
        again = await client.ask(LEAVE_GROUP, min(version, 5), leave)
        code = again.error_code if version < 3 else again.members[0].error_code
        assert code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(2, 10))
async def test_commits_in_every_version(version: int) -> None:
    async with wire() as client:
        assert await client.commit(version, 5) == 0
        assert await client.commit(version, 6, "stranger", 3) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.row(104)
@pytest.mark.parametrize("version", range(1, 10))
async def test_fetches_in_every_version(version: int) -> None:
    async with wire() as client:
        await client.commit(9, 5)
        answer = await client.fetch(version)
        topic = answer.groups[0].topics[0] if version >= 8 else answer.topics[0]
        (found,) = topic.partitions
        assert (found.partition_index, found.committed_offset, found.metadata, found.error_code) == (0, 5, "m", 0)
        nothing = await client.fetch(version, "nobody")
        topic = nothing.groups[0].topics[0] if version >= 8 else nothing.topics[0]
        (found,) = topic.partitions
        assert (found.committed_offset, found.metadata, found.error_code) == (-1, "", 0)


@pytest.mark.parametrize("version", range(1, 10))
async def test_line_21_fetches_show_where_the_error_is(version: int) -> None:
    async with wire() as client:
        await client.broker.groups.stop()
        answer = await client.fetch(version)
        if version >= 8:
            assert answer.groups[0].error_code == ErrorCode.NOT_COORDINATOR
        elif version >= 2:
            assert answer.error_code == ErrorCode.NOT_COORDINATOR
        else:
            assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR


async def test_line_21_every_api_says_not_coordinator() -> None:
    async with wire() as client:
        await client.broker.groups.stop()
        wrong = ErrorCode.NOT_COORDINATOR
        assert (await client.join(9)).error_code == wrong
        sync = SyncGroupRequest(group_id=GROUP, generation_id=1, member_id="m", assignments=())
        assert (await client.ask(SYNC_GROUP, 5, sync)).error_code == wrong
        beat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m")
        assert (await client.ask(HEARTBEAT, 4, beat)).error_code == wrong
        leave = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id="m")])
        assert (await client.ask(LEAVE_GROUP, 5, leave)).error_code == wrong
        assert await client.commit(9, 1) == wrong
        delete = OffsetDeleteRequest(group_id=GROUP, topics=())
        assert (await client.ask(OFFSET_DELETE, 0, delete)).error_code == wrong
        groups = await client.ask(DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=[GROUP]))
        assert groups.results[0].error_code == wrong
        described = await client.ask(DESCRIBE_GROUPS, 6, DescribeGroupsRequest(groups=[GROUP]))
        assert described.groups[0].error_code == wrong


async def test_line_48_groups_have_names() -> None:
    async with wire() as client:
        for api, request in (
            (JOIN_GROUP, JoinGroupRequest(
                group_id="", session_timeout_ms=6000, member_id="", protocol_type="c", protocols=()
            )),
            (SYNC_GROUP, SyncGroupRequest(group_id="", generation_id=1, member_id="", assignments=())),
            (HEARTBEAT, HeartbeatRequest(group_id="", generation_id=1, member_id="")),
            (LEAVE_GROUP, LeaveGroupRequest(group_id="", members=())),
        ):  # fmt: skip
            answer = await client.ask(api, 4, request)
            assert answer.error_code == ErrorCode.INVALID_GROUP_ID, api


async def test_administration_in_every_version() -> None:
    async with wire() as client:
        member = await client.member()
        await client.commit(9, 5, member, 1)
        for version in range(7):
            answer = await client.ask(DESCRIBE_GROUPS, version, DescribeGroupsRequest(
                groups=[GROUP, "ghost"], include_authorized_operations=True
            ))  # fmt: skip
            known, unknown = answer.groups
            assert (known.group_state, known.members[0].member_id) == ("Stable", member)
            assert known.members[0].client_host == "/127.0.0.1"
            assert unknown.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version == 6 else 0)
        for version in range(6):
            answer = await client.ask(LIST_GROUPS, version, ListGroupsRequest(
                states_filter=["Stable"], types_filter=["classic"]
            ))  # fmt: skip
            assert [group.group_id for group in answer.groups] == [GROUP]
        for version in range(3):
            request = DeleteGroupsRequest(groups_names=[GROUP, "ghost"])
            answer = await client.ask(DELETE_GROUPS, version, request)
            assert [result.error_code for result in answer.results] == [
                ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND,
            ]  # fmt: skip
        forget = OffsetDeleteRequest(group_id=GROUP, topics=[
            OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        ])  # fmt: skip
        answer = await client.ask(OFFSET_DELETE, 0, forget)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        await client.ask(LEAVE_GROUP, 5, LeaveGroupRequest(
            group_id=GROUP, members=[MemberIdentity(member_id=member)]
        ))  # fmt: skip
        answer = await client.ask(DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=[GROUP]))
        assert answer.results[0].error_code == 0
        assert (await client.ask(LIST_GROUPS, 5, ListGroupsRequest())).groups == []


async def test_version_10_names_topics_by_id() -> None:
    async with wire() as client:
        topic = client.broker.cluster.image.topic("t")
        assert topic is not None
        for topic_id, code in ((topic.id, ErrorCode.NONE), (UUID(int=99), ErrorCode.UNKNOWN_TOPIC_ID)):
            partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="m")
            request = OffsetCommitRequest(
                group_id=GROUP,
                member_id="",
                topics=[OffsetCommitRequestTopic(topic_id=topic_id, partitions=[partition])],
            )
            (answer,) = (await client.ask(OFFSET_COMMIT, 10, request)).topics
            assert (answer.topic_id, answer.partitions[0].error_code) == (topic_id, code)
            asked = [OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0])]
            groups = [OffsetFetchRequestGroup(group_id=GROUP, topics=asked)]
            (group,) = (await client.ask(OFFSET_FETCH, 10, OffsetFetchRequest(groups=groups))).groups
            (found,) = group.topics[0].partitions
            assert group.topics[0].topic_id == topic_id
            assert (found.committed_offset, found.error_code) == (-1 if code else 5, code)
        every = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
        (group,) = (await client.ask(OFFSET_FETCH, 10, every)).groups
        assert [(each.topic_id, len(each.partitions)) for each in group.topics] == [(topic.id, 1)]
