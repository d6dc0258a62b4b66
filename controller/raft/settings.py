"""The settings of a Raft node: the timings of the core, and where and with whom it runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from rookery.controller.raft.voters import UNKNOWN_DIRECTORY, ReplicaKey, Voter, VoterSet
from rookery.core.config import node as keys
from rookery.core.config.node import metadata_log_dir
from rookery.core.config.options import ConfigError, Settings
from rookery.core.log import LogConfig
from rookery.core.log.ownership import MetaProperties
from rookery.core.metadata.features import RELEASE, Release
from rookery.core.net.tls import CurrentTls

FETCH_WAIT_MS_MAX = 500


@dataclass(frozen=True, slots=True)
class RaftConfig:
    """Timings and bounds of the core, with Kafka's defaults."""

    election_timeout_ms: int = 1000
    """controller.quorum.election.timeout.ms: how long to wait for votes, and for a leader, before the next
    try."""
    election_backoff_max_ms: int = 1000
    """controller.quorum.election.backoff.max.ms: the longest pause after a lost election."""
    fetch_timeout_ms: int = 2000
    """controller.quorum.fetch.timeout.ms: a follower without an answer for so long looks for a new leader."""
    request_timeout_ms: int = 2000
    """controller.quorum.request.timeout.ms: after so long, on top of the time it may be held, a request is
    lost."""
    retry_backoff_ms: int = 20
    """controller.quorum.retry.backoff.ms: pause before a failed request is sent again."""
    fetch_max_wait_ms: int = 500
    """How long a leader may hold a fetch back for lack of news."""
    observers_max: int = 1000
    """Observers whose progress is remembered; the longest silent is forgotten first."""
    observer_expiry_ms: int = 300_000
    """An observer that is silent for so long is forgotten."""

    @property
    def check_quorum_timeout_ms(self) -> float:
        """A leader without contact to a majority for so long resigns."""
        return 1.5 * self.fetch_timeout_ms

    @property
    def answer_wait_ms(self) -> float:
        """How long to wait for an answer that is not held back: short enough for a second try before the leader is
        given up."""
        return min(self.request_timeout_ms, (self.fetch_timeout_ms - self.fetch_max_wait_ms) / 2)

    @property
    def standstill_ms(self) -> float:
        """A driver whose timer fires so late did not run meanwhile: it ticks with `held_up`."""
        return self.answer_wait_ms / 2

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)}")
        if self.fetch_max_wait_ms >= self.fetch_timeout_ms:
            raise ValueError(
                f"fetch_max_wait_ms ({self.fetch_max_wait_ms}) must be below fetch_timeout_ms "
                f"({self.fetch_timeout_ms}): followers would give up a leader that has no news"
            )


@dataclass(frozen=True, slots=True)
class RaftSettings:
    """One node."""

    cluster_id: str
    node_id: int
    directory_id: UUID
    folder: str
    """metadata.log.dir: the metadata log lies in a folder of its own in there."""
    voters: VoterSet = field(default_factory=VoterSet)
    """controller.quorum.voters: the first voters of a new cluster."""
    bootstrap: tuple[str, ...] = ()
    """controller.quorum.bootstrap.servers: where a node that is not a voter yet finds the quorum."""
    tls: CurrentTls | None = None
    raft: RaftConfig = field(default_factory=RaftConfig)
    log: LogConfig = field(default_factory=LogConfig)
    checkpoint_interval_ms: int = 5_000
    """replica.high.watermark.checkpoint.interval.ms"""
    release: Release = RELEASE

    @classmethod
    def of(cls, settings: Settings, meta: MetaProperties, tls: CurrentTls | None) -> "RaftSettings":
        fetch_timeout_ms = settings[keys.CONTROLLER_QUORUM_FETCH_TIMEOUT_MS]
        return cls(
            cluster_id=meta.cluster_id,
            node_id=meta.node_id,
            directory_id=meta.directory_id,
            folder=metadata_log_dir(settings),
            voters=first_voters(settings[keys.CONTROLLER_QUORUM_VOTERS]),
            bootstrap=settings[keys.CONTROLLER_QUORUM_BOOTSTRAP_SERVERS],
            tls=tls,
            raft=RaftConfig(
                election_timeout_ms=settings[keys.CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS],
                election_backoff_max_ms=settings[keys.CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS],
                fetch_timeout_ms=fetch_timeout_ms,
                request_timeout_ms=settings[keys.CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS],
                fetch_max_wait_ms=max(1, min(FETCH_WAIT_MS_MAX, fetch_timeout_ms // 2)),
            ),
            log=LogConfig(segment_bytes=settings[keys.METADATA_LOG_SEGMENT_BYTES]),
        )

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, self.directory_id)

    @property
    def endpoints(self) -> dict[int, str]:
        return {voter.id: voter.endpoint for voter in self.voters if voter.endpoint}


def first_voters(texts: Sequence[str]) -> VoterSet:
    """``id@host:port`` of each voter of a new cluster."""
    key = keys.CONTROLLER_QUORUM_VOTERS.name
    voters = []
    for text in texts:
        number, separator, endpoint = text.partition("@")
        if not separator or not number.isdecimal() or ":" not in endpoint:
            raise ConfigError(key, text, "id@host:port is needed")
        voters.append(Voter(ReplicaKey(int(number), UNKNOWN_DIRECTORY), endpoint))
    try:
        return VoterSet(voters)
    except ValueError as error:
        raise ConfigError(key, ",".join(texts), str(error)) from error
