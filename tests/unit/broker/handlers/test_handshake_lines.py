"""What clients rely on in the handshake and in framing (checklist lines 1 to 6)."""

from struct import pack

import pytest

from rookery.core.errors import ErrorCode
from rookery.core.wire.apis.api_versions import API_VERSIONS, ApiVersionsRequest
from rookery.core.wire.apis.fetch import FETCH
from rookery.core.wire.apis.metadata import METADATA, MetadataRequest
from rookery.core.wire.apis.produce import PRODUCE
from rookery.core.wire.header import request_frame, request_header_bytes
from tests.unit.broker.talk import QuietBroker, batch_of, feed, fetch_request, produce_request

SOFTWARE = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")


def framed(body: bytes) -> bytes:
    return pack(">i", len(body)) + body


@pytest.mark.row(143)
async def test_line_1_an_unsupported_version_is_answered_in_version_0(broker: QuietBroker) -> None:
    talk = broker.talk()
    feed(talk.connection, framed(pack(">hhih", 18, 99, 7, -1) + b"\0whatever the future brings"))
    (frame,) = talk.transport.take_frames()
    assert frame[:4] == pack(">i", 7)
    answer = API_VERSIONS.decode_response(0, frame, 4)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(key.min_version, key.max_version) for key in answer.api_keys if key.api_key == 18] == [(0, 4)]
    assert talk.is_open
    assert (await talk.ask(API_VERSIONS, 0, ApiVersionsRequest())).error_code == ErrorCode.NONE


@pytest.mark.row(143)
@pytest.mark.parametrize("version", range(5))
async def test_line_2_the_answer_has_header_0_in_every_version_and_may_be_asked_again(
    broker: QuietBroker, version: int
) -> None:
    talk = broker.talk()
    for _ in range(2):
        answer = await talk.ask(API_VERSIONS, version, SOFTWARE)
        assert answer.error_code == ErrorCode.NONE
        ranges = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
        assert ranges[0][0] == 0, "old clients judge compression by Produce's minimum"
        assert 71 not in ranges, "clients would begin to send telemetry unasked"


@pytest.mark.parametrize("name", ["", "no spaces", "-dash", "dot.", "ünicode"])
async def test_line_2_a_strange_software_name_is_an_invalid_request(broker: QuietBroker, name: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    assert (await broker.talk().ask(API_VERSIONS, 3, request)).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("key", "version"), [(4242, 0), (75, 0), (3, 99), (0, 2), (1, 3), (3, -1)])
async def test_line_3_anything_else_unknown_closes_the_connection(
    broker: QuietBroker, key: int, version: int
) -> None:
    talk, other = broker.talk(), broker.talk()
    feed(talk.connection, framed(pack(">hhih", key, version, 7, -1) + bytes(20)))
    assert not talk.is_open
    assert talk.transport.take_frames() == []
    assert (await other.ask(API_VERSIONS, 0, ApiVersionsRequest())).error_code == ErrorCode.NONE


async def test_line_4_trailing_bytes_are_ignored(broker: QuietBroker) -> None:
    """librdkafka's request for all topics carries three bytes more than it needs."""
    talk = broker.talk()
    segments = request_frame(METADATA, 12, 0, "rdkafka", MetadataRequest(topics=None))
    body = b"".join(bytes(segment) for segment in segments)[4:]
    feed(talk.connection, framed(body + b"\x01\x00\x00"))
    (frame,) = talk.transport.take_frames()
    assert METADATA.decode_response(12, frame, 5).cluster_id == broker.cluster.cluster_id


async def test_line_4_unknown_tags_are_skipped(broker: QuietBroker) -> None:
    talk = broker.talk()
    tags = b"\x02\x00\x01a\x63\x03xyz"
    header = request_header_bytes(METADATA, 12, 0, "newer")[:-1] + tags
    body = b"\x01\x00\x00" + tags  # no topics, two flags
    feed(talk.connection, framed(header + body))
    (frame,) = talk.transport.take_frames()
    assert METADATA.decode_response(12, frame, 5).topics == []


@pytest.mark.row(20)
async def test_line_5_answers_come_in_the_order_of_requests(broker: QuietBroker) -> None:
    """A fetch that waits holds back what was asked after it, and everything leaves in order."""
    await broker.create("orders")
    talk, writer = broker.talk(), broker.talk()
    talk.send(FETCH, 12, fetch_request("orders", 0, max_wait_ms=500))
    talk.send(API_VERSIONS, 0, ApiVersionsRequest())
    talk.send(METADATA, 12, MetadataRequest(topics=None))
    assert talk.receive() == []
    writer.send(PRODUCE, 9, produce_request("orders", batch_of(b"x")))
    fetched, versions, metadata = talk.receive()
    assert len(fetched.responses[0].partitions[0].records) > 0
    assert versions.error_code == ErrorCode.NONE
    assert [topic.name for topic in metadata.topics] == ["orders"]


@pytest.mark.parametrize("client_id", [None, "", "naïve", "x" * 300])
@pytest.mark.parametrize("version", [0, 12])
async def test_line_6_the_client_id_may_be_null_or_empty(
    broker: QuietBroker, client_id: str | None, version: int
) -> None:
    talk = broker.talk()
    talk.send(METADATA, version, MetadataRequest(topics=[]), client_id=client_id)
    (answer,) = talk.receive()
    assert answer.brokers[0].node_id == 1
