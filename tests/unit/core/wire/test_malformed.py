"""Bytes from strangers: whatever they are, the codec answers with a message or with its own error."""

import re
import tracemalloc
from collections.abc import Callable, Sequence
from random import Random
from struct import pack
from typing import Any
from uuid import UUID

import pytest

from rookery.core.wire.api import Api
from rookery.core.wire.api_table import by_key
from rookery.core.wire.apis.consumer_group_describe import CONSUMER_GROUP_DESCRIBE
from rookery.core.wire.apis.describe_topic_partitions import DESCRIBE_TOPIC_PARTITIONS
from rookery.core.wire.apis.fetch import FETCH
from rookery.core.wire.apis.metadata import METADATA
from rookery.core.wire.apis.offset_commit import OFFSET_COMMIT
from rookery.core.wire.apis.offset_fetch import OFFSET_FETCH
from rookery.core.wire.apis.produce import PRODUCE
from rookery.core.wire.header import read_response_header
from rookery.core.wire.primitives import WireError, uvarint_bytes
from rookery.core.wire.reader import ELEMENTS_MAX
from rookery.core.wire.request_header import read_request_header
from rookery.core.wire.schema import Array, Struct, Uuid, field
from tests.golden.wire.damage import mutants
from tests.golden.wire.messages import EVERY_VERSION, SIDES, case_id, random_message
from tests.soak.soak_frames import one_round

MUTANTS = 60


def _codec(api: Api[Any, Any], side: str) -> tuple[Any, Callable[..., list[Any]], Callable[..., Any]]:
    if side == "request":
        return api.request, api.encode_request, api.decode_request
    return api.response, api.encode_response, api.decode_response


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("api", "version"), EVERY_VERSION, ids=case_id)
def test_damaged_messages(api: Api[Any, Any], version: int, side: str) -> None:
    cls, encode, decode = _codec(api, side)
    rng = Random(f"damage {api.name} {version} {side}")
    raw = b"".join(encode(version, random_message(cls, version, rng)))
    for data in mutants(raw, rng, MUTANTS):
        try:
            message = decode(version, data)
        except WireError:
            continue
        encode(version, message)  # what was understood can be said again


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("api", "version"), EVERY_VERSION, ids=case_id)
def test_a_message_that_breaks_off_is_refused(api: Api[Any, Any], version: int, side: str) -> None:
    cls, encode, decode = _codec(api, side)
    rng = Random(f"cut {api.name} {version} {side}")
    raw = b"".join(encode(version, random_message(cls, version, rng)))
    cuts = range(len(raw)) if len(raw) < 100 else sorted(rng.sample(range(len(raw)), 100))
    for cut in cuts:
        with pytest.raises(WireError):
            decode(version, raw[:cut])
        with pytest.raises(WireError):
            decode(version, memoryview(raw)[:cut])


def test_damaged_streams() -> None:
    """Through framing and header as well; the long search with new seeds is in tests/soak."""
    sent = refused = 0
    for seed in range(60):
        more, bad = one_round(seed)
        sent, refused = sent + more, refused + bad
    assert 0 < refused < sent


def test_noise() -> None:
    rng = Random("noise")
    for api, version in EVERY_VERSION:
        for _ in range(5):
            noise = rng.randbytes(rng.randint(0, 60))
            for decode in (api.decode_request, api.decode_response):
                try:
                    decode(version, noise)
                except WireError:
                    continue


def test_noise_as_headers() -> None:
    rng = Random("headers")
    for _ in range(3000):
        noise = rng.randbytes(rng.randint(0, 30))
        if rng.random() < 0.5:
            noise = bytes((0, rng.choice(list(by_key)), 0, rng.randrange(13))) + noise
        try:
            _, pos = read_request_header(noise)
            assert 10 <= pos <= len(noise)
        except WireError:
            pass
        try:
            _, pos = read_response_header(FETCH, rng.randrange(4, 19), noise)
            assert 4 <= pos <= len(noise)
        except WireError:
            pass


@pytest.mark.parametrize(
    ("api", "version", "raw"),
    [
        (METADATA, 8, b"\x7f\xff\xff\xff"),  # two billion topics in four bytes
        (METADATA, 12, b"\xff\xff\xff\xff\x0f"),  # four billion
        (PRODUCE, 8, b"\xff\xff\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x01a\x00\x00\x00\x01"
                     b"\x00\x00\x00\x00\x7f\xff\xff\xff"),  # records of two gigabytes
        (PRODUCE, 9, b"\x00\x00\x01\x00\x00\x00\x01\x02\x02a\x02\x00\x00\x00\x00\xff\xff\xff\xff\x0f"),
        (OFFSET_COMMIT, 2, b"\x7f\xff"),  # a long group id that is not there
        (FETCH, 12, bytes(25) + b"\x01\x01\x01\xff\xff\xff\xff\x0f"),  # four billion tagged fields
        (FETCH, 12, bytes(25) + b"\x01\x01\x01\x01\x00\xff\xff\xff\xff\x0f"),  # a tag of four gigabytes
        (FETCH, 12, bytes(25) + b"\x01\x01\x01\x01\x00\x02\x05abc"),  # a tag shorter than what is in it
    ],
)
def test_announced_sizes_cost_nothing(api: Api[Any, Any], version: int, raw: bytes) -> None:
    with pytest.raises(WireError):
        api.decode_request(version, b"")  # compiled before the memory is watched
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            api.decode_request(version, raw)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


