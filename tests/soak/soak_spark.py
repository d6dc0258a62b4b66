"""Kills the archive's driver again and again, at times a broker too, while records are written: each must be in the
files once."""

import random
import tempfile
import time
from pathlib import Path

from tests.cluster.local import local_cluster
from tests.spark.driver import ArchiveProcess
from tests.spark.numbers import Numbers
from tests.spark.session import spark_session
from tests.spark.topics import numbers

KILLS = 20
"""At least, however little time is given."""
PARTITIONS = 3
TOPIC = "t"
FOLLOWING = ("--follow", "--every", "0 seconds", "--batch", "200")


def main(budget_s: float) -> dict[str, object]:
    chance, deadline = random.Random(), time.monotonic() + budget_s
    drivers = brokers = 0
    with tempfile.TemporaryDirectory(prefix="rookery-lake-") as folder, local_cluster(3) as cluster:
        lake = Path(folder) / "lake"
        cluster.create_topic(TOPIC, PARTITIONS, 3)
        cluster.wait_in_sync(TOPIC, PARTITIONS)
        with Numbers(cluster, TOPIC, PARTITIONS) as written:
            while drivers < KILLS or time.monotonic() < deadline:
                driver = ArchiveProcess(cluster, TOPIC, lake, *FOLLOWING)
                try:
                    driver.wait_for_batches(1)
                    if chance.random() < 0.5:
                        cluster.kill(cluster.leader(TOPIC, chance.randrange(PARTITIONS)))
                        brokers += 1
                        driver.wait_for_batches(1)
                    time.sleep(chance.uniform(0, 3))
                finally:
                    driver.kill()
                drivers += 1
                cluster.up()
                cluster.wait_in_sync(TOPIC, PARTITIONS)
        ArchiveProcess(cluster, TOPIC, lake).wait()
        check(lake, written.sent)
    return {"drivers killed": drivers, "brokers killed": brokers, "records": written.sent}


def check(lake: Path, written: int) -> None:
    with spark_session() as spark:
        found = numbers(spark.read.parquet(str(lake)))
    if found != list(range(written)):
        twice, lost = len(found) - len(set(found)), len(set(range(written)) - set(found))
        raise AssertionError(f"of {written} records {lost} are missing and {twice} are there twice")
