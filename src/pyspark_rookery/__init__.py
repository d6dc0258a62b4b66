"""Found by PySpark itself: `format("rookery")` is known wherever this package is installed."""

from rookery.client.spark.source import RookeryDataSource


class DefaultSource(RookeryDataSource):
    """The name PySpark looks for."""
