"""Metrics of this broker's replicas, under the names that Kafka's dashboards query. Read when somebody scrapes."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rookery.broker.node.partition_metrics import (
    PARTITION,
    is_at_min_isr,
    is_under_min_isr,
    is_under_replicated,
    labels_of,
    publish_partitions,
)
from rookery.broker.replication.partition import Partition
from rookery.core.metrics import Metrics, Sample

if TYPE_CHECKING:
    from rookery.broker.node.broker_role import BrokerRole

REPLICA_MANAGER = "kafka_server_replicamanager_"


def publish_replicas(metrics: Metrics, role: "BrokerRole") -> None:
    partitions = role.partitions

    def count(condition: Callable[[Partition], bool]) -> Callable[[], float]:
        return lambda: sum(map(condition, partitions))

    for name, text, value in (
        ("partitioncount", "Replicas on this broker.", lambda: len(partitions)),
        ("leadercount", "Partitions this broker leads.", count(lambda p: p.is_leader)),
        ("underreplicatedpartitions", "Led partitions with replicas out of sync.", count(is_under_replicated)),
        ("underminisrpartitioncount", "Led partitions below min.insync.replicas.", count(is_under_min_isr)),
        ("atminisrpartitioncount", "Led partitions at min.insync.replicas.", count(is_at_min_isr)),
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
