"""`register(spark)`: a source that PySpark has found by itself is not registered again, which Spark would warn of."""

from types import SimpleNamespace
from typing import Any

import pytest

from rookery.client.spark import register
from rookery.client.spark.source import RookeryDataSource

OURS = {"PYSPARK_PYTHON": "./env/bin/python"}
DRIVERS = {"PYSPARK_DRIVER_PYTHON": "python3", **OURS}


@pytest.mark.parametrize(
    ("known", "environment", "again"),
    [(True, OURS, False), (True, DRIVERS, True), (True, {}, True), (False, OURS, True), (None, OURS, True)],
)
def test_only_a_source_that_is_not_known_is_registered(
    known: bool | None, environment: dict[str, str], again: bool
) -> None:
    """Without a JVM beside it (Spark Connect) nobody can tell. One that was found by another Python than that of the
    workers is registered all the same: executors may not have it."""
    registered: list[type] = []
    asked: list[str] = []

    def exists(name: str) -> bool:
        asked.append(name)
        return bool(known)

    manager = SimpleNamespace(dataSourceExists=exists)
    state = SimpleNamespace(dataSourceManager=lambda: manager)
    spark: Any = SimpleNamespace(
        dataSource=SimpleNamespace(register=registered.append),
        sparkContext=SimpleNamespace(pythonExec="./env/bin/python"),
        _jvm=SimpleNamespace(System=SimpleNamespace(getenv=environment.get)),
    )
    if known is not None:
        spark._jsparkSession = SimpleNamespace(sessionState=lambda: state)
    register(spark)
    assert registered == ([RookeryDataSource] if again else [])
    assert asked == ([] if known is None else ["rookery"])
