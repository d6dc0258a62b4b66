"""What a task does with the answers it gets, without a cluster: odd ones, empty ones, and none any more."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from rookery.client import cluster as client_cluster
from rookery.client.cluster import Cluster, ClusterView, Node, PartitionView, TopicView
from rookery.client.spark.blocking import BlockingCluster
from rookery.client.spark.fetching import Task, read
from rookery.client.spark.kafka_options import Connecting, Fetching
from rookery.client.spark.lookup import offsets_at
from rookery.client.spark.loss import DataLossError, DataLossWarning
from rookery.client.spark.offsets import Range
from rookery.client.spark.places import EARLIEST, LATEST
from rookery.core.errors import ErrorCode, UnknownTopicOrPartitionError
from rookery.core.wire.apis.fetch import (
    FETCH,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from rookery.core.wire.apis.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from rookery.core.wire.records import Record, build_batch

THIS, OTHER = UUID(int=1), UUID(int=2)
NOTHING = FetchResponse(responses=[])
TIMEOUT_S = 1.0


class FakeCluster(Cluster):
    """One node that leads one partition. `fetches` says what it answers, in turn; then the log itself does."""

    def __init__(self, log: dict[int, bytes | bytearray]) -> None:
        super().__init__("nowhere:1")
        self.log = log
        self.first = 0
        self.end = max(log, default=0) + 10
        self.topic_id: UUID | None = THIS
        self.partitions = 1
        self.fetches: list[FetchResponse | ErrorCode] = []
        self.lists: list[ListOffsetsResponse] = []
        self.refreshed = 0

    async def refresh(self, topics: Any = (), *, create: bool = False) -> ClusterView:
        self.refreshed += 1
        topic = None
        if self.topic_id is not None:
            views = {index: PartitionView(index, 1, 0, (1,), (1,), ()) for index in range(self.partitions)}
            topic = TopicView("t", self.topic_id, False, views)
        errors = {"t": int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)} if topic is None else {}
        nodes = {1: Node(1, "nowhere", 1)}
        self.view = ClusterView("c", 1, nodes, {} if topic is None else {"t": topic}, errors)
        return self.view

    async def ask(self, node: Node, api: Any, request: Any, **_: Any) -> Any:
        return self._fetch(request) if api is FETCH else self._list(request)

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        if self.fetches:
            answer = self.fetches.pop(0)
            return answer if isinstance(answer, FetchResponse) else told(error=answer)
        wanted = request.topics[0]
        if wanted.topic_id != self.topic_id:
            return told(error=ErrorCode.UNKNOWN_TOPIC_ID)
        offset = wanted.partitions[0].fetch_offset
        if not self.first <= offset <= self.end:
            return told(error=ErrorCode.OFFSET_OUT_OF_RANGE)
        return told(self.log.get(offset - offset % 10, b""))

    def _list(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        if self.lists:
            return self.lists.pop(0)
        (topic,) = request.topics
        marks = {EARLIEST: self.first, LATEST: self.end}
        answers = [
            ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=marks[each.timestamp])
            for each in topic.partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=topic.name, partitions=answers)])


def told(records: bytes | bytearray = b"", error: ErrorCode = ErrorCode.NONE) -> FetchResponse:
    data = PartitionData(partition_index=0, error_code=error, high_watermark=30, records=bytes(records))
    return FetchResponse(responses=[FetchableTopicResponse(topic_id=THIS, partitions=[data])])


def batch(first: int, count: int = 10) -> bytearray:
    return build_batch([Record(first + step, 0, None, b"%d" % (first + step)) for step in range(count)])


def log_of(*firsts: int) -> dict[int, bytes | bytearray]:
    return {first: batch(first) for first in firsts}


class Blocking(BlockingCluster):
    """With a cluster of the test's own."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(Connecting("nowhere:1"))
        self.cluster = cluster


Reads = Callable[[FakeCluster, int, int, bool], list[int]]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_cluster, "RETRY_PAUSE_S", 0.01)


