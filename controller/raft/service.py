"""The incoming half of Raft over gRPC: checks the caller, asks the node, answers."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol, TypeVar

import grpc
import grpc.aio

from rookery.controller.access import Access, Context
from rookery.controller.raft import messages as m
from rookery.controller.raft import translation as to_wire
from rookery.controller.raft.batches import directory_of, voter_of
from rookery.controller.raft.voters import ReplicaKey, Voter
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.metadata.image import FeatureRange
from rookery.proto import raft_pb2 as pb
from rookery.proto import raft_pb2_grpc

PIECE_BYTES = 16 << 10
"""So small that one arrives in time on a slow link, too: whatever arrived counts."""
CHANGE_WAIT_MS_MAX = 60_000
Ask = Callable[[int], m.Request]
"""Makes the core's request, given the correlation to put into it."""
R = TypeVar("R", bound=m.Response)


class Answers(Protocol):
    """What the service needs of the node."""

    async def ask(self, request: Ask) -> m.Response:
        """The core's answer; TimeoutError if there is none in time, NotServingError while not started."""

    async def fetch(self, request: Ask, *, held_ms: int, max_bytes: int) -> tuple[m.FetchResponse, bytes, int]:
        """The core's answer, the records that go with it, and where the log starts."""

    async def add_voter(self, voter: Voter, timeout_ms: int) -> None: ...

    async def remove_voter(self, key: ReplicaKey, timeout_ms: int) -> None: ...

    def describe(self) -> pb.DescribeQuorumResponse: ...

    def leader_hint(self) -> pb.Leader: ...

    def votes(self, node_id: int) -> bool:
        """Whether a voter has this node id."""


