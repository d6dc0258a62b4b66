"""Which epochs of a query are in the topic already: the decisions of an exactly-once sink, without I/O.

An epoch is a micro-batch. Each task of it writes its rows and a marker in one transaction, under a transactional id
that every attempt of the task shares. The driver records the plan of the epoch, how many partitions and rows it has,
before it commits the first of these transactions. Markers and plan are committed offsets of groups without members: the
offset is the epoch, the metadata how much it has.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rookery.client.types import OffsetAndMetadata

PREFIX = "rookery-spark-"
_SAME_ROWS = (
    "Run the epoch with the earlier number of partitions (minPartitions, maxRecordsPerPartition, repartition, "
    "spark.sql.shuffle.partitions) and the same rows; change them after it is done"
)


class ExactlyOnceError(Exception):
    """Rows could be written twice or be missing if the query went on."""


@dataclass(frozen=True, slots=True)
class Task:
    """One attempt to write one partition of one epoch."""

    query: str
    epoch: int
    partition: int
    attempt: int = 0

    @property
    def name(self) -> str:
        """The transactional id, and the group of the marker."""
        return f"{query_name(self.query)}-{self.partition}"

    def __str__(self) -> str:
        return f"epoch {self.epoch}, partition {self.partition} (attempt {self.attempt}) of query {self.query}"


def query_name(query: str) -> str:
    """The transactional id of the query's driver, and the group of the plan."""
    return PREFIX + query


def task_from(query: str | None, epoch: str | None, partition: int, attempt: int) -> Task:
    """A task as Spark's task context describes it."""
    if not query or epoch is None or not epoch.isdecimal():
        raise ExactlyOnceError(
            f"Spark names no query and epoch for this task (query {query!r}, epoch {epoch!r}): "
            "exactly_once works in streaming queries, with a Spark version that it is tested with"
        )
    return Task(query, int(epoch), partition, attempt)


def marker_of(task: Task, rows: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(task.epoch, str(rows))


def is_written(task: Task, marker: OffsetAndMetadata | None) -> bool:
    """Whether an earlier attempt committed the rows of this task."""
    if marker is None or marker.offset < task.epoch:
        return False
    if marker.offset > task.epoch:
        raise _late(task.query, task.epoch, marker.offset)
    return True


def check_repeats(task: Task, marker: OffsetAndMetadata, rows: int) -> None:
    """The rows of a replayed task must be those that are committed: at least their number is compared."""
    if marker != marker_of(task, rows):
        raise ExactlyOnceError(
            f"{task}: has {rows} rows now and had {marker.metadata} when they were committed, so others would be "
            f"written twice or be missing. {_SAME_ROWS}"
        )


def plan_of(epoch: int, partitions: int, rows: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(epoch, f"{partitions} partitions and {rows} rows")


def is_planned(query: str, epoch: int, partitions: int, rows: int, plan: OffsetAndMetadata | None) -> bool:
    """Whether an earlier attempt at the epoch recorded its plan, which this attempt must have, too."""
    if plan is None or plan.offset < epoch:
        return False
    if plan.offset > epoch:
        raise _late(query, epoch, plan.offset)
    now = plan_of(epoch, partitions, rows)
    if plan != now:
        raise ExactlyOnceError(
            f"epoch {epoch} of query {query} has {now.metadata} now and had {plan.metadata} when it was first written: "
            f"rows would be written twice or be missing. {_SAME_ROWS}"
        )
    return True


def query_of(tasks: Sequence[Task], epoch: int, partitions: int) -> str:
    """The query whose epoch these tasks are. They must be all of its tasks, each once."""
    queries = {task.query for task in tasks}
    found = sorted(task.partition for task in tasks)
    if len(queries) != 1 or {task.epoch for task in tasks} != {epoch} or found != list(range(partitions)):
        reported = "; ".join(map(str, tasks)) or "none"
        raise ExactlyOnceError(f"epoch {epoch} has {partitions} tasks, one for each partition; reported: {reported}")
    return queries.pop()


def fenced(what: object, cause: Exception) -> ExactlyOnceError:
    """Another attempt has the transactional id."""
    return ExactlyOnceError(
        f"{what}: a newer attempt took over, or the transaction was open for longer than "
        f"kafka.transaction.timeout.ms ({cause}). Nothing is written twice. Run one driver for a checkpoint, with "
        "spark.speculation off"
    )


def _late(query: str, epoch: int, newest: int) -> ExactlyOnceError:
    return ExactlyOnceError(
        f"query {query} has written epoch {newest}, and this is epoch {epoch}: a driver that was replaced, or a "
        "checkpoint that was set back. Start with a new checkpoint if its rows are to be written again"
    )
