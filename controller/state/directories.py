"""Log directories: which holds a replica, and what becomes of replicas whose directory failed.

A failed directory may have lost what it held. Its replicas leave the ISR and the ELR at once, and join again
only after they have been fetched anew; the broker's other directories go on serving.
"""

from collections.abc import Sequence
from uuid import UUID

from rookery.controller.state.decision import Decision, decided, replayed
from rookery.controller.state.defaults import Defaults
from rookery.controller.state.partitions import Electorate, Wanted
from rookery.core.errors import ErrorCode
from rookery.core.metadata.image import (
    LOST_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    BrokerRegistration,
    Image,
    Partition,
)
from rookery.core.metadata.records import BrokerRegistrationChangeRecord, PartitionChangeRecord, Record
from rookery.core.metadata.requests import (
    AssignReplicasToDirsReply,
    AssignReplicasToDirsRequest,
    DirectoryAssignment,
    PartitionAnswer,
)


def lost_directory(image: Image, broker_id: int, partition: Partition) -> bool:
    """Whether the broker no longer has the directory in which it kept its replica."""
    broker = image.brokers.get(broker_id)
    return broker is None or not broker.has_online_directory(partition.directory(broker_id))


def offline_directories(
    image: Image, broker: BrokerRegistration, offline: Sequence[UUID], defaults: Defaults
) -> list[Record]:
    """Directories that failed since the broker registered."""
    left = tuple(directory for directory in broker.directories if directory not in offline)
    if left == broker.directories:
        return []
    record = BrokerRegistrationChangeRecord(broker.id, broker.epoch, log_dirs=left)
    return [record, *_lose_replicas(replayed(image, [record]), broker.id, defaults)]


def assign_replicas_to_dirs(
    image: Image, request: AssignReplicasToDirsRequest, defaults: Defaults
) -> Decision[AssignReplicasToDirsReply]:
    """The broker reports where it keeps replicas; its epoch has been checked. A damaged replica has no directory until
    it is rebuilt."""
    records = []
    answers = []
    electorate = Electorate(image, defaults)
    for assignment in request.assignments:
        topic = image.topics.get(assignment.topic_id)
        partition = image.partition(assignment.topic_id, assignment.partition)
        if topic is None or partition is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID if topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif request.broker_id not in partition.replicas:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif assignment.directory == LOST_DIRECTORY and not _others_in_sync(image, request.broker_id, partition):
            error = ErrorCode.INELIGIBLE_REPLICA  # a damaged replica is better than none
        else:
            error = ErrorCode.NONE
            wanted = _assigned(image, request.broker_id, partition, assignment)
            change = electorate.change(topic, assignment.partition, partition, wanted)
            records += [] if change is None else [change]
        answers.append(PartitionAnswer(assignment.topic_id, assignment.partition, error))
    return decided(records, AssignReplicasToDirsReply(tuple(answers)))


def _others_in_sync(image: Image, broker_id: int, partition: Partition) -> bool:
    return any(other != broker_id and image.can_serve(partition, other) for other in partition.isr)


def _assigned(
    image: Image, broker_id: int, partition: Partition, assignment: DirectoryAssignment
) -> Wanted:
    directories = tuple(
        assignment.directory if replica == broker_id else partition.directory(replica)
        for replica in partition.replicas
    )
    lost = not image.brokers[broker_id].has_online_directory(assignment.directory)
    return Wanted(directories=directories, lost=(broker_id,) if lost else ())


def _lose_replicas(image: Image, broker_id: int, defaults: Defaults) -> list[PartitionChangeRecord]:
    electorate = Electorate(image, defaults)
    changes = []
    for topic, index, partition in image.partitions():
        directory = partition.directory(broker_id)
        if directory in (UNASSIGNED_DIRECTORY, LOST_DIRECTORY) or broker_id not in partition.replicas:
            continue
        if lost_directory(image, broker_id, partition):
            change = electorate.change(topic, index, partition, Wanted(lost=(broker_id,)))
            changes += [] if change is None else [change]
    return changes
