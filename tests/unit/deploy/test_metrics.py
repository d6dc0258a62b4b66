"""The metrics that people's dashboards already ask for, on a real node under exactly these names."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.deploy.conftest import TOPIC

RAFT = ("current_leader", "current_epoch", "current_vote", "current_state", "high_watermark", "log_end_offset")
MUST_HAVE = {
    "kafka_server_replicamanager_": (
        "leadercount", "partitioncount", "underreplicatedpartitions", "underminisrpartitioncount",
        "atminisrpartitioncount", "offlinereplicacount", "isrshrinks_total", "isrexpands_total",
    ),
    "kafka_cluster_partition_": ("underminisr", "atminisr", "replicascount", "underreplicated"),
    "kafka_log_log_": ("size", "logendoffset", "logstartoffset", "numlogsegments"),
    "kafka_log_logmanager_": ("offlinelogdirectorycount",),
    "kafka_server_brokertopicmetrics_": (
        "messagesin_total", "bytesin_total", "bytesout_total", "totalproducerequests_total",
        "totalfetchrequests_total", "failedproducerequests_total", "failedfetchrequests_total",
    ),
    "kafka_server_kafkarequesthandlerpool_": ("requesthandleravgidle_percent",),
    "kafka_network_socketserver_": ("networkprocessoravgidle_percent",),
    "kafka_server_socket_server_metrics_": ("connection_count",),
    "kafka_server_kafkaserver_": ("brokerstate",),
    "kafka_server_raft_metrics_": (*RAFT, "commit_latency_avg", "append_records_rate"),
    "kafka_controller_kafkacontroller_": ("activecontrollercount", "offlinepartitionscount"),
    "kafka_controller_controllerstats_": ("uncleanleaderelections_total",),
    "kafka_network_requestmetrics_": (
        "totaltimems", "requestqueuetimems", "localtimems", "remotetimems", "responsequeuetimems", "responsesendtimems",
        "totaltimems_count",
    ),
    "kafka_topic_": ("partitions",),
    "kafka_topic_partition_": (
        "current_offset", "oldest_offset", "leader", "replicas", "in_sync_replica", "leader_is_preferred",
        "under_replicated_partition",
    ),
    "kafka_": ("brokers", "broker_info"),
    "kafka_consumergroup_": (
        "lag", "lag_sum", "current_offset", "current_offset_sum", "members", "group_lag_seconds",
    ),
    "kafka_server_group_coordinator_metrics_": (
        "group_count", "consumer_group_count", "consumer_group_rebalance_count",
    ),
    "process_": ("open_fds", "resident_memory_bytes", "cpu_seconds_total"),
    "rookery_": (
        "request_seconds_bucket", "event_loop_lag_seconds_bucket", "log_directory_free_bytes",
        "log_directory_capacity_bytes", "failover_seconds_bucket", "fsync_seconds_bucket", "acked_total",
        "metrics_left_out", "damaged_replicas", "damage_found_total", "replica_rebuilds_total",
        "scrubbed_bytes_total", "scrub_passes_total",
    ),
}  # fmt: skip
NAMES = [prefix + rest for prefix, names in MUST_HAVE.items() for rest in names]


@pytest.mark.row(75, 152)
def test_every_metric_is_there(scraped_names: set[str]) -> None:
    assert set(NAMES) - scraped_names == set()


@pytest.mark.row(75, 152)
def test_their_values_are_those_of_the_cluster(scrape: str) -> None:
    values = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(scrape)
        for sample in family.samples
    }
    first = (("partition", "0"), ("topic", TOPIC))
    assert values["kafka_controller_kafkacontroller_activecontrollercount",] == 1
    assert values["kafka_brokers",] == 1
    assert values["kafka_server_kafkaserver_brokerstate",] == 3
    assert values["kafka_topic_partitions", ("topic", TOPIC)] == 2
    assert values["kafka_topic_partition_current_offset", *first] == 1
    assert values["kafka_topic_partition_oldest_offset", *first] == 0
    assert values["kafka_topic_partition_leader", *first] == 1
    assert values["kafka_topic_partition_leader_is_preferred", *first] == 1
    assert values["kafka_cluster_partition_underminisr", *first] == 0
    assert values["kafka_log_log_logendoffset", *first] == 1
    assert values["kafka_server_brokertopicmetrics_messagesin_total", ("topic", TOPIC)] == 1
    assert values["kafka_server_raft_metrics_current_leader",] == 1


@pytest.mark.row(152)
def test_no_metric_is_reported_twice(scrape: str) -> None:
    lines = [line.rpartition(" ")[0] for line in scrape.splitlines() if not line.startswith("#")]
    assert len(lines) == len(set(lines))
