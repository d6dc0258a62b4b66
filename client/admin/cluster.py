"""The cluster itself: nodes, quorum, features, transactions and producers."""

from collections.abc import Iterable, Mapping, Sequence

from rookery.client.admin.calls import Calls
from rookery.client.admin.types import (
    BrokerDescription,
    ClusterDescription,
    Features,
    ProducerDescription,
    QuorumDescription,
    QuorumReplica,
    TransactionDescription,
    TransactionListing,
    UpgradeType,
)
from rookery.client.types import TopicPartition
from rookery.core.errors import UnknownServerError
from rookery.core.net.cluster import CoordinatorKind, Node, check
from rookery.core.wire.apis.api_versions import API_VERSIONS, ApiVersionsRequest
from rookery.core.wire.apis.describe_cluster import DESCRIBE_CLUSTER, DescribeClusterRequest
from rookery.core.wire.apis.describe_producers import (
    DESCRIBE_PRODUCERS,
    DescribeProducersRequest,
    TopicRequest,
)
from rookery.core.wire.apis.describe_quorum import (
    DESCRIBE_QUORUM,
    DescribeQuorumRequest,
    PartitionData,
    ReplicaState,
    TopicData,
)
from rookery.core.wire.apis.describe_transactions import (
    DESCRIBE_TRANSACTIONS,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from rookery.core.wire.apis.list_transactions import LIST_TRANSACTIONS, ListTransactionsRequest
from rookery.core.wire.apis.unregister_broker import UNREGISTER_BROKER, UnregisterBrokerRequest
from rookery.core.wire.apis.update_features import UPDATE_FEATURES, FeatureUpdateKey, UpdateFeaturesRequest
from rookery.core.wire.apis.write_txn_markers import (
    WRITE_TXN_MARKERS,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

METADATA_TOPIC = "__cluster_metadata"


class ClusterCalls(Calls):
    async def describe_cluster(self, *, fenced: bool = False) -> ClusterDescription:
        """The brokers; with `fenced` also those that are registered but not in service."""
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False, include_fenced_brokers=fenced
        )
        answer = await self._ask_any(DESCRIBE_CLUSTER, request)
        brokers = [
            BrokerDescription(each.broker_id, each.host, each.port, each.rack, each.is_fenced)
            for each in answer.brokers
        ]
        return ClusterDescription(answer.cluster_id, answer.controller_id, brokers)

    async def unregister_broker(self, broker: int) -> None:
        """Forget a broker that is gone for good."""
        await self._ask_any(UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=broker))

    async def describe_quorum(self) -> QuorumDescription:
        """The metadata quorum: leader, voters and observers."""
        wanted = TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])
        request = DescribeQuorumRequest(topics=[wanted])

        async def attempt() -> QuorumDescription:
            answer = await self._cluster.ask_any(DESCRIBE_QUORUM, request)
            check(answer.error_code, "the quorum", answer.error_message)
            for topic in answer.topics:
                for each in topic.partitions:
                    check(each.error_code, "the quorum", each.error_message)
                    return QuorumDescription(
                        each.leader_id,
                        each.leader_epoch,
                        each.high_watermark,
                        _replicas(each.current_voters),
                        _replicas(each.observers),
                    )
            raise UnknownServerError("the answer holds no quorum")

        return await self._retrying(attempt)

    async def describe_features(self) -> Features:
        answer = await self._ask_any(
            API_VERSIONS, ApiVersionsRequest(client_software_name="rookery", client_software_version="1")
        )
        return Features(
            {each.name: each.max_version_level for each in answer.finalized_features},
            {each.name: (each.min_version, each.max_version) for each in answer.supported_features},
        )

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: UpgradeType = UpgradeType.UPGRADE,
        validate_only: bool = False,
    ) -> None:
        """Set levels of features; 0 removes one."""
        request = UpdateFeaturesRequest(
            timeout_ms=self._timeout_ms,
            feature_updates=[
                FeatureUpdateKey(
                    feature=name,
                    max_version_level=level,
                    allow_downgrade=upgrade_type != UpgradeType.UPGRADE,
                    upgrade_type=upgrade_type,
                )
                for name, level in levels.items()
            ],
            validate_only=validate_only,
        )
        for result in (await self._ask_any(UPDATE_FEATURES, request)).results:
            check(result.error_code, f"feature {result.feature!r}", result.error_message)

    async def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        longer_than_ms: int = -1,
        brokers: Iterable[int] | None = None,
    ) -> list[TransactionListing]:
        """Transactional ids by name: of all coordinators, or of these alone."""
        request = ListTransactionsRequest(
            state_filters=list(states), producer_id_filters=list(producer_ids), duration_filter=longer_than_ms
        )
        found: dict[str, TransactionListing] = {}
        for answer in await self._ask_all(LIST_TRANSACTIONS, request, brokers):
            for each in answer.transaction_states:
                found[each.transactional_id] = TransactionListing(
                    each.transactional_id, each.producer_id, each.transaction_state
                )
        return [found[name] for name in sorted(found)]

    async def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        def read(answer: DescribeTransactionsResponse, node: Node) -> TransactionDescription:
            (each,) = answer.transaction_states
            check(each.error_code, f"transactional id {transactional_id!r}")
            places = [
                TopicPartition(topic.topic, number) for topic in each.topics for number in topic.partitions
            ]
            return TransactionDescription(
                transactional_id,
                each.transaction_state,
                each.producer_id,
                each.producer_epoch,
                each.transaction_timeout_ms,
                each.transaction_start_time_ms,
                places,
                node.id,
            )

        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        return await self._ask_coordinator(
            CoordinatorKind.TRANSACTION, transactional_id, DESCRIBE_TRANSACTIONS, request, read
        )

    async def describe_producers(
        self, places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerDescription]]:
        """The producers whose state the leaders keep."""

        async def ask(
            node: Node, topics: dict[str, list[int]]
        ) -> dict[TopicPartition, list[ProducerDescription]]:
            request = DescribeProducersRequest(
                topics=[TopicRequest(name=name, partition_indexes=each) for name, each in topics.items()]
            )
            found: dict[TopicPartition, list[ProducerDescription]] = {}
            for topic in (await self._cluster.ask(node, DESCRIBE_PRODUCERS, request)).topics:
                for each in topic.partitions:
                    check(each.error_code, f"{topic.name}-{each.partition_index}", each.error_message)
                    found[TopicPartition(topic.name, each.partition_index)] = [
                        ProducerDescription(
                            producer.producer_id,
                            producer.producer_epoch,
                            producer.last_sequence,
                            producer.last_timestamp,
                            producer.coordinator_epoch,
                            producer.current_txn_start_offset,
                        )
                        for producer in each.active_producers
                    ]
            return found

        return await self._by_leader(places, ask)

    async def abort_transaction(self, place: TopicPartition, producer: ProducerDescription) -> None:
        """End a transaction that hangs on a partition, as `describe_producers` shows it."""

        async def ask(node: Node, topics: dict[str, list[int]]) -> dict[TopicPartition, None]:
            marker = WritableTxnMarker(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                transaction_result=False,
                topics=[
                    WritableTxnMarkerTopic(name=name, partition_indexes=each) for name, each in topics.items()
                ],
                coordinator_epoch=max(producer.coordinator_epoch, 0),
            )
            answer = await self._cluster.ask(
                node, WRITE_TXN_MARKERS, WriteTxnMarkersRequest(markers=[marker])
            )
            for result in answer.markers:
                for topic in result.topics:
                    for each in topic.partitions:
                        check(each.error_code, f"{topic.name}-{each.partition_index}")
            return {place: None}

        await self._by_leader([place], ask)


def _replicas(states: Sequence[ReplicaState]) -> list[QuorumReplica]:
    return [
        QuorumReplica(
            each.replica_id, each.log_end_offset, each.last_fetch_timestamp, each.last_caught_up_timestamp
        )
        for each in states
    ]
