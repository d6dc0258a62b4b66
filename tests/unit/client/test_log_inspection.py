"""Files of a partition, shown and checked offline."""

import json
from pathlib import Path

import pytest

from rookery.client.cli.__main__ import main
from rookery.client.log_inspection import check_partition, offset_entries, time_entries
from rookery.core.disk import FileDisk
from rookery.core.log import Log, LogConfig
from rookery.core.wire.compression import Codec
from rookery.core.wire.records import Record, RecordHeader, build_batch

BATCHES = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A partition of several segments."""
    folder = tmp_path / "orders-0"
    config = LogConfig(segment_bytes=2_000, index_interval_bytes=200)
    log = Log.open(FileDisk(), str(folder), config, recovery_point=0, log_start_offset=0)
    for number in range(BATCHES):
        records = [Record(i, 1000 + number, b"k", b"v%d" % number, [RecordHeader("h", b"x")]) for i in range(2)]
        log.append_as_leader(build_batch(records, codec=Codec.GZIP if number % 2 else Codec.NONE), number // 30, 0)
    log.close()
    return folder


def run(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> str:
    found = main([str(word) for word in words])
    printed = capsys.readouterr()
    assert found == code, printed.out + printed.err
    return printed.out + printed.err


def test_batches_records_and_index_entries_are_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = sorted(folder.glob("*.log"))[0]
    batches = json.loads(run(capsys, "log", "dump", first, "-o", "json"))
    assert [(row["base-offset"], row["last-offset"], row["codec"]) for row in batches[:2]] == [
        (0, 1, "none"),
        (2, 3, "gzip"),
    ]
    records = json.loads(run(capsys, "log", "dump", first, "--records", "-o", "json"))
    assert records[2] == {"offset": 2, "timestamp": 1001, "key": "k", "value": "v1", "headers": ["h=x"]}
    entries = json.loads(run(capsys, "log", "dump", first.with_suffix(".index"), "-o", "json"))
    assert entries
    starts = {row["position"]: row for row in batches}
    assert all(starts[row["position"]]["last-offset"] == row["offset"] for row in entries)
    times = json.loads(run(capsys, "log", "dump", first.with_suffix(".timeindex"), "-o", "json"))
    assert [row["timestamp"] for row in times] == sorted(row["timestamp"] for row in times)
    assert "BASE-OFFSET" in run(capsys, "log", "dump", first)


def test_a_whole_folder_is_reported_whole(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = json.loads(run(capsys, "log", "verify", folder.parent, "-o", "json"))
    assert (row["partition"], row["batches"], row["next-offset"], row["gaps"], row["damage"]) == (
        "orders-0", BATCHES, 2 * BATCHES, 0, 0,
    )  # fmt: skip
    assert row["segments"] > 2


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x40
    path.write_bytes(data)


def test_each_kind_of_damage_is_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    second = sorted(folder.glob("*.log"))[1]
    kept = second.read_bytes()
    flip(second, len(kept) // 2)
    assert "checksum" in run(capsys, "log", "verify", folder, code=3) or check_partition(folder).damage
    second.write_bytes(kept[:-3])
    assert "cut short" in run(capsys, "log", "verify", folder, code=3)
    second.write_bytes(kept)
    index = second.with_suffix(".index")
    whole = index.read_bytes()
    assert list(offset_entries(index))
    flip(index, 7)
    assert "points at no batch" in run(capsys, "log", "verify", folder, code=3)
    index.write_bytes(whole)
    times = second.with_suffix(".timeindex")
    assert list(time_entries(times))
    flip(times, 8)
    assert "names offset" in run(capsys, "log", "verify", folder, code=3)


def test_a_segment_that_is_missing_is_a_gap_and_one_twice_is_damage(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segments = sorted(folder.glob("*.log"))
    copy = folder / f"{int(segments[1].stem) + 1:020}.log"
    copy.write_bytes(segments[1].read_bytes())
    assert "ends at" in run(capsys, "log", "verify", folder, code=3)
    copy.unlink()
    segments[1].unlink()
    assert check_partition(folder).gaps == 1
    assert not check_partition(folder).damage


def test_what_is_not_a_log_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "neither segments nor partitions" in run(capsys, "log", "verify", tmp_path, code=4)
    assert "there is no such folder" in run(capsys, "log", "verify", tmp_path / "none", code=4)
    assert "there is no such file" in run(capsys, "log", "dump", tmp_path / f"{0:020}.log", code=4)
    (tmp_path / f"{0:020}.log").write_bytes(b"x" * 200)
    assert "no batch has magic" in run(capsys, "log", "dump", tmp_path / f"{0:020}.log", code=1)
