"""One session and one cluster for all tests of this folder."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests import needs
from tests.cluster.local import LocalCluster, local_cluster
from tests.spark import connector
from tests.spark.session import spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    needs.command("java", "Spark runs on Java 17")
    with spark_session(connector.settings()) as session:
        yield session


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """Records are as old as a test says, and stay."""
    with local_cluster(3, log__cleaner__backoff__ms="200", log__retention__ms="-1") as running:
        yield running


@pytest.fixture(autouse=True)
def explained(request: pytest.FixtureRequest, cluster: LocalCluster) -> Iterator[None]:
    """The ends of the nodes' logs beside a failure."""
    failures = request.session.testsfailed
    yield
    if request.session.testsfailed > failures:
        cluster.show_logs()
