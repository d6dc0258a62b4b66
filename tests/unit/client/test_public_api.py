"""The names and signatures that users of the client rely on. A change here is a change for them: see CHANGELOG.md."""

import inspect
import subprocess
import sys

import pytest

import rookery
import rookery.sync
from rookery.client.consumer import options as consumer_options
from rookery.client.options import COMMON
from rookery.client.producer import options as producer_options

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
    "Columns",
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

ADMIN = {
    "abort_transaction": "self, place, producer",
    "alter_config": "self, kind, name, set, delete, append, subtract, validate_only",
    "alter_group_offsets": "self, group_id, offsets",
    "alter_quotas": "self, entity, values, validate_only",
    "alter_reassignments": "self, replicas",
    "alter_topic_config": "self, topic, set, delete",
    "close": "self",
    "create_acls": "self, acls",
    "create_partitions": "self, name, total, assignment, validate_only",
    "create_topic": "self, name, partitions, replication_factor, config, assignment, validate_only",
    "create_topics": "self, topics, validate_only",
    "delete_acls": "self, matching",
    "delete_group": "self, group_id",
    "delete_group_offsets": "self, group_id, places",
    "delete_records": "self, before",
    "delete_topic": "self, name",
    "delete_topics": "self, names",
    "delete_user": "self, name, mechanism",
    "describe_acls": "self, matching",
    "describe_broker_config": "self, broker, keys",
    "describe_cluster": "self, fenced",
    "describe_config": "self, kind, name, keys",
    "describe_features": "self",
    "describe_group": "self, group_id",
    "describe_log_dirs": "self, brokers, topics",
    "describe_producers": "self, places",
    "describe_quorum": "self",
    "describe_quotas": "self, matching, strict",
    "describe_record": "self, place, offset",
    "describe_topic": "self, name",
    "describe_topic_config": "self, topic, keys",
    "describe_topics": "self, names",
    "describe_transaction": "self, transactional_id",
    "describe_users": "self, names",
    "elect_leaders": "self, places, unclean",
    "explain": "self",
    "list_config_resources": "self, kinds",
    "list_group_offsets": "self, group_id, places, require_stable",
    "list_groups": "self, states, types, brokers",
    "list_offsets": "self, times, read_committed",
    "list_reassignments": "self, places",
    "list_topics": "self, internal",
    "list_transactions": "self, states, producer_ids, longer_than_ms, brokers",
    "remove_members": "self, group_id, instances",
    "start": "self",
    "timestamp_at": "self, place, offset",
    "unregister_broker": "self, broker",
    "update_features": "self, levels, upgrade_type, validate_only",
    "upsert_user": "self, name, password, mechanism, iterations",
}

CONSUMER = {
    "assign": "self, partitions",
    "beginning_offsets": "self, partitions, timeout_ms",
    "close": "self, timeout_s",
    "commit": "self, offsets, timeout_ms",
    "commit_async": "self, offsets, callback",
    "committed": "self, partitions, timeout_ms",
    "end_offsets": "self, partitions, timeout_ms",
    "explain": "self",
    "getcolumns": "self, timeout_ms, max_records",
    "getmany": "self, timeout_ms, max_records",
    "getone": "self, timeout_ms",
    "group_metadata": "self",
    "health": "self",
    "lag": "self, partition",
    "metrics": "self",
    "offsets_for_times": "self, times, timeout_ms",
    "partitions_for": "self, topic",
    "pause": "self, partitions",
    "poll": "self, timeout_ms, max_records",
    "position": "self, partition, timeout_ms",
    "positions": "self",
    "resume": "self, partitions",
    "run": "self, handler, concurrency, order_by, shutdown_timeout_s, handle_signals",
    "seek": "self, partition, offset",
    "seek_to_beginning": "self, partitions",
    "seek_to_committed": "self, partitions",
    "seek_to_end": "self, partitions",
    "seek_to_time": "self, time, partitions",
    "start": "self",
    "subscribe": "self, topics, pattern, listener",
    "unsubscribe": "self",
    "wakeup": "self",
}
PROPERTIES = {"assignment", "closed", "paused", "skipped", "subscription"}

COMMON_OPTIONS = """
    bootstrap.servers client.id default.api.timeout.ms metadata.max.age.ms reconnect.backoff.max.ms
    reconnect.backoff.ms request.timeout.ms retry.backoff.max.ms retry.backoff.ms sasl.jaas.config
    sasl.mechanism sasl.oauthbearer.token sasl.password sasl.username security.protocol
    socket.connection.setup.timeout.ms ssl.ca.location ssl.certificate.location
    ssl.endpoint.identification.algorithm ssl.key.location ssl.key.password ssl.keystore.certificate.chain
    ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type
    ssl.truststore.certificates ssl.truststore.location ssl.truststore.password ssl.truststore.type
"""
PRODUCER_OPTIONS = """
    acks auto.create.topics batch.size buffer.memory compression.gzip.level compression.lz4.level
    compression.type compression.zstd.level delivery.timeout.ms enable.idempotence key.serializer linger.ms
    max.block.ms max.in.flight.requests.per.connection max.request.size partitioner
    partitioner.adaptive.partitioning.enable partitioner.ignore.keys retries transaction.timeout.ms
    transactional.id value.serializer
"""
CONSUMER_OPTIONS = """
    allow.auto.create.topics auto.commit.interval.ms auto.offset.reset check.crcs client.rack
    close.timeout.ms dead.letter.topic enable.auto.commit exclude.internal.topics fetch.max.bytes
    fetch.max.wait.ms fetch.min.bytes group.id group.instance.id group.protocol group.remote.assignor
    heartbeat.interval.ms isolation.level key.deserializer max.partition.fetch.bytes max.poll.interval.ms
    max.poll.records on.deserialize.error partition.assignment.strategy session.timeout.ms
    value.deserializer
"""


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
    assert methods(rookery.Admin) == ADMIN


def test_the_consumer() -> None:
    assert methods(rookery.Consumer) == CONSUMER
    properties = {name for name, _ in inspect.getmembers(rookery.Consumer, lambda each: isinstance(each, property))}
    assert {name for name in properties if not name.startswith("_")} == PROPERTIES


def test_options() -> None:
    """Names are Kafka's; one that goes away breaks programs that set it."""
    assert {option.name for option in COMMON} == set(COMMON_OPTIONS.split())
    assert {option.name for option in producer_options.TABLE} == set((COMMON_OPTIONS + PRODUCER_OPTIONS).split())
    assert {option.name for option in consumer_options.TABLE} == set((COMMON_OPTIONS + CONSUMER_OPTIONS).split())


@pytest.mark.parametrize(
    ("name", "calls"),
    [("Producer", set(PRODUCER)), ("Consumer", set(CONSUMER) | PROPERTIES), ("Admin", set(ADMIN))],
)
def test_blocking_clients_have_the_same_calls(name: str, calls: set[str]) -> None:
    face = getattr(rookery.sync, name)(bootstrap_servers="localhost:1")
    try:
        assert calls <= set(dir(face))
    finally:
        face.close()


def test_importing_the_package_imports_no_client() -> None:
    """`rookery --help` is quick because of that."""
    code = "import rookery, sys; print([m for m in sys.modules if m.startswith('rookery.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
