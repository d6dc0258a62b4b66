"""Brokers tell in which directory they keep a replica."""

from uuid import UUID

import pytest

from rookery.controller.state.defaults import Defaults
from rookery.controller.state.directories import assign_replicas_to_dirs
from rookery.core.errors import ErrorCode
from rookery.core.metadata.image import Image, Partition
from rookery.core.metadata.requests import AssignReplicasToDirsRequest, DirectoryAssignment
from tests.unit.controller.state.clusters import (
    TOPIC,
    after,
    cluster,
    directory,
    the_partition,
    with_partition,
)


def assign(image: Image, broker: int, *assignments: DirectoryAssignment) -> tuple[list[str], Image]:
    request = AssignReplicasToDirsRequest(broker, image.brokers[broker].epoch, assignments)
    decision = assign_replicas_to_dirs(image, request, Defaults())
    later = after(image, decision.records)
    return [ErrorCode(answer.error).name for answer in decision.reply(later).partitions], later


def test_an_assignment_is_noted_and_costs_nothing_else() -> None:
    image = with_partition(cluster(), Partition((1, 2, 3), (1, 2, 3), 1))
    errors, later = assign(image, 2, DirectoryAssignment(TOPIC, 0, directory(2)))
    assert errors == ["NONE"]
    partition = the_partition(later)
    assert partition.directory(2) == directory(2)
    assert partition.directory(1) == UUID(int=0)
    assert (partition.isr, partition.leader, partition.leader_epoch) == ((1, 2, 3), 1, 0)
    _, same = assign(later, 2, DirectoryAssignment(TOPIC, 0, directory(2)))
    assert same.offset == later.offset


@pytest.mark.invariant("P17")
def test_a_replica_in_a_directory_that_is_not_online_is_out_of_sync() -> None:
    image = with_partition(cluster(), Partition((1, 2, 3), (1, 2, 3), 1), min_isr=3)
    _, later = assign(image, 1, DirectoryAssignment(TOPIC, 0, UUID(int=4711)))
    partition = the_partition(later)
    assert (partition.leader, partition.isr, partition.elr) == (2, (2, 3), ())


def test_what_is_not_there_is_reported() -> None:
    image = with_partition(cluster((1, 2, 3, 4)), Partition((1, 2, 3), (1, 2, 3), 1))
    asked = (
        DirectoryAssignment(UUID(int=4), 0, directory(4)),
        DirectoryAssignment(TOPIC, 9, directory(4)),
        DirectoryAssignment(TOPIC, 0, directory(4)),
    )
    errors, later = assign(image, 4, *asked)
    assert errors == ["UNKNOWN_TOPIC_ID", "UNKNOWN_TOPIC_OR_PARTITION", "NOT_LEADER_OR_FOLLOWER"]
    assert later.topics == image.topics
