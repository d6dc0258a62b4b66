"""A Spark session for tests that starts quickly: few threads, the first compiler only, workers from site-packages."""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from rookery.client.spark import register

CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def link_home(folder: Path) -> Path:
    """Spark's home without its zipped Python, which holds no compiled files: workers then import the installed one."""
    home = folder / "spark"
    home.mkdir()
    for name in ("bin", "sbin", "jars"):
        (home / name).symlink_to(Path(pyspark.__file__).parent / name)
    return home


@contextmanager
def spark_session(settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    with tempfile.TemporaryDirectory(prefix="rookery-spark-") as name:
        folder = Path(name)
        os.environ.update(
            SPARK_HOME=str(link_home(folder)),
            PYSPARK_PYTHON=sys.executable,
            SPARK_LOCAL_IP="127.0.0.1",
        )
        session = (
            SparkSession.builder.master("local[2]")
            .appName("rookery-tests")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.driver.memory", "1g")
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .config("spark.sql.streaming.checkpointFileManagerClass", CHECKPOINTS)
            .config(map=dict(settings or {}))
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("ERROR")
        try:
            register(session)
            yield session
        finally:
            session.stop()
