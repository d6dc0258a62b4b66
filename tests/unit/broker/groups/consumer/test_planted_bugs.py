"""Bugs planted into groups of the consumer protocol are noticed by the histories. The examples are the same in every
run."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from rookery.broker.groups.consumer import group as groups
from rookery.broker.groups.consumer import member as steps
from rookery.broker.groups.consumer.group import ConsumerGroup
from rookery.broker.groups.consumer.member import (
    Current,
    Member,
    MemberState,
    TopicIdPartition,
    TopicIdPartitions,
)
from rookery.broker.groups.consumer.stored import Draft, Stored
from tests.unit.broker.groups.consumer.test_consumer_histories import ConsumerHistories

reconcile = steps.reconcile
IsFree = Callable[[TopicIdPartition], bool]


def does_not_wait_for_others(
    current: Current, epoch: int, target: TopicIdPartitions, owned: TopicIdPartitions | None, is_free: IsFree
) -> Current:
    return reconcile(current, epoch, target, owned, lambda place: True)


def takes_silence_for_letting_go(
    current: Current, epoch: int, target: TopicIdPartitions, owned: TopicIdPartitions | None, is_free: IsFree
) -> Current:
    return reconcile(current, epoch, target, frozenset() if owned is None else owned, is_free)


def forgets_what_is_to_be_given_up(
    current: Current, epoch: int, target: TopicIdPartitions, owned: TopicIdPartitions | None, is_free: IsFree
) -> Current:
    moved = reconcile(current, epoch, target, owned, is_free)
    return Current(moved.epoch, moved.previous_epoch, moved.state, moved.assigned)


def stays_unreleased(
    current: Current, epoch: int, target: TopicIdPartitions, owned: TopicIdPartitions | None, is_free: IsFree
) -> Current:
    if current.state is MemberState.UNRELEASED_PARTITIONS and current.epoch == epoch:
        return current
    return reconcile(current, epoch, target, owned, is_free)


def never_looks_at_topics(self: ConsumerGroup, names: object) -> None:
    """A topic that grows is not noticed."""


def commits_in_any_epoch(self: ConsumerGroup, member: Member, said: int, transactional: bool, places: Any) -> None:
    """Whoever is a member may commit."""


def keeps_the_owner(self: Stored, id: str, held: object) -> None:
    """A partition that was given up still has its owner."""


def leaves_the_epoch(self: Draft, epoch: int, metadata_hash: int) -> None:
    """A change of the group is not told to its members."""



PLANTED: list[tuple[object, str, object]] = [
    (groups, "reconcile", does_not_wait_for_others),
    (groups, "reconcile", takes_silence_for_letting_go),
    (groups, "reconcile", forgets_what_is_to_be_given_up),
    (groups, "reconcile", stays_unreleased),
    (ConsumerGroup, "topics_changed", never_looks_at_topics),
    (ConsumerGroup, "_check_epoch", commits_in_any_epoch),
    (Stored, "_disown", keeps_the_owner),
    (Draft, "set_epoch", leaves_the_epoch),
]


@pytest.mark.invariant("G7", "G12", "G15", "G16")
@pytest.mark.parametrize(("where", "name", "planted"), PLANTED, ids=lambda value: getattr(value, "__name__", None))
def test_a_planted_bug_is_noticed(
    where: object, name: str, planted: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, name, planted)
    same = settings(max_examples=800, stateful_step_count=40, derandomize=True, database=None)
    many = settings(same, deadline=None, phases=[Phase.generate])
    with pytest.raises((AssertionError, KeyError)):
        run_state_machine_as_test(ConsumerHistories, settings=many)
