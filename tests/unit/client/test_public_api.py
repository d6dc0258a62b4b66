"""The names and signatures that users of the client rely on. A change here is a change for them: see CHANGELOG.md."""

import inspect
import subprocess
import sys

import pytest

import rookery
import rookery.sync

NAMES = [
    "Acl",
    "AclFilter",
    "AclOperation",
    "Admin",
    "AuthenticationError",
    "BufferFullError",
    "Choice",
    "ClientError",
    "ClosedError",
    "CommitFailedError",
    "ConcurrentUseError",
    "ConfigEntry",
    "ConfigSource",
    "ConfigurationError",
    "Consumer",
    "Deliveries",
    "Delivery",
    "DeliveryTimeoutError",
    "FatalError",
    "ForkedError",
    "GroupDescription",
    "GroupMetadata",
    "Health",
    "IllegalStateError",
    "KafkaError",
    "KafkaTimeoutError",
    "LogTruncationError",
    "NewTopic",
    "NoBrokersError",
    "NoOffsetError",
    "OffsetAndMetadata",
    "OffsetAtTime",
    "PartitionInfo",
    "PatternType",
    "Permission",
    "Producer",
    "ProducerFencedError",
    "RebalanceListener",
    "Record",
    "RecordDeserializationError",
    "RecordMetadata",
    "RecordTooLargeError",
    "ResourceType",
    "RetriableError",
    "SerializationError",
    "SqliteStore",
    "TopicDescription",
    "TopicPartition",
    "Transaction",
    "TransactionAbortedError",
    "UpgradeType",
    "WakeupError",
    "idempotent",
    "is_fatal",
]

PRODUCER = {
    "abort_transaction": "self",
    "begin_transaction": "self",
    "close": "self, timeout_s",
    "commit_transaction": "self",
    "explain": "self",
    "flush": "self, timeout_s",
    "health": "self",
    "metrics": "self",
    "partitions_for": "self, topic",
    "send": "self, topic, value, key, headers, partition, timestamp_ms, on_delivery",
    "send_many": "self, topic, values, keys, partition, timestamp_ms",
    "send_offsets": "self, offsets, group",
    "start": "self",
    "transaction": "self",
    "try_send": "self, topic, value, key, headers, partition, timestamp_ms, on_delivery",
}

ADMIN = [
    "abort_transaction",
    "alter_config",
    "alter_group_offsets",
    "alter_quotas",
    "alter_reassignments",
    "alter_topic_config",
    "close",
    "create_acls",
    "create_partitions",
    "create_topic",
    "create_topics",
    "delete_acls",
    "delete_group",
    "delete_group_offsets",
    "delete_records",
    "delete_topic",
    "delete_topics",
    "delete_user",
    "describe_acls",
    "describe_broker_config",
    "describe_cluster",
    "describe_config",
    "describe_features",
    "describe_group",
    "describe_log_dirs",
    "describe_producers",
    "describe_quorum",
    "describe_quotas",
    "describe_record",
    "describe_topic",
    "describe_topic_config",
    "describe_topics",
    "describe_transaction",
    "describe_users",
    "elect_leaders",
    "explain",
    "list_config_resources",
    "list_group_offsets",
    "list_groups",
    "list_offsets",
    "list_reassignments",
    "list_topics",
    "list_transactions",
    "remove_members",
    "start",
    "timestamp_at",
    "unregister_broker",
    "update_features",
    "upsert_user",
]

CONSUMER = [
    "assign",
    "close",
    "commit",
    "explain",
    "getmany",
    "pause",
    "poll",
    "resume",
    "run",
    "seek",
    "start",
    "subscribe",
]


def methods(kind: type) -> dict[str, str]:
    found = inspect.getmembers(kind, inspect.isfunction)
    return {
        name: ", ".join(inspect.signature(function).parameters)
        for name, function in found
        if not name.startswith("_")
    }


def test_names() -> None:
    assert sorted(rookery.__all__) == sorted(["__version__", *NAMES])
    for name in NAMES:
        assert getattr(rookery, name) is not None
        assert getattr(rookery.sync, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Consummer'"):
        _ = rookery.Consummer


def test_the_producer() -> None:
    assert methods(rookery.Producer) == PRODUCER


def test_the_admin_client() -> None:
    assert sorted(methods(rookery.Admin)) == sorted(ADMIN)


def test_the_consumer() -> None:
    assert set(CONSUMER) <= set(methods(rookery.Consumer))


def test_blocking_clients_have_the_same_calls() -> None:
    face = rookery.sync.Producer(bootstrap_servers="localhost:1")
    try:
        assert set(PRODUCER) <= set(dir(face))
    finally:
        face.close()


def test_importing_the_package_imports_no_client() -> None:
    """`rookery --help` is quick because of that."""
    code = "import rookery, sys; print([m for m in sys.modules if m.startswith('rookery.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
