"""The stream reader without Spark or a cluster: offsets that stay the same, admission, replays, lost data."""

import json
from collections.abc import Collection
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from rookery.client.spark.data_loss import DataLossError, DataLossWarning
from rookery.client.spark.kafka_options import OptionError
from rookery.client.spark.lookup import Found
from rookery.client.spark.offsets import Range, from_json, start_in
from rookery.client.spark.options import source_options
from rookery.client.spark.places import EARLIEST, LATEST, Offsets
from rookery.client.spark.planner import Planner
from rookery.client.spark.source import RookeryStreamReader, TaskPartition

BASE = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t"}


class FakeLog:
    """Partitions whose ends move when a test says so, and nodes that may lag behind."""

    def __init__(self, ends: Offsets) -> None:
        self.ends = ends
        self.firsts: Offsets = {}
        self.id = "first"
        self.old_ids: list[str] = []
        """What the next answers tell instead."""
        self.asked = 0
        self.lagging: list[Offsets] = []
        """What the next answers tell instead."""


class FakePlanner(Planner):
    """Plans over a FakeLog, with a clock that stands still until told to go on."""

    def __init__(self, log: FakeLog, **options: str) -> None:
        self.log = log
        self.now = 0.0
        self.parsed = source_options({**BASE, **options}, streaming=True)
        super().__init__(self.parsed, monotonic=lambda: self.now, sleep=lambda _: None)
        self.told = log.ends

    def _request_partitions(self, again: bool) -> Found:
        self.told = self.log.lagging.pop(0) if self.log.lagging else self.log.ends
        topics = {topic for topic, _ in self.told}
        missing = set(self.parsed.selection.topics) - topics
        topic_id = self.log.old_ids.pop(0) if self.log.old_ids else self.log.id
        return Found(frozenset(self.told), dict.fromkeys(topics, topic_id), frozenset(missing))

    def _bytes_of(self, partitions: Any) -> dict[tuple[str, int], float]:
        return dict.fromkeys(partitions, 100.0)

    def _at(self, wanted: Any) -> Offsets:
        self.log.asked += 1
        marks = {LATEST: self.told, EARLIEST: self.log.firsts}
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

    def begin(self) -> dict[str, Any]:
        """A new query that finds nothing to read yet: the end of its first, empty batch."""
        return self.latest(self.reader.initialOffset())


def ranges(partitions: Collection[Any]) -> list[Range]:
    assert all(isinstance(each, TaskPartition) for each in partitions)
    return [each.task.range for each in partitions]


@pytest.mark.row(173)
def test_latest_is_asked_for_once_and_a_first_batch_is_replayed_as_it_was() -> None:
    """Records come in all the time; the first batch fails and the driver starts again."""
    log = FakeLog({("t", 0): 110})
    first = Query(log)
    start = first.reader.initialOffset()
    log.lagging = [{("t", 0): 100}]
    end = first.latest(start)
    assert first.ranges(start, end) == [Range("t", 0, 100, 110)]
    log.ends["t", 0] = 500
    second = Query(log)
    assert second.ranges(second.reader.initialOffset(), end) == [Range("t", 0, 100, 110)]
    following = second.latest(end)
    assert second.ranges(end, following) == [Range("t", 0, 110, 500)]
    assert from_json(following) == {("t", 0): 500}
    assert start_in(following) is None


def test_a_query_that_finds_nothing_to_read_remembers_where_it_began() -> None:
    log = FakeLog({("t", 0): 100})
    query = Query(log)
    nothing = query.begin()
    assert json.dumps(query.begin()) == json.dumps(nothing)
    assert query.ranges(query.reader.initialOffset(), nothing) == []
    log.ends["t", 0] = 110
    assert query.ranges(nothing, query.latest(nothing)) == [Range("t", 0, 100, 110)]
    assert Query(log).ranges({}, query.latest(nothing)) == [Range("t", 0, 100, 110)]


