"""Metrics of single partitions and of the cluster, under the names of Kafka and of kafka_exporter.

A partition is told of by the broker that leads it, the cluster by the active controller: sums over all nodes count
nothing twice.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rookery.broker.replication.partition import Partition
from rookery.controller.controller import Controller
from rookery.core.metrics import Metrics, Sample

if TYPE_CHECKING:
    from rookery.broker.node.broker_role import BrokerRole

PARTITION = ("topic", "partition")


def labels_of(partition: Partition) -> tuple[str, str]:
    return partition.topic, str(partition.index)


def is_under_replicated(partition: Partition) -> bool:
    return partition.is_leader and len(partition.state.isr) < len(partition.state.replicas)


def is_at_min_isr(partition: Partition) -> bool:
    needed = min(partition.settings.insync_replicas_min, len(partition.state.replicas))
    return partition.is_leader and len(partition.state.isr) == needed < len(partition.state.replicas)


def is_under_min_isr(partition: Partition) -> bool:
    return partition.is_leader and partition.below_min_isr


OF_LED: tuple[tuple[str, str, Callable[[Partition], float]], ...] = (
    ("kafka_cluster_partition_underminisr", "1 if below min.insync.replicas.", is_under_min_isr),
    ("kafka_cluster_partition_atminisr", "1 if at min.insync.replicas.", is_at_min_isr),
    ("kafka_cluster_partition_underreplicated", "1 if replicas are out of sync.", is_under_replicated),
    ("kafka_cluster_partition_replicascount", "Replicas.", lambda p: len(p.state.replicas)),
    ("kafka_cluster_partition_insyncreplicascount", "Replicas in sync.", lambda p: len(p.state.isr)),
    ("kafka_topic_partition_current_offset", "Offset of the next committed record.", lambda p: p.log.high_watermark),
    ("kafka_topic_partition_oldest_offset", "First offset that is kept.", lambda p: p.log.start_offset),
    ("kafka_topic_partition_leader", "Id of the leader.", lambda p: p.state.leader),
    ("kafka_topic_partition_replicas", "Replicas.", lambda p: len(p.state.replicas)),
    ("kafka_topic_partition_in_sync_replica", "Replicas in sync.", lambda p: len(p.state.isr)),
    (
        "kafka_topic_partition_leader_is_preferred",
        "1 if the preferred replica leads.",
        lambda p: p.state.leader == p.state.preferred_leader,
    ),
    ("kafka_topic_partition_under_replicated_partition", "1 if replicas are out of sync.", is_under_replicated),
)


def publish_partitions(metrics: Metrics, role: "BrokerRole") -> None:
    """What a broker tells of the partitions it leads, and of itself."""

    def of_led(value: Callable[[Partition], float]) -> Callable[[], Iterator[Sample]]:
        return lambda: ((labels_of(each), value(each)) for each in role.partitions if each.is_leader)

    for name, text, value in OF_LED:
        metrics.read(name, text, of_led(value), labels=PARTITION)
    metrics.read("kafka_topic_partitions", "Partitions of a topic.", lambda: _topic_sizes(role), labels=("topic",))
    metrics.read("kafka_broker_info", "This broker.", lambda: _address(role), labels=("id", "address"))


def _topic_sizes(role: "BrokerRole") -> Iterator[Sample]:
    """Told by the leader of a topic's first partition."""
    image = role.view.image
    for partition in role.partitions:
        if partition.is_leader and partition.index == 0:
            topic = image.topics.get(partition.topic_id)
            if topic is not None:
                yield (topic.name,), len(topic.partitions)


def _address(role: "BrokerRole") -> Iterator[Sample]:
    own = role.view.image.brokers.get(role.view.node_id)
    if own is not None and own.endpoints:
        end = own.endpoints[0]
        yield (str(own.id), f"{end.host}:{end.port}"), 1


def publish_cluster(metrics: Metrics, controller: Controller) -> None:
    """What the active controller tells."""

    def brokers() -> Iterator[Sample]:
        if controller.metrics.active:
            yield (), sum(not broker.fenced for broker in controller.metrics.image.brokers.values())

    metrics.read("kafka_brokers", "Active brokers, exported by the active controller.", brokers)
