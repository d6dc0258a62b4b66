"""What a reader makes of the bytes of a fetch."""

import pytest

from rookery.broker.log.producer_state import NOT_VERIFIED
from rookery.client.aborted import Aborted
from rookery.client.reader import LATEST, PartitionReader, decode, offset_at
from rookery.core.metadata.requests import CreateTopicsRequest, NewTopic
from rookery.core.net.cluster import Cluster
from rookery.core.wire.apis.fetch import AbortedTransaction
from rookery.core.wire.markers import EndMarker, build_marker
from rookery.core.wire.records import Record, build_batch
from tests.unit.broker.one_broker import running_broker


def batch(offset: int, value: bytes, producer_id: int = -1) -> bytes:
    records = [Record(offset, 1, None, value)]
    if producer_id < 0:
        return bytes(build_batch(records))
    return bytes(
        build_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
    )


def ending(offset: int, producer_id: int, *, commit: bool) -> bytes:
    marker = EndMarker(commit, 0)
    return bytes(build_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp=1, offset=offset))


@pytest.mark.row(135)
def test_what_was_aborted_is_hidden_from_who_reads_committed() -> None:
    data = b"".join(
        [
            batch(0, b"plain"),
            batch(1, b"taken back", 7),
            batch(2, b"kept", 8),
            ending(3, 7, commit=False),
            batch(4, b"the next", 7),
            ending(5, 8, commit=True),
            ending(6, 7, commit=True),
        ]
    )
    everything, end = decode(data, 0)
    assert [record.value for record in everything] == [b"plain", b"taken back", b"kept", b"the next"]
    aborted = Aborted([AbortedTransaction(producer_id=7, first_offset=1)])
    committed, same = decode(data, 0, aborted)
    assert [record.value for record in committed] == [b"plain", b"kept", b"the next"]
    assert end == same == 7


@pytest.mark.row(135)
@pytest.mark.invariant("T9", "T10")
async def test_a_reader_of_committed_records_waits_for_open_transactions() -> None:
    async with running_broker() as broker:
        await broker.cluster.ask(CreateTopicsRequest((NewTopic("orders", 1, 1),)))
        partition = broker.partition("orders")
        for data in (batch(0, b"plain"), batch(0, b"taken back", 7), batch(0, b"kept", 8)):
            partition.append_as_leader(bytearray(data), 1, 1, NOT_VERIFIED)
        partition.append_own(bytearray(ending(0, 7, commit=False)), partition.state.leader_epoch, 1)
        async with Cluster(f"127.0.0.1:{broker.port}") as cluster:

            async def read(*, read_committed: bool) -> tuple[list[bytes | None], int]:
                end = await offset_at(cluster, "orders", 0, LATEST, read_committed=read_committed)
                reader = PartitionReader(cluster, "orders", 0, 0, read_committed=read_committed)
                values: list[bytes | None] = []
                while reader.position < end:
                    values += [record.value for record in (await reader.fetch()).records]
                return values, end

            assert await read(read_committed=False) == ([b"plain", b"taken back", b"kept"], 4)
            assert await read(read_committed=True) == ([b"plain"], 2), "one is open, so nobody knows what comes"
            partition.append_own(bytearray(ending(0, 8, commit=True)), partition.state.leader_epoch, 1)
            assert await read(read_committed=True) == ([b"plain", b"kept"], 5)
