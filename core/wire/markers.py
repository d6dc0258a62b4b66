"""Transaction markers: the control batches that end a transaction in a partition's log."""

import struct
from enum import IntEnum
from typing import NamedTuple

from rookery.core.wire.batch import read_header
from rookery.core.wire.primitives import Buffer, WireError
from rookery.core.wire.record import Record
from rookery.core.wire.records import build_batch, read_records

_KEY = struct.Struct(">hh")  # version, type
_VALUE = struct.Struct(">hi")  # version, coordinator epoch
_BUDGET = 1024  # control records are not compressed; a marker has 78 bytes


class MarkerType(IntEnum):
    ABORT = 0
    COMMIT = 1


class Marker(NamedTuple):
    type: MarkerType
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


def build_marker(marker: Marker, timestamp: int, offset: int = 0, leader_epoch: int = -1) -> bytearray:
    """The batch of one control record that a transaction coordinator has partitions append."""
    key = _KEY.pack(0, marker.type)
    value = _VALUE.pack(0, marker.coordinator_epoch)
    return build_batch(
        [Record(offset, timestamp, key, value)],
        leader_epoch=leader_epoch,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transactional=True,
        control=True,
    )


def read_marker(buf: Buffer, pos: int = 0) -> Marker | None:
    """The marker in the control batch at `pos`; None if it is of another kind or was compacted away."""
    header = read_header(buf, pos)
    if not header.control or header.record_count > 1:
        raise WireError(f"the batch at offset {header.base_offset} is not a control batch of one record")
    records = read_records(buf, pos, _BUDGET)
    if not records:
        return None
    record = records[0]
    try:
        _, kind = _KEY.unpack_from(record.key or b"")
        if kind not in tuple(MarkerType):
            return None
        _, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
    except struct.error:
        raise WireError(f"the control record at offset {header.base_offset} is cut short") from None
    return Marker(MarkerType(kind), header.producer_id, header.producer_epoch, coordinator_epoch)
