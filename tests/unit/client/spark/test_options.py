"""The source's options: Spark's names and defaults; what is wrong is refused by name."""

import pytest

from rookery.client.spark.exactly_once import check_settings
from rookery.client.spark.kafka_options import OptionError, UnknownKafkaOptionWarning
from rookery.client.spark.options import (
    SinkOptions,
    SourceOptions,
    includes_headers,
    sink_options,
    source_options,
)
from rookery.client.spark.places import EARLIEST, LATEST, AtOffsets, AtTime, AtTimes, InAllPartitions
from rookery.client.spark.schema import DDL
from rookery.core.wire.records import Codec

BASE = {"kafka.bootstrap.servers": "a:9092,b:9092", "subscribe": "t"}


def batch(**options: str) -> SourceOptions:
    return source_options({**BASE, **options}, streaming=False)


def stream(**options: str) -> SourceOptions:
    return source_options({**BASE, **options}, streaming=True)


def test_defaults_are_those_of_sparks_own_source() -> None:
    options = batch()
    assert (options.starting, options.ending) == (InAllPartitions(EARLIEST), InAllPartitions(LATEST))
    assert stream().starting == InAllPartitions(LATEST)
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.partitions_min is options.records_per_partition_max is None
    assert options.admission.offsets_max is options.admission.offsets_min is None
    assert options.admission.delay_max_ms == 15 * 60 * 1000
    assert (options.poll_timeout_s, options.lookup_retries, options.lookup_pause_s) == (120, 3, 1)
    assert not options.fetching.read_committed


def test_numbers_of_a_client_are_no_larger_than_a_client_takes() -> None:
    assert batch(**{"kafka.fetch.max.wait.ms": str(2**31 - 1)}).fetching.wait_ms == 2**31 - 1
    with pytest.raises(OptionError, match=r"'kafka\.fetch\.max\.wait\.ms' is 2147483647 at most"):
        batch(**{"kafka.fetch.max.wait.ms": str(2**31)})


def test_names_are_read_in_any_case() -> None:
    options = source_options({key.lower(): value for key, value in {**BASE, "failOnDataLoss": "FALSE"}.items()},
                             streaming=False)
    assert not options.fail_on_data_loss
    assert includes_headers({"INCLUDEHEADERS": "true"})


def test_selections() -> None:
    assert batch(subscribe=" a, b,a ").selection.topics == ("a", "b")
    only = {"kafka.bootstrap.servers": "a:1"}
    assigned = source_options({**only, "assign": '{"t":[1,0],"u":[3]}'}, streaming=False)
    assert assigned.selection.partitions == (("t", 0), ("t", 1), ("u", 3))
    assert source_options({**only, "subscribePattern": " t.* "}, streaming=False).selection.pattern == "t.*"


def test_places_by_offset_and_by_time() -> None:
    by_offset = stream(startingOffsets='{"t":{"0":23,"1":-2,"2":-1}}')
    assert by_offset.starting == AtOffsets({("t", 0): 23, ("t", 1): EARLIEST, ("t", 2): LATEST})
    assert stream(startingOffsets="Earliest").starting == InAllPartitions(EARLIEST)
    assert batch(startingOffsetsByTimestamp='{"t":{"0":1000}}').starting == AtTimes({("t", 0): 1000})
    assert batch(endingTimestamp="99").ending == AtTime(99)


