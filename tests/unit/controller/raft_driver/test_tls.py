"""Mutual TLS between nodes: the private authority, and the name in the certificate, decide who may do what."""

from dataclasses import dataclass, replace
from pathlib import Path

import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message

from rookery.core.net.control import open_channel
from rookery.core.net.tls import READER_ID, Plaintext, Tls, read_tls
from rookery.proto import raft_pb2 as pb
from rookery.proto.raft_pb2_grpc import RaftStub
from tests.certificates import Authority
from tests.unit.controller.raft_driver.nodes import nodes
from tests.unit.controller.raft_driver.test_service import caller


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def node_tls(authority: Authority, node_id: int) -> Tls:
    return read_tls(authority.settings(f"cert-{node_id}", f"node-{node_id}", "localhost", "127.0.0.1"))


async def ask(endpoint: str, tls: Tls | None, request: Message) -> str:
    """The status of one call made with `tls`."""
    channel = open_channel(endpoint, tls)
    stub = RaftStub(channel)  # type: ignore[no-untyped-call]
    try:
        await getattr(stub, type(request).__name__.removesuffix("Request"))(request, timeout=30)
    except grpc.aio.AioRpcError as error:
        return error.code().name
    finally:
        await channel.close()
    return "OK"


@pytest.mark.attack(58)
async def test_voters_with_certificates_form_a_quorum_and_nobody_else_gets_in(
    tmp_path: Path, authority: Authority
) -> None:
    tls = {node_id: node_tls(authority, node_id) for node_id in (1, 2, 3)}
    stranger = Authority(tmp_path / "stranger")
    async with nodes(tmp_path, 3, tls) as cluster:
        leader = await cluster.leader()
        leader.propose(b"secret")
        await cluster.all_have([b"secret"])
        own, name = leader.endpoint, leader.settings.node_id
        fetch = pb.FetchRequest(caller=caller(node_id=50), max_bytes=1, in_memory=True)
        remove = pb.RemoveVoterRequest(caller=caller(node_id=-1), voter_id=99, timeout_ms=100)
        look = pb.DescribeQuorumRequest()
        broker = read_tls(authority.settings("broker", "node-50"))
        user = read_tls(authority.settings("alice", "alice"))
        admin = read_tls(authority.settings("boss", "admin"))
        reading = pb.FetchRequest(caller=caller(node_id=READER_ID), max_bytes=1, in_memory=True)
        replicating = pb.FetchRequest(caller=caller(node_id=READER_ID), max_bytes=1)
        sly = read_tls(authority.settings("sly", "URI:node-50", "email:admin", "DNS:sly"))
        assert await ask(own, None, look) == "UNAVAILABLE", "no TLS"
        assert await ask(own, Tls(authority.path.read_bytes()), look) == "UNAVAILABLE", "no certificate"
        wrong_ca = read_tls({**stranger.settings("node", "node-50"), "ssl.truststore.location": str(authority.path)})
        assert await ask(own, wrong_ca, look) == "UNAVAILABLE", "a certificate of a stranger"
        not_ours = read_tls({**authority.settings("b2", "node-50"), "ssl.truststore.location": str(stranger.path)})
        assert await ask(own, not_ours, look) == "UNAVAILABLE", "the client does not trust the server"
        assert await ask(own, broker, fetch) == "OK"
        assert await ask(own, tls[name], fetch) == "PERMISSION_DENIED", "node-50's calls with another node's name"
        assert await ask(own, user, fetch) == "PERMISSION_DENIED"
        assert await ask(own, user, look) == "OK"
        assert await ask(own, user, remove) == "PERMISSION_DENIED"
        assert await ask(own, admin, remove) == "OK"
        assert await ask(own, admin, reading) == "OK"
        assert await ask(own, admin, replicating) == "PERMISSION_DENIED", "an administrator is no node"
        assert await ask(own, admin, fetch) == "PERMISSION_DENIED"
        assert await ask(own, user, reading) == "PERMISSION_DENIED", "the log holds keys of users"
        assert await ask(own, sly, reading) == "PERMISSION_DENIED"
        assert await ask(own, sly, fetch) == "PERMISSION_DENIED", "only names of hosts are names of nodes"
        assert await ask(own, sly, remove) == "PERMISSION_DENIED"


