"""The follower's side of a fetch session: only what changed since the last request is sent again.

Pure. A session begins with a full request; from then on each request names partitions that are new or whose
position moved, and those to forget. When the leader does not know the session any more, it begins anew.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from rookery.core.errors import ErrorCode
from rookery.core.wire.apis.fetch import FetchPartition, FetchTopic, ForgottenTopic

Key = tuple[UUID, int]
"""A partition: topic id and index."""

NO_SESSION = 0
INITIAL_EPOCH = 0
EPOCH_MAX = 2**31 - 1
SESSION_LOST = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


@dataclass(frozen=True, slots=True)
class Position:
    """From where a follower fetches: all below `offset` is on its disk. Two are equal when the same records follow."""

    offset: int
    last_epoch: int
    leader_epoch: int
    log_start: int = field(compare=False)
    """Told to the leader; moves whenever retention deletes, which says nothing about what to fetch next."""


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """The part of a fetch request that the session decides."""

    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]


class FollowerSession:
    """What the leader has been told so far."""

    def __init__(self, partition_bytes_max: int) -> None:
        self._partition_bytes_max = partition_bytes_max
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._sent: dict[Key, Position] = {}

    def sent(self, key: Key) -> Position | None:
        """The position that the answer to the last request refers to."""
        return self._sent.get(key)

    @property
    def begins(self) -> bool:
        """Whether the next request is a full one and has to name every partition."""
        return self._epoch == INITIAL_EPOCH

    def next_request(self, moved: Mapping[Key, Position], gone: Iterable[Key]) -> SessionRequest:
        """The request that tells the leader of positions that moved and of partitions to forget."""
        forgotten = [] if self.begins else [key for key in gone if key in self._sent and key not in moved]
        if self.begins:
            self._sent.clear()
        for key in forgotten:
            del self._sent[key]
        self._sent.update(moved)
        return SessionRequest(self._id, self._epoch, self._topics(moved), _forgotten(forgotten))

    def answered(self, error_code: int, session_id: int) -> bool:
        """Note the answer; False if the session is lost and the answer says nothing about partitions."""
        if error_code in SESSION_LOST:
            self.reset()
            return False
        self._id = session_id
        if session_id == NO_SESSION:
            self.reset()  # the leader keeps no session for us: every request is a full one
        else:
            self._epoch = 1 if self._epoch == EPOCH_MAX else self._epoch + 1
        return True

    def reset(self) -> None:
        """Begin anew: the leader ends the session so far, and with it what it believes to have told."""
        self._epoch = INITIAL_EPOCH

    def _topics(self, positions: Mapping[Key, Position]) -> list[FetchTopic]:
        topics: dict[UUID, list[FetchPartition]] = {}
        for (topic_id, index), position in positions.items():
            partition = FetchPartition(
                partition=index,
                current_leader_epoch=position.leader_epoch,
                fetch_offset=position.offset,
                last_fetched_epoch=position.last_epoch,
                log_start_offset=position.log_start,
                partition_max_bytes=self._partition_bytes_max,
            )
            topics.setdefault(topic_id, []).append(partition)
        return [FetchTopic(topic_id=topic_id, partitions=each) for topic_id, each in topics.items()]


def _forgotten(keys: Iterable[Key]) -> list[ForgottenTopic]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, index in keys:
        topics.setdefault(topic_id, []).append(index)
    return [ForgottenTopic(topic_id=topic_id, partitions=indexes) for topic_id, indexes in topics.items()]
