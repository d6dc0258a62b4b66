"""`register(spark)`: a source that PySpark has found by itself is not registered again, which Spark would warn of."""

from types import SimpleNamespace
from typing import Any

import pytest

from rookery.client.spark import register
from rookery.client.spark.source import RookeryDataSource


@pytest.mark.parametrize("known", [True, False, None])
def test_only_a_source_that_is_not_known_is_registered(known: bool | None) -> None:
    """Without a JVM beside it (Spark Connect) nobody can tell."""
    registered: list[type] = []
    asked: list[str] = []

    def exists(name: str) -> bool:
        asked.append(name)
        return bool(known)

    manager = SimpleNamespace(dataSourceExists=exists)
    state = SimpleNamespace(dataSourceManager=lambda: manager)
    spark: Any = SimpleNamespace(dataSource=SimpleNamespace(register=registered.append))
    if known is not None:
        spark._jsparkSession = SimpleNamespace(sessionState=lambda: state)
    register(spark)
    assert registered == ([] if known else [RookeryDataSource])
    assert asked == ([] if known is None else ["rookery"])
