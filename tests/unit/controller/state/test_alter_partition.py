"""AlterPartition: every line of its table of answers, and an oracle for the order of the checks."""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.controller.state.alter_partition import alter_partition
from rookery.controller.state.defaults import Defaults
from rookery.core.errors import ErrorCode
from rookery.core.metadata.image import Image, LeaderRecoveryState, Partition
from rookery.core.metadata.requests import AlterPartitionRequest, IsrChange, IsrMember
from tests.unit.controller.state.clusters import (
    TOPIC,
    after,
    cluster,
    directory,
    the_partition,
    with_partition,
)

RECOVERING = LeaderRecoveryState.RECOVERING
LED_BY_1 = Partition((1, 2, 3), (1, 2), 1, leader_epoch=5, partition_epoch=10)


def members(*brokers: int) -> tuple[IsrMember, ...]:
    return tuple(IsrMember(broker) for broker in brokers)


def image_of(partition: Partition = LED_BY_1, **state: object) -> Image:
    return with_partition(cluster((1, 2, 3, 4), **state), partition, min_isr=2)  # type: ignore[arg-type]


def ask(image: Image, change: IsrChange, broker: int = 1) -> tuple[ErrorCode, Image]:
    request = AlterPartitionRequest(broker, image.brokers[broker].epoch, (change,))
    decision = alter_partition(image, request, Defaults())
    later = after(image, decision.records)
    return ErrorCode(decision.reply(later).partitions[0].error), later


GOOD = IsrChange(TOPIC, 0, leader_epoch=5, partition_epoch=10, new_isr=members(1, 2, 3))


@pytest.mark.invariant("M6")
@pytest.mark.parametrize(
    ("change", "answer"),
    [
        (GOOD, "NONE"),
        (replace(GOOD, topic_id=UUID(int=9)), "UNKNOWN_TOPIC_ID"),
        (replace(GOOD, partition=7), "UNKNOWN_TOPIC_OR_PARTITION"),
        (replace(GOOD, leader_epoch=6), "NOT_CONTROLLER"),
        (replace(GOOD, partition_epoch=11), "NOT_CONTROLLER"),
        (replace(GOOD, leader_epoch=4), "FENCED_LEADER_EPOCH"),
        (replace(GOOD, partition_epoch=9), "INVALID_UPDATE_VERSION"),
        (replace(GOOD, new_isr=members(1, 4)), "INVALID_REQUEST"),
        (replace(GOOD, new_isr=members(2, 3)), "INVALID_REQUEST"),
        (replace(GOOD, new_isr=members(1, 1)), "INVALID_REQUEST"),
        (replace(GOOD, new_isr=members()), "INVALID_REQUEST"),
        (replace(GOOD, leader_recovery_state=RECOVERING), "INVALID_REQUEST"),
        (replace(GOOD, new_isr=members(1), leader_recovery_state=RECOVERING), "INVALID_REQUEST"),
        (replace(GOOD, new_isr=(IsrMember(1), IsrMember(3, 999))), "INELIGIBLE_REPLICA"),
    ],
)
def test_the_table_of_answers(change: IsrChange, answer: str) -> None:
    image = image_of()
    found, later = ask(image, change)
    assert found.name == answer
    if answer == "NONE":
        assert the_partition(later).isr == (1, 2, 3)
        assert the_partition(later).partition_epoch == 11
        assert the_partition(later).leader_epoch == 5
    else:
        assert later.topics == image.topics


@pytest.mark.invariant("M6")
def test_only_the_leader_may_ask() -> None:
    image = image_of()
    assert ask(image, GOOD, broker=2)[0] is ErrorCode.INVALID_REQUEST
    assert ask(image, replace(GOOD, leader_epoch=4), broker=2)[0] is ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.invariant("M5", "M6")
@pytest.mark.parametrize("state", [{"fenced": (3,)}, {"stopping": (3,)}])
def test_a_broker_out_of_service_cannot_join(state: dict[str, object]) -> None:
    assert ask(image_of(LED_BY_1, **state), GOOD)[0] is ErrorCode.INELIGIBLE_REPLICA


@pytest.mark.invariant("M5")
def test_the_epoch_a_member_fetched_with_must_be_its_own() -> None:
    image = image_of()
    mine = replace(GOOD, new_isr=(IsrMember(1), IsrMember(3, image.brokers[3].epoch)))
    assert ask(image, mine)[0] is ErrorCode.NONE


@pytest.mark.invariant("P17")
def test_a_replica_whose_directory_failed_cannot_join() -> None:
    lost = LED_BY_1._replace(directories=(directory(1), directory(2), UUID(int=4711)))
    assert ask(image_of(lost), GOOD)[0] is ErrorCode.INELIGIBLE_REPLICA


