"""How a broker talks to the active controller: the only gRPC caller in a broker.

    client = ControllerClient(cluster_id, node_id, ["10.0.0.1:9093", "10.0.0.2:9093"])
    reply = await client.ask(HeartbeatRequest(...))

It finds the active controller (any controller asked names the one it knows) and repeats a request until it is
answered or its time is over. Requests are idempotent by epoch: a repetition of what was already carried out is
refused or answered the same, never done twice.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any, TypeVar
from uuid import UUID

import grpc
import grpc.aio

from rookery.core.errors import (
    ClusterAuthorizationFailedError,
    ErrorCode,
    InvalidRequestError,
    KafkaError,
    NotControllerError,
    RequestTimedOutError,
    error_for,
)
from rookery.core.ids import new_id
from rookery.core.metadata import requests as q
from rookery.core.metadata.features import RELEASE, Release
from rookery.core.metadata.requests import QuorumReplica, QuorumView
from rookery.core.metadata.rpc import BY_REQUEST, Method
from rookery.core.net.control import GRPC, Control, Exchange, name_is_unknown
from rookery.core.net.tls import CurrentTls
from rookery.proto import raft_pb2
from rookery.proto.raft_pb2_grpc import RaftStub

R = TypeVar("R")

PAUSE_S = (0.02, 0.25)
"""First and longest pause before a request is repeated."""
ATTEMPT_S = 2.0
"""A controller that takes a call and does not answer is given up after this time."""
ANSWER_S = 30.0
"""But the answer to a `Change` is waited for. That a controller is gone is noticed by its connection, in seconds."""
HOLD_S = 3600.0
CHANNELS_MAX = 16
ISR_CHANGES_MAX = 1000
"""Partitions in one AlterPartition."""

_ELSEWHERE = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}
)


class ControllerClient:
    """One per broker. `bootstrap` are addresses of some controllers; `broker_epoch` is set once registered."""

    def __init__(
        self,
        cluster_id: str,
        node_id: int,
        bootstrap: Sequence[str],
        *,
        tls: CurrentTls | None = None,
        release: Release = RELEASE,
        level: Callable[[], int] | None = None,
        control: Control = GRPC,
        new_id: Callable[[], UUID] = new_id,
    ) -> None:
        """`level` returns the cluster's finalised metadata.version, as far as this broker knows; `new_id` gives unused
        ids."""
        if not bootstrap:
            raise ValueError("a controller's address is needed: set controller.quorum.bootstrap.servers")
        self.broker_epoch = q.UNKNOWN_EPOCH
        self.pause_s = PAUSE_S
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._release = release
        self._new_id = new_id
        self._level = level or (lambda: release.levels.min_version)
        self._bootstrap = cycle(bootstrap)
        self._exchange = Exchange(tls)
        self._control = control
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._address = next(self._bootstrap)
        self._isr_changes: list[tuple[q.IsrChange, asyncio.Future[ErrorCode]]] = []
        self._isr_turn = asyncio.Lock()

    @property
    def address(self) -> str:
        """Where the active controller is believed to be."""
        return self._address

    async def ask(self, request: q.Request[R], *, timeout_s: float = ANSWER_S, attempt_s: float | None = None) -> R:
        """The reply to one of core.metadata.requests. Raises the controller's KafkaError, or
        RequestTimedOutError when no active controller answered in time. An attempt takes as long as the kind of the
        request allows, unless `attempt_s` says otherwise."""
        if attempt_s is None:
            attempt_s = ANSWER_S if isinstance(request, q.Change) else ATTEMPT_S
        request = request.identified(self._new_id)
        self._release.check_request(type(request), self._level())
        method = BY_REQUEST[type(request)]
        message = method.request.to_message(request)
        message.caller.CopyFrom(self._caller())
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        pause_s, longest_s = self.pause_s
        last: Exception | None = None
        while (left := deadline - loop.time()) > 0:
            try:
                reply: R = await self._attempt(method, message, min(left, attempt_s))
                return reply
            except (NotControllerError, grpc.aio.AioRpcError) as error:
                last = error
            await asyncio.sleep(min(pause_s, max(0.0, deadline - loop.time())))
            pause_s = min(2 * pause_s, longest_s)
        raise RequestTimedOutError(f"{method.name}: no active controller answered in {timeout_s} s; {_why(last)}")

    async def close(self) -> None:
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close()

    async def allocate_producer_ids(self) -> range:
        """A block of producer ids that no other broker gets."""
        request = q.AllocateProducerIdsRequest(self._node_id, self.broker_epoch)
        reply = await self.ask(request)
        return range(reply.first, reply.first + reply.count)

    async def describe_quorum(self, timeout_s: float = 30.0) -> QuorumView:
        """The metadata quorum, as its leader reports it. Raises RequestTimedOutError when there is none to ask."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        request = raft_pb2.DescribeQuorumRequest(caller=self._caller())
        last: Exception | None = None
        while (left := deadline - loop.time()) > 0:
            address = self._address
            try:
                stub = RaftStub(self._channel(address))  # type: ignore[no-untyped-call]
                found = await stub.DescribeQuorum(request, timeout=min(left, ATTEMPT_S))
            except grpc.aio.AioRpcError as error:
                last = error
                self._ask_instead_of(address, next(self._bootstrap))
            else:
                if found.leader.id == found.leader.reported_by:
                    return _quorum_view(found)
                self._ask_instead_of(address, found.leader.endpoint or next(self._bootstrap))
            await asyncio.sleep(min(PAUSE_S[0], max(0.0, deadline - loop.time())))
        raise RequestTimedOutError(f"DescribeQuorum: no leader answered in {timeout_s} s; {_why(last)}")

    async def hold_session(self) -> None:
        """Keep a call open at the active controller for as long as this task lives: by its end the controller
        learns at once that the broker is gone. Raises StaleBrokerEpochError when it must register anew."""
        while True:
            request = q.HoldSessionRequest(self._node_id, self.broker_epoch)
            try:
                await self.ask(request, timeout_s=HOLD_S, attempt_s=HOLD_S)
            except RequestTimedOutError:
                continue

    async def assign_replicas_to_dirs(
        self, assignments: Sequence[q.DirectoryAssignment]
    ) -> tuple[q.PartitionAnswer, ...]:
        request = q.AssignReplicasToDirsRequest(self._node_id, self.broker_epoch, tuple(assignments))
        return (await self.ask(request)).partitions

    async def alter_partition(self, change: q.IsrChange) -> ErrorCode:
        """Propose an ISR and return the answer. One request is in flight at a time; it takes along what others
        want to propose meanwhile."""
        answer: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self._isr_changes.append((change, answer))
        async with self._isr_turn:
            if not answer.done():
                await self._send_isr_changes()
        return await answer

    async def _send_isr_changes(self) -> None:
        taken = self._isr_changes[:ISR_CHANGES_MAX]
        del self._isr_changes[:ISR_CHANGES_MAX]
        request = q.AlterPartitionRequest(
            self._node_id, self.broker_epoch, tuple(change for change, _ in taken)
        )
        try:
            reply = await self.ask(request)
        except KafkaError as error:
            for _, answer in taken:
                _fail(answer, error)
            return
        except asyncio.CancelledError:  # only this caller gave up: the others' changes go with the next request
            self._isr_changes[:0] = [(change, answer) for change, answer in taken if not answer.done()]
            raise
        for (_, answer), partition in zip(taken, reply.partitions, strict=True):
            if not answer.done():
                answer.set_result(ErrorCode(partition.error))

    # -- one attempt

    async def _attempt(self, method: Method, message: Any, timeout_s: float) -> Any:
        address = self._address
        channel = self._channel(address)
        call = channel.unary_unary(
            method.path,
            request_serializer=method.request_message.SerializeToString,
            response_deserializer=method.reply_message.FromString,
        )
        try:
            reply = await call(message, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            if error.code() not in _ELSEWHERE:
                raise _refused(error) from error
            self._ask_instead_of(address, next(self._bootstrap))
            if name_is_unknown(error) and self._channels.get(address) is channel:
                del self._channels[address]
            raise
        if not reply.HasField("failure"):
            return method.reply.from_message(reply)
        failure = reply.failure
        if failure.code == ErrorCode.NOT_CONTROLLER:
            known = failure.leader.endpoint if failure.leader.id >= 0 else ""
            self._ask_instead_of(address, known or next(self._bootstrap))
        raise error_for(failure.code, failure.message)

    def _caller(self) -> raft_pb2.Caller:
        version = self._release.rpc_version(self._level())
        return raft_pb2.Caller(cluster_id=self._cluster_id, version=version, node_id=self._node_id, to_id=-1)

    def _ask_instead_of(self, address: str, to: str) -> None:
        """Ask `to` from now on, unless another call has turned away from `address` already."""
        if self._address == address:
            self._address = to

    def _channel(self, address: str) -> grpc.aio.Channel:
        if self._exchange.happened():
            self._channels.clear()
        channel = self._channels.get(address)
        if channel is None:
            if len(self._channels) >= CHANNELS_MAX:
                raise InvalidRequestError(f"more than {CHANNELS_MAX} controllers were named; restart the broker")
            channel = self._channels[address] = self._control.open_channel(address, self._exchange.current)
        return channel


def _quorum_view(found: raft_pb2.DescribeQuorumResponse) -> QuorumView:
    return QuorumView(
        found.leader.id,
        found.leader.epoch,
        found.high_watermark,
        tuple(map(_quorum_replica, found.voters)),
        tuple(map(_quorum_replica, found.observers)),
    )


def _quorum_replica(replica: raft_pb2.Replica) -> QuorumReplica:
    return QuorumReplica(
        replica.id,
        UUID(bytes=replica.directory_id) if replica.directory_id else UUID(int=0),
        replica.endpoint,
        replica.log_end_offset,
        replica.last_fetch_ms,
        replica.last_caught_up_ms,
    )


def _fail(answer: asyncio.Future[ErrorCode], error: KafkaError) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # callers that wait see it; those that were cancelled need not


def _refused(error: grpc.aio.AioRpcError) -> KafkaError:
    """A call that was not let in: the text starts with the name of the error where there is one."""
    details = error.details() or ""
    name, _, text = details.partition(": ")
    if name in ErrorCode.__members__:
        return error_for(ErrorCode[name], text)
    if error.code() is grpc.StatusCode.PERMISSION_DENIED:
        return ClusterAuthorizationFailedError(details)
    return InvalidRequestError(f"the controller refused the call ({error.code().name}): {details}")


def _why(error: Exception | None) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"last: {error.code().name} {error.details()}"
    return f"last: {error}" if error else "there was no time to ask"
