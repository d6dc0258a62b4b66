"""The pytest plugin: a cluster and clients as fixtures. Found by pytest after installation; nothing else is imported
before a fixture is used."""

from __future__ import annotations

import itertools
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from rookery.testing.cluster import Cluster

MARK = "rookery"
_BEGAN = pytest.StashKey[float]()
_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "rookery(nodes=3, config={}, processes=False, data=None): the cluster that the fixture rookery_cluster "
        "gives this test; tests with the same arguments share one",
    )


class Clusters:
    """One cluster for each shape that tests ask for, as long as the session lasts."""

    def __init__(self) -> None:
        self._running: dict[str, Cluster] = {}

    def get(self, options: dict[str, Any]) -> Cluster:
        shape = repr(sorted(options.items(), key=lambda item: item[0]))
        if shape not in self._running:
            from rookery.testing.cluster import Cluster

            self._running[shape] = Cluster(**options).start()
        return self._running[shape]

    def give_back(self, cluster: Cluster) -> None:
        """A test has ended: undo its faults. A cluster that is not whole then is not given to another test."""
        try:
            cluster.undo_all()
            whole = all(map(cluster.nodes.is_up, cluster.ids))
        except BaseException:
            self._drop(cluster)
            raise
        if not whole:
            self._drop(cluster)

    def _drop(self, cluster: Cluster) -> None:
        self._running = {shape: each for shape, each in self._running.items() if each is not cluster}
        cluster.stop()

    def stop(self) -> None:
        while self._running:
            self._running.popitem()[1].stop()


@pytest.fixture(scope="session")
def rookery_clusters() -> Iterator[Clusters]:
    """All clusters of this session (of this worker, with pytest-xdist)."""
    clusters = Clusters()
    try:
        yield clusters
    finally:
        clusters.stop()


@pytest.fixture
def rookery_cluster(request: pytest.FixtureRequest, rookery_clusters: Clusters) -> Iterator[Cluster]:
    """A running cluster, shared by tests of the same mark; faults that a test leaves behind are undone after it."""
    marks: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers(MARK))):
        if mark.args:
            raise pytest.UsageError("@pytest.mark.rookery takes keywords only, e.g. nodes=3, config={...}")
        marks |= mark.kwargs
    cluster = rookery_clusters.get(marks)
    try:
        yield cluster
    finally:
        rookery_clusters.give_back(cluster)


def _fresh(request: pytest.FixtureRequest) -> str:
    """A name no other test has, in this or another worker."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name).strip("-")[:100]
    return f"{plain}-{worker}-{next(_numbers)}"


@pytest.fixture
def rookery_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Makes names for topics, groups and transactional ids that no other test uses."""
    return lambda: _fresh(request)


@pytest.fixture
def rookery_topic(request: pytest.FixtureRequest, rookery_cluster: Cluster) -> str:
    """The name of a new topic with one partition."""
    name = _fresh(request)
    rookery_cluster.create_topic(name)
    return name


@pytest.fixture
def rookery_producer(rookery_cluster: Cluster) -> Iterator[Any]:
    """A blocking producer of Rookery's own client."""
    with import_module("rookery.sync").Producer(bootstrap_servers=rookery_cluster.bootstrap) as producer:
        yield producer


@pytest.fixture
def rookery_consumer(request: pytest.FixtureRequest, rookery_cluster: Cluster, rookery_topic: str) -> Iterator[Any]:
    """A blocking consumer of `rookery_topic`, in a group of its own, from the beginning."""
    with import_module("rookery.sync").Consumer(
        rookery_topic,
        bootstrap_servers=rookery_cluster.bootstrap,
        group_id=_fresh(request),
        auto_offset_reset="earliest",
    ) as consumer:
        yield consumer


def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_BEGAN] = time.monotonic()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """What happened in the clusters that run, whoever started them, is printed with a test that failed."""
    report = yield
    clusters = sys.modules.get("rookery.testing.cluster")
    if report.failed and clusters is not None:
        for cluster in clusters.running():
            since_s = cluster.timeline.at_monotonic(item.stash.get(_BEGAN, 0.0))
            report.sections.append((f"rookery timeline, {call.when}", cluster.story(since_s)))
    return report
