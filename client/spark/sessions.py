"""Sessions of Spark for the commands, local or on a cluster, with the source registered."""

import os
import sys
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from rookery.client.spark import register

LOG_LEVEL = "FATAL"
"""Of Spark's own log: failures are raised, and a command shows them in one line. `--conf spark.log.level=ERROR` brings
the traces of Java back."""


def open_session(master: str, settings: Mapping[str, str], name: str = "rookery-archive") -> SparkSession:
    """A session whose workers run this Python, unless PYSPARK_PYTHON or the settings name another."""
    os.environ.setdefault("PYSPARK_PYTHON", settings.get("spark.pyspark.python", sys.executable))
    builder: Any = SparkSession.builder
    builder = builder.master(master).appName(name)
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.log.level", LOG_LEVEL)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    register(spark)
    return spark
