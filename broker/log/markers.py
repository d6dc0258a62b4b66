"""The control batches that end a transaction on a partition: one record, its key the decision. Pure."""

import struct

from rookery.broker.log.producer_state import EndMarker
from rookery.core.errors import InvalidRecordError
from rookery.core.wire.batch import Buffer
from rookery.core.wire.records import Record, build_batch, read_records

_KEY = struct.Struct(">hh")  # version, type
_VALUE = struct.Struct(">hi")  # version, coordinator epoch
_VERSION = 0
_ABORT, _COMMIT = 0, 1


def build_marker(marker: EndMarker, *, producer_id: int, producer_epoch: int, timestamp: int) -> bytearray:
    """The batch a leader appends when a transaction ends."""
    key = _KEY.pack(_VERSION, _COMMIT if marker.commit else _ABORT)
    record = Record(0, timestamp, key, _VALUE.pack(_VERSION, marker.coordinator_epoch))
    return build_batch(
        [record], producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True
    )


def read_marker(buf: Buffer, pos: int = 0) -> EndMarker | None:
    """The decision in the control batch at `pos`; None if it was compacted away or is of another kind."""
    records = read_records(buf, pos)
    if not records:
        return None
    key, value = records[0].key or b"", records[0].value or b""
    if len(key) < _KEY.size:
        raise InvalidRecordError(f"a control record has a key of {len(key)} bytes, {_KEY.size} are needed")
    _, kind = _KEY.unpack_from(key)
    if kind not in (_ABORT, _COMMIT):
        return None
    if len(value) < _VALUE.size:
        raise InvalidRecordError(f"an end marker has a value of {len(value)} bytes, {_VALUE.size} are needed")
    return EndMarker(kind == _COMMIT, _VALUE.unpack_from(value)[1])
