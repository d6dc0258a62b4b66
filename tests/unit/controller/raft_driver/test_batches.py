"""Raft's batches survive the way to bytes and back, and damage is noticed."""

from uuid import UUID

import pytest

from rookery.controller.raft.batches import data_batch, decode, encode
from rookery.controller.raft.messages import Batch, BatchKind
from rookery.controller.raft.voters import UNKNOWN_DIRECTORY, ReplicaKey, Voter, VoterSet
from rookery.core.errors import CorruptMessageError
from rookery.core.metadata_log import committed_batches

VOTERS = VoterSet(
    [Voter(ReplicaKey(1, UUID(int=7)), "host-1:9093"), Voter(ReplicaKey(2, UNKNOWN_DIRECTORY), "host-2:9093")]
)
BATCHES = [
    Batch(10, 3, BatchKind.LEADER_CHANGE),
    Batch(11, 3, BatchKind.VOTERS, voters=VOTERS),
    Batch(12, 3, count=3, payload=data_batch([b"a", b"", b"c" * 500], 1234)),
]


def as_bytes() -> bytes:
    return b"".join(encode(batch, 1, 1234) for batch in BATCHES)


def test_offsets_epochs_kinds_and_voters_come_back() -> None:
    found = decode(as_bytes())
    described = [(b.base_offset, b.epoch, b.kind, b.count, b.voters) for b in found]
    assert described == [(b.base_offset, b.epoch, b.kind, b.count, b.voters) for b in BATCHES]


def test_what_was_decoded_encodes_to_the_same_bytes() -> None:
    assert b"".join(encode(batch, 99, 0) for batch in decode(as_bytes())) == as_bytes()


def test_readers_get_the_values_and_not_the_control_records() -> None:
    [batch] = committed_batches(as_bytes(), 10, 15)
    assert (batch.base_offset, batch.epoch, batch.values) == (12, 3, (b"a", b"", b"c" * 500))
    assert list(committed_batches(as_bytes(), 10, 14)) == [], "a batch is committed as a whole"
    assert list(committed_batches(as_bytes(), 13, 15)) == []


def test_every_flipped_byte_is_noticed_or_harmless() -> None:
    data = as_bytes()
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0xFF
        try:
            found = decode(bytes(damaged))
        except CorruptMessageError:
            continue
        stamped = position % len(data)  # base offset and epoch lie outside the checksum: the log checks those
        assert [bytes(b.payload)[21:] for b in found] == [bytes(b.payload)[21:] for b in decode(data)], stamped  # type: ignore[call-overload]


def test_a_control_record_of_a_later_release_is_refused() -> None:
    data = encode(BATCHES[0], 1, 0)
    unknown = data.replace(b"\x00\x00\x00\x02", b"\x00\x01\x00\x02")
    with pytest.raises(CorruptMessageError):
        decode(unknown)
