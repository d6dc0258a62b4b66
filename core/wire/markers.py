"""Transaction markers: the control batches that end a transaction in a partition's log."""

import struct
from typing import NamedTuple

from rookery.core.wire.batch import read_header
from rookery.core.wire.primitives import Buffer, WireError
from rookery.core.wire.records import Record, build_batch, read_records

_KEY = struct.Struct(">hh")  # version, type
_VALUE = struct.Struct(">hi")  # version, coordinator epoch
_VERSION = 0
_ABORT, _COMMIT = 0, 1
_BUDGET = 1024  # control records are not compressed; a marker has 78 bytes


class EndMarker(NamedTuple):
    """The content of a control record that ends a transaction on a partition. Whose transaction it is stands in the
    header of the batch."""

    commit: bool
    coordinator_epoch: int


def build_marker(
    marker: EndMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """The batch of one control record that a leader appends when a transaction ends."""
    key = _KEY.pack(_VERSION, _COMMIT if marker.commit else _ABORT)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    return build_batch(
        [Record(offset, timestamp, key, value)],
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def read_marker(buf: Buffer, pos: int = 0) -> EndMarker | None:
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
        if kind not in (_ABORT, _COMMIT):
            return None
        _, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
    except struct.error:
        raise WireError(f"the control record at offset {header.base_offset} is cut short") from None
    return EndMarker(kind == _COMMIT, coordinator_epoch)
