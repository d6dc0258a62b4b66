"""Record batches for property tests, and shorthands shared by the tests of batches."""

from hypothesis import strategies as st

from rookery.core.wire.compression import Codec
from rookery.core.wire.records import Record, RecordHeader, build_batch

NOW = 1_700_000_000_000

blobs = st.none() | st.binary(max_size=200) | st.binary(min_size=60, max_size=70) | st.just(b"x" * 9000)
header = st.builds(RecordHeader, st.text(max_size=20), st.none() | st.binary(max_size=30))
headers = st.lists(header, max_size=4)
codecs = st.sampled_from(list(Codec))


@st.composite
def record_lists(draw: st.DrawFn, contiguous: bool = False) -> list[Record]:
    """Records with ascending offsets; gaps between them, as compaction leaves them, unless `contiguous`."""
    base = draw(st.integers(0, 2**62))
    gaps = st.just(1) if contiguous else st.integers(1, 2**20)
    offset = base - 1
    records = []
    for _ in range(draw(st.integers(1, 12))):
        offset += draw(gaps)
        time = draw(st.integers(0, 2**45))
        records.append(Record(offset, time, draw(blobs), draw(blobs), draw(headers)))
    return records


def plain(records: list[Record]) -> list[Record]:
    """With headers as lists, so that records from different makers compare equal."""
    return [record._replace(headers=list(record.headers)) for record in records]


def some_records(count: int = 3) -> list[Record]:
    return [
        Record(i, NOW + i, b"key-%d" % i, b"value-%d" % i, [RecordHeader("n", b"%d" % i)])
        for i in range(count)
    ]


def some_batch(count: int = 3, codec: Codec = Codec.NONE) -> bytearray:
    return build_batch(some_records(count), codec=codec)
