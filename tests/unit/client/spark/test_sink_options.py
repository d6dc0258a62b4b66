"""The sink's options and columns."""

import pytest

from rookery.client.spark.option_values import OptionError
from rookery.client.spark.schema import DDL
from rookery.client.spark.sink_options import SinkOptions, sink_options
from rookery.core.wire.records import Codec

BASE = {"kafka.bootstrap.servers": "a:9092", "topic": "t"}
VALUE = [("value", "string")]


def parsed(columns: list[tuple[str, str]] = VALUE, **options: str) -> SinkOptions:
    return sink_options({**BASE, **options}, columns)


def test_defaults() -> None:
    options = parsed()
    assert options.topic == "t"
    assert (options.producing.acks, options.producing.codec) == (-1, Codec.NONE)
    assert options.producing.idempotent


def test_producer_settings_and_what_spark_itself_is_told() -> None:
    options = parsed(VALUE, **{"kafka.acks": "1", "kafka.compression.type": "zstd", "checkpointLocation": "/x"})
    assert (options.producing.acks, options.producing.codec) == (1, Codec.ZSTD)
    assert not options.producing.idempotent
    assert not parsed(VALUE, **{"kafka.enable.idempotence": "false"}).producing.idempotent
    assert parsed(VALUE, **{"kafka.delivery.timeout.ms": "500"}).producing.delivery_timeout_s == 0.5


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
        (VALUE, {"kafka.acks": "1", "kafka.enable.idempotence": "true"}, r"kafka\.enable\.idempotence"),
        (VALUE, {"kafka.enable.idempotence": "yes"}, r"kafka\.enable\.idempotence"),
        (VALUE, {"kafka.delivery.timeout.ms": "soon"}, r"kafka\.delivery\.timeout\.ms"),
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
