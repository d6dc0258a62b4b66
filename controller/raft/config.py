"""The timings and bounds of Raft, with Kafka's defaults."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RaftConfig:
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
        """A leader that does not hear from a majority for so long resigns."""
        return 1.5 * self.fetch_timeout_ms

    @property
    def answer_wait_ms(self) -> float:
        """How long to wait for an answer that nobody holds back: short enough for a second try before the leader is
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