@dataclass
class Renewable:
    """What a node shows and trusts, until the test exchanges it."""

    current: Tls


@pytest.mark.row(149)
async def test_certificates_and_authority_are_exchanged_while_the_quorum_works(
    tmp_path: Path, authority: Authority
) -> None:
    """Trust both authorities, then show certificates of the new one, then forget the old one: nobody restarts, and
    the leader stays."""
    new = Authority(tmp_path / "new")
    both = authority.path.read_bytes() + new.path.read_bytes()
    old = {node_id: node_tls(authority, node_id) for node_id in (1, 2, 3)}
    fresh = {node_id: node_tls(new, node_id) for node_id in (1, 2, 3)}
    tls = {node_id: Renewable(each) for node_id, each in old.items()}
    said: list[bytes] = []
    async with nodes(tmp_path, 3, tls) as cluster:
        leader = await cluster.leader()
        for step in (
            {node_id: replace(each, trusted=both) for node_id, each in old.items()},
            {node_id: replace(each, trusted=both) for node_id, each in fresh.items()},
            fresh,
        ):
            for node_id, each in step.items():
                tls[node_id].current = each
                said.append(f"{node_id} exchanged".encode())
                leader.propose(said[-1])
                await cluster.all_have(said)
        assert leader.leads
        look = pb.DescribeQuorumRequest()
        assert await ask(leader.endpoint, old[1], look) == "UNAVAILABLE", "the old authority is trusted no longer"
        assert await ask(leader.endpoint, fresh[1], look) == "OK"


async def test_a_server_whose_certificate_has_another_name_is_not_talked_to(
    tmp_path: Path, authority: Authority
) -> None:
    wrong_host = read_tls(authority.settings("elsewhere", "node-1", "elsewhere.example"))
    async with nodes(tmp_path, 1, {1: wrong_host}) as cluster:
        leader = await cluster.leader()
        user = read_tls(authority.settings("bob", "bob"))
        assert await ask(leader.endpoint, user, pb.DescribeQuorumRequest()) == "UNAVAILABLE"


async def test_a_quorum_goes_from_plain_to_tls_one_member_at_a_time(tmp_path: Path, authority: Authority) -> None:
    """Each member restarts three times: it accepts both, then calls with TLS, then accepts nothing else."""
    secured = {node_id: node_tls(authority, node_id) for node_id in (1, 2, 3)}
    steps: tuple[Plaintext, ...] = ("use", "accept", "no")
    look = pb.DescribeQuorumRequest()
    said: list[bytes] = []
    async with nodes(tmp_path, 3) as cluster:
        await cluster.leader()
        for step in steps:
            for node_id, tls in secured.items():
                await cluster.restart(node_id, replace(tls, plaintext=step))
                said.append(f"{node_id} restarted".encode())
                (await cluster.leader()).propose(said[-1])
                await cluster.all_have(said)
            if step != "no":
                user = read_tls(authority.settings("carol", "carol"))
                for endpoint in (member.endpoint for member in cluster.members):
                    assert await ask(endpoint, None, look) == "OK"
                    assert await ask(endpoint, secured[1], look) == "OK"
                    fetch = pb.FetchRequest(caller=caller(node_id=2), max_bytes=1, in_memory=True)
                    assert await ask(endpoint, user, fetch) == "PERMISSION_DENIED", "a certificate says who calls"
        for member in cluster.members:
            assert await ask(member.endpoint, None, look) == "UNAVAILABLE"
            assert await ask(member.endpoint, secured[1], look) == "OK"