def test_one_time_goes_before_times_and_these_before_offsets() -> None:
    all_of_them = {"startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"t":{"0":5}}'}
    assert batch(**all_of_them).starting == AtTimes({("t", 0): 5})
    assert batch(**all_of_them, startingTimestamp="7").starting == AtTime(7)


def test_kafka_settings_are_passed_on() -> None:
    options = batch(**{
        "kafka.isolation.level": "read_committed",
        "kafka.max.partition.fetch.bytes": "5000",
        "kafka.client.id": "me",
        "kafka.group.id": "no matter",
    })
    assert options.fetching.read_committed
    assert options.fetching.bytes_max == 5000
    assert options.connecting.client_id == "me"


def test_an_unknown_kafka_setting_is_warned_of() -> None:
    with pytest.warns(UnknownKafkaOptionWarning, match=r"kafka\.no\.such"):
        batch(**{"kafka.no.such": "1"})


def test_durations() -> None:
    assert stream(minOffsetsPerTrigger="5", maxTriggerDelay="90s").admission.delay_max_ms == 90_000
    assert stream(minOffsetsPerTrigger="5", maxTriggerDelay="500").admission.delay_max_ms == 500
    assert stream(minOffsetsPerTrigger="5", maxTriggerDelay="2 min").admission.delay_max_ms == 120_000


WRONG_IN_BATCH = [
    ({"startingOffset": "earliest"}, "startingOffsets"),
    ({"path": "x"}, "path"),
    ({"subscribePattern": "x"}, "'subscribe' and 'subscribePattern'"),
    ({"subscribe": " , "}, "subscribe"),
    ({"startingOffsets": "latest"}, "startingOffsets"),
    ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets"),
    ({"startingOffsets": "sometime"}, "startingOffsets"),
    ({"startingOffsets": '{"t":{"0":-3}}'}, "startingOffsets"),
    ({"startingOffsets": '{"t":{"0":"1"}}'}, "startingOffsets"),
    ({"startingOffsets": '{"u":{"0":1}}'}, "u-0"),
    ({"startingOffsets": '{"t":'}, "not JSON"),
    ({"endingOffsets": "earliest"}, "endingOffsets"),
    ({"endingOffsetsByTimestamp": "[1]"}, "endingOffsetsByTimestamp"),
    ({"startingTimestamp": "yesterday"}, "startingTimestamp"),
    ({"startingOffsetsByTimestampStrategy": "guess"}, "startingOffsetsByTimestampStrategy"),
    ({"failOnDataLoss": "maybe"}, "failOnDataLoss"),
    ({"minPartitions": "0"}, "minPartitions"),
    ({"minPartitions": "1_0"}, "minPartitions"),
    ({"minPartitions": "١"}, "minPartitions"),
    ({"startingTimestamp": str(2**63)}, "startingTimestamp"),
    ({"endingOffsets": f'{{"t":{{"0":{2**63}}}}}'}, "endingOffsets"),
    ({"startingOffsets": '{"t":{"²":1}}'}, "startingOffsets"),
    ({"partition.metadata.cache.ttl.ms": "0"}, r"partition\.metadata\.cache\.ttl\.ms"),
    ({"maxRecordsPerPartition": "many"}, "maxRecordsPerPartition"),
    ({"maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger"),
    ({"kafka.auto.offset.reset": "earliest"}, r"kafka\.auto\.offset\.reset"),
    ({"kafka.key.deserializer": "x"}, r"kafka\.key\.deserializer"),
    ({"kafka.isolation.level": "serializable"}, r"kafka\.isolation\.level"),
    ({"kafka.bootstrap.servers": "nowhere"}, r"kafka\.bootstrap\.servers"),
    ({"kafka.security.protocol": "TLS"}, r"kafka\.security\.protocol"),
    ({"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "GSSAPI"}, r"kafka\.sasl\.mechanism"),
    ({"kafka.ssl.truststore.locaton": "x"}, r"kafka\.ssl\.truststore\.locaton"),
]


@pytest.mark.row(173)
@pytest.mark.parametrize(("options", "named"), WRONG_IN_BATCH)
def test_what_is_wrong_is_refused_by_name(options: dict[str, str], named: str) -> None:
    with pytest.raises(OptionError, match=named):
        batch(**options)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets"),
        ({"endingTimestamp": "5"}, "endingTimestamp"),
        ({"minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"}, "minOffsetsPerTrigger"),
        ({"maxTriggerDelay": "5m"}, "minOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "6", "maxTriggerDelay": "soon"}, "maxTriggerDelay"),
    ],
)
def test_what_is_wrong_in_a_stream_is_refused_by_name(options: dict[str, str], named: str) -> None:
    with pytest.raises(OptionError, match=named):
        stream(**options)


def test_the_cluster_and_a_selection_are_needed() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers"):
        source_options({"subscribe": "t"}, streaming=False)
    with pytest.raises(OptionError, match="subscribePattern"):
        source_options({"kafka.bootstrap.servers": "a:1"}, streaming=False)


SINK = {"kafka.bootstrap.servers": "a:9092", "topic": "t"}
VALUE = [("value", "string")]


def parsed(columns: list[tuple[str, str]] = VALUE, **options: str) -> SinkOptions:
    return sink_options({**SINK, **options}, columns)


def test_defaults() -> None:
    options = parsed()
    assert options.topic == "t"
    assert (options.producing.acks, options.producing.codec) == (-1, Codec.NONE)
    assert options.producing.idempotent


def test_producer_settings_and_what_spark_itself_is_given() -> None:
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


@pytest.mark.row(173)
def test_exactly_once_is_asked_for_and_only_in_streams() -> None:
    asked = {**SINK, "exactly_once": "true"}
    assert not sink_options(SINK, VALUE, streaming=True).exactly_once
    found = sink_options({**asked, "kafka.transaction.timeout.ms": "1000"}, VALUE, streaming=True)
    assert (found.exactly_once, found.producing.transaction_timeout_ms) == (True, 1000)
    check_settings(found)
    with pytest.raises(OptionError, match="is for streams"):
        sink_options(asked, VALUE, streaming=False)
    without_topic = {"kafka.bootstrap.servers": "a:9092", "exactly_once": "true"}
    with pytest.raises(OptionError, match="needs the option 'topic'"):
        sink_options(without_topic, [*VALUE, ("topic", "string")], streaming=True)
    for wrong in ({"kafka.acks": "1"}, {"kafka.enable.idempotence": "false"}):
        with pytest.raises(OptionError, match=r"needs 'kafka\.acks' to be all"):
            sink_options({**asked, **wrong}, VALUE, streaming=True)
    with pytest.raises(OptionError, match=r"'kafka\.transactional\.id' is not supported"):
        sink_options({**asked, "kafka.transactional.id": "mine"}, VALUE, streaming=True)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"kafka.delivery.timeout.ms": "500"}, r"kafka\.delivery\.timeout\.ms"),
        ({"kafka.ssl.enabled.protocols": "TLSv1.3"}, r"kafka\.ssl\.enabled\.protocols"),
    ],
)
def test_what_the_producer_of_exactly_once_refuses_is_refused_before_a_task_runs(
    options: dict[str, str], named: str
) -> None:
    found = sink_options({**SINK, "exactly_once": "true", **options}, VALUE, streaming=True)
    with pytest.raises(OptionError, match=named):
        check_settings(found)


def test_names_of_librdkafka_reach_the_producer_of_exactly_once() -> None:
    login = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanisms": "PLAIN",
        "kafka.sasl.username": "u",
        "kafka.sasl.password": "p",
    }
    check_settings(sink_options({**SINK, "exactly_once": "true", **login}, VALUE, streaming=True))
