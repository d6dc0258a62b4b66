"""Keys of records, read without the rest of them, are those that a full read gives."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.broker.log.compaction import record_keys
from rookery.core.wire.primitives import WireError
from rookery.core.wire.records import Codec, Record, RecordHeader, build_batch, read_header, read_records

CONTENT = st.none() | st.binary(max_size=20) | st.integers(60, 9000).map(bytes)
RECORDS = st.lists(
    st.tuples(st.integers(0, 2**40), CONTENT, CONTENT, st.integers(0, 2), st.integers(1, 300)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(RECORDS, st.sampled_from(Codec), st.integers(0, 2**41))
def test_the_same_as_a_full_read(
    drawn: list[tuple[int, bytes | None, bytes | None, int, int]], codec: Codec, base: int
) -> None:
    records, offset = [], base
    for timestamp, key, value, headers, step in drawn:
        records.append(Record(offset, timestamp, key, value, [RecordHeader("h", b"x")] * headers))
        offset += step
    batch = build_batch(records, codec=codec)
    found = record_keys(batch, 0, read_header(batch))
    assert found == [(r.offset, r.key, r.value is None) for r in read_records(batch)]


def test_records_that_do_not_add_up_are_refused() -> None:
    batch = build_batch([Record(0, 1, b"key", b"value"), Record(1, 1, b"key", b"value")])
    header = read_header(batch)
    for wrong in (header._replace(record_count=1), header._replace(record_count=3)):
        with pytest.raises(WireError):
            record_keys(batch, 0, wrong)
    damaged = bytearray(batch)
    damaged[61 + 4] = 60  # the key's length
    with pytest.raises(WireError):
        record_keys(damaged, 0, header)
