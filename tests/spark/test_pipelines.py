"""The pipelines of the docs, each run from its file, twice, and compared with a plain Python computation."""

import dataclasses
import json
import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rookery.client.spark.checkpoints import Folder
from rookery.client.spark.pipelines.runner import CONTINUES, CRASHED, NEW, ChangedError, PipelineRun
from rookery.client.spark.pipelines.spec import Pipeline
from rookery.client.spark.pipelines.spec_file import read_pipeline
from rookery.client.spark.pipelines.tables import read_table, versions
from rookery.client.spark.progress import Progress
from tests.cluster.local import LocalCluster
from tests.spark.orders import BAD, Order, Part, in_time, revenue, two_parts
from tests.spark.topics import Outgoing, load, write

pytestmark = [pytest.mark.timeout(900), pytest.mark.row(173)]
"""The first test of a run also starts Java and the cluster."""

FILES = Path(__file__).parents[2] / "docs" / "pipelines"
NAMES = ("lake", "revenue", "customers", "shipped", "scores")
TOPICS = {
    "orders": 2, "orders.bad": 1, "shipments": 1, "customers": 2, "revenue": 1, "shipped": 2, "large-orders": 1,
}  # fmt: skip
CUSTOMERS: tuple[dict[str, dict[str, str] | None], ...] = (
    {"a": {"name": "Ann", "city": "Bern"}, "b": {"name": "Bob", "city": "Basel"}, "c": {"name": "Cem", "city": "Chur"}},
    {"a": {"name": "Ann", "city": "Genf"}, "b": None, "d": {"name": "Dan", "city": "Davos"}},
)


def pipeline(folder: Path, name: str) -> Pipeline:
    """As `rookery pipeline run --once FILE` has it."""
    (path,) = [each for each in folder.glob(f"{name}.*") if each.suffix != ".py"]
    return dataclasses.replace(read_pipeline(path), every=None)


@dataclasses.dataclass
class Ran:
    folder: Path
    parts: tuple[Part, Part]
    starts: dict[str, list[str]]
    progress: dict[str, list[Progress]]


