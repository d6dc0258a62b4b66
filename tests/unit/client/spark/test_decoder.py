"""Record batches become Arrow rows: all codecs, nulls, headers, holes; nothing outside the range."""

import weakref
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from rookery.client.aborted import Aborted
from rookery.client.spark import schema
from rookery.client.spark.decoder import BYTES_MAX, ROWS_MAX, Decoder, next_offset
from rookery.client.spark.kafka_options import OptionError
from rookery.client.spark.offsets import Range
from rookery.core.errors import CorruptMessageError
from rookery.core.wire.apis.fetch import AbortedTransaction
from rookery.core.wire.batch import read_header, stamp_append_time, write_header
from rookery.core.wire.markers import EndMarker, build_marker
from rookery.core.wire.primitives import WireError
from rookery.core.wire.records import Codec, Record, RecordHeader, build_batch

ALL = schema.names(True)
MS = 1_700_000_000_123


def some(first: int, count: int) -> list[Record]:
    return [
        Record(
            first + step,
            MS + step,
            None if step % 3 == 0 else b"k%d" % step,
            None if step % 5 == 0 else b"v" * step,
            [RecordHeader("h", b"x"), RecordHeader("n", None)] if step % 4 == 0 else (),
        )
        for step in range(count)
    ]


def decoded(
    wanted: Range, columns: Sequence[str], *answers: bytes | bytearray, aborted: Aborted | None = None
) -> list[pa.RecordBatch]:
    decoder = Decoder(wanted, columns)
    full = [batch for answer in answers for batch in decoder.feed(answer, aborted)]
    return [*full, *decoder.rest()]


def rows(data: bytes | bytearray, start: int = 0, end: int = 1 << 40, aborted: Aborted | None = None) -> list[int]:
    found = decoded(Range("t", 3, start, end), ("offset",), data, aborted=aborted)
    table = pa.Table.from_batches(found, schema.arrow_schema(("offset",)))
    return list(table.column("offset").to_pylist())


@pytest.mark.row(173)
@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_with_nulls_and_headers(codec: Codec) -> None:
    records = some(50, 200)
    (batch,) = decoded(Range("t", 3, 50, 250), ALL, build_batch(records, codec=codec))
    found = batch.to_pylist()
    assert [row["key"] for row in found] == [record.key for record in records]
    assert [row["value"] for row in found] == [record.value for record in records]
    assert [row["offset"] for row in found] == list(range(50, 250))
    assert [row["timestamp"].timestamp() * 1000 for row in found] == pytest.approx([MS + n for n in range(200)])
    assert found[4]["headers"] == [{"key": "h", "value": b"x"}, {"key": "n", "value": None}]
    assert found[1]["headers"] is None
    assert {(row["topic"], row["partition"], row["timestampType"]) for row in found} == {("t", 3, 0)}


def test_the_schema_is_what_spark_expects_of_these_columns() -> None:
    for columns in (ALL, schema.names(False), ("offset", "partition")):
        spark = from_arrow_schema(schema.arrow_schema(columns))
        types = [(field.name, field.dataType.simpleString()) for field in spark]
        assert types == [(name, schema.DDL[name]) for name in columns]
        assert to_arrow_schema(spark, timezone="UTC").equals(schema.arrow_schema(columns))
        (batch,) = decoded(Range("t", 0, 0, 9), columns, build_batch(some(0, 9)))
        assert batch.schema.equals(schema.arrow_schema(columns))


def test_a_users_schema_picks_columns() -> None:
    assert schema.wanted([("offset", "bigint"), ("key", "binary")], False) == ("offset", "key")
    with pytest.raises(OptionError, match="includeHeaders"):
        schema.wanted([("headers", schema.DDL["headers"])], False)
    with pytest.raises(OptionError, match="'key' as string"):
        schema.wanted([("key", "string")], False)


def test_nothing_outside_the_range() -> None:
    data = build_batch(some(0, 10)) + build_batch(some(10, 10)) + build_batch(some(20, 10))
    assert rows(data, 3, 14) == list(range(3, 14))
    assert rows(data, 10, 20) == list(range(10, 20))
    assert rows(data, 30, 40) == []


def test_a_batch_that_comes_twice_or_begins_too_early_repeats_nothing() -> None:
    """As when the next leader's batches have other bounds."""
    answers = [build_batch(some(0, 10)), build_batch(some(0, 10)), build_batch(some(5, 10)), build_batch(some(15, 5))]
    found = decoded(Range("t", 3, 2, 18), ("offset",), *answers)
    assert [offset for each in found for offset in each.column("offset").to_pylist()] == list(range(2, 18))


def test_holes_of_compaction_and_a_cut_batch_at_the_end() -> None:
    holes = [record for record in some(0, 10) if record.offset in (2, 7, 9)]
    data = build_batch(holes) + build_batch(some(40, 5))
    assert rows(data) == [2, 7, 9, 40, 41, 42, 43, 44]
    assert rows(data[:-3]) == [2, 7, 9]
    assert next_offset(data, 0) == 45
    assert next_offset(data[:-3], 0) == 10
    assert next_offset(b"", 17) == 17