def test_a_first_batch_is_repeated_though_its_options_do_not_fit_any_more() -> None:
    """Offsets by partition name all partitions there were; one is added before the restart."""
    options = {"startingOffsets": '{"t":{"0":3}}'}
    log = FakeLog({("t", 0): 10})
    end = Query(log, **options).begin()
    log.ends["t", 1] = 5
    second = Query(log, **options)
    assert second.ranges(second.reader.initialOffset(), end) == [Range("t", 0, 3, 10)]
    assert second.ranges(end, second.latest(end)) == [Range("t", 1, 0, 5)]
    with pytest.raises(OptionError, match=r"startingOffsets.*t-1"):
        Query(log, **options).begin()


def test_a_checkpoint_of_sparks_own_source_is_gone_on_from() -> None:
    query = Query(FakeLog({("t", 0): 10}))
    end = query.latest({"t": {"0": 4}})
    assert query.ranges({"t": {"0": 4}}, end) == [Range("t", 0, 4, 10)]
    assert query.latest({"t": {"0": 10}}) == {"t": {"0": 10}}


def test_where_a_first_batch_of_sparks_own_source_began_is_not_guessed() -> None:
    """It was planned, and the query ended before it was done."""
    end = {"t": {"0": 110}}
    with pytest.raises(DataLossError, match="t-0 should be read by a first batch that Spark's own source planned"):
        Query(FakeLog({("t", 0): 500})).ranges({}, end)
    with pytest.warns(DataLossWarning, match="its start is not in the checkpoint"):
        assert Query(FakeLog({("t", 0): 500}), failOnDataLoss="false").ranges({}, end) == []
    assert Query(FakeLog({("t", 0): 500}), startingOffsets="earliest").ranges({}, end) == [Range("t", 0, 0, 110)]


def test_nothing_new_is_the_same_text_again() -> None:
    log = FakeLog({("t", 10): 1, ("t", 2): 0})
    query = Query(log, startingOffsets="earliest")
    end = query.begin()
    assert json.dumps(query.latest(end)) == json.dumps(end)
    log.ends = {("t", 2): 0, ("t", 10): 1}
    assert json.dumps(query.latest(end)) == json.dumps(end)


def test_an_idle_query_does_not_hammer_the_cluster() -> None:
    """Also where a new partition has nothing in it yet."""
    log = FakeLog({("t", 0): 5})
    query = Query(log)
    start = query.begin()
    log.ends["t", 1] = 0
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
    end = query.begin()
    assert end["t"] == {"0": 99, "1": 1}
    assert query.reader.reportLatestOffset() == {"t": {"0": 1000, "1": 1}}


def test_a_batch_waits_for_enough_offsets_but_not_for_ever() -> None:
    log = FakeLog({("t", 0): 10})
    query = Query(log, startingOffsets="earliest", minOffsetsPerTrigger="50", maxTriggerDelay="1m")
    assert query.reader.getDefaultReadLimit() == ReadMinRows(50)
    end = query.begin()
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
    first = query.begin()
    log.ends["t", 0] = 1000
    log.ends["t", 1] = 1000
    second = query.latest(first)
    assert (first["t"], second["t"]) == ({"0": 6}, {"0": 10})
    assert query.latest(second) == second


def test_available_now_leaves_nothing_behind_for_being_few() -> None:
    """What the maximum leaves is less than the minimum, and is read in this run all the same."""
    limits = {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "6", "maxTriggerDelay": "1h"}
    query = Query(FakeLog({("t", 0): 10}), startingOffsets="earliest", **limits)
    query.reader.prepareForTriggerAvailableNow()
    first = query.latest(query.reader.initialOffset())
    assert (first["t"], query.latest(first)["t"]) == ({"0": 6}, {"0": 10})


def test_available_now_of_a_new_query_that_begins_at_the_latest_offset() -> None:
    """Records come between Spark's saying that it reads what is available and its asking where to begin."""
    log = FakeLog({("t", 0): 10})
    query = Query(log)
    query.reader.prepareForTriggerAvailableNow()
    log.ends["t", 0] = 20
    assert query.begin()["t"] == {"0": 20}