@pytest.fixture(scope="module")
def ran(spark: SparkSession, cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """All pipelines, run side by side after each part."""
    folder = tmp_path_factory.mktemp("pipelines")
    shutil.copytree(FILES, folder, dirs_exist_ok=True)
    for topic, partitions in TOPICS.items():
        cluster.create_topic(topic, partitions, 3, {"cleanup.policy": "compact"} if topic == "customers" else {})
    ran = Ran(folder, two_parts(), {name: [] for name in NAMES}, {})
    for part, customers in zip(ran.parts, CUSTOMERS, strict=True):
        write(cluster, "orders", part.records())
        write(cluster, "shipments", part.shipped())
        older = [Outgoing(b'{"name": "old"}', key.encode(), partition=ord(key) % 2) for key in customers]
        newer = [
            Outgoing(None if value is None else json.dumps(value).encode(), key.encode(), partition=ord(key) % 2)
            for key, value in customers.items()
        ]
        write(cluster, "customers", [*older, *newer, Outgoing(b"no json", b"a", partition=1)])
        runs = {name: PipelineRun(spark, pipeline(folder, name), reach(cluster)) for name in NAMES}
        for name, run in runs.items():
            ran.starts[name].append(run.start().kind)
        for name, run in runs.items():
            ran.progress[name] = run.watch(lambda _: None)
    return ran


def reach(cluster: LocalCluster) -> dict[str, str]:
    return {"kafka.bootstrap.servers": cluster.bootstrap}


def values(spark: SparkSession, cluster: LocalCluster, topic: str) -> list[dict[str, Any]]:
    rows = load(spark, cluster, topic, **{"kafka.isolation.level": "read_committed"}).collect()
    return [{"(key)": None if row.key is None else bytes(row.key).decode(), **json.loads(row.value)} for row in rows]


def test_topic_to_files_by_day(spark: SparkSession, ran: Ran) -> None:
    rows = spark.read.parquet(str(ran.folder / "lake" / "orders"))
    found = sorted((row.id, row.customer, row.amount, row.at, str(row.day)) for row in rows.collect())
    sent = [order for part in ran.parts for order in part.orders]
    assert found == sorted((o.id, o.customer, o.amount, naive(o.at), f"{o.at:%Y-%m-%d}") for o in sent)
    assert {path.name for path in (ran.folder / "lake" / "orders").glob("day=*")} == {
        f"day={order.at:%Y-%m-%d}" for order in sent
    }
    rows_read = ran.progress["lake"][0]
    assert (rows_read.rows, rows_read.bad_rows) == (len(ran.parts[1].orders) + len(BAD), len(BAD))
    assert rows_read.behind == 0
    assert rows_read.rows_per_second > 0


def naive(moment: datetime) -> datetime:
    """As Spark gives times: in the zone of this process."""
    return moment.astimezone().replace(tzinfo=None)


def test_bad_rows_are_kept_as_they_came(spark: SparkSession, cluster: LocalCluster, ran: Ran) -> None:
    rows = load(spark, cluster, "orders.bad", includeHeaders="true", **{"kafka.isolation.level": "read_committed"})
    letters = rows.collect()
    assert sorted(bytes(row.value) for row in letters) == sorted(BAD * 2)
    places = set()
    for row in letters:
        headers = {header.key: bytes(header.value).decode() for header in row.headers}
        value = bytes(row.value)
        missing = {BAD[-2]: "id is required and missing", BAD[-1]: "at is required and missing"}
        assert headers["rookery.error"] == missing.get(value, headers["rookery.error"])
        assert value in missing or headers["rookery.error"].startswith("the value is no JSON object")
        assert (headers["rookery.topic"], bytes(row.key)) == ("orders", b"bad")
        places.add((headers["rookery.partition"], headers["rookery.offset"]))
    assert len(places) == len(letters), "each was another record"


def test_windows_of_orders_in_time_each_once(spark: SparkSession, cluster: LocalCluster, ran: Ran) -> None:
    found = values(spark, cluster, "revenue")
    windows = {datetime.fromisoformat(row["start"]): (row["orders"], round(row["revenue"], 2)) for row in found}
    assert windows == revenue(ran.parts)
    assert len(found) == len(windows), "a window is written once"
    assert len(windows) > 30


def test_newest_row_of_each_key(spark: SparkSession, ran: Ran) -> None:
    path = str(ran.folder / "tables" / "customers")
    expected: dict[str, Any] = {}
    for part in CUSTOMERS:
        expected |= part
    table = {row._key: (row.name, row.city, row.region) for row in read_table(spark, path).collect()}
    assert table == {
        key: (value["name"], value["city"], value["city"].upper()) for key, value in expected.items() if value
    }
    assert len(versions(spark, path)) == 2
    assert ran.progress["customers"][0].bad_rows == 1


def test_two_streams_joined(spark: SparkSession, cluster: LocalCluster, ran: Ran) -> None:
    orders = {order.id: order for order in in_time(ran.parts, timedelta(hours=1))}
    expected = sorted(
        (id, orders[id].amount, carrier)
        for part in ran.parts
        for id, carrier, sent in part.shipments
        if id in orders and orders[id].at <= sent <= orders[id].at + timedelta(days=1)
    )
    found = values(spark, cluster, "shipped")
    assert sorted((row["id"], row["amount"], row["carrier"]) for row in found) == expected
    assert {row["(key)"] for row in found} == {str(id) for id, *_ in expected}
    assert len(expected) == 120


def test_a_transform_in_python(spark: SparkSession, cluster: LocalCluster, ran: Ran) -> None:
    def graded(order: Order) -> tuple[int, str, str]:
        return order.id, order.customer, "huge" if order.amount >= 1000 else "large"

    found = [(row["id"], row["(key)"], row["grade"]) for row in values(spark, cluster, "large-orders")]
    sent = [order for part in ran.parts for order in part.orders]
    assert sorted(found) == sorted(graded(order) for order in sent if order.amount >= 100)


def test_how_a_run_begins(spark: SparkSession, cluster: LocalCluster, ran: Ran) -> None:
    """The second run continued the first. A run that did not end is told apart from a file that changed."""
    assert all(starts == [NEW, CONTINUES] for starts in ran.starts.values()), ran.starts
    lake = pipeline(ran.folder, "lake")
    note = Path(lake.checkpoint) / "pipeline.json"
    (note.parent / f".{note.name}.crc").unlink()  # the sum of what is replaced here
    note.write_text(note.read_text().replace('"ended": true', '"ended": false'))
    crashed = PipelineRun(spark, lake, reach(cluster))
    assert crashed.start().kind == CRASHED
    assert [progress.rows for progress in crashed.watch(lambda _: None)] == [0, 0]
    other = dataclasses.replace(lake, sink=dataclasses.replace(lake.sink, partition_by=("customer",)))
    with pytest.raises(ChangedError, match=r"the file has changed since .*: sink\.partition_by"):
        PipelineRun(spark, other, reach(cluster)).start()
    faster = dataclasses.replace(
        lake, sources=(dataclasses.replace(lake.sources[0], options={"minPartitions": "4"}),)
    )
    tuned = PipelineRun(spark, faster, reach(cluster))
    assert tuned.start().kind == CONTINUES
    tuned.watch(lambda _: None)


def test_a_note_is_the_old_one_or_the_new_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that dies while it writes leaves the plan there, so that a changed file is still seen."""

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    folder = Folder(spark, str(tmp_path / "checkpoint"))
    for text in ("first", "second"):
        folder.write("note", text)
        assert folder.read("note") == text
    with monkeypatch.context() as patched:
        patched.setattr(Folder, "_rename_over", dies)
        with pytest.raises(KeyboardInterrupt):
            folder.write("note", "third")
    assert folder.read("note") == "second"
