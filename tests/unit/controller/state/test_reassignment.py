"""Replicas move: added first, removed last, and back again on request."""

import pytest

from rookery.controller.state.defaults import Defaults
from rookery.controller.state.partitions import Electorate, Wanted
from rookery.controller.state.reassignment import list_reassignments, reassign_partitions
from rookery.core.errors import ErrorCode
from rookery.core.metadata.image import Image, Partition
from rookery.core.metadata.requests import (
    ListReassignmentsRequest,
    NamedPartition,
    Reassignment,
    ReassignPartitionsRequest,
)
from tests.unit.controller.state.clusters import TOPIC, after, cluster, the_partition, with_partition

BROKERS = (1, 2, 3, 4, 5)


def led(isr: tuple[int, ...] = (1, 2, 3)) -> Image:
    return with_partition(cluster(BROKERS), Partition((1, 2, 3), isr, 1, leader_epoch=7), min_isr=2)


def reassign(image: Image, target: tuple[int, ...] | None, *, any_factor: bool = True) -> tuple[str, Image]:
    request = ReassignPartitionsRequest((Reassignment("t", 0, target),), any_factor)
    decision = reassign_partitions(image, request, Defaults())
    later = after(image, decision.records)
    return ErrorCode(decision.reply(later).partitions[0].error).name, later


@pytest.mark.invariant("P16")
def test_a_reassignment_begins_with_the_added_replicas_beside_the_old_ones() -> None:
    error, image = reassign(led(), (4, 5, 1))
    moving = the_partition(image)
    assert error == "NONE"
    assert moving.replicas == (4, 5, 1, 2, 3)
    assert (moving.adding_replicas, moving.removing_replicas) == ((4, 5), (2, 3))
    assert (moving.isr, moving.leader, moving.leader_epoch) == ((1, 2, 3), 1, 7)
    ongoing = list_reassignments(image, ListReassignmentsRequest()).partitions
    assert [(one.topic, one.partition, one.adding_replicas) for one in ongoing] == [("t", 0, (4, 5))]
    asked = ListReassignmentsRequest((NamedPartition("other", 0),), all_partitions=False)
    assert list_reassignments(image, asked).partitions == ()


def test_it_can_be_cancelled() -> None:
    _, image = reassign(led(), (4, 5, 1))
    error, back = reassign(image, None)
    assert error == "NONE"
    assert set(the_partition(back).replicas) == {1, 2, 3}
    assert not the_partition(back).reassigning
    assert the_partition(back).leader_epoch == 8  # replicas were removed
    assert reassign(back, None)[0] == "NO_REASSIGNMENT_IN_PROGRESS"


def test_it_cannot_be_cancelled_where_that_would_lose_records() -> None:
    moving = Partition((4, 1), (4,), 4, adding_replicas=(4,), removing_replicas=(1,))
    image = with_partition(cluster(BROKERS), moving, min_isr=1)
    assert reassign(image, None)[0] == "INVALID_REPLICA_ASSIGNMENT"


def test_another_target_replaces_the_one_under_way() -> None:
    _, image = reassign(led(), (4, 5, 1))
    error, image = reassign(image, (1, 2, 5))
    moving = the_partition(image)
    assert error == "NONE"
    assert (set(moving.replicas), moving.adding_replicas, moving.removing_replicas) == ({1, 2, 3, 5}, (5,), (3,))


def test_another_order_is_done_at_once() -> None:
    error, image = reassign(led(), (3, 1, 2))
    now = the_partition(image)
    assert error == "NONE"
    assert (now.replicas, now.reassigning, now.leader, now.leader_epoch) == ((3, 1, 2), False, 1, 7)


def test_a_smaller_set_in_sync_is_done_at_once() -> None:
    error, image = reassign(led(), (2, 3))
    now = the_partition(image)
    assert error == "NONE"
    assert (now.replicas, now.isr, now.leader, now.leader_epoch) == ((2, 3), (2, 3), 2, 8)


@pytest.mark.invariant("P16")
def test_replicas_are_not_removed_while_too_few_of_the_others_are_in_sync() -> None:
    error, image = reassign(led(isr=(1, 2)), (2, 3))
    now = the_partition(image)
    assert error == "NONE"
    assert (now.removing_replicas, now.isr, now.leader) == ((1,), (1, 2), 1)


@pytest.mark.parametrize(
    ("target", "error"),
    [((), "INVALID_REPLICA_ASSIGNMENT"), ((1, 1), "INVALID_REPLICA_ASSIGNMENT"), ((9,), "INVALID_REPLICA_ASSIGNMENT")],
)
def test_wrong_targets_are_refused(target: tuple[int, ...], error: str) -> None:
    assert reassign(led(), target)[0] == error


def test_the_factor_can_be_held() -> None:
    assert reassign(led(), (1, 2), any_factor=False)[0] == "INVALID_REPLICATION_FACTOR"


def test_unknown_and_repeated_partitions() -> None:
    request = ReassignPartitionsRequest(
        (Reassignment("zz", 0, (1,)), Reassignment("t", 0, (4, 5, 1)), Reassignment("t", 0, (1,)))
    )
    image = led()
    decision = reassign_partitions(image, request, Defaults())
    errors = [ErrorCode(answer.error).name for answer in decision.reply(image).partitions]
    assert errors == ["UNKNOWN_TOPIC_OR_PARTITION", "NONE", "INVALID_REQUEST"]


@pytest.mark.invariant("P16")
@pytest.mark.parametrize(("isr", "elr"), [((5,), ()), ((), (5,))])
def test_another_target_keeps_what_the_first_one_has_brought_in_sync(
    isr: tuple[int, ...], elr: tuple[int, ...]
) -> None:
    leader = isr[0] if isr else -1
    moving = Partition((5, 4, 1, 2), isr, leader, elr=elr, adding_replicas=(5, 4), removing_replicas=(1, 2))
    fenced = () if isr else (5,)
    image = with_partition(cluster(BROKERS, fenced=fenced), moving, min_isr=1)
    error, later = reassign(image, (3, 1), any_factor=False)
    found = the_partition(later)
    assert error == "NONE"
    assert (found.isr, found.elr, found.leader) == (isr, elr, leader)
    assert found.replicas == (3, 1, 5, 2), "4 has nothing yet, so it goes at once"
    assert (found.adding_replicas, found.removing_replicas) == ((3,), (5, 2))


def test_it_ends_when_the_last_target_is_in_sync() -> None:
    moving = Partition((5, 1), (5, 1), 1, adding_replicas=(5,), removing_replicas=(1,))
    image = with_partition(cluster(BROKERS), moving, min_isr=1)
    # 5 came in sync with the request that named another target
    _, image = reassign(image, (3,))
    joined = Wanted(isr=(1, 3, 5))
    change = Electorate(image, Defaults()).change(image.topics[TOPIC], 0, the_partition(image), joined)
    assert change is not None
    found = the_partition(after(image, [change]))
    assert (found.replicas, found.isr, found.leader, found.reassigning) == ((3,), (3,), 3, False)


def test_a_target_with_another_factor_is_the_factor_from_then_on() -> None:
    moving = Partition((4, 5, 1), (1,), 1, adding_replicas=(4, 5), removing_replicas=(1,))
    image = with_partition(cluster(BROKERS), moving)
    assert reassign(image, (2, 3), any_factor=False)[0] == "NONE"
    assert reassign(image, (2,), any_factor=False)[0] == "INVALID_REPLICATION_FACTOR"
