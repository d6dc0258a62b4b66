"""Every API this project can read and write, by key."""

from typing import Any

from rookery.core.wire.api import Api
from rookery.core.wire.apis.add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from rookery.core.wire.apis.add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from rookery.core.wire.apis.alter_client_quotas import ALTER_CLIENT_QUOTAS
from rookery.core.wire.apis.alter_configs import ALTER_CONFIGS
from rookery.core.wire.apis.alter_partition_reassignments import ALTER_PARTITION_REASSIGNMENTS
from rookery.core.wire.apis.alter_replica_log_dirs import ALTER_REPLICA_LOG_DIRS
from rookery.core.wire.apis.alter_share_group_offsets import ALTER_SHARE_GROUP_OFFSETS
from rookery.core.wire.apis.alter_user_scram_credentials import ALTER_USER_SCRAM_CREDENTIALS
from rookery.core.wire.apis.api_versions import API_VERSIONS
from rookery.core.wire.apis.consumer_group_describe import CONSUMER_GROUP_DESCRIBE
from rookery.core.wire.apis.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT
from rookery.core.wire.apis.create_acls import CREATE_ACLS
from rookery.core.wire.apis.create_delegation_token import CREATE_DELEGATION_TOKEN
from rookery.core.wire.apis.create_partitions import CREATE_PARTITIONS
from rookery.core.wire.apis.create_topics import CREATE_TOPICS
from rookery.core.wire.apis.delete_acls import DELETE_ACLS
from rookery.core.wire.apis.delete_groups import DELETE_GROUPS
from rookery.core.wire.apis.delete_records import DELETE_RECORDS
from rookery.core.wire.apis.delete_share_group_offsets import DELETE_SHARE_GROUP_OFFSETS
from rookery.core.wire.apis.delete_topics import DELETE_TOPICS
from rookery.core.wire.apis.describe_acls import DESCRIBE_ACLS
from rookery.core.wire.apis.describe_client_quotas import DESCRIBE_CLIENT_QUOTAS
from rookery.core.wire.apis.describe_cluster import DESCRIBE_CLUSTER
from rookery.core.wire.apis.describe_configs import DESCRIBE_CONFIGS
from rookery.core.wire.apis.describe_delegation_token import DESCRIBE_DELEGATION_TOKEN
from rookery.core.wire.apis.describe_groups import DESCRIBE_GROUPS
from rookery.core.wire.apis.describe_log_dirs import DESCRIBE_LOG_DIRS
from rookery.core.wire.apis.describe_producers import DESCRIBE_PRODUCERS
from rookery.core.wire.apis.describe_quorum import DESCRIBE_QUORUM
from rookery.core.wire.apis.describe_share_group_offsets import DESCRIBE_SHARE_GROUP_OFFSETS
from rookery.core.wire.apis.describe_topic_partitions import DESCRIBE_TOPIC_PARTITIONS
from rookery.core.wire.apis.describe_transactions import DESCRIBE_TRANSACTIONS
from rookery.core.wire.apis.describe_user_scram_credentials import DESCRIBE_USER_SCRAM_CREDENTIALS
from rookery.core.wire.apis.elect_leaders import ELECT_LEADERS
from rookery.core.wire.apis.end_txn import END_TXN
from rookery.core.wire.apis.expire_delegation_token import EXPIRE_DELEGATION_TOKEN
from rookery.core.wire.apis.fetch import FETCH
from rookery.core.wire.apis.find_coordinator import FIND_COORDINATOR
from rookery.core.wire.apis.get_telemetry_subscriptions import GET_TELEMETRY_SUBSCRIPTIONS
from rookery.core.wire.apis.heartbeat import HEARTBEAT
from rookery.core.wire.apis.incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS
from rookery.core.wire.apis.init_producer_id import INIT_PRODUCER_ID
from rookery.core.wire.apis.join_group import JOIN_GROUP
from rookery.core.wire.apis.leave_group import LEAVE_GROUP
from rookery.core.wire.apis.list_config_resources import LIST_CONFIG_RESOURCES
from rookery.core.wire.apis.list_groups import LIST_GROUPS
from rookery.core.wire.apis.list_offsets import LIST_OFFSETS
from rookery.core.wire.apis.list_partition_reassignments import LIST_PARTITION_REASSIGNMENTS
from rookery.core.wire.apis.list_transactions import LIST_TRANSACTIONS
from rookery.core.wire.apis.metadata import METADATA
from rookery.core.wire.apis.offset_commit import OFFSET_COMMIT
from rookery.core.wire.apis.offset_delete import OFFSET_DELETE
from rookery.core.wire.apis.offset_fetch import OFFSET_FETCH
from rookery.core.wire.apis.offset_for_leader_epoch import OFFSET_FOR_LEADER_EPOCH
from rookery.core.wire.apis.produce import PRODUCE
from rookery.core.wire.apis.push_telemetry import PUSH_TELEMETRY
from rookery.core.wire.apis.renew_delegation_token import RENEW_DELEGATION_TOKEN
from rookery.core.wire.apis.sasl_authenticate import SASL_AUTHENTICATE
from rookery.core.wire.apis.sasl_handshake import SASL_HANDSHAKE
from rookery.core.wire.apis.share_acknowledge import SHARE_ACKNOWLEDGE
from rookery.core.wire.apis.share_fetch import SHARE_FETCH
from rookery.core.wire.apis.share_group_describe import SHARE_GROUP_DESCRIBE
from rookery.core.wire.apis.share_group_heartbeat import SHARE_GROUP_HEARTBEAT
from rookery.core.wire.apis.streams_group_heartbeat import STREAMS_GROUP_HEARTBEAT
from rookery.core.wire.apis.sync_group import SYNC_GROUP
from rookery.core.wire.apis.txn_offset_commit import TXN_OFFSET_COMMIT
from rookery.core.wire.apis.unregister_broker import UNREGISTER_BROKER
from rookery.core.wire.apis.update_features import UPDATE_FEATURES
from rookery.core.wire.apis.write_txn_markers import WRITE_TXN_MARKERS

