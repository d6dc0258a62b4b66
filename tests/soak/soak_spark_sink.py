"""Kills drivers, executors, leaders and coordinators while a pipeline writes exactly once on a Spark cluster: a reader
with `read_committed` must see each record once, in order."""

import os
import random
import signal
import tempfile
import time
from pathlib import Path

from tests.cluster.local import local_cluster
from tests.spark import copying
from tests.spark.driver import PipelineProcess
from tests.spark.numbers import Numbers
from tests.spark.standalone import standalone_cluster

KILLS = 20
"""Of each kind at least, however little time is given."""
PARTITIONS = 3
REST_AT_ONCE = 20_000
"""The records that came faster than they were copied are copied in larger batches."""
SOURCE, SINK = "from", "to"
VICTIMS = ("driver", "executor", "leader", "coordinator")


def main(budget_s: float) -> dict[str, object]:
    chance, deadline = random.Random(), time.monotonic() + budget_s
    killed = dict.fromkeys(VICTIMS, 0)
    with (
        tempfile.TemporaryDirectory(prefix="rookery-sink-") as folder,
        local_cluster(3) as cluster,
        standalone_cluster() as standalone,
    ):
        for topic in (SOURCE, SINK):
            cluster.create_topic(topic, PARTITIONS, 3, {"min.insync.replicas": "2"})
            cluster.wait_in_sync(topic, PARTITIONS)
        file, checkpoint = copying.write_file(Path(folder), SOURCE, SINK), Path(folder) / "state"

        def start(*words: str) -> PipelineProcess:
            return PipelineProcess(
                cluster,
                file,
                checkpoint,
                *words,
                master=standalone.master,
                settings=standalone.settings,
                environment=standalone.environment,
            )

        with Numbers(cluster, SOURCE, PARTITIONS) as written:
            driver = start()
            try:
                driver.wait_for_batches(1)
                while min(killed.values()) < KILLS or time.monotonic() < deadline:
                    victim = VICTIMS[sum(killed.values()) % len(VICTIMS)]
                    time.sleep(chance.uniform(0, 2))
                    if victim == "driver":
                        driver.kill()
                        driver = start()
                    elif victim == "executor":
                        os.kill(chance.choice(standalone.executors()), signal.SIGKILL)
                    elif victim == "leader":
                        cluster.kill(cluster.leader(SINK, chance.randrange(PARTITIONS)))
                    else:
                        cluster.kill(copying.coordinator(cluster, checkpoint))
                    killed[victim] += 1
                    driver.wait_for_batches(2)
                    cluster.up()
                    cluster.wait_in_sync(SINK, PARTITIONS)
            finally:
                driver.kill()
        copying.write_file(Path(folder), SOURCE, SINK, REST_AT_ONCE)
        start("--once").wait()
        copying.check(cluster, SINK, PARTITIONS, written.sent)
    return {"killed": killed, "records": written.sent}
