"""Records survive the way through bytes, and bytes that are no known record are refused with the reason."""

from dataclasses import fields
from typing import Any, get_args, get_origin, get_type_hints
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.core.metadata import records as r
from rookery.core.metadata.codec import RecordError, decode, encode
from rookery.core.metadata.image import Endpoint, FeatureRange, QuotaEntity
from rookery.proto import metadata_pb2 as pb

KINDS = [kind for kind in vars(r).values() if isinstance(kind, type) and issubclass(kind, r.Record)]
KINDS.remove(r.Record)
TOPIC = UUID(int=0x0102030405060708090A0B0C0D0E0F10)
INT32 = st.integers(min_value=-(2**31), max_value=2**31 - 1)
PARTS: dict[Any, st.SearchStrategy[Any]] = {
    int: INT32,
    str: st.text(max_size=20),
    bool: st.booleans(),
    bytes: st.binary(max_size=40),
    float: st.floats(allow_nan=False),
    UUID: st.uuids(),
    Endpoint: st.builds(Endpoint, st.text(max_size=5), st.text(max_size=5), INT32, st.text(max_size=5)),
    FeatureRange: st.builds(FeatureRange, st.text(max_size=5), INT32, INT32),
    QuotaEntity: st.builds(QuotaEntity, st.text(max_size=5), st.none() | st.text(max_size=5)),
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    if hint in PARTS:
        return PARTS[hint]
    if get_origin(hint) is tuple:
        return st.lists(values_of(get_args(hint)[0]), max_size=4).map(tuple)
    return st.none() | values_of(get_args(hint)[0])


def any_record() -> st.SearchStrategy[r.Record]:
    strategies = []
    for kind in KINDS:
        hints = get_type_hints(kind)
        strategies.append(st.builds(kind, **{field.name: values_of(hints[field.name]) for field in fields(kind)}))
    return st.one_of(strategies)


@settings(deadline=None)
@given(record=any_record())
def test_every_record_comes_back_as_it_was(record: r.Record) -> None:
    value = encode(record)
    assert decode(value) == record
    assert encode(decode(value)) == value


def test_every_record_of_the_log_format_has_a_class() -> None:
    messages = [field.message_type for field in pb.MetadataRecord.DESCRIPTOR.oneofs_by_name["record"].fields]
    names = {message.name for message in messages if message is not None}
    assert names == {kind.__name__ for kind in KINDS}


@pytest.mark.parametrize(
    ("record", "stored"),
    [
        (r.NoOpRecord(), "1200"),
        (r.TopicRecord("orders", TOPIC), "321a0a066f72646572731210" + TOPIC.hex),
        (
            r.PartitionChangeRecord(TOPIC, 3, isr=(1, 2), leader=-1),
            "421c0a100102030405060708090a0b0c0d0e0f1010031a040a0201022001",
        ),
        (
            r.RegisterBrokerRecord(1, TOPIC, (Endpoint("P", "h", 9092, "SSL"),), log_dirs=(UUID(int=1),)),
            "1a3a080112100102030405060708090a0b0c0d0e0f101801220e0a015012016818844722035353"
            "4c38014a1000000000000000000000000000000001",
        ),
    ],
)
def test_the_bytes_of_the_log_do_not_change(record: r.Record, stored: str) -> None:
    """What is on disk today must be readable for ever."""
    assert encode(record).hex() == stored
    assert decode(bytes.fromhex(stored)) == record


def test_a_newer_version_is_refused_by_name() -> None:
    newer = pb.MetadataRecord(version=7, topic=pb.TopicRecord(name="t", topic_id=TOPIC.bytes))
    with pytest.raises(RecordError, match=r"TopicRecord has version 7.*upgrade this node"):
        decode(newer.SerializeToString())


def test_a_record_of_a_later_release_is_refused() -> None:
    with pytest.raises(RecordError, match="does not know; upgrade"):
        decode(bytes.fromhex("fa0700"))  # field 127 of the envelope


@settings(deadline=None)
@given(value=st.binary(max_size=60))
def test_garbage_raises_record_error_and_nothing_else(value: bytes) -> None:
    try:
        record = decode(value)
    except RecordError:
        return
    assert isinstance(record, r.Record)
