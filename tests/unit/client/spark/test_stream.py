"""The stream reader without Spark or a cluster: offsets that stay the same, admission, replays, lost data."""

import json
from collections.abc import Collection
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from rookery.client.spark.fetching import DataLossError
from rookery.client.spark.offsets import Range
from rookery.client.spark.option_values import OptionError
from rookery.client.spark.options import source_options
from rookery.client.spark.places import EARLIEST, LATEST, Offsets
from rookery.client.spark.planner import Planner
from rookery.client.spark.reader import TaskPartition
from rookery.client.spark.stream import RookeryStreamReader

BASE = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t"}


class FakeLog:
    """Partitions whose ends move when a test says so."""

    def __init__(self, ends: Offsets) -> None:
        self.ends = ends
        self.firsts: Offsets = {}
        self.asked = 0


class FakePlanner(Planner):
    """Plans over a FakeLog, with a clock that stands still until told to go on."""

    def __init__(self, log: FakeLog, **options: str) -> None:
        self.log = log
        self.now = 0.0
        self.parsed = source_options({**BASE, **options}, streaming=True)
        super().__init__(self.parsed, monotonic=lambda: self.now, sleep=lambda _: None)

    def partitions(self) -> set[tuple[str, int]]:
        return set(self.log.ends)

    def _at(self, wanted: Any) -> Offsets:
        self.log.asked += 1
        marks = {LATEST: self.log.ends, EARLIEST: self.log.firsts}
        return {key: marks[mark].get(key, 0) for key, mark in wanted.items()}


class Query:
    """One run of a query: a reader of its own, as after a restart of the driver."""

    def __init__(self, log: FakeLog, **options: str) -> None:
        self.planner = FakePlanner(log, **options)
        self.reader = RookeryStreamReader(
            self.planner.parsed, ("offset",), self.planner, monotonic=lambda: self.planner.now
        )

    def latest(self, start: dict[str, Any]) -> dict[str, Any]:
        """Through JSON, as Spark passes offsets, and long after it was asked last."""
        self.planner.now += 1
        answer = self.reader.latestOffset(json.loads(json.dumps(start)), self.reader.getDefaultReadLimit())
        return dict(json.loads(json.dumps(answer)))

    def ranges(self, start: dict[str, Any], end: dict[str, Any]) -> list[Range]:
        return ranges(self.reader.partitions(start, end))


def ranges(partitions: Collection[Any]) -> list[Range]:
    assert all(isinstance(each, TaskPartition) for each in partitions)
    return [each.task.range for each in partitions]


@pytest.mark.row(173)
def test_latest_is_asked_for_once_and_a_first_batch_is_replayed_as_it_was() -> None:
    """Records come in all the time; the first batch fails and the driver starts again."""
    log = FakeLog({("t", 0): 100})
    first = Query(log)
    start = first.reader.initialOffset()
    log.ends["t", 0] = 110
    assert first.reader.initialOffset() == start
    end = first.latest(start)
    assert first.ranges(start, end) == [Range("t", 0, 100, 110)]
    log.ends["t", 0] = 500
    second = Query(log)
    assert second.ranges(second.reader.initialOffset(), end) == [Range("t", 0, 100, 110)]
    following = second.latest(end)
    assert second.ranges(end, following) == [Range("t", 0, 110, 500)]
    assert following == {"t": {"0": 500}}


def test_nothing_new_is_the_same_text_again() -> None:
    log = FakeLog({("t", 10): 1, ("t", 2): 0})
    query = Query(log, startingOffsets="earliest")
    start = query.reader.initialOffset()
    end = query.latest(start)
    assert json.dumps(query.latest(end)) == json.dumps(end)
    log.ends = {("t", 2): 0, ("t", 10): 1}
    assert json.dumps(query.latest(end)) == json.dumps(end)


def test_an_idle_query_does_not_hammer_the_cluster() -> None:
    log = FakeLog({("t", 0): 5})
    query = Query(log)
    start = query.reader.initialOffset()
    query.latest(start)
    asked = log.asked
    for _ in range(9):
        query.planner.now += 0.01
        query.reader.latestOffset(start, ReadAllAvailable())
    assert log.asked == asked


def test_batches_are_limited_and_small_partitions_are_not_left_behind() -> None:
    log = FakeLog({("t", 0): 1000, ("t", 1): 1})
    query = Query(log, startingOffsets="earliest", maxOffsetsPerTrigger="100")
    assert query.reader.getDefaultReadLimit() == ReadMaxRows(100)
    end = query.latest(query.reader.initialOffset())
    assert end["t"] == {"0": 99, "1": 1}
    assert query.reader.reportLatestOffset() == {"t": {"0": 1000, "1": 1}}


def test_a_batch_waits_for_enough_offsets_but_not_for_ever() -> None:
    log = FakeLog({("t", 0): 10})
    query = Query(log, startingOffsets="earliest", minOffsetsPerTrigger="50", maxTriggerDelay="1m")
    assert query.reader.getDefaultReadLimit() == ReadMinRows(50)
    end = query.latest(query.reader.initialOffset())
    assert end["t"] == {"0": 10}
    log.ends["t", 0] = 30
    assert query.latest(end) == end
    query.planner.now += 60
    end = query.latest(end)
    assert end["t"] == {"0": 30}
    log.ends["t", 0] = 90
    assert query.latest(end)["t"] == {"0": 90}


def test_available_now_ends_where_the_log_ended_at_the_start() -> None:
    log = FakeLog({("t", 0): 10})
    query = Query(log, startingOffsets="earliest", maxOffsetsPerTrigger="6")
    query.reader.prepareForTriggerAvailableNow()
    log.ends["t", 0] = 1000
    start = query.reader.initialOffset()
    first = query.latest(start)
    second = query.latest(first)
    assert (first["t"], second["t"]) == ({"0": 6}, {"0": 10})
    assert query.latest(second) == second


def test_new_partitions_are_read_from_their_start() -> None:
    log = FakeLog({("t", 0): 10})
    query = Query(log)
    start = query.reader.initialOffset()
    end = query.latest(start)
    log.ends["t", 1] = 0
    assert query.latest(end) == end
    log.ends["t", 1] = 3
    following = query.latest(end)
    assert query.ranges(end, following) == [Range("t", 1, 0, 3)]


@pytest.mark.parametrize(
    ("ends", "how"),
    [({("t", 0): 10}, "t-1 does not exist"), ({("t", 0): 4, ("t", 1): 10}, "t-0 ends before")],
)
def test_lost_data_is_an_error_unless_allowed(ends: Offsets, how: str) -> None:
    kept = {"t": {"0": 10, "1": 10}}
    with pytest.raises(DataLossError, match=how):
        Query(FakeLog(ends)).latest(kept)
    tolerant = Query(FakeLog(ends), failOnDataLoss="false")
    end = tolerant.latest(kept)
    assert tolerant.ranges(kept, end) == []


def test_a_new_partition_without_its_first_records_is_lost_data() -> None:
    log = FakeLog({("t", 0): 10, ("t", 1): 9})
    log.firsts["t", 1] = 5
    with pytest.raises(DataLossError, match="t-1 is new"):
        Query(log).latest({"t": {"0": 10}})
    tolerant = Query(log, failOnDataLoss="false")
    end = tolerant.latest({"t": {"0": 10}})
    assert tolerant.ranges({"t": {"0": 10}}, end) == [Range("t", 1, 5, 9)]


def test_a_range_upside_down_is_loud() -> None:
    with pytest.raises(OptionError, match="before its start"):
        Query(FakeLog({("t", 0): 10})).ranges({"t": {"0": 9}}, {"t": {"0": 8}})
