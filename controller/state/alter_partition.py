"""A leader changes who is in sync: compare-and-set on the epochs it knows.

The answers, in the order of the checks:

| the request | answer |
|---|---|
| names an unknown topic id or partition | UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION |
| has a leader or partition epoch ahead of the controller's | NOT_CONTROLLER: this controller is behind |
| has an older leader epoch | FENCED_LEADER_EPOCH |
| comes from a broker that does not lead | INVALID_REQUEST |
| has an older partition epoch | INVALID_UPDATE_VERSION |
| wants an ISR that is no subset of the replicas, lacks the leader, or is not alone while RECOVERING | INVALID_REQUEST |
| goes back from RECOVERED to RECOVERING | INVALID_REQUEST |
| adds a broker that is fenced, stopping, unregistered, of another epoch, or without its disk | INELIGIBLE_REPLICA |
| is applied, and with it the leader changes | NEW_LEADER_ELECTED |
| is applied | NONE |
"""

from rookery.controller.state.decision import Decision, decided
from rookery.controller.state.defaults import Defaults
from rookery.controller.state.partitions import Electorate, Wanted
from rookery.core.errors import ErrorCode
from rookery.core.metadata.image import Image, LeaderRecoveryState, Partition
from rookery.core.metadata.records import PartitionChangeRecord
from rookery.core.metadata.requests import (
    UNKNOWN_EPOCH,
    AlterPartitionReply,
    AlterPartitionRequest,
    IsrChange,
    IsrMember,
    PartitionAnswer,
)


def alter_partition(
    image: Image, request: AlterPartitionRequest, defaults: Defaults
) -> Decision[AlterPartitionReply]:
    """Each partition by itself; the sender's broker epoch has been checked."""
    electorate = Electorate(image, defaults)
    records = []
    answers = []
    seen = set()
    for wanted in request.partitions:
        key = (wanted.topic_id, wanted.partition)
        answer = check(image, request.broker_id, wanted)
        if key in seen:
            answer = ErrorCode.INVALID_REQUEST
        seen.add(key)
        if answer is ErrorCode.NONE:
            record = _change(electorate, wanted)
            records += [] if record is None else [record]
            answer = _applied(record, request.broker_id)
        answers.append(PartitionAnswer(*key, error=answer))
    return decided(records, AlterPartitionReply(tuple(answers)))


def check(image: Image, broker_id: int, wanted: IsrChange) -> ErrorCode:
    """The answer by the table above, as far as it can be given before the change."""
    partition = image.partition(wanted.topic_id, wanted.partition)
    if partition is None:
        known = wanted.topic_id in image.topics
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known else ErrorCode.UNKNOWN_TOPIC_ID
    return (
        _check_epochs(partition, broker_id, wanted)
        or _check_isr(partition, wanted)
        or _check_members(image, partition, wanted)
    )


def _check_epochs(partition: Partition, broker_id: int, wanted: IsrChange) -> ErrorCode:
    if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if wanted.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if wanted.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    return ErrorCode.NONE


def _check_isr(partition: Partition, wanted: IsrChange) -> ErrorCode:
    isr = [member.broker_id for member in wanted.new_isr]
    recovering = wanted.leader_recovery_state is LeaderRecoveryState.RECOVERING
    wrong = (
        len(set(isr)) != len(isr)
        or not set(isr) <= set(partition.replicas)
        or partition.leader not in isr
        or (recovering and len(isr) > 1)
        or (recovering and partition.leader_recovery_state is LeaderRecoveryState.RECOVERED)
    )
    return ErrorCode.INVALID_REQUEST if wrong else ErrorCode.NONE


def _check_members(image: Image, partition: Partition, wanted: IsrChange) -> ErrorCode:
    if all(_eligible(image, partition, member) for member in wanted.new_isr):
        return ErrorCode.NONE
    return ErrorCode.INELIGIBLE_REPLICA


def _eligible(image: Image, partition: Partition, member: IsrMember) -> bool:
    broker = image.brokers.get(member.broker_id)
    if broker is None or member.broker_epoch not in (UNKNOWN_EPOCH, broker.epoch):
        return False
    return image.can_serve(partition, member.broker_id)


def _change(electorate: Electorate, wanted: IsrChange) -> PartitionChangeRecord | None:
    topic = electorate.image.topics[wanted.topic_id]
    isr = tuple(member.broker_id for member in wanted.new_isr)
    return electorate.change(
        topic,
        wanted.partition,
        topic.partitions[wanted.partition],
        Wanted(isr=isr, recovery=wanted.leader_recovery_state),
    )


def _applied(record: PartitionChangeRecord | None, broker_id: int) -> ErrorCode:
    if record is None or record.leader is None or record.leader == broker_id:
        return ErrorCode.NONE
    return ErrorCode.NEW_LEADER_ELECTED
