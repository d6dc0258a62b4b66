"""One image for all tests here, and one cluster for those that mend what they break."""

from collections.abc import Iterator

import pytest

from tests import needs
from tests.containers.cluster import ContainerCluster, compose_cluster
from tests.containers.image import build, size_mb
from tests.containers.report import LINES, tell

PROJECT = "rookery-test"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if LINES:
        terminalreporter.section("measured in containers")
        for line in LINES:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def image() -> str:
    needs.docker()
    name = build()
    tell(f"the image has {size_mb(name):.0f} MB")
    return name


@pytest.fixture(scope="package")
def cluster(image: str) -> Iterator[ContainerCluster]:
    with compose_cluster("compose.yaml", "kafka", image, PROJECT) as running:
        yield running


@pytest.fixture
def mended(cluster: ContainerCluster, request: pytest.FixtureRequest) -> Iterator[ContainerCluster]:
    """The cluster, whole again afterwards; after a failure the nodes are heard first."""
    failed_before = request.session.testsfailed
    yield cluster
    if request.session.testsfailed > failed_before:
        cluster.show_logs()
    cluster.mend()
