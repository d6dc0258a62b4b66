"""A follower's fetch session with one leader: only positions that changed since the last request are sent. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from rookery.core.net.fetch_session import ClientSession, SessionRequest
from rookery.core.wire.apis.fetch import FetchPartition, FetchTopic

Key = tuple[UUID, int]
"""A partition: topic id and index."""


@dataclass(frozen=True, slots=True)
class Position:
    """From where a follower fetches: all below `offset` is on its disk. Two are equal when the same records follow."""

    offset: int
    last_epoch: int
    leader_epoch: int
    log_start: int = field(compare=False)
    """Reported to the leader; moves whenever retention deletes, which says nothing about what to fetch next."""


class FollowerSession(ClientSession):
    """The fetch session with one leader: the positions it has received so far."""

    def __init__(self, partition_bytes_max: int) -> None:
        super().__init__()
        self._partition_bytes_max = partition_bytes_max
        self._sent: dict[Key, Position] = {}

    def sent(self, key: Key) -> Position | None:
        """The position that the answer to the last request refers to."""
        return self._sent.get(key)

    def next_request(self, moved: Mapping[Key, Position], gone: Iterable[Key]) -> SessionRequest:
        """The next request of the session: positions that moved, and partitions to forget."""
        forgotten = [] if self.begins else [key for key in gone if key in self._sent and key not in moved]
        if self.begins:
            self._sent.clear()
        for key in forgotten:
            del self._sent[key]
        self._sent.update(moved)
        return self.request(self._topics(moved), (("", topic_id, index) for topic_id, index in forgotten))

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
