"""Records pass through the codec without being copied, in and out."""

import pytest

from rookery.core.wire.apis.fetch import FETCH, FetchableTopicResponse, FetchResponse, PartitionData
from rookery.core.wire.apis.produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from rookery.core.wire.primitives import Buffer


def _produce(records: list[Buffer | None]) -> ProduceRequest:
    partitions = [PartitionProduceData(index=index, records=one) for index, one in enumerate(records)]
    return ProduceRequest(
        acks=-1, timeout_ms=1, topic_data=[TopicProduceData(name="a", partition_data=partitions)]
    )


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_decoded_records_are_views_of_the_buffer(version: int) -> None:
    blobs: list[Buffer | None] = [b"first" * 100, None, b"", b"second" * 4000]
    frame = bytearray(b"".join(PRODUCE.encode_request(version, _produce(blobs))))
    request = PRODUCE.decode_request(version, memoryview(frame))
    partitions = request.topic_data[0].partition_data
    assert [None if one.records is None else bytes(one.records) for one in partitions] == blobs
    first = partitions[0].records
    assert isinstance(first, memoryview)
    assert first.obj is frame
    frame[frame.index(b"first")] = ord("F")
    assert bytes(first[:5]) == b"First"


@pytest.mark.parametrize("version", [4, 11, 12, 16, 18])
def test_encoded_records_are_handed_on_as_they_are(version: int) -> None:
    log = bytearray(b"0123456789" * 5000)
    blobs: list[Buffer] = [memoryview(log)[100:20000], bytes(40), memoryview(log)[:0], memoryview(log)[5:6]]
    response = FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic="a",
                partitions=[
                    PartitionData(partition_index=index, high_watermark=1, aborted_transactions=None, records=one)
                    for index, one in enumerate(blobs)
                ],
            )
        ]
    )
    segments = FETCH.encode_response(version, response)
    handed_on = [one for one in segments if any(one is blob for blob in blobs)]
    assert [id(one) for one in handed_on] == [id(blob) for blob in blobs if len(blob)]
    decoded = FETCH.decode_response(version, b"".join(segments))
    assert [one.records for one in decoded.responses[0].partitions] == [bytes(blob) for blob in blobs]


@pytest.mark.parametrize("size", [0, 1, 126, 127, 16382, 16383, 16384, 2097150, 2097151, 3_000_000])
def test_lengths_around_every_size_of_varint(size: int) -> None:
    records = bytes(size)
    decoded = PRODUCE.decode_request(9, b"".join(PRODUCE.encode_request(9, _produce([records]))))
    assert decoded.topic_data[0].partition_data[0].records == records
