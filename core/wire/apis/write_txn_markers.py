"""WriteTxnMarkers (27): the coordinator has partitions' leaders write commit or abort markers."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Bool, Int8, Int16, Int32, Int64, String, Struct, field


class WritableTxnMarkerTopic(Struct):
    name: str = field(String)
    partition_indexes: Sequence[int] = field(Array(Int32))


class WritableTxnMarker(Struct):
    producer_id: int = field(Int64)
    producer_epoch: int = field(Int16)
    transaction_result: bool = field(Bool)
    topics: Sequence[WritableTxnMarkerTopic] = field(Array(WritableTxnMarkerTopic))
    coordinator_epoch: int = field(Int32)
    transaction_version: int = field(Int8, "2+", default=0)


class WriteTxnMarkersRequest(Struct):
    markers: Sequence[WritableTxnMarker] = field(Array(WritableTxnMarker))


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = field(Int32)
    error_code: int = field(Int16, default=0)


class WritableTxnMarkerTopicResult(Struct):
    name: str = field(String)
    partitions: Sequence[WritableTxnMarkerPartitionResult] = field(Array(WritableTxnMarkerPartitionResult))


class WritableTxnMarkerResult(Struct):
    producer_id: int = field(Int64)
    topics: Sequence[WritableTxnMarkerTopicResult] = field(Array(WritableTxnMarkerTopicResult))


class WriteTxnMarkersResponse(Struct):
    markers: Sequence[WritableTxnMarkerResult] = field(Array(WritableTxnMarkerResult))


WRITE_TXN_MARKERS = Api(
    27, "WriteTxnMarkers", WriteTxnMarkersRequest, WriteTxnMarkersResponse,
    versions="1-2", flexible="1+",
)
