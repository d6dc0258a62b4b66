"""The incoming half of Raft over gRPC: checks the caller, gives the request to the driver, answers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import grpc
import grpc.aio

from rookery.controller.access import Access, Context
from rookery.controller.raft import messages as m
from rookery.controller.raft import translation as to_wire
from rookery.controller.raft.batches import directory_bytes, directory_of, voter_of
from rookery.controller.raft.describe import QuorumDescription, ReplicaDescription
from rookery.controller.raft.driver import Driver
from rookery.controller.raft.errors import (
    InvalidVoterChangeError,
    NotCaughtUpError,
    NotLeaderError,
    NotReadyError,
    NotServingError,
)
from rookery.controller.raft.node import RaftNode
from rookery.controller.raft.ready import Ready
from rookery.controller.raft.voters import ReplicaKey, Voter
from rookery.core.errors import (
    DuplicateVoterError,
    ErrorCode,
    InvalidRequestError,
    KafkaError,
    NotControllerError,
    RequestTimedOutError,
    VoterNotFoundError,
)
from rookery.proto import raft_pb2 as pb
from rookery.proto import raft_pb2_grpc

PIECE_BYTES = 16 << 10
"""So small that one arrives in time on a slow link, too: whatever arrived counts."""
CHANGE_WAIT_MS_MAX = 60_000
RETRY_S = 0.05
_NEVER_MS = -1
Ask = Callable[[int], m.Request]
"""Makes the core's request, given the correlation to put into it."""
Change = Callable[[float], tuple[int, Ready]]
"""A change of the voters as the core takes it, given the time."""
R = TypeVar("R", bound=m.Response)


class RaftService(raft_pb2_grpc.RaftServicer):
    """rookery.raft.Raft, answered by one node."""

    def __init__(self, node: RaftNode) -> None:
        settings = node.settings
        tls = settings.tls.current if settings.tls is not None else None
        mutual = tls is not None and tls.client_auth == "required"
        plain_too = tls is not None and tls.plaintext != "no"
        self._node = node
        self.access = Access(settings.cluster_id, settings.node_id, mutual, settings.release, plain_too)

    def register(self, server: grpc.aio.Server) -> None:
        raft_pb2_grpc.add_RaftServicer_to_server(self, server)  # type: ignore[no-untyped-call]

    # -- requests that the core answers ----------------------------------------------------------------------

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
        await self._check(request.caller, context, reads=request.in_memory)
        caller_id = request.caller.node_id
        held_ms = min(max(request.max_wait_ms, 0), self._node.settings.raft.fetch_max_wait_ms)
        try:
            driver = self._node.driver()
            votes = driver.core.voters.get(caller_id) is not None
            if votes:
                driver.features[caller_id] = to_wire.features_of(request)
            if request.in_memory and votes:
                raise _InvalidError(f"node {caller_id} votes, so it cannot read without a log of its own")
            answer = await driver.ask(
                _validated(lambda n: to_wire.read_fetch_request(request, n, held_ms)),
                held_ms=held_ms,
                max_bytes=request.max_bytes,
            )
        except _FAILURES as error:
            await _fail(context, error)
            raise
        response = _of(m.FetchResponse, answer.response)
        return to_wire.fetch_response(response, answer.records, driver.storage.start_offset)

    async def FetchSnapshot(
        self, request: pb.FetchSnapshotRequest, context: Context
    ) -> AsyncIterator[pb.SnapshotChunk]:
        response = await self._step(
            request.caller, context, lambda n: to_wire.read_snapshot_request(request, n), reads=True
        )
        for piece in to_wire.snapshot_pieces(_of(m.FetchSnapshotResponse, response), PIECE_BYTES):
            yield piece

    async def _step(self, caller: pb.Caller, context: Context, request: Ask, *, reads: bool = False) -> m.Response:
        await self._check(caller, context, reads=reads)
        try:
            answer = await self._node.driver().ask(_validated(request))
        except _FAILURES as error:
            await _fail(context, error)
            raise
        return answer.response

    async def _check(self, caller: pb.Caller, context: Context, *, reads: bool = False) -> None:
        await self.access.check_cluster(context, caller.cluster_id, caller.to_id)
        await self.access.check_version(context, caller.version)
        check = self.access.check_reader if reads else self.access.check_node
        await check(context, caller.node_id)

    # -- changes of the voters -------------------------------------------------------------------------------

    async def AddVoter(self, request: pb.AddVoterRequest, context: Context) -> pb.ChangeVotersResponse:
        await self._check_admin(request.caller, context)
        try:
            voter = voter_of(request.voter)
        except ValueError as error:
            await _fail(context, _InvalidError(str(error)))
            raise
        return await self._change(lambda driver: _adding(driver, voter), request.timeout_ms, context)

    async def RemoveVoter(self, request: pb.RemoveVoterRequest, context: Context) -> pb.ChangeVotersResponse:
        await self._check_admin(request.caller, context)
        try:
            key = ReplicaKey(request.voter_id, directory_of(request.voter_directory_id))
        except ValueError as error:
            await _fail(context, _InvalidError(str(error)))
            raise
        return await self._change(lambda driver: _removing(driver, key), request.timeout_ms, context)

    async def _change(
        self, change: Callable[[Driver], Change], timeout_ms: int, context: Context
    ) -> pb.ChangeVotersResponse:
        try:
            driver = self._node.driver()
            await _committed(driver, change(driver), min(max(timeout_ms, 1), CHANGE_WAIT_MS_MAX))
        except NotServingError as error:
            await _fail(context, error)
            raise
        except KafkaError as error:
            text = error.message or error.code.text
            return pb.ChangeVotersResponse(error=error.code, message=text, leader=self._node.leader_hint())
        return pb.ChangeVotersResponse(leader=self._node.leader_hint())

    async def _check_admin(self, caller: pb.Caller, context: Context) -> None:
        await self.access.check_cluster(context, caller.cluster_id, caller.to_id)
        await self.access.check_version(context, caller.version)
        await self.access.check_admin(context)

    # -- the state of the quorum -----------------------------------------------------------------------------

    async def DescribeQuorum(
        self, request: pb.DescribeQuorumRequest, context: Context
    ) -> pb.DescribeQuorumResponse:
        """Anybody may ask; an empty cluster id asks about whatever cluster this is."""
        if request.caller.cluster_id:
            await self.access.check_cluster(context, request.caller.cluster_id)
        try:
            driver = self._node.driver()
        except NotServingError as error:
            await _fail(context, error)
            raise
        found, to_wall_ms = driver.core.describe(driver.now_ms()), driver.to_wall_ms()
        least, most = self.access.release.rpc_range
        return pb.DescribeQuorumResponse(
            leader=self._node.leader_hint(),
            high_watermark=found.high_watermark,
            voters=_voters(found, to_wall_ms),
            observers=[_replica(replica, "", to_wall_ms) for replica in found.observers],
            cluster_id=self.access.cluster_id,
            min_version=least,
            max_version=most,
        )


