"""The sink with `exactly_once` on a cluster in this process: attempts beside each other, answers that get lost, drivers
that die between two commits. `read_committed` must have each row once."""

import itertools
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest

from rookery.client.spark import exactly_once
from rookery.client.spark.blocking import close_all
from rookery.client.spark.epochs import ExactlyOnceError, Task
from rookery.client.spark.exactly_once import Written, abort_epoch, commit_epoch, write_epoch
from rookery.client.spark.options import SinkOptions, sink_options
from rookery.core.errors import MessageTooLargeError, UnknownTopicOrPartitionError
from rookery.testing import Cluster

pytestmark = [pytest.mark.row(173), pytest.mark.timeout(120)]
COLUMNS = [("value", "string"), ("partition", "int")]
_topics = itertools.count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as running:
        yield running
    close_all()


class Sink:
    """A topic of its own, and a query that writes to it."""

    def __init__(self, cluster: Cluster, **config: str) -> None:
        self._cluster = cluster
        self.topic = f"sink-{next(_topics)}"
        cluster.create_topic(self.topic, 2, 3, config)
        given = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": self.topic, "exactly_once": "true"}
        self.options: SinkOptions = sink_options(given, COLUMNS, streaming=True)

    def task(self, partition: int, epoch: int = 0, attempt: int = 0) -> Task:
        return Task(f"query-of-{self.topic}", epoch, partition, attempt)

    def write(self, partition: int, *values: str, epoch: int = 0) -> Written:
        return write_epoch(self.options, self.task(partition, epoch), [rows(*values)])

    def commit(self, *written: Written, epoch: int = 0) -> None:
        commit_epoch(self.options, written, epoch, len(written))

    def abort(self, *written: Written) -> None:
        abort_epoch(self.options, written)

    def committed(self) -> list[str]:
        return self._values(read_committed=True)

    def stored(self) -> list[str]:
        return self._values(read_committed=False)

    def _values(self, *, read_committed: bool) -> list[str]:
        found = self._cluster.records(self.topic, read_committed=read_committed)
        return sorted((each.value or b"").decode() for each in found)

    def settled(self, *values: str) -> bool:
        """Whether a reader sees just these, also of what is written last: markers arrive after the answer."""
        self._cluster.wait_for(lambda: self.committed() == sorted(values), f"{values} in {self.topic}")
        return self.committed() == sorted(values)


def rows(*values: str, partition: int | None = None) -> pa.RecordBatch:
    where = pa.array([partition] * len(values), pa.int32())
    return pa.RecordBatch.from_arrays([pa.array(values, pa.string()), where], names=["value", "partition"])


@pytest.fixture
def sink(cluster: Cluster) -> Sink:
    return Sink(cluster)


def test_rows_are_seen_when_the_driver_commits_and_not_before(sink: Sink) -> None:
    written = [sink.write(0, "a", "b"), sink.write(1, "c")]
    assert (sink.committed(), sink.stored()) == ([], ["a", "b", "c"])
    sink.commit(*written)
    assert sink.settled("a", "b", "c")


def test_a_second_attempt_beside_the_first_fences_it(sink: Sink) -> None:
    """As speculation starts it: the first is in the midst of its rows."""
    newer: list[Written] = []

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield rows("a")
        newer.append(write_epoch(sink.options, sink.task(0, attempt=1), [rows("a", "b")]))
        yield rows("b")

    with pytest.raises(ExactlyOnceError, match=r"attempt 0.*a newer attempt took over"):
        write_epoch(sink.options, sink.task(0), overtaken())
    sink.commit(*newer)
    assert sink.settled("a", "b")


def test_a_second_attempt_after_the_first_fails_the_epoch_and_doubles_nothing(sink: Sink) -> None:
    """Spark takes the result of the first, and the second has aborted what the first wrote."""
    first = sink.write(0, "a")
    second = sink.write(0, "a")
    with pytest.raises(ExactlyOnceError, match="a newer attempt took over"):
        sink.commit(first)
    sink.abort(first)
    assert sink.committed() == []
    sink.commit(second)
    assert sink.settled("a")


