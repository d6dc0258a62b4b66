"""Spark reads and writes topics: `register(spark)`, then `format("rookery")` with Spark's own Kafka options."""

from typing import Any


def register(spark: Any) -> None:
    """Make `format("rookery")` known to a session. Where the package is installed PySpark has found it already, and
    would warn of a second one; that is needed only if workers would run the wrong Python otherwise."""
    java: Any = getattr(spark, "_jsparkSession", None)
    known = java is not None and java.sessionState().dataSourceManager().dataSourceExists("rookery")
    if known and _python_of_found(spark) == spark.sparkContext.pythonExec:
        return
    from rookery.client.spark.source import RookeryDataSource

    spark.dataSource.register(RookeryDataSource)


def _python_of_found(spark: Any) -> str:
    """What runs the workers of sources that PySpark has found. It is the driver's own Python where one is named, which
    executors need not have; workers of registered sources run PYSPARK_PYTHON."""
    environment = spark._jvm.System.getenv
    return str(environment("PYSPARK_DRIVER_PYTHON") or environment("PYSPARK_PYTHON") or "python3")
