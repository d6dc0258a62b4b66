"""All handlers of a broker, wired to what they need."""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from random import Random

from rookery.broker.coordination.internal_topic import CoordinatorFinder
from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.handlers.acls import acl_handlers, disabled_acl_handlers
from rookery.broker.handlers.alter_client_quotas import AlterClientQuotasHandler
from rookery.broker.handlers.alter_configs import (
    AlterConfigsHandler,
    ConfigChanges,
    IncrementalAlterConfigsHandler,
)
from rookery.broker.handlers.api_versions import ApiVersionsHandler
from rookery.broker.handlers.auto_creation import AutoCreation
from rookery.broker.handlers.classic_groups import (
    HeartbeatHandler,
    JoinGroupHandler,
    LeaveGroupHandler,
    SyncGroupHandler,
)
from rookery.broker.handlers.consumer_groups import (
    ConsumerGroupDescribeHandler,
    ConsumerGroupHeartbeatHandler,
)
from rookery.broker.handlers.create_partitions import CreatePartitionsHandler
from rookery.broker.handlers.create_topics import CreateTopicsHandler
from rookery.broker.handlers.delete_records import DeleteRecordsHandler
from rookery.broker.handlers.delete_topics import DeleteTopicsHandler
from rookery.broker.handlers.describe_client_quotas import DescribeClientQuotasHandler
from rookery.broker.handlers.describe_cluster import DescribeClusterHandler
from rookery.broker.handlers.describe_configs import ConfigView, DescribeConfigsHandler
from rookery.broker.handlers.describe_log_dirs import DescribeLogDirsHandler, Storage, space_of
from rookery.broker.handlers.describe_producers import DescribeProducersHandler
from rookery.broker.handlers.describe_quorum import DescribeQuorumHandler
from rookery.broker.handlers.describe_topic_partitions import DescribeTopicPartitionsHandler
from rookery.broker.handlers.elect_leaders import ElectLeadersHandler
from rookery.broker.handlers.fetch import FetchHandler
from rookery.broker.handlers.fetch_read import ProposeIsr
from rookery.broker.handlers.fetch_session import Sessions
from rookery.broker.handlers.find_coordinator import GROUP, TRANSACTION, FindCoordinatorHandler
from rookery.broker.handlers.group_admin import (
    DeleteGroupsHandler,
    DescribeGroupsHandler,
    ListGroupsHandler,
    OffsetDeleteHandler,
)
from rookery.broker.handlers.init_producer_id import InitProducerIdHandler
from rookery.broker.handlers.list_config_resources import ListConfigResourcesHandler
from rookery.broker.handlers.list_offsets import ListOffsetsHandler
from rookery.broker.handlers.locate import Locator
from rookery.broker.handlers.metadata import MetadataHandler
from rookery.broker.handlers.offset_commit import OffsetCommitHandler
from rookery.broker.handlers.offset_fetch import OffsetFetchHandler
from rookery.broker.handlers.offset_for_leader_epoch import OffsetForLeaderEpochHandler
from rookery.broker.handlers.partition_reassignments import (
    AlterPartitionReassignmentsHandler,
    ListPartitionReassignmentsHandler,
)
from rookery.broker.handlers.ports import ClusterPort, ControllerPort
from rookery.broker.handlers.preferred_replica import PreferredReplica
from rookery.broker.handlers.produce import ProduceHandler
from rookery.broker.handlers.record_work import RecordWorkInThreads
from rookery.broker.handlers.sasl import SaslAuthenticateHandler, SaslHandshakeHandler
from rookery.broker.handlers.scram_credentials import (
    AlterUserScramCredentialsHandler,
    DescribeUserScramCredentialsHandler,
)
from rookery.broker.handlers.streams_groups import StreamsGroupHeartbeatHandler
from rookery.broker.handlers.transactions import transaction_handlers
from rookery.broker.handlers.txn_offset_commit import TxnOffsetCommitHandler
from rookery.broker.handlers.unregister_broker import UnregisterBrokerHandler
from rookery.broker.handlers.update_features import UpdateFeaturesHandler
from rookery.broker.handlers.write_txn_markers import WriteTxnMarkersHandler
from rookery.broker.quotas.client_quotas import ClientQuotas
from rookery.broker.quotas.replication import ReplicationQuota
from rookery.broker.replication.other_leaders import OtherLeaders
from rookery.broker.replication.partition import SINGLE_BROKER, BrokerFacts, Partition
from rookery.broker.replication.partitions import Partitions
from rookery.broker.replication.waiters import Waiters
from rookery.broker.server.dispatch import Handler, StartTask
from rookery.broker.server.request_metrics import TopicMetrics
from rookery.broker.transactions.coordinator import TransactionCoordinator
from rookery.broker.transactions.verification import Verification
from rookery.core.clock import Clock
from rookery.core.config import node
from rookery.core.config.options import Settings