@pytest.fixture
def rows() -> Iterator[Reads]:
    opened: list[Blocking] = []

    def found(cluster: FakeCluster, start: int, end: int, strict: bool) -> list[int]:
        opened.append(Blocking(cluster))
        task = Task(Range("t", 0, start, end), str(THIS), ("offset",), Fetching(), strict, TIMEOUT_S)
        batches = list(read(opened[-1], task))
        return [offset for each in batches for offset in each.column("offset").to_pylist()]

    yield found
    for each in opened:
        each.close()


def test_an_answer_that_tells_nothing_of_the_partition_is_asked_for_again(rows: Reads) -> None:
    """Of the leader as others know it: the one asked may not lead any more, and not know."""
    cluster = FakeCluster(log_of(0, 10))
    cluster.fetches = [NOTHING, told()]
    assert rows(cluster, 0, 20, True) == list(range(20))
    assert cluster.refreshed == 3


def test_a_batch_that_begins_before_what_was_read_repeats_nothing(rows: Reads) -> None:
    cluster = FakeCluster(log_of(0, 10))
    cluster.fetches = [told(batch(0, 6)), told(batch(2, 8)), told(batch(10))]
    assert rows(cluster, 0, 20, True) == list(range(20))


def test_a_log_cut_within_a_batch_gives_nothing_of_what_was_deleted(rows: Reads) -> None:
    cluster = FakeCluster(log_of(0, 10))
    cluster.first = 13
    with pytest.raises(DataLossError, match="offset 0 is wanted, the log has 13 to 20"):
        rows(cluster, 0, 20, True)
    with pytest.warns(DataLossWarning, match="offset 0 is wanted, the log has 13 to 20"):
        assert rows(cluster, 0, 20, False) == list(range(13, 20))


def test_what_is_out_of_range_and_then_is_not_is_read(rows: Reads) -> None:
    """Such as a leader that was elected though it lacked records, which came again."""
    cluster = FakeCluster(log_of(0, 10))
    cluster.fetches = [ErrorCode.OFFSET_OUT_OF_RANGE]
    with pytest.warns(DataLossWarning, match="t-0"):
        assert rows(cluster, 0, 20, False) == list(range(20))
    cluster.fetches = [ErrorCode.OFFSET_OUT_OF_RANGE] * 2
    with pytest.warns(DataLossWarning, match="t-0"):
        assert rows(cluster, 0, 20, False) == [], "and not asked for without end"


@pytest.mark.row(173)
def test_a_topic_made_again_since_the_plan_is_never_read(rows: Reads) -> None:
    cluster = FakeCluster(log_of(0, 10))
    cluster.topic_id = OTHER
    with pytest.raises(DataLossError, match="t-0: offset 0 is wanted, the topic was deleted and made again"):
        rows(cluster, 0, 20, True)
    with pytest.warns(DataLossWarning, match="made again"):
        assert rows(cluster, 0, 20, False) == []


@pytest.mark.row(173)
def test_a_topic_deleted_since_the_plan(rows: Reads) -> None:
    cluster = FakeCluster({})
    cluster.topic_id = None
    with pytest.raises(DataLossError, match="t-0: offset 0 is wanted, there is no such partition any more"):
        rows(cluster, 0, 20, True)
    with pytest.warns(DataLossWarning, match="no such partition"):
        assert rows(cluster, 0, 20, False) == []


def test_offsets_that_were_not_told_are_asked_for_again() -> None:
    async def ask() -> dict[tuple[str, int], int]:
        cluster = FakeCluster(log_of(0))
        cluster.lists = [ListOffsetsResponse(topics=[])]
        return await offsets_at(cluster, {("t", 0): LATEST})

    assert asyncio.run(ask()) == {("t", 0): 10}


def test_a_partition_the_node_has_not_heard_of_is_asked_for_again() -> None:
    """The view told by such a node is not kept: the next one may have it."""

    async def ask() -> dict[tuple[str, int], int]:
        cluster = FakeCluster(log_of(0))
        await cluster.refresh(["t"])
        with pytest.raises(UnknownTopicOrPartitionError):
            await cluster.partition("t", 1)
        cluster.partitions = 2
        return await offsets_at(cluster, {("t", 1): LATEST}, timeout_s=TIMEOUT_S)

    assert asyncio.run(ask()) == {("t", 1): 10}
