"""Answers as segments to be written."""

from typing import Any

import pytest

from rookery.broker.server.dispatch import Route
from rookery.broker.server.request_metrics import RouteMetrics
from rookery.core.wire.apis.fetch import FETCH, FetchableTopicResponse, FetchResponse, PartitionData
from rookery.core.wire.served import Served


class Fetches:
    served = Served(FETCH, 4, 11)

    def handle(self, request: Any, call: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("version", [4, 11])
@pytest.mark.parametrize("records", [b"", b"records"])
def test_no_segment_is_empty_and_the_size_is_that_of_all(version: int, records: bytes) -> None:
    """asyncio's transport keeps an empty last segment and never closes, since Python 3.12."""
    partition = PartitionData(partition_index=0, high_watermark=0, records=records)
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    segments, size = Route(Fetches(), RouteMetrics("Fetch")).answer(version, 1, response)
    assert len(segments[-1]) > 0
    assert size == sum(map(len, segments)) == 4 + int.from_bytes(segments[0][:4], "big")
