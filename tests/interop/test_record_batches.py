"""Batches of librdkafka, kafka-python, aiokafka and the Java client are read here, and ours are read
there."""

from collections.abc import Iterator

import pytest

from rookery.core.errors import ErrorCode
from rookery.core.wire.compression import Codec
from rookery.core.wire.markers import EndMarker, build_marker, read_marker
from rookery.core.wire.records import (
    Record,
    RecordHeader,
    build_batch,
    check_records,
    offset_of_max_timestamp,
    read_header,
    read_records,
    recompress,
    rewrite_batch,
    stamp,
    stamp_append_time,
    validate_produce_batch,
)
from tests.interop.java.batches import JavaBatches, JavaError
from tests.interop.one_partition import TOPIC, OnePartition
from tests.interop.record_clients import CLIENTS, Client

NOW = 1_700_000_000_000
ROOM = 1 << 24

Fields = tuple[bytes | None, bytes | None, list[RecordHeader]]


def samples(null_headers: bool = True) -> list[Record]:
    """Null, empty and large keys and values; headers of all kinds; times that go back and forth."""
    last = RecordHeader("ключ", None if null_headers else b"")
    odd: list[Fields] = [
        (b"key", b"value", [RecordHeader("a", b"1"), RecordHeader("a", b"2"), last]),
        (None, b"no key", []),
        (b"tombstone", None, [RecordHeader("", b"")]),
        (b"empty", b"", []),
        (b"k" * 300, bytes(range(256)) * 300, []),
    ]
    text: list[Fields] = [(b"key-%d" % i, b"some text, again and again, %d" % i, []) for i in range(200)]
    times = [NOW, NOW + 70_000, NOW - 5, NOW + 3, NOW + 70_000]
    return [
        Record(i, times[i % 5] + i // 5, key, value, headers)
        for i, (key, value, headers) in enumerate(odd + text)
    ]


def plain(records: list[Record]) -> list[Record]:
    return [record._replace(headers=list(record.headers)) for record in records]


@pytest.fixture(scope="module")
def java() -> Iterator[JavaBatches]:
    peer = JavaBatches()
    yield peer
    peer.close()


@pytest.mark.row(32, 34, 46)
@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("client", CLIENTS, ids=repr)
def test_what_clients_produce_is_read_here(client: Client, codec: Codec) -> None:
    records = samples(client.sends_null_headers)
    with OnePartition() as broker:
        client.produce(broker.address, codec.name.lower(), records)
    read: list[Record] = []
    for batch in broker.produced:
        header = validate_produce_batch(batch, ROOM)
        assert header.codec == codec
        check_records(batch)
        base = len(read)
        read += [record._replace(offset=base + record.offset) for record in read_records(batch)]
    assert plain(read) == records


@pytest.mark.row(32, 34, 46)
@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("client", CLIENTS, ids=repr)
def test_our_batches_are_read_by_clients(client: Client, codec: Codec) -> None:
    records = samples()
    stored = build_batch(records[:100], codec=codec) + build_batch(records[100:], codec=codec)
    with OnePartition(stored) as broker:
        found = client.consume(broker.address, len(records))
    assert {(read.topic, read.partition) for read in found} == {(TOPIC, 0)}
    assert plain([read.record for read in found]) == records


@pytest.mark.row(34)
def test_uncompressed_batches_are_byte_identical_to_javas(java: JavaBatches) -> None:
    records = samples()
    assert java.build(records, Codec.NONE) == build_batch(records)
    ours = build_batch(
        records, leader_epoch=4, producer_id=77, producer_epoch=2, base_sequence=9, transactional=True
    )
    theirs = java.build(
        records,
        Codec.NONE,
        leader_epoch=4,
        producer_id=77,
        producer_epoch=2,
        base_sequence=9,
        transactional=True,
    )
    assert ours == theirs


@pytest.mark.row(32, 34, 46)
@pytest.mark.parametrize("codec", Codec)
def test_java_batches_are_read_here(java: JavaBatches, codec: Codec) -> None:
    records = [record._replace(offset=record.offset + 5000) for record in samples()]
    batch = java.build(records, codec, producer_id=8, producer_epoch=1, base_sequence=3)
    assert plain(read_records(batch)) == records
    header = read_header(batch)
    assert (header.codec, header.base_offset, header.producer_id) == (codec, 5000, 8)
    stamped = bytearray(batch)
    stamp(stamped, 0, 0, 1)
    assert validate_produce_batch(stamped, ROOM).record_count == len(records)


@pytest.mark.row(32, 34, 46)
@pytest.mark.parametrize("codec", Codec)
def test_our_batches_are_read_by_java(java: JavaBatches, codec: Codec) -> None:
    batch = build_batch(samples(), codec=codec, producer_id=8, producer_epoch=1, base_sequence=2**31 - 5)
    stamp(batch, 0, 9_000, 6)
    [read] = java.read(batch)
    ours = read_header(batch)
    assert read["records"] == plain(read_records(batch))
    assert (read["base_offset"], read["last_offset"], read["leader_epoch"]) == (9_000, ours.last_offset, 6)
    assert (read["producer_id"], read["base_sequence"]) == (8, 2**31 - 5)
    assert (read["codec"], read["last_sequence"]) == (codec, ours.last_sequence)
    assert (read["offset_of_max_timestamp"], read["max_timestamp"]) == offset_of_max_timestamp(batch, 0)


@pytest.mark.parametrize("codec", Codec)
def test_rewritten_batches_are_read_by_java(java: JavaBatches, codec: Codec) -> None:
    batch = java.build(samples(), codec)
    kept = read_records(batch)[10:90:7]
    compacted = rewrite_batch(read_header(batch), kept, delete_horizon=NOW + 1)
    empty = rewrite_batch(read_header(batch), [])
    appended = bytearray(batch)
    stamp_append_time(appended, 0, NOW + 99)
    recompressed = recompress(batch, 0, Codec.ZSTD if codec is not Codec.ZSTD else Codec.GZIP)
    read = java.read(compacted + empty + appended + recompressed)
    assert [len(b["records"]) for b in read] == [len(kept), 0, len(samples()), len(samples())]
    assert read[0]["records"] == plain(kept)
    assert (read[0]["delete_horizon"], read[0]["last_offset"]) == (NOW + 1, len(samples()) - 1)
    assert read[1]["last_offset"] == len(samples()) - 1
    assert {record.timestamp for record in read[2]["records"]} == {NOW + 99}
    assert read[2]["log_append_time"] is True
    assert read[3]["records"] == samples()


@pytest.mark.row(32)
@pytest.mark.parametrize(("codec", "levels"), [(Codec.GZIP, (1, 9)), (Codec.LZ4, (1, 17)), (Codec.ZSTD, (1, 19))])
def test_every_level_is_read_by_java(java: JavaBatches, codec: Codec, levels: tuple[int, int]) -> None:
    for level in levels:
        [read] = java.read(build_batch(samples(), codec=codec, level=level))
        assert read["records"] == samples()


@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.LZ4])
def test_framing_is_javas(java: JavaBatches, codec: Codec) -> None:
    ours, theirs = build_batch(samples(), codec=codec)[61:], java.build(samples(), codec)[61:]
    framing = 16 if codec is Codec.SNAPPY else 7
    assert ours[:framing] == theirs[:framing]


@pytest.mark.parametrize("commit", [True, False])
def test_markers_are_javas(java: JavaBatches, commit: bool) -> None:
    marker = EndMarker(commit, coordinator_epoch=21)
    ours = build_marker(marker, producer_id=33, producer_epoch=4, timestamp=NOW, offset=12, leader_epoch=3)
    assert java.marker(marker, 33, 4, NOW, 12, 3) == ours
    assert read_marker(ours) == marker
    assert java.read(ours)[0]["marker"] == ["COMMIT" if commit else "ABORT", 21]


def test_a_flipped_bit_is_seen_by_java_too(java: JavaBatches) -> None:
    batch = build_batch(samples())
    batch[len(batch) // 2] ^= 1
    with pytest.raises(JavaError, match="corrupt"):
        java.read(batch)


def test_the_error_table_is_javas(java: JavaBatches) -> None:
    ours = [(int(code), code.name, code.retriable, code.stale_metadata) for code in ErrorCode]
    assert sorted(java.errors()) == ours
