"""Metrics of this broker's replicas, of the cluster and of failovers, under the names of Kafka and of kafka_exporter.

Only the leader exports the metrics of a partition, and only the active controller those of the cluster, so `sum()` over
all nodes counts nothing twice. Read at each scrape.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from uuid import UUID

from rookery.broker.replication.partition import Partition
from rookery.controller.controller import Controller
from rookery.core.config import transactions
from rookery.core.metadata import image
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
    """A broker's metrics of the partitions it leads, and of itself."""

    def of_led(value: Callable[[Partition], float]) -> Callable[[], Iterator[Sample]]:
        return lambda: ((labels_of(each), value(each)) for each in role.partitions if each.is_leader)

    for name, text, value in OF_LED:
        metrics.read(name, text, of_led(value), labels=PARTITION)
    metrics.read("kafka_topic_partitions", "Partitions of a topic.", lambda: _topic_sizes(role), labels=("topic",))
    metrics.read("kafka_broker_info", "This broker.", lambda: _address(role), labels=("id", "address"))


def _topic_sizes(role: "BrokerRole") -> Iterator[Sample]:
    """Exported by the leader of a topic's first partition."""
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
    """The metrics of the active controller."""

    def brokers() -> Iterator[Sample]:
        if controller.metrics.active:
            yield (), sum(not broker.fenced for broker in controller.metrics.image.brokers.values())

    metrics.read("kafka_brokers", "Active brokers, exported by the active controller.", brokers)


LATE_TRANSACTION_BUFFER_MS = 5 * 60_000
REPLICA_MANAGER = "kafka_server_replicamanager_"


def publish_replicas(metrics: Metrics, role: "BrokerRole") -> None:
    partitions = role.partitions

    def count(condition: Callable[[Partition], bool]) -> Callable[[], float]:
        return lambda: sum(map(condition, partitions))

    late_after_ms = role.settings[transactions.MAX_TIMEOUT_MS] + LATE_TRANSACTION_BUFFER_MS

    def has_late_transaction(partition: Partition) -> bool:
        return partition.is_leader and partition.log.has_late_transaction(role.clock.wall_ms(), late_after_ms)

    for name, text, value in (
        ("partitioncount", "Replicas on this broker.", lambda: len(partitions)),
        ("leadercount", "Partitions this broker leads.", count(lambda p: p.is_leader)),
        ("underreplicatedpartitions", "Led partitions with replicas out of sync.", count(is_under_replicated)),
        ("underminisrpartitioncount", "Led partitions below min.insync.replicas.", count(is_under_min_isr)),
        ("atminisrpartitioncount", "Led partitions at min.insync.replicas.", count(is_at_min_isr)),
        (
            "partitionswithlatetransactionscount",
            "Led partitions with a transaction that should have been ended.",
            count(has_late_transaction),
        ),
        ("offlinereplicacount", "Replicas in failed directories.", count(lambda p: p.offline)),
    ):
        metrics.read_value(REPLICA_MANAGER + name, text, value)
    for name, text, total in (
        ("isrshrinks", "Removals from an ISR proposed.", lambda: role.in_sync.shrinks),
        ("isrexpands", "Entries into an ISR proposed.", lambda: role.in_sync.expands),
        ("failedisrupdates", "Proposals the controller refused.", lambda: role.in_sync.failed_updates),
    ):
        metrics.read_value(REPLICA_MANAGER + name, text, total, kind="counter")
    metrics.read_value(
        "kafka_log_logmanager_offlinelogdirectorycount", "Failed directories.", lambda: len(role.log_dirs.offline)
    )
    _publish_damage(metrics, role)
    metrics.read_value("kafka_server_kafkaserver_brokerstate", "3 is running.", lambda: int(role.lifecycle.state))
    _publish_logs(metrics, role)
    _publish_lags(metrics, role)
    publish_partitions(metrics, role)


def _publish_damage(metrics: Metrics, role: "BrokerRole") -> None:
    log_dirs = role.log_dirs

    def damaged() -> int:
        return sum(map(log_dirs.still_damaged, list(log_dirs.damaged)))

    metrics.read_value("rookery_damaged_replicas", "Replicas with damaged records, not rebuilt yet.", damaged)
    for name, text, total in (
        ("rookery_damage_found", "Damaged segments and replicas found.", lambda: log_dirs.damage_found),
        ("rookery_replica_rebuilds", "Damaged replicas rebuilt from others.", lambda: role.replicas.rebuilds),
        ("rookery_scrubbed_bytes", "Bytes of closed segments that were checked.", lambda: role.scrubber.bytes_read),
        ("rookery_scrub_passes", "How often all closed segments were checked.", lambda: role.scrubber.passes),
    ):
        metrics.read_value(name, text, total, kind="counter")


def _publish_logs(metrics: Metrics, role: "BrokerRole") -> None:
    def each(value: Callable[[Partition], float]) -> Callable[[], Iterator[Sample]]:
        return lambda: ((labels_of(partition), value(partition)) for partition in role.partitions)

    for name, text, value in (
        ("size", "Bytes of the log.", lambda p: p.log.segment_log.size),
        ("logendoffset", "Offset of the next record.", lambda p: p.log.end_offset),
        ("logstartoffset", "First offset that is kept.", lambda p: p.log.start_offset),
        ("numlogsegments", "Segments of the log.", lambda p: len(p.log.segment_log.segments)),
    ):
        metrics.read(f"kafka_log_log_{name}", text, each(value), labels=PARTITION)


def _publish_lags(metrics: Metrics, role: "BrokerRole") -> None:
    def of_followers() -> Iterator[Sample]:
        """How far each follower of a led partition is behind."""
        for partition in role.partitions:
            if partition.leading is not None:
                for node in partition.leading.followers:
                    yield (*labels_of(partition), str(node)), partition.leading.lag(node)

    metrics.read(
        "rookery_follower_lag_records", "Records each follower lacks.", of_followers, labels=(*PARTITION, "follower")
    )
    metrics.read(
        "kafka_server_fetcherlagmetrics_consumerlag",
        "Lag of this broker's replicas behind the leader's high watermark, in records.",
        lambda: ((tuple(map(str, place)), lag) for place, lag in role.followers.lags().items()),
        labels=PARTITION,
    )


Key = tuple[UUID, int]
AnsweredAt = Callable[[UUID, int], float | None]
BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0)


class Failovers:
    """Gets changes before they are applied to the replicas: it has to look up whom this broker followed until now."""

    def __init__(
        self, metrics: Metrics, node_id: int, time: Callable[[], float], answered_at: AnsweredAt
    ) -> None:
        """`answered_at` says when the leader of a partition last answered this broker."""
        self._node_id = node_id
        self._time = time
        self._answered_at = answered_at
        self._leaderless: dict[Key, float] = {}
        self._seconds = metrics.histogram(
            "rookery_failover_seconds",
            "From the last answer of a partition's old leader to the moment this broker took over.",
            buckets=BUCKETS_S,
        )

    def publish(self, changes: image.Changes) -> None:
        for change in changes.partitions:
            if change.after is None:
                self._leaderless.pop((change.topic_id, change.partition), None)
            elif change.before is not None and change.leader_changed:
                self._changed((change.topic_id, change.partition), change.after)

    def _changed(self, key: Key, after: image.Partition) -> None:
        since = self._leaderless.pop(key, None)
        if since is None:
            since = self._answered_at(*key)
        if since is None:
            return  # their former followers report partitions that this broker did not follow
        if after.leader == self._node_id:
            self._seconds.observe(max(0.0, self._time() - since))
        elif not after.has_leader:
            self._leaderless[key] = since
