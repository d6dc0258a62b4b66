"""Producer snapshots: Kafka's bytes, nothing lost on the way, damage noticed."""

import struct

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.broker.log.producer_snapshot import SnapshotCorruptError, decode, encode, seal
from rookery.broker.log.producer_state import ProducerState
from rookery.core.wire.batch import BatchHeader
from rookery.core.wire.markers import EndMarker
from tests.unit.broker.log.headers import header, marker_header

SEAL = seal(3, b"index")

# version 1, a place for the CRC, one entry: producer 7, epoch 2, last sequence 41, last offset 99, delta 3,
# timestamp 1_700_000_000_000, coordinator epoch 5, open transaction since 96
KAFKA_FILE = bytes.fromhex(
    "0001 00000000 00000001 0000000000000007 0002 00000029 0000000000000063"
    "00000003 0000018bcfe56800 00000005 0000000000000060"
)


def kafka_file() -> bytes:
    body = KAFKA_FILE[6:]
    return KAFKA_FILE[:2] + struct.pack(">I", crc32c(body)) + body


@pytest.mark.invariant("T2")
def test_a_file_of_kafkas_is_read() -> None:
    snapshot = decode(kafka_file(), 100)
    assert snapshot.seal is None
    entry = snapshot.state.entries[7]
    assert (entry.epoch, entry.last_sequence, entry.last_data_offset, entry.coordinator_epoch) == (
        2,
        41,
        99,
        5,
    )
    assert (entry.txn_first_offset, entry.last_timestamp) == (96, 1_700_000_000_000)
    assert entry.batches[0].first_sequence == 38
    assert snapshot.state.first_unstable_offset == 96
    assert snapshot.state.end_offset == 100


def test_our_file_begins_with_kafkas_bytes() -> None:
    ours = encode(decode(kafka_file(), 100).state, SEAL)
    assert ours[6 : len(KAFKA_FILE)] == KAFKA_FILE[6:]
    assert ours[:2] == KAFKA_FILE[:2]


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[BatchHeader, EndMarker | None]]:
    """Batches and markers of a few producers as a log would hold them."""
    history: list[tuple[BatchHeader, EndMarker | None]] = []
    sequences: dict[int, int] = {}
    offset = 0
    for _ in range(draw(st.integers(0, 30))):
        producer = draw(st.integers(0, 3))
        if draw(st.integers(0, 3)) == 0:
            end = EndMarker(draw(st.booleans()), draw(st.integers(0, 2)))
            batch = marker_header(
                offset, producer_id=producer, epoch=draw(st.integers(0, 1)), timestamp=offset
            )
            history.append((batch, end))
        else:
            count = draw(st.integers(1, 3))
            first = sequences.get(producer, 0)
            sequences[producer] = first + count
            transactional = producer < 2
            batch = header(
                offset,
                count,
                producer_id=producer,
                sequence=first,
                transactional=transactional,
                timestamp=offset,
            )
            history.append((batch, None))
        offset = batch.next_offset
    return history


def summary(state: ProducerState) -> object:
    return (
        state.end_offset,
        list(state.entries.values()),
        state.first_undecided_offset,
        state.first_unstable_offset,
        state.ended_transactions(),
    )


@pytest.mark.invariant("T2")
@settings(max_examples=200, deadline=None)
@given(histories(), st.data())
def test_snapshot_and_tail_equal_the_replay(
    history: list[tuple[BatchHeader, EndMarker | None]], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(history)))
    watermark = data.draw(st.integers(0, 60))
    replayed, resumed = ProducerState(), ProducerState()
    for batch, marker in history:
        replayed.apply(batch, marker)
    for batch, marker in history[:cut]:
        resumed.apply(batch, marker)
    resumed = decode(encode(resumed, SEAL), resumed.end_offset).state
    for batch, marker in history[cut:]:
        resumed.apply(batch, marker)
    assert summary(resumed) == summary(replayed)
    for state in (replayed, resumed):
        state.high_watermark_moved(watermark)
    assert summary(resumed) == summary(replayed)


@pytest.mark.invariant("S5")
def test_every_flipped_byte_and_every_cut_is_noticed() -> None:
    state = ProducerState()
    state.apply(header(0, 2, producer_id=1, sequence=0, transactional=True))
    state.apply(marker_header(2, producer_id=1), EndMarker(False, 3))
    state.apply(header(3, producer_id=2, sequence=5))
    whole = encode(state, SEAL)
    assert decode(whole, 4).seal == SEAL
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 0x40
        with pytest.raises(SnapshotCorruptError):
            decode(bytes(damaged), 4)
        with pytest.raises(SnapshotCorruptError):
            decode(whole[:at], 4)