def test_available_now_asks_again_when_less_is_reported_than_was_read() -> None:
    log = FakeLog({("t", 0): 20})
    query = Query(log)
    query.reader.prepareForTriggerAvailableNow()
    log.lagging = [{("t", 0): 5}]
    assert query.latest({"t": {"0": 10}})["t"] == {"0": 20}


def test_new_partitions_are_read_from_their_start() -> None:
    log = FakeLog({("t", 0): 10})
    query = Query(log)
    end = query.begin()
    log.ends["t", 1] = 0
    assert query.latest(end) == end
    log.ends["t", 1] = 3
    following = query.latest(end)
    assert query.ranges(end, following) == [Range("t", 1, 0, 3)]


LESS: list[tuple[Offsets, str]] = [
    ({("t", 0): 10}, "t-1 was read before and is not found"),
    ({("t", 0): 4, ("t", 1): 10}, "t-0 ends before"),
    ({}, "t-0, t-1 was read before"),
]


@pytest.mark.parametrize(("ends", "how"), LESS)
def test_lost_data_is_an_error_unless_allowed(ends: Offsets, how: str) -> None:
    kept = {"t": {"0": 10, "1": 10}}
    with pytest.raises(DataLossError, match=how):
        Query(FakeLog(ends)).latest(kept)
    tolerant = Query(FakeLog(ends), failOnDataLoss="false")
    with pytest.warns(DataLossWarning, match=how):
        end = tolerant.latest(kept)
    assert tolerant.ranges(kept, end) == []
    assert tolerant.latest(end) == end, "and it is told once"


@pytest.mark.row(173)
@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("less", [ends for ends, _ in LESS])
def test_a_node_that_knows_less_for_a_while_costs_and_repeats_nothing(less: Offsets, fail: str) -> None:
    log = FakeLog({("t", 0): 12, ("t", 1): 12})
    query = Query(log, failOnDataLoss=fail)
    kept = {"t": {"0": 10, "1": 10}}
    log.lagging = [less] * 3
    end = query.latest(kept)
    assert query.ranges(kept, end) == [Range("t", 0, 10, 12), Range("t", 1, 10, 12)]


@pytest.mark.row(173)
@pytest.mark.parametrize("less", [ends for ends, _ in LESS])
def test_what_was_read_is_not_read_again_after_it_seemed_lost(less: Offsets) -> None:
    """The node knows less for longer than is waited; one partition goes on meanwhile."""
    log = FakeLog({**less, ("t", 2): 5})
    query = Query(log, failOnDataLoss="false")
    kept = {"t": {"0": 10, "1": 10, "2": 0}}
    with pytest.warns(DataLossWarning):
        end = query.latest(kept)
    assert query.ranges(kept, end) == [Range("t", 2, 0, 5)]
    log.ends = {("t", 0): 12, ("t", 1): 12, ("t", 2): 5}
    following = query.latest(end)
    assert query.ranges(end, following) == [Range("t", 0, 10, 12), Range("t", 1, 10, 12)]


@pytest.mark.row(173)
@pytest.mark.parametrize("new_end", [3, 10, 99])
def test_a_topic_recreated_is_lost_data_however_many_records_it_has(new_end: int) -> None:
    log = FakeLog({("t", 0): 10})
    kept = Query(log, startingOffsets="earliest").begin()
    log.id, log.ends = "second", {("t", 0): new_end}
    with pytest.raises(DataLossError, match="t-0 belongs to a topic that was deleted and recreated"):
        Query(log).latest(kept)
    tolerant = Query(log, failOnDataLoss="false")
    with pytest.warns(DataLossWarning, match="deleted and recreated"):
        end = tolerant.latest(kept)
    assert tolerant.ranges(kept, end) == [Range("t", 0, 0, new_end)]
    assert Query(log, failOnDataLoss="false").ranges(kept, end) == [Range("t", 0, 0, new_end)]
    (task,) = tolerant.reader.partitions(kept, end)
    assert isinstance(task, TaskPartition)
    assert task.task.topic_id == "second"
    assert tolerant.latest(end) == end


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_node_that_does_not_know_that_a_topic_was_recreated_repeats_nothing(fail: str) -> None:
    log = FakeLog({("t", 0): 10})
    log.id = "second"
    query = Query(log, startingOffsets="earliest", failOnDataLoss=fail)
    kept = query.begin()
    log.old_ids = ["first"] * 3
    assert query.latest(kept) == kept


