"""What the controller takes from a node's configuration."""

from dataclasses import dataclass, field

from rookery.controller.state.defaults import Defaults
from rookery.core.config import node as keys
from rookery.core.config.options import Settings
from rookery.core.config.topic import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION_ENABLE, topic_defaults
from rookery.core.metadata.features import RELEASE, Release
from rookery.core.metadata.records import UserScramCredentialRecord


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """Times in seconds. A check interval of 0 switches the check off."""

    node_id: int
    cluster_id: str
    defaults: Defaults = field(default_factory=Defaults)
    session_s: float = 9.0
    reconnect_grace_s: float = 0.5
    queue_max: int = 10_000
    rebalance_check_s: float = 300.0
    idle_record_s: float = 0.5
    snapshot_bytes: int = 20 << 20
    snapshot_interval_s: float = 3600.0
    release: Release = RELEASE
    first_users: tuple[UserScramCredentialRecord, ...] = ()
    """Users that a new cluster begins with."""

    @classmethod
    def of(
        cls, settings: Settings, cluster_id: str, first_users: tuple[UserScramCredentialRecord, ...] = ()
    ) -> "ControllerSettings":
        topics = topic_defaults(settings)
        rebalance = settings[keys.AUTO_LEADER_REBALANCE_ENABLE]
        return cls(
            node_id=settings[keys.NODE_ID],
            cluster_id=cluster_id,
            defaults=Defaults(
                partitions=settings[keys.NUM_PARTITIONS],
                replication_factor=settings[keys.DEFAULT_REPLICATION_FACTOR],
                min_insync_replicas=topics[MIN_INSYNC_REPLICAS],
                unclean_leader_election=topics[UNCLEAN_LEADER_ELECTION_ENABLE],
                delete_topics=settings[keys.DELETE_TOPIC_ENABLE],
                topics=topics,
            ),
            session_s=settings[keys.BROKER_SESSION_TIMEOUT_MS] / 1000,
            reconnect_grace_s=settings[keys.RECONNECT_GRACE_MS] / 1000,
            rebalance_check_s=settings[keys.LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS] if rebalance else 0.0,
            idle_record_s=settings[keys.METADATA_MAX_IDLE_INTERVAL_MS] / 1000,
            snapshot_bytes=settings[keys.METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS],
            snapshot_interval_s=settings[keys.METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS] / 1000,
            first_users=first_users,
        )
