"""Elections on request and the balance of leaders."""

import pytest

from rookery.controller.state.defaults import Defaults
from rookery.controller.state.elect_leaders import elect_leaders, rebalance
from rookery.core.errors import ErrorCode
from rookery.core.metadata.image import Image, LeaderRecoveryState, Partition
from rookery.core.metadata.requests import ElectionType, ElectLeadersRequest, NamedPartition
from tests.unit.controller.state.clusters import after, cluster, the_partition, with_partition

PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


def elect(image: Image, kind: ElectionType, *, all_: bool = False) -> tuple[list[str], Image]:
    named = () if all_ else (NamedPartition("t", 0),)
    decision = elect_leaders(image, ElectLeadersRequest(kind, named, all_), Defaults())
    later = after(image, decision.records)
    return [ErrorCode(answer.error).name for answer in decision.reply(later).partitions], later


@pytest.mark.row(70)
def test_leadership_returns_to_the_preferred_replica() -> None:
    image = with_partition(cluster(), Partition((1, 2, 3), (2, 1), 2, leader_epoch=3))
    errors, later = elect(image, PREFERRED)
    assert errors == ["NONE"]
    assert (the_partition(later).leader, the_partition(later).leader_epoch) == (1, 4)
    assert elect(later, PREFERRED)[0] == ["ELECTION_NOT_NEEDED"]
    assert elect(later, PREFERRED, all_=True)[0] == []


@pytest.mark.row(70)
def test_a_preferred_replica_out_of_sync_is_not_elected() -> None:
    image = with_partition(cluster(), Partition((1, 2, 3), (2, 3), 2))
    errors, later = elect(image, PREFERRED)
    assert errors == ["PREFERRED_LEADER_NOT_AVAILABLE"]
    assert later.topics == image.topics


@pytest.mark.row(66)
def test_an_unclean_election_is_for_partitions_without_a_leader() -> None:
    image = with_partition(cluster(fenced=(1,)), Partition((1, 2, 3), (), -1, elr=(1,)), min_isr=2)
    errors, later = elect(image, UNCLEAN)
    assert errors == ["NONE"]
    assert (the_partition(later).leader, the_partition(later).isr) == (2, (2,))
    assert the_partition(later).leader_recovery_state is LeaderRecoveryState.RECOVERING
    assert elect(later, UNCLEAN)[0] == ["ELECTION_NOT_NEEDED"]
    nobody = with_partition(cluster(fenced=(1, 2, 3)), Partition((1, 2, 3), (), -1, elr=(1,)), min_isr=2)
    assert elect(nobody, UNCLEAN)[0] == ["ELIGIBLE_LEADERS_NOT_AVAILABLE"]


def test_an_unknown_partition_is_reported() -> None:
    assert elect(cluster(), PREFERRED)[0] == ["UNKNOWN_TOPIC_OR_PARTITION"]


@pytest.mark.row(70)
def test_rebalancing_moves_what_can_be_moved_and_no_more_than_it_may() -> None:
    image = with_partition(cluster(), Partition((1, 2, 3), (2, 1), 2))
    assert rebalance(image, Defaults(), records_max=0) == []
    later = after(image, rebalance(image, Defaults(), records_max=5))
    assert the_partition(later).leader == 1
    assert rebalance(later, Defaults(), records_max=5) == []
    out = with_partition(cluster(), Partition((1, 2, 3), (2, 3), 2))
    assert rebalance(out, Defaults(), records_max=5) == []
