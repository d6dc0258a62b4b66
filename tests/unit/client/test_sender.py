"""The plain sender over a scripted cluster: what it repeats, and what is an error at once."""

from typing import Any

import pytest

from rookery.client import cluster as client_cluster
from rookery.client.cluster import Cluster
from rookery.client.partitioner import partition_for_key
from rookery.client.sender import Outgoing, Sender, Written
from rookery.core.errors import ErrorCode, MessageTooLargeError, UnknownTopicOrPartitionError
from rookery.core.wire.apis.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from rookery.core.wire.apis.produce import (
    PRODUCE,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from rookery.core.wire.records import read_records


class Scripted(Cluster):
    """One node that leads two partitions and answers writes with the codes given, then with success."""

    def __init__(self, *codes: ErrorCode) -> None:
        super().__init__("node:1")
        self._codes = list(codes)
        self.written: list[tuple[int, list[bytes | None]]] = []

    async def ask_any(self, api: Any, request: Any, *, at_most: int | None = None) -> Any:
        partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=1, replica_nodes=[1], isr_nodes=[1])
            for index in range(2)
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="node", port=1)],
            topics=[MetadataResponseTopic(name="t", partitions=partitions)],
        )

    async def ask(self, node: Any, api: Any, request: Any, **_: Any) -> Any:
        assert api is PRODUCE
        data = request.topic_data[0].partition_data[0]
        code = self._codes.pop(0) if self._codes else ErrorCode.NONE
        if code == ErrorCode.NONE:
            self.written.append((data.index, [record.value for record in read_records(data.records, 0)]))
        answer = PartitionProduceResponse(index=data.index, error_code=code, base_offset=10)
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[answer])])


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_cluster, "RETRY_PAUSE_S", 0.0)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER])
async def test_a_leader_that_is_not_ready_is_asked_again(code: ErrorCode) -> None:
    cluster = Scripted(code, code)
    assert await Sender(cluster, "t").send([Outgoing(b"a", partition=1)]) == [Written(1, 10)]
    assert cluster.written == [(1, [b"a"])]


async def test_what_will_not_pass_is_an_error_at_once() -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="no partition 7"):
        await Sender(Scripted(), "t").send([Outgoing(b"a", partition=7)])
    with pytest.raises(MessageTooLargeError):
        await Sender(Scripted(ErrorCode.MESSAGE_TOO_LARGE), "t").send([Outgoing(b"a", partition=0)])


async def test_keys_choose_partitions_and_records_without_key_stay_together() -> None:
    cluster = Scripted()
    keys = [b"a", b"b", b"c", b"d"]
    where = await Sender(cluster, "t").send([Outgoing(b"v", key) for key in keys])
    assert [each.partition for each in where] == [partition_for_key(key, 2) for key in keys]
    assert len({each.partition for each in await Sender(cluster, "t").send([Outgoing(b"v")] * 5)}) == 1
