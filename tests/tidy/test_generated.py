"""Committed stubs are what the .proto files say."""

from pathlib import Path

from tests.tidy import stubs


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if "_pb2" in path.name}


def test_stubs_match_the_proto_files(tmp_path: Path) -> None:
    stubs.generate(tmp_path)
    wanted = contents(tmp_path / "rookery" / "proto")
    committed = contents(stubs.SOURCES / "rookery" / "proto")
    differing = [name for name in wanted.keys() | committed.keys() if wanted.get(name) != committed.get(name)]
    assert sorted(differing) == [], "run: python -m tests.tidy.stubs"
