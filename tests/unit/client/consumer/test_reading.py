"""From answers to records: every record once and in order, whatever the batches, codecs and calls."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.client.consumer.deserializing import Opener, RecordDeserializationError
from rookery.client.consumer.fetches import Fetches, FetchLimits, Leader, Outcome
from rookery.client.consumer.partition import Partition, Phase
from rookery.client.consumer.reading import Reading
from rookery.client.types import Columns, TopicPartition
from rookery.client.types import Record as UserRecord
from rookery.core.errors import CorruptMessageError, ErrorCode
from rookery.core.wire.apis.fetch import AbortedTransaction, PartitionData
from rookery.core.wire.compression import Codec
from rookery.core.wire.markers import EndMarker, build_marker
from rookery.core.wire.records import Record, RecordHeader, batches, build_batch, read_records

TP = TopicPartition("t", 0)
LEADER = Leader(1, 3, UUID(int=9))


def batch(first: int, count: int, codec: int = Codec.NONE, **more: int | bool) -> bytes:
    records = [
        Record(
            first + n,
            1000 + n,
            b"k%d" % n if n % 3 else None,
            b"v%d" % (first + n),
            [RecordHeader("h", b"x")] * (n % 2),
        )
        for n in range(count)
    ]
    return bytes(build_batch(records, codec=codec, leader_epoch=3, **more))  # type: ignore[arg-type]


def reading(
    read_committed: bool = False, opener: Opener | None = None, start: int = 0
) -> tuple[Fetches, Reading]:
    fetches = Fetches(FetchLimits(read_committed=read_committed))
    fetches.partitions[TP] = Partition(TP)
    fetches.partitions[TP].seek(start)
    return fetches, Reading(fetches, opener)


def answer(fetches: Fetches, data: bytes, **more: Any) -> Outcome:
    wanted, _ = fetches.plan(1, lambda _: LEADER, 0.0)
    part = PartitionData(partition_index=0, high_watermark=10**6, records=data, **more)
    return fetches.answered(TP, wanted[TP], fetches.partitions[TP].incarnation, part, 1)


def as_records(found: list[Columns[Any, Any]]) -> list[UserRecord[Any, Any]]:
    return [
        UserRecord(each.topic, each.partition, *fields, leader_epoch=3)
        for each in found
        for fields in zip(each.offsets, each.timestamps, each.keys, each.values, each.headers, strict=True)
    ]


def as_written(data: bytes, start: int) -> list[Record]:
    return [each for at, _ in batches(data) for each in read_records(data, at) if each.offset >= start]


@given(
    st.lists(st.tuples(st.integers(1, 40), st.sampled_from(list(Codec))), min_size=1, max_size=6),
    st.integers(0, 60),
    st.lists(st.tuples(st.integers(1, 50), st.booleans()), min_size=1),
    st.booleans(),
)
def test_every_record_from_the_position_on_once_and_in_order(
    shape: list[tuple[int, Codec]], start: int, takes: list[tuple[int, bool]], opens: bool
) -> None:
    """Whether they are taken one by one, in columns, or in turns."""
    fetches, reader = reading(start=start, opener=Opener(None, lambda value: value) if opens else None)
    end, data = 0, b""
    for count, codec in shape:
        data += batch(end, count, codec)
        end += count
    answer(fetches, data)
    found = []
    partition = fetches.partitions[TP]
    for most, columns in [*takes, (10**6, takes[0][1])]:
        taken = as_records(reader.take_columns(most)) if columns else reader.take(most)
        assert len(taken) <= most
        found += taken
        if found and len(found) < end - start:
            assert partition.position == found[-1].offset + 1
    assert [record.offset for record in found] == list(range(start, end))
    assert [record.value for record in found] == [b"v%d" % n for n in range(start, end)]
    assert partition.position == max(start, end)
    assert [len(record.headers) for record in found] == [len(each.headers) for each in as_written(data, start)]
    assert [record.timestamp for record in found] == [each.timestamp for each in as_written(data, start)]


def test_a_seek_drops_what_was_fetched_and_what_is_on_its_way() -> None:
    fetches, reader = reading()
    wanted, _ = fetches.plan(1, lambda _: LEADER, 0.0)
    before = fetches.partitions[TP].incarnation
    fetches.partitions[TP].seek(7)
    late = PartitionData(partition_index=0, high_watermark=10, records=batch(0, 10))
    assert fetches.answered(TP, wanted[TP], before, late, 1) is Outcome.DONE
    assert reader.take(10) == []
    assert fetches.partitions[TP].position == 7


def test_aborted_transactions_and_markers_are_not_read() -> None:
    fetches, reader = reading(read_committed=True)
    data = batch(0, 3, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    data += batch(3, 2, producer_id=8, producer_epoch=0, base_sequence=0, transactional=True)
    data += bytes(build_marker(EndMarker(False, 0), producer_id=7, producer_epoch=0, timestamp=5, offset=5))
    data += bytes(build_marker(EndMarker(True, 0), producer_id=8, producer_epoch=0, timestamp=5, offset=6))
    data += batch(7, 1, producer_id=7, producer_epoch=0, base_sequence=3, transactional=True)
    answer(fetches, data, aborted_transactions=[AbortedTransaction(producer_id=7, first_offset=0)])
    assert [record.offset for record in reader.take(100)] == [3, 4, 7]
    assert fetches.partitions[TP].position == 8


def test_a_damaged_batch_is_raised_after_what_came_before() -> None:
    fetches, reader = reading()
    damaged = bytearray(batch(2, 2))
    damaged[-1] ^= 1
    answer(fetches, batch(0, 2) + bytes(damaged))
    assert len(reader.take(10)) == 2
    for _ in range(2):
        with pytest.raises(CorruptMessageError):
            reader.take(10)
    assert fetches.partitions[TP].position == 2
    fetches.partitions[TP].seek(4)
    assert reader.take(10) == []


def unreadable(raw: bytes | None) -> str:
    assert raw is not None
    if raw == b"v2":
        raise ValueError("not this one")
    return raw.decode()


@pytest.mark.parametrize(
    ("rule", "values"),
    [("skip", ["v0", "v1", "v3"]), ("dead-letter", ["v0", "v1", "v3"]), ("yield", ["v0", "v1", b"v2", "v3"])],
)
def test_a_poison_record_does_not_stop_the_stream(rule: str, values: list[object]) -> None:
    fetches, reader = reading(opener=Opener(None, unreadable, rule))
    answer(fetches, batch(0, 4))
    records = reader.take(10)
    assert [record.value for record in records] == values
    assert [record.error is not None for record in records] == [value == b"v2" for value in values]
    assert [record.offset for record, _ in reader.set_aside] == ([] if rule == "yield" else [2])
    assert fetches.partitions[TP].position == 4


def test_a_poison_record_is_raised_until_it_is_passed() -> None:
    fetches, reader = reading(opener=Opener(None, unreadable, "raise"))
    answer(fetches, batch(0, 4))
    assert [record.value for record in reader.take(10)] == ["v0", "v1"]
    for _ in range(2):
        with pytest.raises(RecordDeserializationError, match="t-0 at offset 2") as raised:
            reader.take(10)
        assert raised.value.record.value == b"v2"
    assert fetches.partitions[TP].position == 2
    fetches.partitions[TP].seek(3)
    answer(fetches, batch(0, 4))
    assert [record.value for record in reader.take(10)] == ["v3"]


def test_one_busy_partition_does_not_starve_the_others() -> None:
    fetches, reader = reading()
    other = TopicPartition("t", 1)
    fetches.partitions[other] = Partition(other)
    fetches.partitions[other].seek(0)
    for first in range(0, 30, 10):
        wanted, _ = fetches.plan(1, lambda _: LEADER, 0.0)
        for tp in (TP, other):
            part = PartitionData(partition_index=tp.partition, high_watermark=99, records=batch(first, 10))
            fetches.answered(tp, wanted[tp], fetches.partitions[tp].incarnation, part, 1)
    turns = [{record.partition for record in reader.take(10)} for _ in range(6)]
    assert turns[:2] in ([{0}, {1}], [{1}, {0}])
    assert all(turns[n] != turns[n + 1] for n in range(5))


def test_buffers_are_bounded() -> None:
    fetches, reader = reading()
    fetches.limits.partition_bytes_max = len(batch(0, 10))
    answer(fetches, batch(0, 10))
    assert fetches.plan(1, lambda _: LEADER, 0.0) == ({}, True)
    reader.take(1)
    assert fetches.plan(1, lambda _: LEADER, 0.0)[0][TP].offset == 10


def test_a_new_leader_confirms_the_position_first() -> None:
    fetches, reader = reading()
    answer(fetches, batch(0, 4))
    reader.take(10)
    newer = LEADER._replace(epoch=4)
    assert fetches.plan(1, lambda _: newer, 0.0)[0] == {}
    partition = fetches.partitions[TP]
    assert partition.phase is Phase.VALIDATE
    assert partition.position == 4
    partition.validated(4)
    assert fetches.plan(1, lambda _: newer, 0.0)[0][TP].leader_epoch == 4


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (ErrorCode.OFFSET_OUT_OF_RANGE, Outcome.OUT_OF_RANGE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Outcome.STALE),
        (ErrorCode.FENCED_LEADER_EPOCH, Outcome.STALE),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Outcome.RETRY),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Outcome.FATAL),
    ],
)
def test_refusals(code: ErrorCode, outcome: Outcome) -> None:
    fetches, reader = reading()
    assert answer(fetches, b"", error_code=code) is outcome
    if outcome is Outcome.FATAL:
        with pytest.raises(Exception, match="t-0 at offset 0"):
            reader.take(1)


def test_a_follower_that_is_behind_sends_the_reader_back_to_the_leader() -> None:
    fetches, _ = reading()
    partition = fetches.partitions[TP]
    partition.preferred, partition.preferred_until = 1, 100.0
    assert fetches.nodes(lambda _: Leader(2, 3, UUID(int=9)), 0.0) == {1}
    assert answer(fetches, b"", error_code=ErrorCode.OFFSET_OUT_OF_RANGE) is Outcome.RETRY
    assert fetches.nodes(lambda _: Leader(2, 3, UUID(int=9)), 0.0) == {2}


def test_what_was_fetched_is_handed_out_before_a_position_out_of_range_is_reset() -> None:
    fetches, reader = reading()
    answer(fetches, batch(0, 4))
    code = int(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert answer(fetches, b"", error_code=code) is Outcome.RETRY
    assert len(reader.take(10)) == 4
    assert answer(fetches, b"", error_code=code) is Outcome.OUT_OF_RANGE


def test_the_list_of_records_is_the_users_own() -> None:
    fetches, reader = reading()
    answer(fetches, batch(0, 4))
    taken = reader.take(4)
    taken += taken
    assert reader.take(10) == []
