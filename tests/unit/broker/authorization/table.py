"""What each API needs, and what a caller sees who lacks it: the table that all handlers are tried against.

A right is written as in `scene.acl`: operation, type (Topic, Group, Cluster, transactional id X) and name. A row that
`lists` things leaves them out for who may not see them, and has no error.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.unit.broker.authorization.scene import DOOMED, GROUP, ID, STREAMING, TOPIC, Scene
from tests.unit.broker.talk import batch_of

T29, G30, C31, X53, OMITTED = 29, 30, 31, 53, 0
BATCH = batch_of(b"value")


@dataclass(frozen=True)
class Row:
    api: str
    version: int
    request: Callable[[Scene], dict[str, Any]]
    needs: tuple[tuple[str, int], ...]
    """Rights that suffice together, each with the code of who lacks it alone."""
    instead: tuple[tuple[str, ...], ...] = ()
    """Other rights that suffice."""
    lists: Callable[[Any], list[Any]] | None = None
    variant: str = ""
    takes_away: bool = False
    """Allowed, it would take away what other rows ask for; that is tried in test_denials.py."""

    @property
    def name(self) -> str:
        return f"{self.api}-{self.version}{self.variant and '-' + self.variant}"


FREE = {
    "ApiVersions": "says what is served before anybody is known",
    "DescribeCluster": "brokers are shown to all; the bit field has a test of its own",
    "SaslHandshake": "begins authentication",
    "SaslAuthenticate": "is authentication",
}
"""APIs that need no right, and why."""


def row(
    api: str, version: int, request: Any, *needs: tuple[str, int], instead: tuple[tuple[str, ...], ...] = (),
    lists: Callable[[Any], list[Any]] | None = None, variant: str = "", takes_away: bool = False,
) -> Row:  # fmt: skip
    made = request if callable(request) else lambda scene: request
    return Row(api, version, made, needs, instead, lists, variant, takes_away)


def _produce(**fields: Any) -> dict[str, Any]:
    data = {"partition_data": [{"index": 1, "records": fields.pop("batch", BATCH)}]}
    by = {"topic_id": fields.pop("topic_id")} if "topic_id" in fields else {"name": TOPIC}
    return {"acks": 1, "timeout_ms": 1000, "topic_data": [{**by, **data}], **fields}


def _transactional(scene: Scene) -> dict[str, Any]:
    batch = batch_of(b"v", producer_id=scene.producer_id, producer_epoch=scene.producer_epoch, base_sequence=0,
                     transactional=True)  # fmt: skip
    return _produce(batch=batch, transactional_id=ID)


def _fetch(**fields: Any) -> dict[str, Any]:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    by = {"topic_id": fields.pop("topic_id")} if "topic_id" in fields else {"topic": TOPIC}
    return {"max_bytes": 1 << 20, "topics": [{**by, "partitions": [partition]}], **fields}


def _named(name: str = TOPIC, **partition: Any) -> list[dict[str, Any]]:
    return [{"name": name, "partitions": [{"partition_index": 0, **partition}]}]


def _of_txn(scene: Scene) -> dict[str, Any]:
    return {"transactional_id": ID, "producer_id": scene.producer_id, "producer_epoch": scene.producer_epoch}


def _v3(scene: Scene) -> dict[str, Any]:
    return {
        "v3_and_below_transactional_id": ID,
        "v3_and_below_producer_id": scene.producer_id,
        "v3_and_below_producer_epoch": scene.producer_epoch,
        "v3_and_below_topics": [{"name": TOPIC, "partitions": [0]}],
    }


def _markers(scene: Scene) -> dict[str, Any]:
    topics = [{"name": TOPIC, "partition_indexes": [1]}]
    return {"markers": [{"producer_id": 99, "producer_epoch": 0, "transaction_result": True, "topics": topics}]}


def _config(type: int, name: str) -> dict[str, Any]:
    return {"resources": [{"resource_type": type, "resource_name": name, "configuration_keys": None}]}


def _alter(type: int, name: str) -> dict[str, Any]:
    return {"resources": [{"resource_type": type, "resource_name": name, "configs": []}], "validate_only": True}


_FILTER = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
_ACL = {
    "resource_type": 2, "resource_name": "x", "resource_pattern_type": 3, "principal": "User:x", "host": "*",
    "operation": 3, "permission_type": 3,
}  # fmt: skip
_JOIN = {"group_id": GROUP, "session_timeout_ms": 6000, "rebalance_timeout_ms": 6000, "protocol_type": "consumer",
         "protocols": [{"name": "range", "metadata": b""}]}  # fmt: skip
_BEAT = {"member_id": "m2", "member_epoch": 0, "rebalance_timeout_ms": 6000, "topic_partitions": []}

READ_T, WRITE_T, DESCRIBE_T = (f"{each} T {TOPIC}" for each in ("READ", "WRITE", "DESCRIBE"))
READ_G, DESCRIBE_G, DELETE_G = (f"{each} G {GROUP}" for each in ("READ", "DESCRIBE", "DELETE"))
WRITE_X, DESCRIBE_X = f"WRITE X {ID}", f"DESCRIBE X {ID}"

TABLE: tuple[Row, ...] = (
    row("Produce", 11, _produce(), (WRITE_T, T29), instead=(("ALL T *",), ("WRITE T ord*",))),
    row("Produce", 13, lambda scene: _produce(topic_id=scene.topic_id), (WRITE_T, T29), variant="by id"),
    row("Produce", 11, _transactional, (WRITE_X, X53), (WRITE_T, T29), variant="transactional"),
    row("Fetch", 12, _fetch(), (READ_T, T29)),
    row("Fetch", 16, lambda scene: _fetch(topic_id=scene.topic_id), (READ_T, T29), variant="by id"),
    row("Fetch", 12, _fetch(replica_id=5), ("CLUSTER_ACTION C", T29), variant="follower"),
    row("Fetch", 16, lambda scene: _fetch(topic_id=scene.topic_id, replica_state={"replica_id": 5}),
        ("CLUSTER_ACTION C", T29), variant="follower by id"),
    row("ListOffsets", 8, {"topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": -1}]}]},
        (DESCRIBE_T, T29), instead=((READ_T,), (WRITE_T,))),
    row("Metadata", 12, {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": False}, (DESCRIBE_T, T29),
        instead=((READ_T,), (f"ALTER T {TOPIC}",))),
    row("Metadata", 12, lambda scene: {"topics": [{"topic_id": scene.topic_id, "name": None}]}, (DESCRIBE_T, T29),
        variant="by id"),
    row("Metadata", 12, {"topics": [{"name": "absent"}], "allow_auto_topic_creation": True},
        ("DESCRIBE T absent", T29), ("CREATE T absent", T29), instead=(("DESCRIBE T absent", "CREATE C"),),
        variant="creating"),
    row("Metadata", 12, {"topics": None}, (DESCRIBE_T, OMITTED), lists=lambda a: list(a.topics), variant="all"),
    row("DescribeTopicPartitions", 0, {"topics": [{"name": TOPIC}]}, (DESCRIBE_T, T29)),
    row("DescribeTopicPartitions", 0, {"topics": []}, (DESCRIBE_T, OMITTED), lists=lambda a: list(a.topics),
        variant="all"),
    row("OffsetCommit", 9, {"group_id": GROUP, "generation_id_or_member_epoch": -1,
                            "topics": _named(committed_offset=1)}, (READ_G, G30), (READ_T, T29)),
    row("OffsetCommit", 10, lambda scene: {"group_id": GROUP, "generation_id_or_member_epoch": -1, "topics": [
        {"topic_id": scene.topic_id, "partitions": [{"partition_index": 0, "committed_offset": 1}]}]},
        (READ_G, G30), (READ_T, T29), variant="by id"),
    row("TxnOffsetCommit", 3, lambda scene: {**_of_txn(scene), "group_id": GROUP, "generation_id": -1,
                                             "topics": _named(committed_offset=1)},
        (WRITE_X, X53), (READ_G, G30), (READ_T, T29)),
    row("OffsetFetch", 8, {"groups": [{"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}]},
        (DESCRIBE_G, G30), (DESCRIBE_T, T29), instead=((READ_G, READ_T),)),
    row("OffsetFetch", 7, {"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]},
        (DESCRIBE_G, G30), (DESCRIBE_T, T29), variant="one group"),
    row("OffsetFetch", 10, lambda scene: {"groups": [{"group_id": GROUP, "topics": [
        {"topic_id": scene.topic_id, "partition_indexes": [0]}]}]},
        (DESCRIBE_G, G30), (DESCRIBE_T, T29), variant="by id"),
    row("FindCoordinator", 4, {"key_type": 0, "coordinator_keys": [GROUP]}, (DESCRIBE_G, G30)),
    row("FindCoordinator", 3, {"key_type": 0, "key": GROUP}, (DESCRIBE_G, G30)),
    row("FindCoordinator", 4, {"key_type": 1, "coordinator_keys": [ID]}, (DESCRIBE_X, X53), variant="transaction"),
    row("FindCoordinator", 6, {"key_type": 2, "coordinator_keys": ["g:t:0"]}, ("CLUSTER_ACTION C", C31),
        variant="share"),
    row("JoinGroup", 5, _JOIN, (READ_G, G30)),
    row("SyncGroup", 5, {"group_id": GROUP, "generation_id": 1, "member_id": "m"}, (READ_G, G30)),
    row("Heartbeat", 4, {"group_id": GROUP, "generation_id": 1, "member_id": "m"}, (READ_G, G30)),
    row("LeaveGroup", 5, {"group_id": GROUP, "members": [{"member_id": "m"}]}, (READ_G, G30)),
    row("DescribeGroups", 5, {"groups": [GROUP]}, (DESCRIBE_G, G30)),
    row("ListGroups", 4, {}, (DESCRIBE_G, OMITTED), instead=(("DESCRIBE C",),), lists=lambda a: list(a.groups)),
    row("DeleteGroups", 2, {"groups_names": ["doomed-group"]}, ("DELETE G doomed-group", G30)),
    row("OffsetDelete", 0, {"group_id": GROUP, "topics": [{"name": DOOMED, "partitions": [{"partition_index": 0}]}]},
        (DELETE_G, G30), (f"READ T {DOOMED}", T29)),
    row("ConsumerGroupHeartbeat", 1, {**_BEAT, "group_id": "fresh", "subscribed_topic_names": [TOPIC]},
        ("READ G fresh", G30), (DESCRIBE_T, T29)),
    row("ConsumerGroupDescribe", 1, {"group_ids": [STREAMING]}, (f"DESCRIBE G {STREAMING}", G30), (DESCRIBE_T, T29)),
    row("StreamsGroupHeartbeat", 0, {"group_id": GROUP, "member_id": "m", "member_epoch": 0}, (READ_G, G30)),
    row("InitProducerId", 3, {"transactional_id": None, "transaction_timeout_ms": 1000}, ("IDEMPOTENT_WRITE C", C31),
        instead=((WRITE_T,), ("WRITE T ord*",), ("ALL T *",))),
    row("InitProducerId", 3, {"transactional_id": "fresh", "transaction_timeout_ms": 1000}, ("WRITE X fresh", X53),
        variant="transactional"),
    row("AddPartitionsToTxn", 3, _v3, (WRITE_X, X53), (WRITE_T, T29)),
    row("AddPartitionsToTxn", 4, lambda scene: {"transactions": [
        {**_of_txn(scene), "verify_only": True, "topics": [{"name": TOPIC, "partitions": [0]}]}]},
        ("CLUSTER_ACTION C", C31), variant="broker"),
    row("AddOffsetsToTxn", 3, lambda scene: {**_of_txn(scene), "group_id": GROUP}, (WRITE_X, X53), (READ_G, G30)),
    row("EndTxn", 3, {"transactional_id": "fresh", "producer_id": 99, "producer_epoch": 0, "committed": True},
        ("WRITE X fresh", X53)),
    row("WriteTxnMarkers", 1, _markers, ("CLUSTER_ACTION C", C31), instead=(("ALTER C",),)),
    row("DescribeProducers", 0, {"topics": [{"name": TOPIC, "partition_indexes": [0]}]}, (READ_T, T29)),
    row("DescribeTransactions", 0, {"transactional_ids": [ID]}, (DESCRIBE_X, X53)),
    row("DescribeTransactions", 0, {"transactional_ids": [ID]}, (DESCRIBE_X, X53), (DESCRIBE_T, OMITTED),
        lists=lambda a: list(a.transaction_states[0].topics), variant="topics"),
    row("ListTransactions", 0, {}, (DESCRIBE_X, OMITTED), lists=lambda a: list(a.transaction_states)),
    row("CreateTopics", 7, {"topics": [{"name": "fresh", "num_partitions": 1, "replication_factor": 1}],
                            "validate_only": True},
        ("CREATE T fresh", T29), ("DESCRIBE_CONFIGS T fresh", T29), instead=(("CREATE C", "DESCRIBE_CONFIGS T *"),)),
    row("DeleteTopics", 5, {"topic_names": ["doomed"], "timeout_ms": 1000}, ("DELETE T doomed", T29)),
    row("DeleteTopics", 6, lambda scene: {"topics": [{"topic_id": scene.topic_id, "name": None}], "timeout_ms": 1000},
        (f"DELETE T {TOPIC}", T29), variant="by id", takes_away=True),
    row("DeleteRecords", 2, {"topics": _named(offset=0), "timeout_ms": 1000}, (f"DELETE T {TOPIC}", T29)),
    row("CreatePartitions", 3, {"topics": [{"name": TOPIC, "count": 3}], "timeout_ms": 1000, "validate_only": True},
        (f"ALTER T {TOPIC}", T29)),
    row("OffsetForLeaderEpoch", 4, {"topics": [{"topic": TOPIC, "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
        (DESCRIBE_T, T29), instead=(("CLUSTER_ACTION C",),)),
    row("DescribeConfigs", 4, _config(2, TOPIC), (f"DESCRIBE_CONFIGS T {TOPIC}", T29),
        instead=((f"ALTER_CONFIGS T {TOPIC}",),), variant="topic"),
    row("DescribeConfigs", 4, _config(32, GROUP), (f"DESCRIBE_CONFIGS G {GROUP}", G30), variant="group"),
    row("DescribeConfigs", 4, _config(4, "1"), ("DESCRIBE_CONFIGS C", C31), variant="broker"),
    row("AlterConfigs", 2, _alter(2, TOPIC), (f"ALTER_CONFIGS T {TOPIC}", T29), variant="topic"),
    row("AlterConfigs", 2, _alter(4, "1"), ("ALTER_CONFIGS C", C31), variant="broker"),
    row("IncrementalAlterConfigs", 1, _alter(2, TOPIC), (f"ALTER_CONFIGS T {TOPIC}", T29), variant="topic"),
    row("IncrementalAlterConfigs", 1, _alter(32, GROUP), (f"ALTER_CONFIGS G {GROUP}", G30), variant="group"),
    row("IncrementalAlterConfigs", 1, _alter(4, "1"), ("ALTER_CONFIGS C", C31), variant="broker"),
    row("ListConfigResources", 1, {"resource_types": []}, ("DESCRIBE_CONFIGS C", C31)),
    row("DescribeClientQuotas", 1, {"components": [], "strict": False}, ("DESCRIBE_CONFIGS C", C31)),
    row("AlterClientQuotas", 1, {"entries": [{"entity": [{"entity_type": "user", "entity_name": "u"}], "ops": []}],
                                 "validate_only": True}, ("ALTER_CONFIGS C", C31)),
    row("DescribeLogDirs", 4, {"topics": None}, ("DESCRIBE C", C31)),
    row("ElectLeaders", 2, {"topic_partitions": [{"topic": TOPIC, "partitions": [0]}]}, ("ALTER C", C31)),
    row("AlterPartitionReassignments", 0, {"topics": []}, ("ALTER C", C31)),
    row("ListPartitionReassignments", 0, {"topics": None}, ("DESCRIBE C", C31), instead=(("ALTER C",),)),
    row("DescribeQuorum", 1, {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]},
        ("DESCRIBE C", C31)),
    row("UpdateFeatures", 1, {"feature_updates": [], "validate_only": True}, ("ALTER C", C31)),
    row("UnregisterBroker", 0, {"broker_id": 77}, ("ALTER C", C31)),
    row("DescribeUserScramCredentials", 0, {"users": None}, ("DESCRIBE C", C31)),
    row("AlterUserScramCredentials", 0, {"deletions": [], "upsertions": [{
        "name": "ann", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"p" * 32,
    }]}, ("ALTER C", C31)),
    row("DescribeAcls", 3, _FILTER, ("DESCRIBE C", C31), instead=(("ALTER C",),)),
    row("CreateAcls", 3, {"creations": [_ACL]}, ("ALTER C", C31)),
    row("DeleteAcls", 3, {"filters": [{**_FILTER, "principal_filter": "User:nobody"}]}, ("ALTER C", C31)),
)  # fmt: skip