ALL: tuple[Api[Any, Any], ...] = (
    PRODUCE,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    FIND_COORDINATOR,
    JOIN_GROUP,
    HEARTBEAT,
    LEAVE_GROUP,
    SYNC_GROUP,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    SASL_HANDSHAKE,
    API_VERSIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DELETE_RECORDS,
    INIT_PRODUCER_ID,
    OFFSET_FOR_LEADER_EPOCH,
    ADD_PARTITIONS_TO_TXN,
    ADD_OFFSETS_TO_TXN,
    END_TXN,
    WRITE_TXN_MARKERS,
    TXN_OFFSET_COMMIT,
    DESCRIBE_ACLS,
    CREATE_ACLS,
    DELETE_ACLS,
    DESCRIBE_CONFIGS,
    ALTER_CONFIGS,
    ALTER_REPLICA_LOG_DIRS,
    DESCRIBE_LOG_DIRS,
    SASL_AUTHENTICATE,
    CREATE_PARTITIONS,
    CREATE_DELEGATION_TOKEN,
    RENEW_DELEGATION_TOKEN,
    EXPIRE_DELEGATION_TOKEN,
    DESCRIBE_DELEGATION_TOKEN,
    DELETE_GROUPS,
    ELECT_LEADERS,
    INCREMENTAL_ALTER_CONFIGS,
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    OFFSET_DELETE,
    DESCRIBE_CLIENT_QUOTAS,
    ALTER_CLIENT_QUOTAS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    ALTER_USER_SCRAM_CREDENTIALS,
    DESCRIBE_QUORUM,
    UPDATE_FEATURES,
    DESCRIBE_CLUSTER,
    DESCRIBE_PRODUCERS,
    UNREGISTER_BROKER,
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
    CONSUMER_GROUP_HEARTBEAT,
    CONSUMER_GROUP_DESCRIBE,
    GET_TELEMETRY_SUBSCRIPTIONS,
    PUSH_TELEMETRY,
    LIST_CONFIG_RESOURCES,
    DESCRIBE_TOPIC_PARTITIONS,
    SHARE_GROUP_HEARTBEAT,
    SHARE_GROUP_DESCRIBE,
    SHARE_FETCH,
    SHARE_ACKNOWLEDGE,
    STREAMS_GROUP_HEARTBEAT,
    DESCRIBE_SHARE_GROUP_OFFSETS,
    ALTER_SHARE_GROUP_OFFSETS,
    DELETE_SHARE_GROUP_OFFSETS,
)

by_key: dict[int, Api[Any, Any]] = {api.key: api for api in ALL}
