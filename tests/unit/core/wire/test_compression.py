"""The codecs: round trips, levels, other libraries' output, and bombs that do not go off."""

import ctypes
import gzip
import os
import struct
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import cramjam
import lz4.frame
import pytest
import snappy
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.core.wire.compression import XERIAL_MAGIC, Codec, OverBudgetError, compress, decompress
from rookery.core.wire.primitives import WireError
from tests.bench import bench_records
from tests.unit.core.wire.records_strategies import codecs

MIB = 1024 * 1024
REAL = [codec for codec in Codec if codec is not Codec.NONE]
TEXT = b"".join(b'{"id": %d, "name": "sensor-%d", "value": %d}\n' % (i, i % 7, i * i) for i in range(5000))


@given(st.binary(max_size=100_000), codecs)
@settings(max_examples=60, deadline=None)
def test_round_trip(data: bytes, codec: Codec) -> None:
    assert bytes(decompress(codec, compress(codec, data), len(data))) == data


@pytest.mark.row(32)
@pytest.mark.parametrize("codec", REAL)
def test_text_shrinks(codec: Codec) -> None:
    for data in (TEXT, bytearray(TEXT), memoryview(TEXT)):
        packed = compress(codec, data)
        assert len(packed) < len(TEXT) / 2
        assert bytes(decompress(codec, memoryview(bytes(packed)), len(TEXT))) == TEXT


@pytest.mark.row(32)
@pytest.mark.parametrize(
    ("codec", "low", "high"), [(Codec.GZIP, 1, 9), (Codec.LZ4, 1, 17), (Codec.ZSTD, -5, 19)]
)
def test_levels(codec: Codec, low: int, high: int) -> None:
    fast, small = compress(codec, TEXT, low), compress(codec, TEXT, high)
    assert len(small) < len(fast) < len(TEXT)
    for packed in (fast, small):
        assert bytes(decompress(codec, packed, len(TEXT))) == TEXT


def test_kafkas_default_levels() -> None:
    assert bytes(compress(Codec.GZIP, TEXT, -1)) == bytes(compress(Codec.GZIP, TEXT))
    assert bytes(compress(Codec.LZ4, TEXT, 9)) == bytes(compress(Codec.LZ4, TEXT))
    assert bytes(compress(Codec.ZSTD, TEXT, 3)) == bytes(compress(Codec.ZSTD, TEXT))


def test_uncompressed_data_is_not_copied() -> None:
    view = memoryview(TEXT)
    assert compress(Codec.NONE, view) is view
    assert decompress(Codec.NONE, view, len(TEXT)) is view


@pytest.mark.parametrize("level", [None, 1, 12])
def test_lz4_frames_are_what_java_reads(level: int | None) -> None:
    """Version 1, independent blocks, and a right checksum of the frame's header: byte 6 after 4 of magic."""
    for data in (TEXT, os.urandom(150_000), b""):
        packed = compress(Codec.LZ4, data, level)
        assert lz4.frame.get_frame_info(bytes(packed))["block_linked"] is False
        assert lz4.frame.decompress(bytes(packed)) == data
        broken = bytearray(packed)
        broken[6] ^= 1
        with pytest.raises(WireError):
            decompress(Codec.LZ4, broken, len(data))


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("size", [False, True])
def test_lz4_frames_of_every_kind_are_read(linked: bool, checksum: bool, size: bool) -> None:
    packed = lz4.frame.compress(TEXT, block_linked=linked, content_checksum=checksum, store_size=size)
    assert bytes(decompress(Codec.LZ4, packed, len(TEXT))) == TEXT


def test_snappy_is_written_in_javas_framing() -> None:
    data = os.urandom(70_000)
    packed = compress(Codec.SNAPPY, data)
    assert bytes(packed[:16]) == XERIAL_MAGIC + b"\0\0\0\1\0\0\0\1"
    blocks, pos = [], 16
    while pos < len(packed):
        size = struct.unpack_from(">i", packed, pos)[0]
        blocks.append(snappy.decompress(bytes(packed[pos + 4 : pos + 4 + size])))
        pos += 4 + size
    assert [len(block) for block in blocks] == [32768, 32768, 4464]
    assert b"".join(blocks) == data


def test_bare_snappy_is_read_too() -> None:
    assert bytes(decompress(Codec.SNAPPY, snappy.compress(TEXT), len(TEXT))) == TEXT
    assert decompress(Codec.SNAPPY, snappy.compress(b""), 0) == b""


@pytest.mark.parametrize("length", [-1, 0, 5, 2**31 - 1])
def test_snappy_block_lengths_are_not_believed(length: int) -> None:
    packed = bytearray(compress(Codec.SNAPPY, b"abc"))
    struct.pack_into(">i", packed, 16, length)
    with pytest.raises(WireError, match="snappy block"):
        decompress(Codec.SNAPPY, packed[:-1], 1000)


