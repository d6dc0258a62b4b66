"""Frames out of a stream that comes in any pieces."""

import resource
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.wire.framing import FrameReader
from rookery.core.wire.primitives import WireError

LIMIT = 1_000_000


def _framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def _feed(reader: FrameReader, data: bytes) -> list[bytes]:
    """As a transport does: fill the room there is, look for frames, ask again."""
    found = []
    view = memoryview(data)
    while len(view):
        room = reader.get_buffer()
        count = min(len(room), len(view))
        room[:count] = view[:count]
        view = view[count:]
        reader.received(count)
        found += [bytes(frame) for frame in reader.frames()]
    return found


@given(
    st.lists(st.binary(max_size=300), max_size=20),
    st.lists(st.integers(1, 400), min_size=1, max_size=20),
    st.integers(1, 64),
)
def test_any_pieces_give_the_same_frames(payloads: list[bytes], pieces: list[int], read_size: int) -> None:
    reader = FrameReader(LIMIT, read_size)
    stream = b"".join(map(_framed, payloads))
    found: list[bytes] = []
    at = 0
    for turn in range(len(stream)):
        if at >= len(stream):
            break
        size = pieces[turn % len(pieces)]
        found += _feed(reader, stream[at : at + size])
        at += size
    assert found == payloads
    assert reader.buffered == 0


@pytest.mark.parametrize("size", [-1, -(2**31), LIMIT + 1, 2**31 - 1])
def test_impossible_sizes_are_refused_before_anything_is_made_for_them(size: int) -> None:
    reader = FrameReader(LIMIT)
    reader.get_buffer()[:4] = size.to_bytes(4, "big", signed=True)
    reader.received(4)
    before = len(reader._buffer)
    with pytest.raises(WireError, match=f"frame of {size} bytes refused"):
        list(reader.frames())
    assert len(reader._buffer) == before


def test_frames_before_an_impossible_one_are_given_out() -> None:
    reader = FrameReader(LIMIT)
    data = _framed(b"good") + b"\xff\xff\xff\xff"
    reader.get_buffer()[: len(data)] = data
    reader.received(len(data))
    frames = reader.frames()
    assert bytes(next(frames)) == b"good"
    with pytest.raises(WireError):
        next(frames)


def test_the_limit_itself_is_allowed_and_so_is_nothing() -> None:
    reader = FrameReader(10)
    assert _feed(reader, _framed(bytes(10)) + _framed(b"")) == [bytes(10), b""]


def test_the_buffer_grows_with_what_arrives_not_with_what_was_announced() -> None:
    reader = FrameReader(100_000_000, read_size=1024)
    assert _feed(reader, (50_000_000).to_bytes(4, "big") + bytes(5000)) == []
    assert len(reader._buffer) <= 4 * 5004


def test_memory_is_taken_by_what_arrives_not_by_what_was_announced() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    readers = [FrameReader(1 << 30, read_size=16 * 1024) for _ in range(8)]
    start = (100_000_000).to_bytes(4, "big") + bytes(1_000_000)
    before = resident()
    for reader in readers:
        _feed(reader, start)
    assert resident() - before < 4 * len(readers) * len(start)
    assert all(len(reader._buffer) > 2 * len(start) for reader in readers), "what else comes is not copied each time"


def test_a_large_buffer_is_given_back() -> None:
    reader = FrameReader(LIMIT, read_size=1024)
    assert _feed(reader, _framed(bytes(500_000))) == [bytes(500_000)]
    reader.get_buffer()
    assert len(reader._buffer) == 1024


def test_frames_are_views_and_live_until_room_is_asked_for() -> None:
    reader = FrameReader(LIMIT, read_size=64)
    data = _framed(b"one") + _framed(b"two") + _framed(b"thr")[:5]
    reader.get_buffer()[: len(data)] = data
    reader.received(len(data))
    frames = list(reader.frames())
    assert frames == [b"one", b"two"]
    assert all(frame.obj is reader._buffer for frame in frames)
    assert reader.buffered == 5
    assert _feed(reader, b"hr" + _framed(b"x" * 200)) == [b"thr", b"x" * 200]


def test_the_size_of_an_unfinished_frame_is_known_from_its_first_bytes() -> None:
    reader = FrameReader(LIMIT, read_size=1024)
    assert reader.awaited == 0
    assert _feed(reader, _framed(b"before") + (300_000).to_bytes(4, "big") + b"begin") == [b"before"]
    assert reader.awaited == 300_004
    assert _feed(reader, bytes(299_995)) == [b"begin" + bytes(299_995)]
    assert reader.awaited == 0


def test_more_than_the_room_cannot_have_been_received() -> None:
    reader = FrameReader(LIMIT)
    room = reader.get_buffer()
    with pytest.raises(ValueError, match="bytes received into room for"):
        reader.received(len(room) + 1)


def test_a_stream_of_all_sizes() -> None:
    rng = Random("stream")
    payloads = [rng.randbytes(rng.choice((0, 1, 100, 5000, 70_000))) for _ in range(100)]
    stream = b"".join(map(_framed, payloads))
    reader = FrameReader(LIMIT, read_size=4096)
    found, at = [], 0
    while at < len(stream):
        size = rng.choice((1, 3, 4, 1000, 30_000))
        found += _feed(reader, stream[at : at + size])
        at += size
    assert found == payloads