def _adding(driver: Driver, voter: Voter) -> Change:
    if not voter.pinned or not voter.endpoint:
        raise InvalidRequestError(f"voter {voter.id} needs a directory id and an address")
    return lambda now_ms: driver.core.add_voter(voter, now_ms)


def _removing(driver: Driver, key: ReplicaKey) -> Change:
    return lambda now_ms: driver.core.remove_voter(key, now_ms)


async def _committed(driver: Driver, change: Change, timeout_ms: int) -> None:
    """Make a change of the voters and wait for its commit, all within the timeout."""
    deadline_ms = driver.now_ms() + timeout_ms
    while True:
        try:
            offset = driver.change(change)
            break
        except NotLeaderError as error:
            raise NotControllerError(str(error)) from error
        except InvalidVoterChangeError as error:
            kind = DuplicateVoterError if "already" in str(error) else VoterNotFoundError
            raise kind(str(error)) from error
        except (NotReadyError, NotCaughtUpError) as error:
            if driver.now_ms() >= deadline_ms:
                raise RequestTimedOutError(str(error)) from error
            await asyncio.sleep(RETRY_S)
    await driver.commits.wait(offset, max(deadline_ms - driver.now_ms(), 1) / 1000)


def _voters(found: QuorumDescription, to_wall_ms: float) -> list[pb.Replica]:
    """What the leader knows of each voter; elsewhere only who they are."""
    endpoints = {voter.id: voter.endpoint for voter in found.voter_set}
    unknown = float("-inf")
    known = found.voters or [ReplicaDescription(v.key, -1, unknown, unknown) for v in found.voter_set]
    return [_replica(replica, endpoints.get(replica.key.id, ""), to_wall_ms) for replica in known]


def _replica(replica: ReplicaDescription, endpoint: str, to_wall_ms: float) -> pb.Replica:
    return pb.Replica(
        id=replica.key.id,
        directory_id=directory_bytes(replica.key.directory_id),
        endpoint=endpoint,
        log_end_offset=replica.log_end_offset,
        last_fetch_ms=_wall(replica.last_fetch_ms, to_wall_ms),
        last_caught_up_ms=_wall(replica.last_caught_up_ms, to_wall_ms),
    )


def _wall(at_ms: float, to_wall_ms: float) -> int:
    return _NEVER_MS if at_ms == float("-inf") else round(at_ms + to_wall_ms)


# -- failures ------------------------------------------------------------------------------------------------


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


def _of(kind: type[R], response: m.Response) -> R:
    if not isinstance(response, kind):
        raise TypeError(f"the core answered with {type(response).__name__}, not {kind.__name__}")
    return response
