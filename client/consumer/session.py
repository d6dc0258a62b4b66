"""A consumer's fetch session with one node: only positions that changed since the last request are sent. Pure."""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from rookery.client.types import TopicPartition
from rookery.core.net.fetch_session import ClientSession, SessionRequest
from rookery.core.wire.apis.fetch import FetchPartition, FetchTopic


class Wanted(NamedTuple):
    """From where a partition is fetched. Two are equal when the node would answer the same."""

    topic_id: UUID
    offset: int
    leader_epoch: int
    bytes_max: int


class FetchSession(ClientSession):
    """What one node has been sent so far."""

    def __init__(self) -> None:
        super().__init__()
        self._sent: dict[TopicPartition, Wanted] = {}

    @property
    def sent(self) -> Mapping[TopicPartition, Wanted]:
        """The positions that the answer to the last request refers to."""
        return self._sent

    def next_request(self, wanted: Mapping[TopicPartition, Wanted]) -> SessionRequest:
        """The request after which the node's view of the session is exactly `wanted`."""
        before = {} if self.begins else self._sent
        moved = {tp: each for tp, each in wanted.items() if before.get(tp) != each}
        gone = [
            (tp.topic, each.topic_id, tp.partition)
            for tp, each in before.items()
            if tp not in wanted or wanted[tp].topic_id != each.topic_id  # recreated under the same name
        ]
        self._sent = dict(wanted)
        return self.request(_topics(moved), gone)


def _topics(wanted: Mapping[TopicPartition, Wanted]) -> list[FetchTopic]:
    topics: dict[tuple[str, UUID], list[FetchPartition]] = {}
    for tp, each in wanted.items():
        partition = FetchPartition(
            partition=tp.partition,
            current_leader_epoch=each.leader_epoch,
            fetch_offset=each.offset,
            partition_max_bytes=each.bytes_max,
        )
        topics.setdefault((tp.topic, each.topic_id), []).append(partition)
    return [FetchTopic(topic=name, topic_id=id, partitions=each) for (name, id), each in topics.items()]
