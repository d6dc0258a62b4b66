"""The sink's options and columns, and rows becoming records."""

import pyarrow as pa
import pytest

from rookery.client.partitioner import partition_for_key
from rookery.client.sender import Outgoing
from rookery.client.spark.option_values import OptionError
from rookery.client.spark.outbox import Outbox, outgoing, size_of
from rookery.client.spark.schema import DDL, HEADERS
from rookery.client.spark.sink_options import SinkOptions, sink_options
from rookery.core.wire.records import Codec
from tests.unit.client.test_sender import Scripted

BASE = {"kafka.bootstrap.servers": "a:9092", "topic": "t"}
VALUE = [("value", "string")]


def parsed(columns: list[tuple[str, str]] = VALUE, **options: str) -> SinkOptions:
    return sink_options({**BASE, **options}, columns)


def test_defaults() -> None:
    options = parsed()
    assert options.topic == "t"
    assert (options.producing.acks, options.producing.codec) == (-1, Codec.NONE)


def test_producer_settings_and_what_spark_itself_is_told() -> None:
    options = parsed(VALUE, **{"kafka.acks": "1", "kafka.compression.type": "zstd", "checkpointLocation": "/x"})
    assert (options.producing.acks, options.producing.codec) == (1, Codec.ZSTD)


@pytest.mark.row(173)
@pytest.mark.parametrize(
    ("columns", "options", "named"),
    [
        ([("key", "string")], {}, "'value' is needed"),
        ([("value", "int")], {}, "'value' is int"),
        ([*VALUE, ("partition", "bigint")], {}, "'partition' is bigint"),
        ([*VALUE, ("headers", "map<string,string>")], {}, "'headers'"),
        (VALUE, {"topic": ""}, "'topic' is empty"),
        (VALUE, {"topics": "x"}, "'topic' is one"),
        (VALUE, {"kafka.acks": "2"}, r"kafka\.acks"),
        (VALUE, {"kafka.value.serializer": "x"}, r"kafka\.value\.serializer"),
        (VALUE, {"kafka.compression.type": "rar"}, r"kafka\.compression\.type"),
    ],
)
def test_what_cannot_be_written_is_refused_by_name(
    columns: list[tuple[str, str]], options: dict[str, str], named: str
) -> None:
    with pytest.raises(OptionError, match=named):
        parsed(columns, **options)


def test_a_topic_is_needed_from_somewhere() -> None:
    server = {"kafka.bootstrap.servers": "a:9092"}
    with pytest.raises(OptionError, match="topic"):
        sink_options(server, VALUE)
    assert sink_options(server, [*VALUE, ("topic", "string"), ("headers", DDL["headers"])]).topic is None


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def test_rows_become_records() -> None:
    rows = batch(
        value=pa.array(["ä", None]),
        key=pa.array([b"k", None]),
        topic=pa.array(["one", "two"]),
        partition=pa.array([None, 3], pa.int32()),
        headers=pa.array([[{"key": "h", "value": b"x"}, {"key": "n", "value": None}], None], HEADERS),
        other=pa.array([1, 2]),
    )
    (first_topic, first), (second_topic, second) = outgoing(rows, None)
    assert (first_topic, second_topic) == ("one", "two")
    assert (first.value, first.key, first.partition) == ("ä".encode(), b"k", None)
    assert [tuple(header) for header in first.headers] == [("h", b"x"), ("n", None)]
    assert (second.value, second.key, second.partition, second.headers) == (None, None, 3, ())
    assert size_of(first) > size_of(second)
    assert {topic for topic, _ in outgoing(rows, "three")} == {"three"}


def test_a_row_without_a_topic_is_an_error() -> None:
    with pytest.raises(ValueError, match="no topic"):
        list(outgoing(batch(value=pa.array(["v"]), topic=pa.array([None], pa.string())), None))


async def test_an_outbox_writes_batches_by_partition() -> None:
    """Keys choose, a row's own partition goes before, and no batch is larger than a request may be."""
    cluster = Scripted()
    outbox = Outbox(cluster, parsed(VALUE, **{"kafka.max.request.size": "1000"}))
    rows = [Outgoing(b"%d" % n, b"k%d" % n, partition=None if n % 2 else 1) for n in range(40)]
    await outbox.add_all(("t", row) for row in rows)
    await outbox.flush()
    assert outbox.written == 40
    assert len(cluster.written) > 2
    wanted: dict[int, list[bytes | None]] = {0: [], 1: []}
    for row in rows:
        wanted[partition_for_key(row.key or b"", 2) if row.partition is None else 1].append(row.value)
    for partition, values in wanted.items():
        assert [each for index, written in cluster.written if index == partition for each in written] == values
    with pytest.raises(ValueError, match="partition 2"):
        await outbox.add_all([("t", Outgoing(b"", partition=2))])
