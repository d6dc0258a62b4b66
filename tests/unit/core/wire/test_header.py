"""Headers and whole frames; the bytes are compared with another implementation in tests/golden."""

import pytest

from rookery.core.wire.apis.api_versions import (
    API_VERSIONS,
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from rookery.core.wire.apis.heartbeat import HEARTBEAT, HeartbeatResponse
from rookery.core.wire.apis.metadata import METADATA, MetadataRequest
from rookery.core.wire.header import read_response_header, request_frame, request_header_bytes, response_frame
from rookery.core.wire.primitives import WireError
from rookery.core.wire.request_header import read_request_header
from tests.unit.core.wire.frames import split_frames


@pytest.mark.parametrize("version", [0, 4, 9, 12])
def test_a_request_travels_as_one_frame(version: int) -> None:
    request = MetadataRequest(topics=[])
    raw = b"".join(request_frame(METADATA, version, 7, "me", request))
    (frame,), rest = split_frames(raw, 1000)
    assert not rest
    header, pos = read_request_header(frame)
    assert header == (3, version, 7, "me")
    assert list(METADATA.decode_request(version, frame, pos).topics or ()) == []


@pytest.mark.parametrize("version", range(5))
def test_a_response_travels_as_one_frame(version: int) -> None:
    raw = b"".join(response_frame(HEARTBEAT, version, 9, HeartbeatResponse(error_code=27)))
    (frame,), _ = split_frames(raw, 1000)
    correlation, pos = read_response_header(HEARTBEAT, version, frame)
    assert correlation == 9
    assert HEARTBEAT.decode_response(version, frame, pos).error_code == 27


@pytest.mark.parametrize("version", range(5))
def test_api_versions_answers_are_read_by_clients_that_do_not_know_the_version(version: int) -> None:
    response = ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)])
    raw = b"".join(response_frame(API_VERSIONS, version, 9, response))
    assert raw[4:8] == b"\0\0\0\x09"
    assert raw[8:10] == b"\0\0"  # the error code comes right after, whatever the version
    assert API_VERSIONS.decode_response(version, raw, 8).api_keys == response.api_keys


def test_tags_in_headers_are_stepped_over() -> None:
    raw = request_header_bytes(API_VERSIONS, 3, 1, "c")[:-1] + b"\x01\x05\x02zz"
    body = b"".join(API_VERSIONS.encode_request(3, ApiVersionsRequest(client_software_name="n")))
    header, pos = read_request_header(raw + body)
    assert header.client_id == "c"
    assert API_VERSIONS.decode_request(3, raw + body, pos).client_software_name == "n"
    assert read_response_header(HEARTBEAT, 4, b"\0\0\0\x01\x01\x05\x02zz") == (1, 9)


def test_keys_and_versions_nobody_knows_still_have_a_header() -> None:
    header, _ = read_request_header(b"\x03\xe7\x00\x63\x00\x00\x00\x05\xff\xff")
    assert header == (999, 99, 5, None)
    header, _ = read_request_header(b"\x00\x12\x00\x63\x00\x00\x00\x05\x00\x01c\x00")
    assert header == (18, 99, 5, "c")


@pytest.mark.parametrize("raw", [b"", bytes(9), bytes(8) + b"\x00\x05abc", bytes(8) + b"\x00\x01\xff"])
def test_broken_headers_are_refused(raw: bytes) -> None:
    with pytest.raises(WireError):
        read_request_header(raw)


def test_broken_response_headers_are_refused() -> None:
    for raw in (b"", bytes(3), bytes(4)):
        with pytest.raises(WireError):
            read_response_header(HEARTBEAT, 4, raw)
