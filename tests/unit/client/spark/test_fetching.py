"""What a task does with the answers it gets, without a cluster: odd ones, empty ones, and none any more."""

import asyncio
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from rookery.client.reader import offsets_at
from rookery.client.spark.blocking import BlockingCluster
from rookery.client.spark.data_loss import DataLossError, DataLossWarning
from rookery.client.spark.fetching import Task, read
from rookery.client.spark.kafka_options import Connecting, Fetching
from rookery.client.spark.offsets import Range
from rookery.client.spark.places import EARLIEST, LATEST
from rookery.core.errors import (
    CorruptMessageError,
    ErrorCode,
    OffsetNotAvailableError,
    UnknownTopicOrPartitionError,
)
from rookery.core.net import cluster as client_cluster
from rookery.core.net.cluster import Cluster, ClusterMetadata, Node, PartitionView, TopicView
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
        self.answer: FetchResponse | None = None
        """To every fetch, if there is one."""
        self.lists: list[ListOffsetsResponse | dict[int, int]] = []
        self.refreshed = 0

    async def refresh(self, topics: Any = (), *, create: bool = False) -> ClusterMetadata:
        self.refreshed += 1
        topic = None
        if self.topic_id is not None:
            views = {index: PartitionView(index, 1, 0, (1,), (1,), ()) for index in range(self.partitions)}
            topic = TopicView("t", self.topic_id, False, views)
        errors = {"t": int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)} if topic is None else {}
        nodes = {1: Node(1, "nowhere", 1)}
        self.view = ClusterMetadata("c", 1, nodes, {} if topic is None else {"t": topic}, errors)
        return self.view

    async def ask(self, node: Node, api: Any, request: Any, **_: Any) -> Any:
        return self._fetch(request) if api is FETCH else self._list(request)

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        if self.answer is not None:
            return self.answer
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
        told = self.lists.pop(0) if self.lists else bounds(self.first, self.end)
        if not isinstance(told, dict):
            return told
        (topic,) = request.topics
        answers = [
            ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=told[each.timestamp])
            for each in topic.partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=topic.name, partitions=answers)])


def told(records: bytes | bytearray = b"", error: ErrorCode = ErrorCode.NONE) -> FetchResponse:
    data = PartitionData(partition_index=0, error_code=error, high_watermark=30, records=bytes(records))
    return FetchResponse(responses=[FetchableTopicResponse(topic_id=THIS, partitions=[data])])


def bounds(first: int, end: int) -> dict[int, int]:
    return {EARLIEST: first, LATEST: end}


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


def test_an_answer_that_says_nothing_of_the_partition_is_asked_for_again(rows: Reads) -> None:
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


@pytest.mark.row(173)
@pytest.mark.parametrize("strict", [True, False])
def test_what_is_out_of_range_and_then_is_not_is_read(rows: Reads, strict: bool) -> None:
    """A node that led before, and does not know that it does not any more, lacks what came since."""
    cluster = FakeCluster(log_of(0, 10, 20))
    cluster.fetches = [told(batch(0)), *[ErrorCode.OFFSET_OUT_OF_RANGE] * 3]
    cluster.lists = [bounds(0, 5)] * 2
    assert rows(cluster, 0, 30, strict) == list(range(30))


@pytest.mark.parametrize("strict", [True, False])
def test_what_the_log_has_and_no_leader_gives_is_an_error_and_not_lost(rows: Reads, strict: bool) -> None:
    cluster = FakeCluster(log_of(0, 10))
    cluster.answer = told(error=ErrorCode.OFFSET_OUT_OF_RANGE)
    with pytest.raises(OffsetNotAvailableError, match="t-0 at offset 0"):
        rows(cluster, 0, 20, strict)


def test_a_log_whose_start_moves_on_meanwhile_gives_all_that_is_left(rows: Reads) -> None:
    cluster = FakeCluster(log_of(0, 10, 20))
    cluster.first = 12
    cluster.lists = [bounds(5, 30)] * 3  # as it was, when asked: whether it is deleted, its start, its end
    with pytest.warns(DataLossWarning) as warned:
        assert rows(cluster, 0, 30, False) == list(range(12, 30))
    assert [str(each.message).partition(": retention")[0] for each in warned] == [
        "t-0: offset 0 is wanted, the log has 5 to 30",
        "t-0: offset 5 is wanted, the log has 12 to 30",
    ]


@pytest.mark.row(173)
@pytest.mark.parametrize("read_before", [0, 10])
def test_a_log_whose_end_was_cut_off(rows: Reads, read_before: int) -> None:
    """As by an unclean election: nothing more will come, whether the log ends right there or before."""
    cluster = FakeCluster(log_of(0, 10))
    cluster.fetches = [told(batch(0)), told(batch(10))]
    cluster.end = 20 - read_before
    lost = f"t-0: offset 20 is wanted, the log has 0 to {cluster.end}: its end was truncated"
    with pytest.raises(DataLossError, match=lost):
        rows(cluster, 0, 30, True)
    cluster.fetches = [told(batch(0)), told(batch(10))]
    with pytest.warns(DataLossWarning, match=lost):
        assert rows(cluster, 0, 30, False) == list(range(20))


