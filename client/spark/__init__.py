"""Spark reads and writes topics: `register(spark)`, then `format("rookery")` with Spark's own Kafka options."""

from typing import Any


def register(spark: Any) -> None:
    """Make `format("rookery")` known to a session."""
    from rookery.client.spark.source import RookeryDataSource

    spark.dataSource.register(RookeryDataSource)
