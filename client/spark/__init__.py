"""Spark reads and writes topics: `register(spark)`, then `format("rookery")` with Spark's own Kafka options."""

from typing import Any


def register(spark: Any) -> None:
    """Make `format("rookery")` known to a session. Where the package is installed PySpark has found it already, and
    would warn of a second one."""
    java: Any = getattr(spark, "_jsparkSession", None)
    if java is not None and java.sessionState().dataSourceManager().dataSourceExists("rookery"):
        return
    from rookery.client.spark.source import RookeryDataSource

    spark.dataSource.register(RookeryDataSource)