def test_gzip_of_the_standard_library_is_read_in_any_number_of_members() -> None:
    packed = gzip.compress(TEXT) + gzip.compress(TEXT)
    assert bytes(decompress(Codec.GZIP, packed, 2 * len(TEXT))) == TEXT + TEXT


@pytest.mark.parametrize("codec", REAL)
def test_one_byte_over_the_budget_is_refused(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    assert len(decompress(codec, packed, len(TEXT))) == len(TEXT)
    for budget in (len(TEXT) - 1, 1000, 1, 0):
        with pytest.raises(OverBudgetError):
            decompress(codec, packed, budget)


def resident(field: str) -> int:
    """VmRSS or VmHWM (the peak of it) of this process, in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) * 1024


def peak_rise(codec: Codec, bomb: bytes, budget: int) -> int:
    """By how many bytes refusing the bomb raises this process's memory use at most."""
    ctypes.CDLL(None).malloc_trim(0)  # so that memory freed before is not used again unseen
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = resident("VmRSS")
    with pytest.raises(OverBudgetError):
        decompress(codec, bomb, budget)
    return resident("VmHWM") - before


def bomb_of(codec: Codec, size: int) -> bytes:
    """`size` zero bytes, made without holding them all at once."""
    zeros = bytes(4 * MIB)
    if (
        codec is Codec.SNAPPY
    ):  # one bare block that says how much it holds and is all copies of its first byte
        claimed = bytearray()
        rest = size + 1
        while rest >= 0x80:
            claimed.append(rest & 0x7F | 0x80)
            rest >>= 7
        claimed.append(rest)
        return bytes(claimed) + b"\x00\x00" + b"\xfe\x01\x00" * (size // 64)
    stream: Any = {
        Codec.GZIP: lambda: cramjam.gzip.Compressor(level=9),
        Codec.LZ4: lambda: cramjam.lz4.Compressor(level=1),
        Codec.ZSTD: lambda: cramjam.zstd.Compressor(level=19),
    }[codec]()  # type: ignore[no-untyped-call]
    packed = bytearray()
    for _ in range(size // len(zeros)):
        stream.compress(zeros)
        packed += bytes(stream.flush())
    return bytes(packed + bytes(stream.finish()))


@pytest.mark.parametrize("codec", REAL)
@pytest.mark.attack(62)
def test_bombs_cost_no_more_than_the_budget(codec: Codec) -> None:
    bomb = bomb_of(codec, 96 * MIB)
    budget = 16 * MIB
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:  # here, whatever other tests left runs on
        assert alone.submit(peak_rise, codec, bomb, budget).result(120) < 2 * budget
    assert len(decompress(codec, bomb, 97 * MIB)) >= 96 * MIB


def test_claimed_sizes_allocate_nothing() -> None:
    claims = {
        Codec.SNAPPY: b"\xff\xff\xff\xff\x0f" + b"\0a",
        Codec.ZSTD: b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 2**40) + b"\x01\x00\x00",
        Codec.LZ4: lz4.frame.LZ4FrameCompressor().begin(source_size=2**40) + b"\0\0\0\0",
    }
    for codec, claim in claims.items():
        with pytest.raises(WireError):
            decompress(codec, claim, MIB)


@pytest.mark.parametrize("codec", REAL)
def test_damage_is_a_wire_error(codec: Codec) -> None:
    packed = bytes(compress(codec, TEXT))
    for damaged in (
        b"",
        packed[:3],
        packed[: len(packed) // 2],
        packed[:-1],
        b"\xff" * 100,
        packed + b"\x01",
    ):
        with pytest.raises(WireError):
            decompress(codec, damaged, len(TEXT) * 2)


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_unknown_codecs(codec: int) -> None:
    with pytest.raises(WireError, match="not known"):
        compress(codec, b"data")
    with pytest.raises(WireError, match="not known"):
        decompress(codec, b"data", 100)


@pytest.mark.row(33)
def test_a_table_compares_them(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`make bench NAMES=records` prints it; docs/client-producer.md has it."""
    monkeypatch.setattr(bench_records, "_rate", lambda work, size: size / MIB)
    bench_records.codecs()
    rows = {tuple(line.split()[:2]): float(line.split()[2]) for line in capsys.readouterr().out.splitlines()[3:]}
    assert {name for name, _ in rows} == {codec.name.lower() for codec in REAL}
    assert all(ratio > 3 for ratio in rows.values())
    page = (Path(__file__).parents[4] / "docs" / "client-producer.md").read_text()
    assert all(f"| {name} | {level} |" in page for name, level in rows)
