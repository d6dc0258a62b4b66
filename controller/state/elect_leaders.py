"""Elections on request: give leadership back to the preferred replica, or force an unclean one."""

from collections.abc import Iterator

from rookery.controller.state.decision import Decision, decided
from rookery.controller.state.defaults import Defaults
from rookery.controller.state.election import Election
from rookery.controller.state.partitions import Electorate, Wanted
from rookery.core.errors import ErrorCode
from rookery.core.metadata.image import Image, Partition, Topic
from rookery.core.metadata.records import PartitionChangeRecord
from rookery.core.metadata.requests import (
    ElectionType,
    ElectLeadersReply,
    ElectLeadersRequest,
    NamedPartition,
    NamedPartitionAnswer,
)

_ELECTION = {ElectionType.PREFERRED: Election.PREFERRED, ElectionType.UNCLEAN: Election.UNCLEAN}
_FAILED = {
    ElectionType.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


def elect_leaders(image: Image, request: ElectLeadersRequest, defaults: Defaults) -> Decision[ElectLeadersReply]:
    """Asked for all partitions, those that need nothing are not mentioned in the reply."""
    electorate = Electorate(image, defaults)
    records = []
    answers = []
    for named in _partitions(image, request):
        error, record = _elect(electorate, named, request.election_type)
        records += [] if record is None else [record]
        if error is ErrorCode.ELECTION_NOT_NEEDED and request.all_partitions:
            continue
        message = None if error is ErrorCode.NONE else error.text
        answers.append(NamedPartitionAnswer(named.topic, named.partition, error, message))
    return decided(records, ElectLeadersReply(tuple(answers)))


def rebalance(image: Image, defaults: Defaults, records_max: int) -> list[PartitionChangeRecord]:
    """Preferred elections for up to `records_max` partitions led by another replica, where they are possible."""
    electorate = Electorate(image, defaults)
    records: list[PartitionChangeRecord] = []
    for topic, index, partition in image.partitions():
        if len(records) == records_max:
            break
        if imbalanced(partition) and image.can_serve(partition, partition.preferred_leader):
            record = electorate.change(topic, index, partition, Wanted(election=Election.PREFERRED))
            records += [] if record is None or record.leader is None else [record]
    return records


def imbalanced(partition: Partition) -> bool:
    """Led by another than its preferred replica, though that one is in sync."""
    preferred = partition.preferred_leader
    return partition.leader != preferred and preferred in partition.isr


def _partitions(image: Image, request: ElectLeadersRequest) -> Iterator[NamedPartition]:
    if not request.all_partitions:
        yield from dict.fromkeys(request.partitions)
        return
    for name in sorted(image.topic_ids):
        for index in sorted(image.topics[image.topic_ids[name]].partitions):
            yield NamedPartition(name, index)


def _elect(
    electorate: Electorate, named: NamedPartition, election_type: ElectionType
) -> tuple[ErrorCode, PartitionChangeRecord | None]:
    topic = electorate.image.topic(named.topic)
    partition = None if topic is None else topic.partitions.get(named.partition)
    if topic is None or partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    if not _needed(partition, election_type):
        return ErrorCode.ELECTION_NOT_NEEDED, None
    return _held(electorate, topic, named.partition, partition, election_type)


def _held(
    electorate: Electorate, topic: Topic, index: int, partition: Partition, election_type: ElectionType
) -> tuple[ErrorCode, PartitionChangeRecord | None]:
    record = electorate.change(topic, index, partition, Wanted(election=_ELECTION[election_type]))
    wanted = partition.preferred_leader
    leader = None if record is None else record.leader
    if leader is None or (election_type is ElectionType.PREFERRED and leader != wanted):
        return _FAILED[election_type], None
    return ErrorCode.NONE, record


def _needed(partition: Partition, election_type: ElectionType) -> bool:
    if election_type is ElectionType.PREFERRED:
        return partition.leader != partition.preferred_leader
    return not partition.has_leader