@dataclass(frozen=True, slots=True)
class Broker:
    """The parts of a broker that requests reach."""

    settings: Settings
    cluster: ClusterPort
    controller: ControllerPort
    partitions: Partitions
    waiters: Waiters[Partition]
    topic_metrics: TopicMetrics
    clock: Clock
    random: Random
    executor: Executor
    """Where single records are looked at."""
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    storage: Storage
    leader_quota: ReplicationQuota
    """Limits followers that catch up with this broker's partitions."""
    client_quotas: ClientQuotas
    verification: Verification
    """Asks coordinators for transactions that write here."""
    propose_isr: ProposeIsr
    session_lasts: Callable[[], bool] = lambda: True
    """Whether the controller answers this broker's heartbeats."""
    brokers: BrokerFacts = SINGLE_BROKER
    authorizes: bool = False
    """Whether it has an authorizer, and so ACLs."""


def request_handlers(broker: Broker, start_task: StartTask) -> list[Handler]:
    """One handler for each API this broker serves; `start_task` runs those that have to go elsewhere."""
    cluster, controller, settings = broker.cluster, broker.controller, broker.settings
    locator = Locator(broker.partitions, cluster)
    configs = ConfigView(cluster.node_id, settings)
    quotas, partitions = broker.client_quotas, settings[node.NUM_PARTITIONS]
    auto_creation = AutoCreation(
        settings[node.AUTO_CREATE_TOPICS_ENABLE], cluster, controller, start_task, quotas, partitions
    )
    sessions = Sessions(settings[node.MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS], broker.random)
    preferred = PreferredReplica.of(settings, cluster)
    record_work = RecordWorkInThreads(broker.executor)
    metrics = broker.topic_metrics
    leaders = OtherLeaders(cluster.node_id, broker.partitions, broker.random, broker.session_lasts)
    finders = {
        key_type: CoordinatorFinder(topic, cluster, controller, start_task, leaders)
        for key_type, topic in ((GROUP, broker.groups.topic), (TRANSACTION, broker.transactions.topic))
    }
    api_versions = ApiVersionsHandler(cluster)
    handlers: list[Handler] = [
        api_versions,
        SaslHandshakeHandler(),
        SaslAuthenticateHandler(),
        ProduceHandler(
            locator, broker.waiters, broker.clock, record_work, broker.verification, start_task, metrics
        ),
        WriteTxnMarkersHandler(locator, broker.waiters, broker.groups, broker.clock, settings[node.REQUEST_TIMEOUT_MS]),
        FetchHandler(
            locator, broker.waiters, sessions, broker.clock, metrics, broker.leader_quota, quotas, broker.propose_isr,
            preferred, broker.brokers,
        ),
        ListOffsetsHandler(locator, record_work, start_task),
        OffsetForLeaderEpochHandler(locator),
        DeleteRecordsHandler(locator, broker.waiters),
        MetadataHandler(cluster, auto_creation, start_task),
        InitProducerIdHandler(broker.transactions),
        CreateTopicsHandler(cluster, controller, configs, quotas, partitions),
        DeleteTopicsHandler(cluster, controller, quotas),
        CreatePartitionsHandler(cluster, controller, quotas),
        DescribeConfigsHandler(cluster, configs),
        DescribeClusterHandler(cluster),
        FindCoordinatorHandler(finders),
        *group_handlers(broker.groups, broker.verification, start_task),
        *transaction_handlers(broker.transactions, broker.groups.topic, finders[GROUP], cluster),
        *_admin_handlers(broker, locator),
    ]
    api_versions.advertise(handler.served for handler in handlers)
    return handlers


def _admin_handlers(broker: Broker, locator: Locator) -> list[Handler]:
    """What tools ask for, besides topics."""
    cluster, controller = broker.cluster, broker.controller
    changes = ConfigChanges(cluster, controller, broker.settings)
    return [
        AlterConfigsHandler(changes),
        IncrementalAlterConfigsHandler(changes),
        DescribeLogDirsHandler(broker.storage, space_of),
        ElectLeadersHandler(cluster, controller),
        AlterPartitionReassignmentsHandler(cluster, controller),
        ListPartitionReassignmentsHandler(controller),
        DescribeQuorumHandler(controller),
        UpdateFeaturesHandler(cluster, controller),
        DescribeProducersHandler(locator),
        DescribeTopicPartitionsHandler(cluster),
        DescribeClientQuotasHandler(cluster),
        AlterClientQuotasHandler(cluster, controller),
        DescribeUserScramCredentialsHandler(cluster),
        AlterUserScramCredentialsHandler(cluster, controller),
        ListConfigResourcesHandler(cluster),
        UnregisterBrokerHandler(cluster, controller),
        *(acl_handlers(cluster, controller) if broker.authorizes else disabled_acl_handlers()),
    ]


def group_handlers(groups: GroupCoordinator, verification: Verification, start_task: StartTask) -> list[Handler]:
    return [
        JoinGroupHandler(groups),
        SyncGroupHandler(groups),
        HeartbeatHandler(groups),
        LeaveGroupHandler(groups),
        OffsetCommitHandler(groups),
        OffsetFetchHandler(groups),
        TxnOffsetCommitHandler(groups, verification, start_task),
        OffsetDeleteHandler(groups),
        DeleteGroupsHandler(groups),
        DescribeGroupsHandler(groups),
        ListGroupsHandler(groups),
        ConsumerGroupHeartbeatHandler(groups),
        ConsumerGroupDescribeHandler(groups),
        StreamsGroupHeartbeatHandler(),
    ]
