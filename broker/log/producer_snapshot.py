"""The `.snapshot` file: the producers of a partition as of the offset in the file's name. Pure.

Kafka's layout, version 1: int16 version, uint32 CRC-32C of all that follows, then an array (int32 count) of
entries

    int64 producer id, int16 epoch, int32 last sequence, int64 last offset, int32 offset delta,
    int64 timestamp, int32 coordinator epoch, int64 first offset of the open transaction (-1 if none)

That keeps one batch a producer, so a retry of an older one would not be known after a restart. Kafka's
reader looks no further than the array, so the rest stands behind it, under the same CRC: the batches of every
entry, the transactions that had ended but were not yet below the high watermark, and a seal that ties the
snapshot to its log and to the transaction index, which has no checksum of its own. A file without this part
is read as well.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from rookery.broker.log.producer_state import (
    NONE,
    RETAINED_BATCHES,
    AppendedBatch,
    ProducerEntry,
    ProducerState,
)

VERSION = 1

_HEAD = struct.Struct(">hIi")
_CRC_FROM = 6
_ENTRY = struct.Struct(">qhiqiqiq")
_TAIL_MARK = b"rky\x01"
_BATCHES = struct.Struct(">BB")  # how many, and which of them were aborted (bit 0 is the oldest)
_BATCH = struct.Struct(">iqiq")
_COUNT = struct.Struct(">i")
_ENDED = struct.Struct(">qq")
_SEAL = struct.Struct(">qiII")  # the offset, then the seal


class SnapshotCorruptError(ValueError):
    """A snapshot file that cannot be believed; the state is built from an older one or from the log
    instead."""


class Seal(NamedTuple):
    """What ties a snapshot to its log: the leader epoch of the last batch before it, which together with the
    offset names one history, and length and CRC-32C of the transaction index of the segment that ends
    here."""

    leader_epoch: int
    index_size: int
    index_crc: int


def seal(leader_epoch: int, index: bytes) -> Seal:
    return Seal(leader_epoch, len(index), crc32c(index))


class Snapshot(NamedTuple):
    """What a file holds; `seal` is None in files that Kafka wrote."""

    state: ProducerState
    seal: Seal | None


def encode(state: ProducerState, seal: Seal) -> bytes:
    entries = list(state.entries.values())
    ended = state.ended_transactions()
    parts = [
        _COUNT.pack(len(entries)),
        *map(_encode_entry, entries),
        _TAIL_MARK,
        *map(_encode_batches, entries),
        _COUNT.pack(len(ended)),
        *(_ENDED.pack(last, first) for last, first in ended),
        _SEAL.pack(state.end_offset, *seal),
    ]
    body = b"".join(parts)
    return struct.pack(">hI", VERSION, crc32c(body)) + body


def _encode_entry(entry: ProducerEntry) -> bytes:
    last = entry.batches[-1] if entry.batches else AppendedBatch(NONE, NONE, 0, NONE)
    return _ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.txn_first_offset,
    )


def _encode_batches(entry: ProducerEntry) -> bytes:
    aborted = sum(1 << i for i, batch in enumerate(entry.batches) if batch.aborted)
    return _BATCHES.pack(len(entry.batches), aborted) + b"".join(_BATCH.pack(*b[:4]) for b in entry.batches)


def decode(data: bytes, offset: int, *, now_ms: int = 0) -> Snapshot:
    """The state as of `offset`; raises `SnapshotCorruptError` rather than give a state that may be wrong."""
    if len(data) < _HEAD.size:
        raise SnapshotCorruptError(f"a snapshot of {len(data)} bytes is cut short")
    version, crc, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise SnapshotCorruptError(f"snapshot version {version} is unknown, expected {VERSION}")
    if crc32c(memoryview(data)[_CRC_FROM:]) != crc:
        raise SnapshotCorruptError("the snapshot's checksum does not match its content")
    try:
        return _decode_body(data, count, offset, now_ms)
    except struct.error as error:
        raise SnapshotCorruptError(f"the snapshot does not hold what it announces: {error}") from None


def _decode_body(data: bytes, count: int, offset: int, now_ms: int) -> Snapshot:
    if not 0 <= count <= (len(data) - _HEAD.size) // _ENTRY.size:
        raise SnapshotCorruptError(f"{count} entries do not fit into {len(data)} bytes")
    pos = _HEAD.size + count * _ENTRY.size
    entries = [_entry(fields, now_ms) for fields in _ENTRY.iter_unpack(memoryview(data)[_HEAD.size : pos])]
    if data[pos : pos + len(_TAIL_MARK)] != _TAIL_MARK:
        return Snapshot(ProducerState(offset, entries), None)
    pos += len(_TAIL_MARK)
    for entry in entries:
        number, aborted = _BATCHES.unpack_from(data, pos)
        if number > RETAINED_BATCHES:
            raise SnapshotCorruptError(f"producer {entry.producer_id} has {number} batches")
        pos += _BATCHES.size
        entry.batches[:] = _batches(data, pos, number, aborted)
        pos += number * _BATCH.size
    (number,) = _COUNT.unpack_from(data, pos)
    pos += _COUNT.size
    ended = [_ENDED.unpack_from(data, pos + i * _ENDED.size) for i in range(number)]
    own_offset, *seal = _SEAL.unpack_from(data, pos + number * _ENDED.size)
    if own_offset != offset:
        raise SnapshotCorruptError(f"the snapshot at {offset} was taken at {own_offset}")
    return Snapshot(ProducerState(offset, entries, ended), Seal(*seal))


def _batches(data: bytes, pos: int, number: int, aborted: int) -> Iterator[AppendedBatch]:
    for i in range(number):
        sequence, last_offset, delta, timestamp = _BATCH.unpack_from(data, pos + i * _BATCH.size)
        yield AppendedBatch(sequence, last_offset, delta, timestamp, bool(aborted >> i & 1))


def _entry(fields: tuple[int, ...], now_ms: int) -> ProducerEntry:
    producer_id, epoch, sequence, last_offset, delta, timestamp, coordinator_epoch, txn_first = fields
    batches = [AppendedBatch(sequence, last_offset, delta, timestamp)] if last_offset >= 0 else []
    return ProducerEntry(producer_id, epoch, coordinator_epoch, timestamp, txn_first, batches, now_ms)
