"""Questions of a test are answered by what the nodes know together: one that was cut off or paused is behind."""

from uuid import UUID

from rookery.core.net.cluster import PartitionView, TopicView
from rookery.sync import Producer
from rookery.testing import Cluster
from rookery.testing.questions import newest_view

OLD, NEW = UUID(int=1), UUID(int=2)
OPTIONS = {"broker.session.timeout.ms": 1000, "replica.lag.time.max.ms": 1000, "min.insync.replicas": 2}
FIRST = 1
"""The node that is asked first by whoever asks just one."""


def view(topic_id: UUID, leader: int, epoch: int, isr: tuple[int, ...]) -> TopicView:
    partition = PartitionView(0, leader, epoch, (1, 2, 3), isr, ())
    return TopicView("t", topic_id, False, {0: partition})


def test_the_latest_leader_epoch_counts() -> None:
    behind, newer = view(NEW, 1, 4, (1, 2, 3)), view(NEW, 2, 5, (2, 3))
    assert newest_view([(1, behind), (2, newer), (3, newer)]) == newer
    assert newest_view([(3, newer), (1, behind)]) == newer


def test_of_one_epoch_the_leader_knows_the_isr() -> None:
    behind, leaders = view(NEW, 2, 5, (1, 2, 3)), view(NEW, 2, 5, (2, 3))
    assert newest_view([(1, behind), (2, leaders), (3, behind)]) == leaders
    assert newest_view([(2, leaders), (1, behind)]) == leaders


def test_of_a_recreated_topic_the_one_that_most_know() -> None:
    deleted, recreated = view(OLD, 1, 9, (1,)), view(NEW, 2, 0, (2, 3))
    assert newest_view([(1, deleted), (2, recreated), (3, recreated)]) == recreated


def test_a_node_that_was_cut_off_is_not_believed() -> None:
    """Right after the network is whole again, it still names itself as the leader, of all replicas in sync."""
    with Cluster(nodes=3, config=OPTIONS) as cluster:
        cluster.create_topic("t", partitions=3, replication_factor=3)
        [led, *_] = [index for index in range(3) if cluster.leader("t", index) == FIRST]
        with cluster.slow(FIRST, 1000):  # so that it takes a while to learn what happened
            with cluster.partition([FIRST], [2, 3]):
                cluster.wait_for(lambda: cluster.leader("t", led) != FIRST, "another leader")
                with Producer(bootstrap_servers=cluster.nodes.answering, request_timeout_ms=3000) as producer:
                    producer.send("t", b"meanwhile", partition=led).result()
            assert cluster.leader("t", led) != FIRST
            assert [record.value for record in cluster.records("t")] == [b"meanwhile"]
            assert cluster.high_watermark("t", led) == 1
        cluster.wait_in_sync("t")
        assert cluster.isr("t", led) == [1, 2, 3]
