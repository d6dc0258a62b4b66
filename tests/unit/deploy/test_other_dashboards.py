"""Dashboards and alerts that people have already find what they ask for: the names they query, by exporter.

What they ask about the JVM, ZooKeeper and the channel under Kafka's Raft does not exist here.
"""


import pytest

from rookery.broker.node.metrics_dialects import DIALECTS, MIXIN, STRIMZI, STRIMZI_REPORTER
from tests.cluster.local import local_cluster

TRAFFIC = (
    "bytesin", "bytesout", "messagesin", "failedfetchrequests", "failedproducerequests", "totalfetchrequests",
    "totalproducerequests",
)  # fmt: skip
COMMON = {
    "kafka_cluster_partition_atminisr",
    "kafka_cluster_partition_replicascount",
    "kafka_cluster_partition_underminisr",
    "kafka_controller_kafkacontroller_activecontrollercount",
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    "kafka_log_log_size",
    "kafka_server_kafkaserver_linux_disk_read_bytes",
    "kafka_server_kafkaserver_linux_disk_write_bytes",
    "kafka_server_replicamanager_leadercount",
    "kafka_server_replicamanager_partitioncount",
    "kafka_server_replicamanager_underreplicatedpartitions",
    "kafka_server_socket_server_metrics_connection_count",
    "process_open_fds",
}
RAFT = (
    "append_records_rate", "commit_latency_avg", "current_epoch", "current_leader", "current_vote",
    "fetch_records_rate", "high_watermark", "log_end_offset",
)  # fmt: skip
ASKED = {
    STRIMZI: COMMON
    | {f"kafka_server_brokertopicmetrics_{name}_total" for name in TRAFFIC}
    | {f"kafka_server_raftmetrics_{name}" for name in (*RAFT, "current_state")}
    | {
        "kafka_controller_controllerstats_uncleanleaderelections_total",
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    },
    STRIMZI_REPORTER: COMMON
    | {f"kafka_server_brokertopicmetrics_{name}persec_total" for name in TRAFFIC}
    | {f"kafka_server_raft_metrics_{name}" for name in RAFT}
    | {
        "kafka_controller_controllerstats_uncleanleaderelectionspersec_total",
        "kafka_network_socketserver_networkprocessoravgidlepercent",
    },
    MIXIN: {
        "kafka_cluster_partition_underminisr",
        "kafka_cluster_partition_underreplicated",
        "kafka_consumergroup_lag",
        "kafka_controller_controllerstats_uncleanleaderelectionspersec",
        "kafka_controller_kafkacontroller_activecontrollercount",
        "kafka_controller_kafkacontroller_offlinepartitionscount",
        "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
        "kafka_log_log_logendoffset",
        "kafka_log_log_logstartoffset",
        "kafka_log_log_size",
        "kafka_network_requestmetrics_localtimems",
        "kafka_network_requestmetrics_remotetimems",
        "kafka_network_requestmetrics_requestqueuetimems",
        "kafka_network_requestmetrics_responsequeuetimems",
        "kafka_network_requestmetrics_responsesendtimems",
        "kafka_server_brokertopicmetrics_bytesinpersec",
        "kafka_server_brokertopicmetrics_bytesoutpersec",
        "kafka_server_brokertopicmetrics_messagesinpersec",
        "kafka_server_kafkaserver_brokerstate",
        "kafka_server_replicamanager_isrexpandspersec",
        "kafka_server_replicamanager_isrshrinkspersec",
        "kafka_server_replicamanager_partitioncount",
        "kafka_topic_partition_current_offset",
    },
    "kafka_exporter": {
        "kafka_broker_info",
        "kafka_consumergroup_current_offset",
        "kafka_consumergroup_lag",
        "kafka_consumergroup_lag_sum",
        "kafka_consumergroup_members",
        "kafka_topic_partition_current_offset",
        "kafka_topic_partition_in_sync_replica",
        "kafka_topic_partition_leader_is_preferred",
        "kafka_topic_partition_oldest_offset",
        "kafka_topic_partition_replicas",
        "kafka_topic_partition_under_replicated_partition",
        "kafka_topic_partitions",
    },
}


@pytest.fixture(scope="module")
def told() -> set[str]:
    """The families of a real node that was told to speak all dialects; few have samples, since nothing happens."""
    with local_cluster(1, rookery__metrics__dialects=",".join(DIALECTS)) as cluster:
        lines = cluster.http(1, "/metrics").splitlines()
    return {line.split()[2] for line in lines if line.startswith("# TYPE ")}


@pytest.mark.row(75, 152)
@pytest.mark.parametrize("exporter", ASKED)
def test_every_name_is_reported_by_a_node_that_speaks_the_dialect(exporter: str, told: set[str]) -> None:
    assert ASKED[exporter] - told == set()
