"""Headers as kio writes them, and the two messages that clients send in a way nobody would guess."""

import io
from random import Random
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32

from rookery.core.wire.api import Api
from rookery.core.wire.apis.api_versions import API_VERSIONS
from rookery.core.wire.apis.metadata import METADATA
from rookery.core.wire.header import (
    read_response_header,
    request_frame,
    request_header_bytes,
    response_frame,
)
from rookery.core.wire.request_header import RequestHeader, read_request_header
from tests.golden.wire.messages import EVERY_VERSION, case_id, random_message
from tests.golden.wire.peers import kio_class


@pytest.mark.parametrize("client", [None, "", "console-ß"])
@pytest.mark.parametrize(("api", "version"), EVERY_VERSION, ids=case_id)
def test_request_headers(api: Api[Any, Any], version: int, client: str | None) -> None:
    ours = request_header_bytes(api, version, 77, client)
    cls: Any = kio_class(api, version, "request")
    header = cls.__header_schema__
    out = io.BytesIO()
    entity_writer(header)(
        out,
        header(
            request_api_key=i16(api.key), request_api_version=i16(version), correlation_id=i32(77), client_id=client
        ),
    )
    assert ours == out.getvalue()
    assert read_request_header(ours) == (RequestHeader(api.key, version, 77, client), len(ours))


def _response_header(api: Api[Any, Any], version: int, correlation_id: int) -> bytes:
    """What stands between the size and the body of a frame."""
    response = random_message(api.response, version, Random(1))
    frame = b"".join(response_frame(api, version, correlation_id, response))
    return frame[4 : len(frame) - sum(map(len, api.encode_response(version, response)))]


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION, ids=case_id)
def test_response_headers(api: Api[Any, Any], version: int) -> None:
    ours = _response_header(api, version, -5)
    cls: Any = kio_class(api, version, "response")
    theirs, size = entity_reader(cls.__header_schema__)(ours, 0)
    assert (theirs.correlation_id, size) == (-5, len(ours))
    assert read_response_header(api, version, ours) == (-5, len(ours))


def test_api_versions_answers_never_have_tags_in_their_header() -> None:
    for version in range(5):
        assert _response_header(API_VERSIONS, version, 1) == b"\0\0\0\1"


def test_librdkafka_asks_for_all_topics_with_three_bytes_too_many() -> None:
    """It reserves four bytes for the count of an array and fills in one: null, and the rest is left over."""
    body = bytes.fromhex("00" "00" "00" "00" "010000")
    request = METADATA.decode_request(12, body)
    assert request.topics is None
    assert request.allow_auto_topic_creation is False


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION, ids=case_id)
def test_no_segment_to_be_written_is_empty(api: Api[Any, Any], version: int) -> None:
    """asyncio's transport keeps an empty last segment and never closes, since Python 3.12."""
    rng = Random(version)
    for _ in range(5):
        asked, answered = (random_message(each, version, rng) for each in (api.request, api.response))
        assert all(map(len, request_frame(api, version, 1, "c", asked)))
        assert all(map(len, response_frame(api, version, 1, answered)))
