"""Which epochs are written already, and what cannot go on without doubling rows."""

import pytest

from rookery.client.spark.epochs import (
    ExactlyOnceError,
    Task,
    check_repeats,
    is_planned,
    is_written,
    marker_of,
    plan_of,
    query_name,
    query_of,
    task_from,
)

pytestmark = pytest.mark.row(173)


def test_every_attempt_at_a_partition_has_one_transactional_id() -> None:
    """So that the newest fences the others; partitions, queries and the driver have others."""
    first = Task("q", 3, 0, attempt=0)
    assert first.name == Task("q", 3, 0, attempt=2).name == Task("q", 4, 0).name
    assert len({first.name, Task("q", 3, 1).name, Task("r", 3, 0).name, query_name("q")}) == 4


@pytest.mark.parametrize(("newest", "written"), [(None, False), (4, False), (5, True)])
def test_a_replayed_epoch_is_recognised_by_its_marker(newest: int | None, written: bool) -> None:
    marker = None if newest is None else marker_of(Task("q", newest, 1), 10)
    assert is_written(Task("q", 5, 1, attempt=7), marker) is written


def test_an_epoch_before_the_newest_is_refused() -> None:
    """A checkpoint that was set back would skip new rows as if they were the old ones."""
    with pytest.raises(ExactlyOnceError, match="has written epoch 6, and this is epoch 5"):
        is_written(Task("q", 5, 0), marker_of(Task("q", 6, 0), 10))
    with pytest.raises(ExactlyOnceError, match="has written epoch 6, and this is epoch 5"):
        is_planned("q", 5, 2, 10, plan_of(6, 2, 10))


def test_a_plan_is_recorded_once_and_kept() -> None:
    assert not is_planned("q", 5, 2, 10, None)
    assert not is_planned("q", 5, 3, 20, plan_of(4, 2, 10)), "another epoch may have another number"
    assert is_planned("q", 5, 2, 10, plan_of(5, 2, 10))


@pytest.mark.parametrize("now", [1, 3])
def test_a_changed_number_of_partitions_is_refused(now: int) -> None:
    with pytest.raises(ExactlyOnceError, match=f"has {now} partitions and 10 rows now and had 2 partitions"):
        is_planned("q", 5, now, 10, plan_of(5, 2, 10))


def test_other_rows_than_before_are_refused() -> None:
    """Where rows moved between partitions, or a filter is not the same twice, the numbers differ."""
    with pytest.raises(ExactlyOnceError, match="2 partitions and 9 rows now and had 2 partitions and 10 rows"):
        is_planned("q", 5, 2, 9, plan_of(5, 2, 10))
    task = Task("q", 5, 1, attempt=3)
    check_repeats(task, marker_of(task, 4), 4)
    with pytest.raises(ExactlyOnceError, match="has 5 rows now and had 4 when they were committed"):
        check_repeats(task, marker_of(task, 4), 5)


def test_all_tasks_of_an_epoch_are_committed_together() -> None:
    whole = [Task("q", 5, 1), Task("q", 5, 0, attempt=1)]
    assert query_of(whole, 5, 2) == "q"
    wrong: list[tuple[list[Task], int]] = [
        (whole, 3),
        (whole[:1], 1),
        ([], 1),
        ([Task("q", 5, 0), Task("q", 5, 0, attempt=1)], 2),
        ([Task("q", 5, 0), Task("q", 4, 1)], 2),
        ([Task("q", 5, 0), Task("r", 5, 1)], 2),
    ]
    for tasks, partitions in wrong:
        with pytest.raises(ExactlyOnceError, match="one for each partition"):
            query_of(tasks, 5, partitions)


def test_a_task_of_which_spark_says_too_little_is_refused() -> None:
    assert task_from("q", "12", 3, 1) == Task("q", 12, 3, 1)
    for query, epoch in ((None, "1"), ("", "1"), ("q", None), ("q", "-1"), ("q", "x")):
        with pytest.raises(ExactlyOnceError, match="names no query and epoch"):
            task_from(query, epoch, 0, 0)
