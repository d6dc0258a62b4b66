"""The controller over gRPC: checks the caller, translates, and says who leads when this node does not."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import grpc
import grpc.aio

from rookery.controller.access import Access, Context
from rookery.controller.loop import ControllerLoop
from rookery.controller.state.brokers import check_epoch
from rookery.core.errors import ClusterAuthorizationFailedError, InvalidRequestError, KafkaError
from rookery.core.metadata.requests import HoldSessionReply, HoldSessionRequest, UnregisterBrokerRequest
from rookery.core.metadata.rpc import METHODS, SERVICE, Method
from rookery.proto import controller_pb2 as pb
from rookery.proto import raft_pb2

WAIT_S_MAX = 60.0


class ControllerService:
    """rookery.controller.Controller of one node. `leader_hint` returns the leader to ask instead of this node."""

    def __init__(
        self, loop: ControllerLoop, access: Access, leader_hint: Callable[[], raft_pb2.Leader]
    ) -> None:
        self._loop = loop
        self._controller = loop.controller
        self._access = access
        self._leader_hint = leader_hint

    def register(self, server: grpc.aio.Server) -> None:
        """Serve all methods on `server`, before it starts."""
        handlers = {
            method.name: grpc.unary_unary_rpc_method_handler(
                partial(self._serve, method),
                request_deserializer=method.request_message.FromString,
                response_serializer=method.reply_message.SerializeToString,
            )
            for method in METHODS.values()
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))

    async def _serve(self, method: Method, message: Any, context: Context) -> Any:
        await self._check(message, context)
        try:
            reply = await self._answer(method, message, context)
        except KafkaError as error:
            leader = self._leader_hint()
            failure = pb.Failure(code=error.code, message=error.message or error.code.text, leader=leader)
            return method.reply_message(failure=failure)
        return method.reply.to_message(reply)

    def _answer(self, method: Method, message: Any, context: Context) -> Awaitable[Any]:
        try:
            request = method.request.from_message(message)
        except ValueError as error:
            raise InvalidRequestError(f"{method.name} cannot be read: {error}") from error
        self._check_caller(request, message.caller.node_id)
        if isinstance(request, HoldSessionRequest):
            return self._hold(request)
        remaining = context.time_remaining()
        return self._loop.ask(request, timeout_s=WAIT_S_MAX if remaining is None else min(remaining, WAIT_S_MAX))

    def _check_caller(self, request: Any, caller_id: int) -> None:
        """A broker speaks for itself alone; who the caller is has been checked already."""
        speaks_for = getattr(request, "broker_id", caller_id)
        if speaks_for != caller_id and not isinstance(request, UnregisterBrokerRequest):
            raise ClusterAuthorizationFailedError(f"node {caller_id} cannot speak for broker {speaks_for}")

    async def _hold(self, request: HoldSessionRequest) -> HoldSessionReply:
        """Stay until this node leads no longer; that the call breaks off is news about the broker."""
        controller = self._controller
        controller.check_active()
        check_epoch(controller.committed, request.broker_id, request.broker_epoch)
        controller.sessions.opened(request.broker_id, request.broker_epoch, controller.now())
        try:
            await self._loop.inactive()
        finally:
            controller.sessions.closed(request.broker_id, request.broker_epoch, controller.now())
        return HoldSessionReply()

    async def _check(self, message: Any, context: Context) -> None:
        caller = message.caller
        await self._access.check_cluster(context, caller.cluster_id, caller.to_id)
        await self._access.check_version(context, caller.version)
        await self._access.check_node(context, caller.node_id)
