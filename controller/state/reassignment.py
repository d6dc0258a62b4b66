"""Moving replicas: added ones join first, removed ones leave when all added are in sync; until then it can be
taken back. Completion itself happens in partitions.py, with whatever change makes it possible.

Another target may be named while a reassignment is under way. What the first one has added and brought in sync is
removed like any other replica, only when the new target is in sync: it may be all there is of the data."""

from rookery.controller.state.decision import Decision, decided
from rookery.controller.state.defaults import Defaults
from rookery.controller.state.partitions import Electorate, Wanted
from rookery.controller.state.topics import check_replicas
from rookery.core.errors import (
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    KafkaError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)
from rookery.core.metadata.image import Image, Partition
from rookery.core.metadata.records import PartitionChangeRecord
from rookery.core.metadata.requests import (
    ListReassignmentsReply,
    ListReassignmentsRequest,
    NamedPartition,
    NamedPartitionAnswer,
    OngoingReassignment,
    Reassignment,
    ReassignPartitionsReply,
    ReassignPartitionsRequest,
)


def reassign_partitions(
    image: Image, request: ReassignPartitionsRequest, defaults: Defaults
) -> Decision[ReassignPartitionsReply]:
    electorate = Electorate(image, defaults)
    records: list[PartitionChangeRecord] = []
    answers = []
    seen = set()
    for wanted in request.partitions:
        key = (wanted.topic, wanted.partition)
        try:
            if key in seen:
                raise InvalidRequestError(f"{wanted.topic}-{wanted.partition} is named twice")
            seen.add(key)
            record = _reassign(electorate, wanted, request.allow_replication_factor_change)
        except KafkaError as error:
            answers.append(NamedPartitionAnswer(*key, error.code, error.message))
            continue
        records += [] if record is None else [record]
        answers.append(NamedPartitionAnswer(*key))
    return decided(records, ReassignPartitionsReply(tuple(answers)))


def list_reassignments(image: Image, request: ListReassignmentsRequest) -> ListReassignmentsReply:
    """What is under way, sorted; a read of one image."""
    asked = set(request.partitions)
    ongoing = [
        OngoingReassignment(
            topic.name, index, partition.replicas, partition.adding_replicas, partition.removing_replicas
        )
        for topic, index, partition in image.partitions()
        if partition.reassigning and (request.all_partitions or NamedPartition(topic.name, index) in asked)
    ]
    return ListReassignmentsReply(tuple(sorted(ongoing, key=lambda one: (one.topic, one.partition))))


def _reassign(
    electorate: Electorate, wanted: Reassignment, other_factor: bool
) -> PartitionChangeRecord | None:
    topic = electorate.image.topic(wanted.topic)
    partition = None if topic is None else topic.partitions.get(wanted.partition)
    if topic is None or partition is None:
        raise UnknownTopicOrPartitionError(f"there is no partition {wanted.topic}-{wanted.partition}")
    if wanted.replicas is None:
        change = _cancelled(partition)
    else:
        change = _begun(electorate.image, partition, wanted.replicas, other_factor)
    return electorate.change(topic, wanted.partition, partition, change)


def _begun(image: Image, partition: Partition, target: tuple[int, ...], other_factor: bool) -> Wanted:
    check_replicas(image, target)
    factor = len(partition.replicas) - len(partition.removing_replicas)
    if not other_factor and len(target) != factor:
        raise InvalidReplicationFactorError(f"the partition has {factor} replicas, not {len(target)}")
    before = _original(partition)
    holding = (*before, *partition.isr, *partition.elr)
    removing = tuple(broker for broker in partition.replicas if broker in holding and broker not in target)
    return Wanted(
        replicas=(*target, *removing),
        adding=tuple(broker for broker in target if broker not in before),
        removing=removing,
    )


def _cancelled(partition: Partition) -> Wanted:
    if not partition.reassigning:
        raise NoReassignmentInProgressError("no reassignment is under way")
    replicas = _original(partition)
    isr = tuple(broker for broker in partition.isr if broker in replicas)
    if not isr and not any(broker in replicas for broker in partition.elr):
        raise InvalidReplicaAssignmentError(
            "none of the replicas to return to is in sync: cancelling would lose records"
        )
    return Wanted(replicas=replicas, isr=isr, adding=(), removing=())


def _original(partition: Partition) -> tuple[int, ...]:
    """The replicas without those a reassignment under way has added."""
    return tuple(broker for broker in partition.replicas if broker not in partition.adding_replicas)
