"""Fail on purpose: their reports must show what happened in the cluster. Run by name only."""

import pytest

from rookery.testing import Cluster


def test_a_failover_that_fails(rookery_cluster, rookery_topic):
    leader = rookery_cluster.leader(rookery_topic)
    with rookery_cluster.kill(leader):
        rookery_cluster.wait_for(lambda: rookery_cluster.leader(rookery_topic) != leader, "another leader")
    raise AssertionError("on purpose")


@pytest.fixture(scope="module")
def own_cluster():
    with Cluster(nodes=1) as cluster:
        yield cluster


def test_with_a_fixture_of_its_own(own_cluster):
    own_cluster.create_topic("in-a-fixture")
    raise AssertionError("on purpose")


def test_with_a_block_of_its_own():
    with Cluster(nodes=1) as cluster:
        cluster.create_topic("in-a-block")
        raise AssertionError("on purpose")