def test_a_damaged_batch_is_reported_with_its_place(rows: Reads) -> None:
    damaged = batch(0)
    damaged[-1] ^= 1
    with pytest.raises(CorruptMessageError, match=r"t-0, offsets 0 to 10: .*checksum"):
        rows(FakeCluster({0: damaged}), 0, 10, True)


@pytest.mark.row(173)
def test_a_topic_recreated_since_the_plan_is_never_read(rows: Reads) -> None:
    cluster = FakeCluster(log_of(0, 10))
    cluster.topic_id = OTHER
    with pytest.raises(DataLossError, match="t-0: offset 0 is wanted, the topic was deleted and recreated"):
        rows(cluster, 0, 20, True)
    with pytest.warns(DataLossWarning, match="recreated"):
        assert rows(cluster, 0, 20, False) == []


@pytest.mark.row(173)
def test_a_topic_deleted_since_the_plan(rows: Reads) -> None:
    cluster = FakeCluster({})
    cluster.topic_id = None
    with pytest.raises(DataLossError, match="t-0: offset 0 is wanted, the partition no longer exists"):
        rows(cluster, 0, 20, True)
    with pytest.warns(DataLossWarning, match="no longer exists"):
        assert rows(cluster, 0, 20, False) == []


def test_offsets_that_were_not_reported_are_asked_for_again() -> None:
    async def ask() -> dict[tuple[str, int], int]:
        cluster = FakeCluster(log_of(0))
        cluster.lists = [ListOffsetsResponse(topics=[])]
        return await offsets_at(cluster, {("t", 0): LATEST})

    assert asyncio.run(ask()) == {("t", 0): 10}


def test_a_partition_the_node_does_not_know_is_asked_for_again() -> None:
    """The view told by such a node is not kept: the next one may have it."""

    async def ask() -> dict[tuple[str, int], int]:
        cluster = FakeCluster(log_of(0))
        await cluster.refresh(["t"])
        with pytest.raises(UnknownTopicOrPartitionError):
            await cluster.partition("t", 1)
        cluster.partitions = 2
        return await offsets_at(cluster, {("t", 1): LATEST}, timeout_s=TIMEOUT_S)

    assert asyncio.run(ask()) == {("t", 1): 10}


class Racks(FakeCluster):
    """Two nodes: the leader sends readers of rack b to the other, which fails as often as a test says."""

    def __init__(self, log: dict[int, bytes | bytearray], failures: int = 0) -> None:
        super().__init__(log)
        self.failures = failures
        self.asked: list[tuple[int, str]] = []

    async def refresh(self, topics: Any = (), *, create: bool = False) -> ClusterMetadata:
        view = await super().refresh(topics, create=create)
        self.view = dataclasses.replace(view, nodes={**view.nodes, 2: Node(2, "elsewhere", 1, "b")})
        return self.view

    async def ask(self, node: Node, api: Any, request: Any, **_: Any) -> Any:
        if api is not FETCH:
            return self._list(request)
        self.asked.append((node.id, request.rack_id))
        if node.id == 1 and request.rack_id == "b":
            data = PartitionData(partition_index=0, high_watermark=30, records=b"", preferred_read_replica=2)
            return FetchResponse(responses=[FetchableTopicResponse(topic_id=THIS, partitions=[data])])
        if node.id == 2 and self.failures:
            self.failures -= 1
            return told(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self._fetch(request)


@pytest.mark.parametrize(
    ("rack", "environ", "failures", "nodes"),
    [
        ("b", {}, 0, [(1, "b"), (2, "b"), (2, "b")]),
        ("", {"ROOKERY_CLIENT_RACK": "b"}, 0, [(1, "b"), (2, "b"), (2, "b")]),
        ("b", {"ROOKERY_CLIENT_RACK": "a"}, 0, [(1, "a"), (1, "a")]),
        ("", {}, 0, [(1, ""), (1, "")]),
        ("b", {}, 1, [(1, "b"), (2, "b"), (1, ""), (1, "")]),
    ],
)
def test_the_closest_replica_is_read_and_the_leader_after_it_failed(
    rack: str, environ: dict[str, str], failures: int, nodes: list[tuple[int, str]]
) -> None:
    cluster = Racks(log_of(0, 10), failures)
    blocking = Blocking(cluster)
    try:
        task = Task(Range("t", 0, 0, 20), str(THIS), ("offset",), Fetching(rack=rack), True, TIMEOUT_S)
        found = [offset for each in read(blocking, task, environ) for offset in each.column("offset").to_pylist()]
    finally:
        blocking.close()
    assert found == list(range(20))
    assert cluster.asked == nodes