@pytest.mark.invariant("M6")
def test_the_leader_that_is_reassigned_away_learns_that_another_was_elected() -> None:
    moving = Partition(
        (2, 3, 1), (1, 2), 1, leader_epoch=5, partition_epoch=10, adding_replicas=(3,), removing_replicas=(1,)
    )
    answer, later = ask(image_of(moving), GOOD)
    assert answer is ErrorCode.NEW_LEADER_ELECTED
    assert (the_partition(later).leader, the_partition(later).isr) == (2, (2, 3))


@pytest.mark.invariant("M6")
def test_a_leader_reports_when_it_has_recovered() -> None:
    elected = LED_BY_1._replace(isr=(1,), leader_recovery_state=RECOVERING)
    both = replace(GOOD, new_isr=members(1, 2), leader_recovery_state=RECOVERING)
    assert ask(image_of(elected), both)[0] is ErrorCode.INVALID_REQUEST
    answer, later = ask(image_of(elected), replace(GOOD, new_isr=members(1)))
    assert answer is ErrorCode.NONE
    assert the_partition(later).leader_recovery_state is LeaderRecoveryState.RECOVERED


def test_the_same_request_again_is_refused_by_its_epoch() -> None:
    _, later = ask(image_of(), GOOD)
    answer, unchanged = ask(later, GOOD)
    assert answer is ErrorCode.INVALID_UPDATE_VERSION
    assert unchanged.topics == later.topics


def test_a_partition_named_twice_is_changed_once() -> None:
    image = image_of()
    request = AlterPartitionRequest(1, image.brokers[1].epoch, (GOOD, replace(GOOD, new_isr=members(1))))
    decision = alter_partition(image, request, Defaults())
    assert [answer.error for answer in decision.reply(image).partitions] == [0, ErrorCode.INVALID_REQUEST]
    assert len(decision.records) == 1


def _of_another_life(image: Image, member: IsrMember) -> bool:
    return member.broker_epoch not in (-1, image.brokers[member.broker_id].epoch)


def oracle(image: Image, broker: int, change: IsrChange) -> str:
    """The table, line by line."""
    p = image.partition(change.topic_id, change.partition)
    if p is None:
        return "UNKNOWN_TOPIC_OR_PARTITION" if change.topic_id in image.topics else "UNKNOWN_TOPIC_ID"
    isr = [member.broker_id for member in change.new_isr]
    lines = [
        (change.leader_epoch > p.leader_epoch, "NOT_CONTROLLER"),
        (change.partition_epoch > p.partition_epoch, "NOT_CONTROLLER"),
        (change.leader_epoch < p.leader_epoch, "FENCED_LEADER_EPOCH"),
        (broker != p.leader, "INVALID_REQUEST"),
        (change.partition_epoch < p.partition_epoch, "INVALID_UPDATE_VERSION"),
        (len(set(isr)) < len(isr) or not set(isr) <= set(p.replicas) or p.leader not in isr, "INVALID_REQUEST"),
        (change.leader_recovery_state is RECOVERING and len(isr) > 1, "INVALID_REQUEST"),
        (p.leader_recovery_state < change.leader_recovery_state, "INVALID_REQUEST"),
        (not all(image.active(member) for member in isr), "INELIGIBLE_REPLICA"),
        (any(_of_another_life(image, member) for member in change.new_isr), "INELIGIBLE_REPLICA"),
    ]
    return next((answer for holds, answer in lines if holds), "NONE")


@pytest.mark.invariant("M6")
@settings(deadline=None, max_examples=400)
@given(
    change=st.builds(
        IsrChange,
        st.sampled_from((TOPIC, TOPIC, TOPIC, UUID(int=9))),
        st.sampled_from((0, 0, 0, 1)),
        st.sampled_from((4, 5, 5, 5, 6)),
        st.sampled_from((9, 10, 10, 10, 11)),
        st.lists(
            st.builds(IsrMember, st.sampled_from((1, 1, 2, 3, 4)), st.sampled_from((-1, -1, -1, 3, 4))), max_size=3
        ).map(tuple),
        st.sampled_from(LeaderRecoveryState),
    ),
    broker=st.sampled_from((1, 1, 1, 2)),
    out=st.sets(st.sampled_from((2, 3))),
)
def test_answers_agree_with_the_oracle(change: IsrChange, broker: int, out: set[int]) -> None:
    image = image_of(fenced=out)
    found, later = ask(image, change, broker)
    assert found.name == oracle(image, broker, change)
    assert the_partition(later).partition_epoch - 10 == (found is ErrorCode.NONE and later.offset > image.offset)