def test_the_brokers_time_where_it_counts() -> None:
    data = bytearray(build_batch(some(0, 2)))
    stamp_append_time(data, 0, MS + 999)
    columns = ("timestamp", "timestampType")
    (batch,) = decoded(Range("t", 0, 0, 9), columns, bytes(data) + build_batch(some(2, 1)))
    assert batch.column("timestampType").to_pylist() == [1, 1, 0]
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [(MS + 999) * 1000] * 2 + [MS * 1000]


def test_control_records_are_never_rows() -> None:
    marker = build_marker(EndMarker(True, 0), producer_id=7, producer_epoch=0, timestamp=MS, offset=5)
    assert rows(build_batch(some(0, 5)) + marker + build_batch(some(6, 2))) == [0, 1, 2, 3, 4, 6, 7]


def transactional(first: int, producer: int) -> bytearray:
    return build_batch(some(first, 2), producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)


def test_aborted_transactions_are_passed_over() -> None:
    data = (
        transactional(0, 7)
        + transactional(2, 8)
        + build_marker(EndMarker(False, 0), producer_id=7, producer_epoch=0, timestamp=MS, offset=4)
        + transactional(5, 7)
        + build_marker(EndMarker(True, 0), producer_id=7, producer_epoch=0, timestamp=MS, offset=7)
        + build_marker(EndMarker(True, 0), producer_id=8, producer_epoch=0, timestamp=MS, offset=8)
    )
    assert rows(data, aborted=Aborted([AbortedTransaction(producer_id=7, first_offset=0)])) == [2, 3, 5, 6]
    assert rows(data, aborted=Aborted(())) == [0, 1, 2, 3, 5, 6]


def test_many_small_batches_become_few_large_ones_and_none_too_large() -> None:
    small = bytearray().join(build_batch(some(place, 1)) for place in range(100))
    assert [batch.num_rows for batch in decoded(Range("t", 0, 0, 100), ALL, small)] == [100]
    large = build_batch([Record(place, MS, None, b"v") for place in range(ROWS_MAX + 5)])
    sizes = [batch.num_rows for batch in decoded(Range("t", 0, 0, 1 << 30), ALL, large)]
    assert sizes == [ROWS_MAX, 5]


def test_small_answers_are_gathered() -> None:
    answers = [build_batch(some(place, 10)) for place in range(0, 100, 10)]
    assert [batch.num_rows for batch in decoded(Range("t", 0, 5, 95), ALL, *answers)] == [90]
    big = [build_batch([Record(place, MS, None, b"v" * (BYTES_MAX // 4))]) for place in range(6)]
    assert [batch.num_rows for batch in decoded(Range("t", 0, 0, 9), ALL, *big)] == [4, 2]


class Answer(bytearray):
    """Can be watched."""


@pytest.mark.row(173)
def test_an_answer_of_which_little_is_kept_is_let_go() -> None:
    """Else a task that finds a committed record here and there would hold everything it fetched."""
    decoder = Decoder(Range("t", 0, 0, 1 << 30), ("offset", "value"))
    aborted = build_batch([Record(0, MS, None, bytes(10_000))], producer_id=7, producer_epoch=0, transactional=True)
    watched: list[weakref.ref[Answer]] = []
    for _ in range(2):
        answer = Answer(aborted + build_batch([Record(1 + len(watched), MS, None, b"kept")]))
        watched.append(weakref.ref(answer))
        assert not list(decoder.feed(answer, Aborted([AbortedTransaction(producer_id=7, first_offset=0)])))
        del answer
    assert [each() for each in watched] == [None, None]
    (batch,) = decoder.rest()
    assert batch.to_pylist() == [{"offset": 1, "value": b"kept"}, {"offset": 2, "value": b"kept"}]


def test_damage_is_found() -> None:
    data = bytearray(build_batch(some(0, 5)))
    data[-1] ^= 1
    with pytest.raises(CorruptMessageError):
        rows(data)


blobs = st.none() | st.binary(max_size=200)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(-(2**40), 2**40), blobs, blobs), min_size=1, max_size=40),
    st.sampled_from(list(Codec)),
)
def test_columns_are_what_reading_record_by_record_gives(
    drawn: list[tuple[int, int, bytes | None, bytes | None]], codec: Codec
) -> None:
    offset, records = 0, []
    for gap, time, key, value in drawn:
        offset += gap + 1
        records.append(Record(offset, MS + time, key, value, [RecordHeader("h", b"")] if gap % 2 else ()))
    data = build_batch(records, codec=codec)
    columns = ("offset", "timestamp", "key", "value")
    (batch,) = decoded(Range("t", 0, 0, 1 << 40), columns, data)
    assert batch.column("offset").to_pylist() == [record.offset for record in records]
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [r.timestamp * 1000 for r in records]
    assert batch.column("key").to_pylist() == [record.key for record in records]
    assert batch.column("value").to_pylist() == [record.value for record in records]


@pytest.mark.parametrize("cut", [1, 5, 9, 30])
def test_records_that_do_not_fit_their_batch_are_refused(cut: int) -> None:
    """A checksum that fits says nothing of the records inside."""
    records = bytearray(build_batch(some(0, 5)))
    header = read_header(records)
    shorter = records[:-cut]
    write_header(shorter, header)
    with pytest.raises(WireError):
        rows(shorter)
