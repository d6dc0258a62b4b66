"""Power cuts on a real file system."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needs
from tests.cluster.power import Volume
from tests.cluster.power_cut import one_cut

pytestmark = pytest.mark.alone

CUTS = 20


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    needs.root()
    needs.command("mkfs.ext4", "a file system of its own is cut off")
    volume = Volume(tmp_path)
    yield volume
    volume.close()


@pytest.mark.invariant("S2", "S4", "S6", "S7", "S12")
@pytest.mark.row(36)
def test_what_was_synced_survives_and_the_rest_is_a_prefix(volume: Volume) -> None:
    outcomes = [one_cut(volume, seed) for seed in range(CUTS)]
    assert sum(outcome.flushes for outcome in outcomes) > CUTS
    assert any(outcome.found < outcome.appended for outcome in outcomes), "no cut has lost anything"
    assert any(outcome.clean for outcome in outcomes)


@pytest.mark.invariant("S8")
def test_the_cut_loses_what_was_not_synced(volume: Volume) -> None:
    """The harness itself: synced bytes stay, the others and names without a synced folder go."""
    kept, lost = volume.root / "kept", volume.root / "lost"
    with kept.open("wb", buffering=0) as file:
        file.write(b"synced")
        os.fsync(file.fileno())
        file.write(b" not")
        lost.write_bytes(b"gone")
        volume.cut()
        with pytest.raises(OSError, match="Input/output"):
            os.fsync(file.fileno())
    volume.restore()
    assert kept.read_bytes() == b"synced"
    assert not lost.exists()