@pytest.mark.parametrize("api", ["InitProducerId", "Produce", "TxnOffsetCommit", "OffsetFetch", "EndTxn"])
def test_an_answer_that_is_lost_changes_nothing(cluster: Cluster, sink: Sink, api: str) -> None:
    for epoch in range(2):
        fault = cluster.drop_answers(api, times=2)
        written = [sink.write(0, f"a{epoch}", epoch=epoch), sink.write(1, f"b{epoch}", epoch=epoch)]
        sink.commit(*written, epoch=epoch)
        fault.undo()
    assert sink.settled("a0", "b0", "a1", "b1")


def test_a_driver_that_dies_between_two_commits_is_continued(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    written = [sink.write(0, "a"), sink.write(1, "b")]

    async def only_the_first(options: SinkOptions, every: Sequence[Written], *, commit: bool, limit_s: float) -> None:
        await ending(options, every[:1], commit=commit, limit_s=limit_s)

    ending = exactly_once._end_all
    with monkeypatch.context() as patched:
        patched.setattr(exactly_once, "_end_all", only_the_first)
        sink.commit(*written)
    assert sink.settled("a"), "atomic per task, not per epoch"
    again = [sink.write(0, "a"), sink.write(1, "b")]
    assert [each.transaction is None for each in again] == [True, False]
    with pytest.raises(ExactlyOnceError, match="a newer attempt took over"):
        sink.commit(*written)
    sink.commit(*again)
    assert sink.settled("a", "b")


def test_rows_that_moved_between_partitions_are_refused(sink: Sink) -> None:
    """The number of partitions is the same, and what they have is not."""
    sink.commit(sink.write(0, "a"), sink.write(1, "b", "c"))
    with pytest.raises(ExactlyOnceError, match="has 2 rows now and had 1 when they were committed"):
        sink.write(0, "a", "b")
    assert sink.settled("a", "b", "c")


def test_an_epoch_with_other_rows_than_planned_is_refused(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver died after its plan and before its first commit."""

    async def nothing(*_: object, **__: object) -> None: ...

    with monkeypatch.context() as patched:
        patched.setattr(exactly_once, "_end_all", nothing)
        sink.commit(sink.write(0, "a"), sink.write(1, "b"))
    fewer = [sink.write(0, "a"), sink.write(1)]
    with pytest.raises(ExactlyOnceError, match="has 2 partitions and 1 rows now and had 2 partitions and 2 rows"):
        sink.commit(*fewer)
    alone = sink.write(0, "a", "b")
    with pytest.raises(ExactlyOnceError, match="has 1 partitions and 2 rows now and had 2 partitions and 2 rows"):
        sink.commit(alone)
    assert sink.committed() == []
    sink.commit(sink.write(0, "a"), sink.write(1, "b"))
    assert sink.settled("a", "b")


def test_a_task_that_fails_leaves_nothing_open(sink: Sink) -> None:
    """Readers would wait for the end of its transaction."""
    with pytest.raises(UnknownTopicOrPartitionError, match="has partitions 0 to 1, not 7"):
        write_epoch(sink.options, sink.task(0), [rows("a"), rows("b", partition=7)])
    sink.commit(sink.write(0, "c", epoch=1), epoch=1)
    assert sink.settled("c")


def test_a_row_that_is_too_large_fails_the_task_by_name(cluster: Cluster) -> None:
    sink = Sink(cluster, **{"max.message.bytes": "1000"})
    with pytest.raises(MessageTooLargeError):
        sink.write(0, "x" * 2000)
    sink.commit(sink.write(0, *["y" * 400] * 20))
    assert sink.settled(*["y" * 400] * 20), "a batch that is too large is split"
