"""What an executor does, without Spark around it: follow the leader, and tell of lost data."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from rookery.client.spark import blocking, decoder
from rookery.client.spark.data_loss import DataLossError, DataLossWarning
from rookery.client.spark.fetching import Task, read
from rookery.client.spark.options import SourceOptions, source_options
from rookery.client.spark.planner import Planner
from tests.cluster.deleting import delete_records
from tests.cluster.local import LocalCluster
from tests.spark.topics import numbered, write

pytestmark = pytest.mark.timeout(600)
"""The first test of a run also starts Java and the cluster."""


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    blocking.close_all()


def planned(cluster: LocalCluster, topic: str, **options: str) -> tuple[SourceOptions, list[Task]]:
    given = {"kafka.bootstrap.servers": cluster.awake, "subscribe": topic, **options}
    parsed = source_options(given, streaming=False)
    planner = Planner(parsed)
    return parsed, planner.tasks(planner.starting().offsets, planner.ending(), ("value", "offset"))


def values(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [int(value) for batch in batches for value in batch.column("value").to_pylist()]


@pytest.mark.row(173)
def test_a_leader_killed_while_a_task_reads(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The range was planned before; what is written after does not enter it, and nothing is lost or repeated."""
    monkeypatch.setattr(decoder, "ROWS_MAX", 100)
    cluster.create_topic("torn", 1, 3)
    cluster.wait_in_sync("torn")
    for first in range(0, 2000, 100):
        write(cluster, "torn", numbered(first, 100, 1))
    small = {"kafka.max.partition.fetch.bytes": "4000", "kafka.request.timeout.ms": "5000"}
    options, (task,) = planned(cluster, "torn", **small)
    write(cluster, "torn", numbered(2000, 100, 1))
    reading = read(blocking.connected(options.connecting), task)
    found = values(iter([next(reading)]))
    assert len(found) < 1000
    cluster.kill(cluster.leader("torn"))
    try:
        found += values(reading)
    finally:
        cluster.up()
    assert found == list(range(2000))


def test_records_gone_since_the_plan(cluster: LocalCluster) -> None:
    cluster.create_topic("gone", 1, 3)
    for first in (0, 30):
        write(cluster, "gone", numbered(first, 30, 1))
    strict, (task,) = planned(cluster, "gone")
    _, (tolerant,) = planned(cluster, "gone", failOnDataLoss="false")
    delete_records(cluster, "gone", 0, 30)
    with pytest.raises(DataLossError, match="offset 0 is wanted, the log has 30 to 60"):
        values(read(blocking.connected(strict.connecting), task))
    with pytest.warns(DataLossWarning, match="the log has 30 to 60"):
        assert values(read(blocking.connected(strict.connecting), tolerant)) == list(range(30, 60))