def test_a_topic_recreated_before_the_first_batch_is_read_from_its_start() -> None:
    log = FakeLog({("t", 0): 10})
    nothing = Query(log).begin()
    log.id, log.ends = "second", {("t", 0): 99}
    query = Query(log, failOnDataLoss="false")
    with pytest.warns(DataLossWarning, match="deleted and recreated"):
        end = query.latest(nothing)
    assert query.ranges(nothing, end) == [Range("t", 0, 0, 99)]
    assert Query(log, failOnDataLoss="false").ranges({}, end) == [Range("t", 0, 0, 99)]


def test_a_new_partition_without_its_first_records_is_lost_data() -> None:
    log = FakeLog({("t", 0): 10, ("t", 1): 9})
    log.firsts["t", 1] = 5
    with pytest.raises(DataLossError, match="t-1 is new"):
        Query(log).latest({"t": {"0": 10}})
    tolerant = Query(log, failOnDataLoss="false")
    with pytest.warns(DataLossWarning, match="t-1 is new"):
        end = tolerant.latest({"t": {"0": 10}})
    assert tolerant.ranges({"t": {"0": 10}}, end) == [Range("t", 1, 5, 9)]


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_topic_that_does_not_exist_is_refused_by_the_option_that_names_it(fail: str) -> None:
    with pytest.raises(OptionError, match="'subscribe' names topics or partitions that do not exist: t"):
        Query(FakeLog({}), failOnDataLoss=fail).begin()
    with pytest.raises(OptionError, match="'subscribe' names topics or partitions that do not exist: u"):
        Query(FakeLog({("t", 0): 1}), subscribe="t,u", failOnDataLoss=fail).begin()


def test_a_topic_that_the_first_node_does_not_know_is_no_error() -> None:
    log = FakeLog({("t", 0): 1})
    log.lagging = [{}, {}]
    assert from_json(Query(log, startingOffsets="earliest").begin()) == {("t", 0): 1}


def test_offsets_to_begin_at_must_be_committed() -> None:
    with pytest.raises(OptionError, match="'startingOffsets' is after the last committed record of t-0"):
        Query(FakeLog({("t", 0): 10}), startingOffsets='{"t":{"0":11}}').begin()
    assert Query(FakeLog({("t", 0): 10}), startingOffsets='{"t":{"0":10}}').begin()["t"] == {"0": 10}


def test_a_range_upside_down_is_loud() -> None:
    with pytest.raises(OptionError, match="before its start"):
        Query(FakeLog({("t", 0): 10})).ranges({"t": {"0": 9}}, {"t": {"0": 8}})


def test_a_micro_batch_has_so_many_bytes_at_most() -> None:
    """And so many offsets, if both are given; a run that ends reads all the same, in several batches."""
    for options, most in (({}, 20), ({"maxOffsetsPerTrigger": "4"}, 4)):
        log = FakeLog({("t", 0): 50, ("t", 1): 50})
        query = Query(log, startingOffsets="earliest", maxBytesPerTrigger="2000", **options)
        query.reader.prepareForTriggerAvailableNow()
        start, sizes = query.reader.initialOffset(), []
        while (end := query.latest(start)) != start:
            sizes.append(sum(each.size for each in query.ranges(start, end)))
            start = end
        assert sum(sizes) == 100
        assert max(sizes) == most