class RaftService(raft_pb2_grpc.RaftServicer):
    """rookery.raft.Raft, answered by one node."""

    def __init__(self, node: Answers, access: Access, *, held_ms_max: int) -> None:
        self._node = node
        self._access = access
        self._held_ms_max = held_ms_max
        self.features: dict[int, tuple[FeatureRange, ...]] = {}
        """What voters told of their releases when they fetched."""

    def register(self, server: grpc.aio.Server) -> None:
        raft_pb2_grpc.add_RaftServicer_to_server(self, server)  # type: ignore[no-untyped-call]

    async def Vote(self, request: pb.VoteRequest, context: Context) -> pb.VoteResponse:
        response = await self._step(request.caller, context, lambda n: to_wire.read_vote_request(request, n))
        return to_wire.vote_response(_of(m.VoteResponse, response))

    async def BeginEpoch(self, request: pb.BeginEpochRequest, context: Context) -> pb.BeginEpochResponse:
        response = await self._step(request.caller, context, lambda n: to_wire.read_begin_request(request, n))
        return to_wire.begin_response(_of(m.BeginEpochResponse, response))

    async def EndEpoch(self, request: pb.EndEpochRequest, context: Context) -> pb.EndEpochResponse:
        response = await self._step(request.caller, context, lambda n: to_wire.read_end_request(request, n))
        return to_wire.end_response(_of(m.EndEpochResponse, response))

    async def Fetch(self, request: pb.FetchRequest, context: Context) -> pb.FetchResponse:
        await self._check(request.caller, context)
        caller_id = request.caller.node_id
        held_ms = min(max(request.max_wait_ms, 0), self._held_ms_max)
        try:
            votes = self._node.votes(caller_id)
            if votes:
                self.features[caller_id] = to_wire.features_of(request)
            if request.in_memory and votes:
                raise _InvalidError(f"node {caller_id} votes, so it cannot read without a log of its own")
            response, records, start = await self._node.fetch(
                _validated(lambda n: to_wire.read_fetch_request(request, n, held_ms)),
                held_ms=held_ms,
                max_bytes=request.max_bytes,
            )
        except _FAILURES as error:
            await _fail(context, error)
            raise
        return to_wire.fetch_response(response, records, start)

    async def FetchSnapshot(
        self, request: pb.FetchSnapshotRequest, context: Context
    ) -> AsyncIterator[pb.SnapshotChunk]:
        response = await self._step(
            request.caller, context, lambda n: to_wire.read_snapshot_request(request, n)
        )
        for piece in to_wire.snapshot_pieces(_of(m.FetchSnapshotResponse, response), PIECE_BYTES):
            yield piece

    async def AddVoter(self, request: pb.AddVoterRequest, context: Context) -> pb.ChangeVotersResponse:
        await self._check_admin(request.caller, context)
        try:
            voter = voter_of(request.voter)
        except ValueError as error:
            await _fail(context, _InvalidError(str(error)))
            raise
        return await self._change(lambda: self._node.add_voter(voter, _bounded(request.timeout_ms)))

    async def RemoveVoter(self, request: pb.RemoveVoterRequest, context: Context) -> pb.ChangeVotersResponse:
        await self._check_admin(request.caller, context)
        try:
            key = ReplicaKey(request.voter_id, directory_of(request.voter_directory_id))
        except ValueError as error:
            await _fail(context, _InvalidError(str(error)))
            raise
        return await self._change(lambda: self._node.remove_voter(key, _bounded(request.timeout_ms)))

    async def DescribeQuorum(
        self, request: pb.DescribeQuorumRequest, context: Context
    ) -> pb.DescribeQuorumResponse:
        """Anybody may ask; an empty cluster id asks about whatever cluster this is."""
        if request.caller.cluster_id:
            await self._access.check_cluster(context, request.caller.cluster_id)
        try:
            return self._node.describe()
        except NotServingError as error:
            await _fail(context, error)
            raise

    async def _check(self, caller: pb.Caller, context: Context) -> None:
        await self._access.check_cluster(context, caller.cluster_id, caller.to_id)
        await self._access.check_version(context, caller.version)
        await self._access.check_node(context, caller.node_id)

    async def _check_admin(self, caller: pb.Caller, context: Context) -> None:
        await self._access.check_cluster(context, caller.cluster_id, caller.to_id)
        await self._access.check_version(context, caller.version)
        await self._access.check_admin(context)

    async def _step(self, caller: pb.Caller, context: Context, request: Ask) -> m.Response:
        await self._check(caller, context)
        try:
            return await self._node.ask(_validated(request))
        except _FAILURES as error:
            await _fail(context, error)
            raise

    async def _change(self, change: Callable[[], Awaitable[None]]) -> pb.ChangeVotersResponse:
        try:
            await change()
        except KafkaError as error:
            text = error.message or error.code.text
            return pb.ChangeVotersResponse(error=error.code, message=text, leader=self._node.leader_hint())
        return pb.ChangeVotersResponse(leader=self._node.leader_hint())



class NotServingError(Exception):
    """The node is starting or stopping."""


class _InvalidError(Exception):
    """The request makes no sense."""


_FAILURES = (_InvalidError, TimeoutError, NotServingError)


def _validated(request: Ask) -> Ask:
    def make(correlation: int) -> m.Request:
        try:
            return request(correlation)
        except ValueError as error:
            raise _InvalidError(str(error)) from error

    return make


async def _fail(context: Context, error: Exception) -> None:
    if isinstance(error, NotServingError):
        await context.abort(grpc.StatusCode.UNAVAILABLE, "the node is starting or stopping")
    if isinstance(error, TimeoutError):
        await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the node did not answer in time")
    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{ErrorCode.INVALID_REQUEST.name}: {error}")


def _bounded(timeout_ms: int) -> int:
    return min(max(timeout_ms, 1), CHANGE_WAIT_MS_MAX)


def _of(kind: type[R], response: m.Response) -> R:
    if not isinstance(response, kind):
        raise TypeError(f"the core answered with {type(response).__name__}, not {kind.__name__}")
    return response
