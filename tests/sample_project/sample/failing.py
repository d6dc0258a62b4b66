"""Fails on purpose: its report must show what happened in the cluster. Run by name only."""


def test_a_failover_that_fails(rookery_cluster, rookery_topic):
    leader = rookery_cluster.leader(rookery_topic)
    with rookery_cluster.kill(leader):
        rookery_cluster.wait_for(lambda: rookery_cluster.leader(rookery_topic) != leader, "another leader")
    raise AssertionError("on purpose")
