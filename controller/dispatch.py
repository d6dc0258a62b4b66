"""From a request to the handler that decides it, together with what the handler is told besides the image."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from rookery.controller.controller import Answer, Controller
from rookery.controller.state import (
    brokers,
    client_quotas,
    configs,
    directories,
    elect_leaders,
    features,
    reassignment,
    topics,
)
from rookery.controller.state.alter_partition import alter_partition
from rookery.controller.state.config_rules import RULES
from rookery.controller.state.decision import Decision, decided
from rookery.controller.state.producer_ids import allocate_producer_ids
from rookery.core.metadata import requests as q
from rookery.core.metadata.image import Image

_HEAVY = (
    q.RegisterBrokerRequest,
    q.UnregisterBrokerRequest,
    q.ElectLeadersRequest,
    q.ReassignPartitionsRequest,
    q.ListReassignmentsRequest,
    q.CreateTopicsRequest,
    q.CreatePartitionsRequest,
    q.AlterConfigsRequest,
)


class Dispatch:
    """Everything brokers may ask. `new_id` gives ids that nobody has used."""

    def __init__(self, controller: Controller, new_id: Callable[[], UUID]) -> None:
        self._controller = controller
        self._defaults = controller.settings.defaults
        self._new_id = new_id
        self._handlers: dict[type, Callable[[Image, Any], Decision[Any]]] = {
            q.RegisterBrokerRequest: self._register,
            q.HeartbeatRequest: self._heartbeat,
            q.UnregisterBrokerRequest: self._unregister,
            q.AllocateProducerIdsRequest: self._producer_ids,
            q.AlterPartitionRequest: self._alter_partition,
            q.AssignReplicasToDirsRequest: self._assign_replicas,
            q.ElectLeadersRequest: lambda i, r: elect_leaders.elect_leaders(i, r, self._defaults),
            q.ReassignPartitionsRequest: lambda i, r: reassignment.reassign_partitions(i, r, self._defaults),
            q.ListReassignmentsRequest: lambda i, r: decided((), reassignment.list_reassignments(i, r)),
            q.CreateTopicsRequest: lambda i, r: topics.create_topics(i, r, self._growth()),
            q.DeleteTopicsRequest: lambda i, r: topics.delete_topics(i, r, self._defaults),
            q.CreatePartitionsRequest: lambda i, r: topics.create_partitions(i, r, self._growth()),
            q.AlterClientQuotasRequest: lambda i, r: client_quotas.alter_client_quotas(i, r),
            q.AlterConfigsRequest: lambda i, r: configs.alter_configs(i, r, RULES, self._defaults),
            q.UpdateFeaturesRequest: self._update_features,
        }

    def submit(self, request: Any, answer: Answer, *, timeout_s: float = 30.0) -> None:
        """Let the controller decide `request`."""
        handler = self._handlers[type(request)]
        if isinstance(request, q.HeartbeatRequest):
            self._heard(request)
        self._controller.submit(
            type(request).__name__,
            lambda image: handler(image, request),
            answer,
            timeout_s=timeout_s,
            heavy=self._heavy(request),
        )

    def _heavy(self, request: Any) -> bool:
        """Whether the request may touch every partition: a broker comes or goes, or all are asked about."""
        if isinstance(request, q.HeartbeatRequest):
            broker = self._controller.committed.brokers.get(request.broker_id)
            return broker is None or broker.fenced or request.want_fence or request.want_shut_down
        return isinstance(request, _HEAVY)

    def _heard(self, request: q.HeartbeatRequest) -> None:
        """A heartbeat counts when it arrives, not when its turn comes: a busy controller fences nobody."""
        broker = self._controller.committed.brokers.get(request.broker_id)
        if broker is not None and broker.epoch == request.broker_epoch and self._controller.active:
            now = self._controller.now()
            self._controller.sessions.contact(broker.id, broker.epoch, now, request.metadata_offset)

    def _growth(self) -> topics.Growth:
        return topics.Growth(RULES, self._defaults, self._controller.position, self._new_id)

    def _liveness(self, image: Image, broker_id: int) -> brokers.Liveness:
        return self._controller.sessions.liveness(image, broker_id, self._controller.now())

    def _register(self, image: Image, request: q.RegisterBrokerRequest) -> Decision[q.RegisterBrokerReply]:
        decision = brokers.register_broker(
            image,
            request,
            cluster_id=self._controller.settings.cluster_id,
            liveness=self._liveness(image, request.broker_id),
            defaults=self._defaults,
        )

        def reply(after: Image) -> q.RegisterBrokerReply:
            answer = decision.reply(after)
            self._controller.sessions.contact(request.broker_id, answer.broker_epoch, self._controller.now())
            return answer

        return Decision(decision.records, reply)

    def _heartbeat(self, image: Image, request: q.HeartbeatRequest) -> Decision[q.HeartbeatReply]:
        decision = brokers.heartbeat(image, request, self._liveness(image, request.broker_id), self._defaults)

        def reply(after: Image) -> q.HeartbeatReply:
            if after.brokers[request.broker_id].in_controlled_shutdown:
                self._controller.sessions.shutting_down(request.broker_id, after.offset)
            return decision.reply(after)

        return Decision(decision.records, reply)

    def _unregister(self, image: Image, request: q.UnregisterBrokerRequest) -> Decision[q.UnregisterBrokerReply]:
        decision = brokers.unregister_broker(image, request, self._defaults)

        def reply(after: Image) -> q.UnregisterBrokerReply:
            self._controller.sessions.forget(request.broker_id)
            return decision.reply(after)

        return Decision(decision.records, reply)

    def _update_features(
        self, image: Image, request: q.UpdateFeaturesRequest
    ) -> Decision[q.UpdateFeaturesReply]:
        release, voters = self._controller.settings.release, self._controller.voter_features()
        return features.update_features(image, request, self._defaults, release, voters)

    def _producer_ids(
        self, image: Image, request: q.AllocateProducerIdsRequest
    ) -> Decision[q.AllocateProducerIdsReply]:
        brokers.check_epoch(image, request.broker_id, request.broker_epoch)
        return allocate_producer_ids(image, request)

    def _alter_partition(
        self, image: Image, request: q.AlterPartitionRequest
    ) -> Decision[q.AlterPartitionReply]:
        brokers.check_epoch(image, request.broker_id, request.broker_epoch)
        return alter_partition(image, request, self._defaults)

    def _assign_replicas(
        self, image: Image, request: q.AssignReplicasToDirsRequest
    ) -> Decision[q.AssignReplicasToDirsReply]:
        brokers.check_epoch(image, request.broker_id, request.broker_epoch)
        return directories.assign_replicas_to_dirs(image, request, self._defaults)
