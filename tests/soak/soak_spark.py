"""Kills the archive's driver again and again while records are written: each must be in the files once."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.cluster.local import LocalCluster, local_cluster
from tests.spark.session import spark_session
from tests.spark.topics import numbered, write

KILLS_MAX = 20
PARTITIONS = 3
RECORDS = 200
START_S = 300.0


def start(cluster: LocalCluster, lake: Path) -> "subprocess.Popen[bytes]":
    """A driver in a process group of its own, so that its JVM and workers die with it."""
    command = [sys.executable, "-m", "rookery.client.cli", "pipeline", "archive", "t", str(lake)]
    command += ["--bootstrap", cluster.bootstrap, "--follow", "--every", "1 second", "--batch", "150"]
    return subprocess.Popen(
        [*command, "--master", "local[2]"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def main(budget_s: float) -> dict[str, object]:
    chance, deadline = random.Random(), time.monotonic() + budget_s
    kills = written = 0
    with tempfile.TemporaryDirectory(prefix="rookery-lake-") as folder, local_cluster(3) as cluster:
        lake = Path(folder) / "lake"
        cluster.create_topic("t", PARTITIONS, 3)
        while kills < KILLS_MAX and (time.monotonic() < deadline or not kills):
            driver = start(cluster, lake)
            before, begun = planned(lake), time.monotonic()
            kill_at = float("inf")
            while time.monotonic() < kill_at:
                write(cluster, "t", numbered(written, RECORDS, PARTITIONS))
                written += RECORDS
                time.sleep(0.5)
                if driver.poll() is not None:
                    raise AssertionError(f"the driver ended by itself with {driver.returncode}")
                if planned(lake) > before:
                    kill_at = min(kill_at, time.monotonic() + chance.uniform(0, 5))
                elif time.monotonic() - begun > START_S:
                    raise AssertionError(f"the driver planned no batch within {START_S:.0f} s")
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
            kills += 1
        finish(cluster, lake)
        check(lake, written)
    return {"kills": kills, "records": written}


def planned(lake: Path) -> int:
    """How many micro-batches the checkpoint knows of."""
    return len(list((lake / "_checkpoint" / "offsets").glob("[0-9]*")))


def finish(cluster: LocalCluster, lake: Path) -> None:
    """One last run, undisturbed, up to what is committed."""
    command = [sys.executable, "-m", "rookery.client.cli", "pipeline", "archive", "t", str(lake)]
    command += ["--bootstrap", cluster.bootstrap, "--master", "local[2]"]
    subprocess.run(command, check=True, timeout=600)


def check(lake: Path, written: int) -> None:
    with spark_session() as spark:
        rows = spark.read.parquet(str(lake)).select("value").collect()
    found = sorted(int(bytes(row.value)) for row in rows)
    if found != list(range(written)):
        twice, lost = len(found) - len(set(found)), len(set(range(written)) - set(found))
        raise AssertionError(f"of {written} records {lost} are missing and {twice} are there twice")
