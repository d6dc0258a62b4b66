"""Batches: encoded as the record format has them, split, and settled once."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.client.producer.batch import Batch, Stamp, row_size
from rookery.client.types import RecordMetadata, TopicPartition
from rookery.core.wire.compression import Codec
from rookery.core.wire.records import Record, RecordHeader, build_batch, read_header, read_records, verify

PLACE = TopicPartition("t", 3)

texts = st.binary(max_size=200)
rows = st.tuples(
    st.integers(0, 3),
    st.none() | st.just(b"a") | texts,
    st.none() | st.just(b"value") | texts,
    st.just(()) | st.lists(st.tuples(st.text(max_size=4), st.none() | texts), max_size=2),
)


def filled(given: list[Any], codec: int = 0) -> Batch:
    batch = Batch(PLACE, 0.0, codec)
    for timestamp, key, value, headers in given:
        batch.append(1000 + timestamp, key, value, headers)
    return batch


def records_of(given: list[Any]) -> list[Record]:
    return [
        Record(number, 1000 + time, key, value, [RecordHeader(*header) for header in headers] or ())
        for number, (time, key, value, headers) in enumerate(given)
    ]


@given(st.lists(rows, min_size=1, max_size=80))
def test_records_are_encoded_as_the_format_has_them(given: list[Any]) -> None:
    batch = filled(given)
    batch.stamp = Stamp(7, 2, 5)
    expected = build_batch(records_of(given), producer_id=7, producer_epoch=2, base_sequence=5)
    assert batch.encoded() == expected


@pytest.mark.parametrize("keys", [None, [b"k"] * 9000])
@pytest.mark.parametrize("sizes", [(5,), (5, 300)])
def test_many_records_at_once(keys: list[bytes] | None, sizes: tuple[int, ...]) -> None:
    """Over the borders at which the numbers of records grow by a byte."""
    values = [b"x" * sizes[number % len(sizes)] for number in range(9000)]
    batch = Batch(PLACE, 0.0)
    batch.append(1, b"first", b"v", ())
    assert batch.extend(2, keys, values) == 1
    assert batch.append(3, None, b"last", ()) == 9001
    data = batch.encoded()
    verify(data, 0, read_header(data))
    found = read_records(data)
    assert [record.value for record in found] == [b"v", *values, b"last"]
    assert [record.key for record in found[1:-1]] == ([None] * 9000 if keys is None else keys)
    assert [found[0].timestamp, found[1].timestamp, found[-1].timestamp] == [1, 2, 3]


@pytest.mark.parametrize("codec", list(Codec))
def test_codecs_and_retries(codec: Codec) -> None:
    batch = filled([(0, None, b"v" * 100, ())] * 50, codec)
    first = batch.encoded()
    batch.stamp = Stamp(1, 1, 1)
    again = batch.encoded()
    assert read_header(first).codec == codec
    assert read_records(first) == read_records(again)
    assert read_header(again).base_sequence == 1


@given(st.lists(rows, min_size=2, max_size=30), st.booleans())
def test_a_split_batch_is_settled_record_by_record(given: list[Any], encoded: bool) -> None:
    batch = filled(given, Codec.GZIP)
    called: list[tuple[RecordMetadata | None, Exception | None]] = []
    for number in range(len(given)):
        batch.call_back(number, 1000, lambda metadata, error: called.append((metadata, error)))
    if encoded:
        batch.encoded()
    first, second = batch.split()
    assert [*read_records(first.encoded()), *read_records(second.encoded())] == [
        record._replace(offset=record.offset - (0 if record.offset < first.count else first.count))
        for record in records_of(given)
    ]
    second.fail(ValueError("refused"))
    assert not batch.settled
    assert called == []
    first.succeed(50)
    assert batch.settled
    assert batch.metadata(0, 1000) == RecordMetadata("t", 3, 50, 1000)
    assert [metadata is None for metadata, _ in called] == [n >= first.count for n in range(len(given))]
    assert isinstance(batch.error_of(len(given) - 1), ValueError)


@given(rows)
def test_the_size_is_not_underestimated(row: Any) -> None:
    _, key, value, headers = row
    encoded = filled([row]).encoded()
    assert row_size(key, value, headers) + 61 >= len(encoded)


def test_a_callback_that_raises_disturbs_no_other() -> None:
    batch = filled([(0, None, b"v", ())] * 3)
    called: list[int] = []

    def wrong(metadata: RecordMetadata | None, error: Exception | None) -> None:
        raise ValueError("mine")

    batch.call_back(0, 1000, wrong)
    batch.call_back(1, 1000, lambda metadata, error: called.append(1))
    batch.when_settled(lambda _: called.append(2))
    batch.succeed(7)
    assert called == [1, 2]
    assert batch.settled
