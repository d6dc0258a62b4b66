"""Partitions that stand still are told of once, and again when they go on."""

from collections.abc import Callable

import pytest

from rookery.client.consumer.partition import Partition
from rookery.client.consumer.stalls import Stalls, doing
from rookery.core.errors import UnknownServerError
from rookery.core.types import TopicPartition

PLACE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def world() -> tuple[dict[TopicPartition, Partition], Stalls]:
    partitions = {place: Partition(place) for place in (PLACE, OTHER)}
    for each in partitions.values():
        each.seek(5)
    stalls = Stalls(30.0)
    assert stalls.look(partitions, 100.0) == ([], [])
    return partitions, stalls


def test_a_partition_without_answers_is_told_of_once() -> None:
    partitions, stalls = world()
    for now in range(101, 131):
        stalls.nothing_new(partitions[OTHER], float(now))
        assert stalls.look(partitions, float(now)) == ([], [])
    assert stalls.look(partitions, 130.5) == ([PLACE], [])
    assert stalls.since == {PLACE: 100.0}
    assert stalls.look(partitions, 131.0) == ([], [])
    partitions[PLACE].fetch_offset = 9
    assert stalls.look(partitions, 132.0) == ([], [PLACE])
    assert stalls.since == {}


def test_records_that_nobody_brings_although_they_are_there() -> None:
    """Answers alone do not count: the position has to move, or to be at the end."""
    partitions, stalls = world()
    partitions[PLACE].high_watermark = 9
    assert stalls.look(partitions, 131.0)[0] == [PLACE, OTHER]
    stalls.nothing_new(partitions[OTHER], 132.0)
    assert stalls.look(partitions, 132.0) == ([], [OTHER])


def _pause(partition: Partition) -> None:
    partition.paused = True


def _stop(partition: Partition) -> None:
    partition.problem = UnknownServerError("broken")


def _seek(partition: Partition) -> None:
    partition.seek(5)


@pytest.mark.parametrize("change", [_pause, _stop, _seek])
def test_what_is_not_wanted_or_was_told_already_is_no_stall(change: Callable[[Partition], None]) -> None:
    partitions, stalls = world()
    change(partitions[PLACE])
    assert stalls.look(partitions, 131.0)[0] == [OTHER]


def test_partitions_that_went_are_forgotten() -> None:
    partitions, stalls = world()
    assert stalls.look(partitions, 131.0)[0] == [PLACE, OTHER]
    del partitions[PLACE]
    assert stalls.look(partitions, 132.0) == ([], [PLACE])


def test_what_it_waits_for_is_said() -> None:
    partition = Partition(PLACE)
    assert doing(partition, has_leader=True) == "looks up the group's committed offset"
    assert doing(partition, has_leader=False) == "waits for a leader"
    partition.seek(1)
    assert doing(partition, has_leader=True) == "fetches"
