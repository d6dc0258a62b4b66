"""The table of requests: for each kind of request, the handler that decides it.

A handler is pure: records and reply follow from the image, the request and `Facts`. A request that is not in the
table does not exist; `controller.py` reads it and knows no kind of request by name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from rookery.controller.quorum import VoterFeatures
from rookery.controller.settings import ControllerSettings
from rookery.controller.state import (
    acls,
    brokers,
    client_quotas,
    configs,
    directories,
    elect_leaders,
    features,
    reassignment,
    scram,
    topics,
)
from rookery.controller.state.alter_partition import alter_partition
from rookery.controller.state.brokers import allocate_producer_ids
from rookery.controller.state.configs import RULES
from rookery.controller.state.decision import Decision, decided
from rookery.controller.state.defaults import Defaults
from rookery.core.metadata import requests as q
from rookery.core.metadata.image import Image


@dataclass(frozen=True, slots=True)
class Facts:
    """What handlers may know besides the image and the request."""

    settings: ControllerSettings
    position: int
    """Where the round of placement goes on."""
    new_id: Callable[[], UUID]
    """Gives ids that nobody has used."""
    liveness: Callable[[Image, int], brokers.Liveness]
    voter_features: Callable[[], VoterFeatures]

    @property
    def defaults(self) -> Defaults:
        return self.settings.defaults

    @property
    def growth(self) -> topics.Growth:
        return topics.Growth(RULES, self.defaults, self.position, self.new_id)


def _always(image: Image, request: Any) -> bool:
    return True


def _never(image: Image, request: Any) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Handler:
    decide: Callable[[Image, Any, Facts], Decision[Any]]
    heavy: Callable[[Image, Any], bool] = _never
    """Whether the request may touch every partition: a broker comes or goes, or all are asked about."""


def _register(image: Image, request: q.RegisterBrokerRequest, facts: Facts) -> Decision[q.RegisterBrokerReply]:
    return brokers.register_broker(
        image,
        request,
        cluster_id=facts.settings.cluster_id,
        liveness=facts.liveness(image, request.broker_id),
        defaults=facts.defaults,
    )


def _heartbeat(image: Image, request: q.HeartbeatRequest, facts: Facts) -> Decision[q.HeartbeatReply]:
    return brokers.heartbeat(image, request, facts.liveness(image, request.broker_id), facts.defaults)


def _changes_state(image: Image, request: q.HeartbeatRequest) -> bool:
    broker = image.brokers.get(request.broker_id)
    return broker is None or broker.fenced or request.want_fence or request.want_shut_down


def _producer_ids(
    image: Image, request: q.AllocateProducerIdsRequest, facts: Facts
) -> Decision[q.AllocateProducerIdsReply]:
    brokers.check_epoch(image, request.broker_id, request.broker_epoch)
    return allocate_producer_ids(image, request)


def _alter_partition(image: Image, request: q.AlterPartitionRequest, facts: Facts) -> Decision[q.AlterPartitionReply]:
    brokers.check_epoch(image, request.broker_id, request.broker_epoch)
    return alter_partition(image, request, facts.defaults)


def _assign_replicas(
    image: Image, request: q.AssignReplicasToDirsRequest, facts: Facts
) -> Decision[q.AssignReplicasToDirsReply]:
    brokers.check_epoch(image, request.broker_id, request.broker_epoch)
    return directories.assign_replicas_to_dirs(image, request, facts.defaults)


def _update_features(image: Image, request: q.UpdateFeaturesRequest, facts: Facts) -> Decision[q.UpdateFeaturesReply]:
    release, voters = facts.settings.release, facts.voter_features()
    return features.update_features(image, request, facts.defaults, release, voters)


HANDLERS: Mapping[type[q.Request[Any]], Handler] = {
    q.RegisterBrokerRequest: Handler(_register, _always),
    q.HeartbeatRequest: Handler(_heartbeat, _changes_state),
    q.UnregisterBrokerRequest: Handler(lambda i, r, f: brokers.unregister_broker(i, r, f.defaults), _always),
    q.AllocateProducerIdsRequest: Handler(_producer_ids),
    q.AlterPartitionRequest: Handler(_alter_partition),
    q.AssignReplicasToDirsRequest: Handler(_assign_replicas),
    q.ElectLeadersRequest: Handler(lambda i, r, f: elect_leaders.elect_leaders(i, r, f.defaults), _always),
    q.ReassignPartitionsRequest: Handler(lambda i, r, f: reassignment.reassign_partitions(i, r, f.defaults), _always),
    q.ListReassignmentsRequest: Handler(lambda i, r, f: decided((), reassignment.list_reassignments(i, r)), _always),
    q.CreateTopicsRequest: Handler(lambda i, r, f: topics.create_topics(i, r, f.growth), _always),
    q.DeleteTopicsRequest: Handler(lambda i, r, f: topics.delete_topics(i, r, f.defaults)),
    q.CreatePartitionsRequest: Handler(lambda i, r, f: topics.create_partitions(i, r, f.growth), _always),
    q.AlterClientQuotasRequest: Handler(lambda i, r, f: client_quotas.alter_client_quotas(i, r)),
    q.CreateAclsRequest: Handler(lambda i, r, f: acls.create_acls(i, r, f.defaults)),
    q.DeleteAclsRequest: Handler(lambda i, r, f: acls.delete_acls(i, r, f.defaults), _always),
    q.AlterUserScramCredentialsRequest: Handler(lambda i, r, f: scram.alter_user_scram_credentials(i, r, f.new_id)),
    q.AlterConfigsRequest: Handler(lambda i, r, f: configs.alter_configs(i, r, RULES, f.defaults), _always),
    q.UpdateFeaturesRequest: Handler(_update_features),
}
