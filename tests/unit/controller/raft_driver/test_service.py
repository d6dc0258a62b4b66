"""What callers may ask of a voter, and what they are told when it makes no sense."""

import asyncio
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from rookery.core.errors import ErrorCode
from rookery.core.metadata.features import RELEASE
from rookery.core.net.control import bind, open_channel
from rookery.proto import raft_pb2 as pb
from rookery.proto.raft_pb2_grpc import RaftStub
from tests.unit.controller.raft_driver.nodes import CLUSTER_ID, Member, nodes, until

VERSION_MAX = RELEASE.rpc_range[1]


def caller(**changes: Any) -> pb.Caller:
    given = {"cluster_id": CLUSTER_ID, "version": VERSION_MAX, "node_id": 77, "to_id": -1, **changes}
    return pb.Caller(**given)


def stub_of(member: Member) -> tuple[grpc.aio.Channel, Any]:
    channel = open_channel(member.endpoint)
    return channel, RaftStub(channel)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    ("request_", "status", "said"),
    [
        (pb.FetchRequest(caller=caller(cluster_id="another")), "FAILED_PRECONDITION", "INCONSISTENT_CLUSTER_ID"),
        (pb.FetchRequest(caller=caller(cluster_id="")), "FAILED_PRECONDITION", "INCONSISTENT_CLUSTER_ID"),
        (pb.VoteRequest(caller=caller(cluster_id="another")), "FAILED_PRECONDITION", "INCONSISTENT_CLUSTER_ID"),
        (pb.VoteRequest(caller=caller(version=VERSION_MAX + 1)), "FAILED_PRECONDITION", "UNSUPPORTED_VERSION"),
        (pb.EndEpochRequest(caller=caller(to_id=9)), "FAILED_PRECONDITION", "node 1 answers at this address"),
        (pb.BeginEpochRequest(caller=caller(directory_id=b"short")), "INVALID_ARGUMENT", "INVALID_REQUEST"),
        (pb.FetchRequest(caller=caller(directory_id=b"short")), "INVALID_ARGUMENT", "INVALID_REQUEST"),
        (pb.FetchRequest(caller=caller(node_id=1), in_memory=True), "INVALID_ARGUMENT", "node 1 votes"),
        (pb.AddVoterRequest(caller=caller(cluster_id="another")), "FAILED_PRECONDITION", "INCONSISTENT_CLUSTER_ID"),
        (pb.RemoveVoterRequest(caller=caller(), voter_directory_id=b"?"), "INVALID_ARGUMENT", "INVALID_REQUEST"),
        (
            pb.DescribeQuorumRequest(caller=caller(cluster_id="another")),
            "FAILED_PRECONDITION",
            "INCONSISTENT_CLUSTER_ID",
        ),
    ],
)
async def test_calls_that_make_no_sense_are_refused_with_the_reason(
    tmp_path: Path, request_: Any, status: str, said: str
) -> None:
    async with nodes(tmp_path, 1) as cluster:
        leader = await cluster.leader()
        channel, stub = stub_of(leader)
        method = getattr(stub, type(request_).__name__.removesuffix("Request"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await method(request_, timeout=5)
        await channel.close()
        assert caught.value.code().name == status
        assert said in (caught.value.details() or "")
        leader.propose(b"unharmed")
        await cluster.all_have([b"unharmed"])


async def test_anybody_may_ask_who_is_in_the_quorum(tmp_path: Path) -> None:
    async with nodes(tmp_path, 3) as cluster:
        leader = await cluster.leader()
        leader.propose(b"x")
        await cluster.all_have([b"x"])
        channel, stub = stub_of(leader)
        async with asyncio.timeout(10):
            while True:
                found = await stub.DescribeQuorum(pb.DescribeQuorumRequest(), timeout=5)
                if {voter.log_end_offset for voter in found.voters} == {found.high_watermark}:
                    break
        await channel.close()
        assert found.leader.id == leader.settings.node_id
        assert found.cluster_id == CLUSTER_ID
        assert found.high_watermark >= leader.words.end.end_offset
        assert [voter.id for voter in found.voters] == [1, 2, 3]
        assert all(voter.last_fetch_ms > 1_000_000_000_000 for voter in found.voters)
        assert {voter.endpoint for voter in found.voters} == {member.endpoint for member in cluster.members}


async def test_a_busy_port_is_named(tmp_path: Path) -> None:
    async with nodes(tmp_path, 1) as cluster:
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        with pytest.raises(OSError, match=cluster.members[0].endpoint):
            bind(server, cluster.members[0].endpoint)
        await server.stop(None)


@pytest.mark.invariant("R12", "R13", "R14")
async def test_voters_are_added_and_removed_while_it_runs(tmp_path: Path) -> None:
    async with nodes(tmp_path, 3) as cluster:
        leader = await cluster.leader()
        leader.propose(b"before")
        await cluster.all_have([b"before"])
        newcomer = cluster.newcomer(4)
        await newcomer.start()
        await cluster.all_have([b"before"])
        channel, stub = stub_of(leader)
        voter = pb.Voter(
            id=4, directory_id=newcomer.settings.directory_id.bytes, endpoint=newcomer.endpoint
        )
        added = await stub.AddVoter(pb.AddVoterRequest(caller=caller(), voter=voter, timeout_ms=5000), timeout=10)
        assert (added.error, added.message) == (0, "")
        again = await stub.AddVoter(pb.AddVoterRequest(caller=caller(), voter=voter, timeout_ms=5000), timeout=10)
        assert again.error == ErrorCode.DUPLICATE_VOTER
        own = leader.settings
        wrong = pb.RemoveVoterRequest(
            caller=caller(), voter_id=own.node_id, voter_directory_id=bytes(15) + b"?", timeout_ms=5000
        )
        refused = await stub.RemoveVoter(wrong, timeout=10)
        assert refused.error == ErrorCode.VOTER_NOT_FOUND, "the same node on another disk is somebody else"
        wrong.voter_directory_id = own.directory_id.bytes
        removed = await stub.RemoveVoter(wrong, timeout=10)
        assert removed.error == 0
        await until("the removed leader gives up", lambda: not leader.leads)
        successor = await cluster.leader()
        successor.propose(b"after")
        await cluster.all_have([b"before", b"after"])
        ids = [voter.id for voter in successor.node.driver().core.voters]
        assert ids == sorted({1, 2, 3, 4} - {own.node_id})
        await channel.close()


async def test_a_follower_points_to_the_leader_for_changes(tmp_path: Path) -> None:
    async with nodes(tmp_path, 3) as cluster:
        leader = await cluster.leader()
        follower = next(member for member in cluster.members if member is not leader)
        await until("it follows", lambda: follower.words.leader == leader.words.leader)
        channel, stub = stub_of(follower)
        answer = await stub.RemoveVoter(
            pb.RemoveVoterRequest(caller=caller(), voter_id=1, timeout_ms=1000), timeout=10
        )
        await channel.close()
        assert answer.error == ErrorCode.NOT_CONTROLLER
        assert (answer.leader.id, answer.leader.endpoint) == (leader.settings.node_id, leader.endpoint)


@pytest.mark.attack(59)
async def test_nothing_lists_the_services_and_large_messages_are_refused(tmp_path: Path) -> None:
    async with nodes(tmp_path, 1) as cluster:
        leader = await cluster.leader()
        channel, _ = stub_of(leader)
        for name in ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"):
            call: Any = channel.unary_unary(f"/{name}/ServerReflectionInfo")
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(b"", timeout=5)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        await channel.close()
        wide = grpc.aio.insecure_channel(leader.endpoint, options=[("grpc.max_send_message_length", -1)])
        huge = pb.FetchRequest(caller=caller(cluster_id="x" * (17 << 20)))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await RaftStub(wide).Fetch(huge, timeout=20)  # type: ignore[no-untyped-call]
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await wide.close()
