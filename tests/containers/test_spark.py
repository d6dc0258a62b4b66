"""Profile `spark` of the compose file: a pipeline on a master and two workers, which are killed on the way."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.cluster.local import wait_for
from tests.containers.cluster import ContainerCluster
from tests.containers.image import build_spark
from tests.spark.topics import Outgoing, write

pytestmark = pytest.mark.alone

SERVICES = ("spark-master", "spark-worker-1", "spark-worker-2", "pipeline")
LAKE = "lake"
"""The volume with files and checkpoints."""
WAIT_S = 240.0
FILES = """
import glob, json, pyarrow.parquet as pq
found = {}
for log in sorted(glob.glob("/data/lake/orders/_spark_metadata/[0-9]*")):
    for line in open(log).read().splitlines()[1:]:
        path = json.loads(line)["path"].removeprefix("file://")
        found[path] = pq.ParquetFile(path).read(["id"]).column("id").to_pylist()
print(json.dumps(sorted(id for ids in found.values() for id in ids)))
"""
"""The ids in the files that Spark's own log lists."""


@pytest.fixture
def profile(cluster: ContainerCluster) -> Iterator[ContainerCluster]:
    build_spark()
    cluster.remove_volume(LAKE)
    for topic in ("orders", "orders.bad"):
        cluster.create_topic(topic, 2)
        cluster.wait_in_sync(topic, 2)
    try:
        cluster.compose("up", "--detach", "--no-build", *SERVICES)
        yield cluster
    finally:
        print(cluster.compose("logs", "--no-color", "--tail", "40", *SERVICES))
        cluster.compose("rm", "--stop", "--force", *SERVICES)
        cluster.remove_volume(LAKE)


def orders(first: int, count: int) -> list[Outgoing]:
    begin = datetime(2026, 3, 1, 22, tzinfo=UTC)
    rows = [
        {"id": n, "customer": f"c{n % 5}", "amount": n / 4, "at": (begin + timedelta(minutes=n)).isoformat()}
        for n in range(first, first + count)
    ]
    return [Outgoing(json.dumps(row).encode(), partition=row["id"] % 2) for row in rows]  # type: ignore[operator]


def ids(cluster: ContainerCluster) -> list[int]:
    return [int(id) for id in json.loads(cluster.compose("exec", "-T", "pipeline", "python", "-c", FILES))]


@pytest.mark.row(173)
def test_a_pipeline_outlives_its_workers(profile: ContainerCluster) -> None:
    write(profile, "orders", [*orders(0, 300), Outgoing(b"no json", partition=0)])
    wait_for(lambda: ids(profile) == list(range(300)), "300 orders in the files", WAIT_S)
    for number, worker in enumerate(("spark-worker-1", "spark-worker-2")):
        profile.compose("kill", worker)
        first = 300 + 100 * number
        write(profile, "orders", orders(first, 100))
        wait_for(lambda last=first + 100: ids(profile) == list(range(last)), f"what came without {worker}", WAIT_S)  # type: ignore[misc]
        profile.compose("start", worker)
    command = ("rookery", "pipeline", "status", "orders", "-o", "json")
    status = json.loads(profile.compose("exec", "-T", "pipeline", *command))
    assert status[0]["queries"][0]["bad_rows"] == 1