NO_TOPICS = bytes(25) + b"\x01\x01\x01"  # a Fetch request up to its tags


@pytest.mark.parametrize(
    ("api", "version", "raw", "reason"),
    [
        (METADATA, 8, b"\x00\x00\x00\x09" + bytes(17), "9 of MetadataRequest.topics, 17 bytes remain"),
        (METADATA, 12, b"\x0a" + bytes(17), "9 of MetadataRequest.topics, 17 bytes remain"),
        (FETCH, 12, bytes(25) + b"\x02\x02a\x0b" + bytes(300), "10 of FetchTopic.partitions, 300 bytes remain"),
        (FETCH, 12, NO_TOPICS + b"\x03\x63\x00\x64\x00\x00", "3 tagged fields, 5 bytes remain"),
        (FETCH, 12, NO_TOPICS + b"\x01\x63\x05ab", "tag 99 reaches past the message"),
        (FETCH, 12, NO_TOPICS + b"\x01\x00\x02\x04abc and more", "tag 0 is longer than its size says"),
        (FETCH, 12, bytes(25) + b"\x02\x02a\x01\x03" + b"\x63\x00\x64\x00\x00", "3 tagged fields announced"),
        (FETCH, 12, bytes(25) + b"\x02\x02a\x01\x01" + b"\x63\x05ab", "5 bytes reaches 3 bytes past"),
        (DESCRIBE_TOPIC_PARTITIONS, 0, b"\x00\x00\x00\x00\x00\x00", "topics must not be null"),
        (CONSUMER_GROUP_DESCRIBE, 0, b"\x03\x00\x00", "null at byte 1"),
    ],
)
def test_the_reason_is_given(api: Api[Any, Any], version: int, raw: bytes, reason: str) -> None:
    with pytest.raises(WireError, match=re.escape(reason)):
        api.decode_request(version, raw)


def _compact_array(count: int, element: bytes) -> bytes:
    return uvarint_bytes(count + 1) + element * count


TAGS = b"\x64" + b"\x63\x00" * 100
PARTITIONS = _compact_array(200, bytes(4) + b"\0\0")


@pytest.mark.parametrize(
    ("api", "version", "raw"),
    [
        (PRODUCE, 9, b"\0" + bytes(6) + _compact_array(ELEMENTS_MAX + 1, b"\x01\x01\0")),
        (PRODUCE, 9, b"\0" + bytes(6) + _compact_array(1000, b"\x01" + PARTITIONS + b"\0")),
        (PRODUCE, 9, b"\0" + bytes(6) + _compact_array(2000, b"\x01\x01" + TAGS)),
        (METADATA, 8, pack(">i", ELEMENTS_MAX + 1) + b"\0\1a" * (ELEMENTS_MAX + 1)),
        (OFFSET_FETCH, 7, b"\x02g" + b"\x02\x02t" + _compact_array(ELEMENTS_MAX, bytes(4))),
    ],
    ids=["topics", "partitions of many topics", "tags of many topics", "names", "numbers"],
)
@pytest.mark.attack(13)
def test_a_request_has_a_bounded_number_of_elements(api: Api[Any, Any], version: int, raw: bytes) -> None:
    with pytest.raises(WireError, match=f"more than {ELEMENTS_MAX} elements"):
        api.decode_request(version, raw + bytes(8))


def test_as_many_elements_as_may_be_are_read() -> None:
    raw = pack(">i", ELEMENTS_MAX) + b"\0\1a" * ELEMENTS_MAX + bytes(4)
    assert len(METADATA.decode_request(8, raw).topics or ()) == ELEMENTS_MAX


def test_lists_of_ids_are_measured_before_they_are_read() -> None:
    """A slice that comes back short must not become an id."""

    class Ids(Struct):
        ids: Sequence[UUID] = field(Array(Uuid))

    api: Api[Ids, Ids] = Api(997, "Ids", Ids, Ids, versions="0-1", flexible="1+")
    one = Ids(ids=[UUID(int=7), UUID(int=8)])
    for version in (0, 1):
        raw = b"".join(api.encode_request(version, one))
        assert api.decode_request(version, raw) == one
        for cut in range(len(raw)):
            with pytest.raises(WireError):
                api.decode_request(version, raw[:cut])


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(WireError, match="malformed Metadata request v8"):
        METADATA.decode_request(8, b"\0\0\0\1\0\2\xff\xfe" + bytes(3))


def test_tags_from_the_future_are_stepped_over() -> None:
    """Known tags, unknown ones and a known one again after them, in a message and in a struct inside it."""
    known = b"\x00\x04\x04abc"  # cluster id
    body = bytes(25) + b"\x01\x01\x01" + b"\x02" + known + b"\x63\x02zz" + b"left over"
    request = FETCH.decode_request(12, body)
    assert request.cluster_id == "abc"
    assert list(request.topics) == []
    topic = b"\x02" + b"\x02a" + b"\x01" + b"\x01\x07\x01z"
    request = FETCH.decode_request(12, bytes(25) + topic + b"\x01\x01\x00")
    assert [one.topic for one in request.topics] == ["a"]
