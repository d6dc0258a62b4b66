"""Files of a node that is secured are for their owner alone, also those that were there before."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rookery.broker.node.file_modes import keep_from_others
from rookery.core.config.loading import load


@pytest.fixture(autouse=True)
def _same_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    return {str(each.relative_to(folder)): oct(each.stat().st_mode & 0o777) for each in sorted(folder.rglob("*"))}


@pytest.mark.attack(60)
def test_what_was_made_before_the_node_was_secured_is_closed_to_others(tmp_path: Path) -> None:
    log = tmp_path / "data" / "__cluster_metadata-0"
    (tmp_path / "other" / "orders-0").mkdir(parents=True)
    log.mkdir(parents=True)
    for path in (log / "00000000000000000000.log", log / "quorum-state", log.parent / "first-users.json"):
        path.touch()
        path.chmod(0o644)
    keep_from_others(load([("file", {"log.dirs": f"{tmp_path}/data,{tmp_path}/other,{tmp_path}/absent"})]).settings)
    assert modes(tmp_path) == {
        "data": "0o700",
        "data/__cluster_metadata-0": "0o700",
        "data/__cluster_metadata-0/00000000000000000000.log": "0o600",
        "data/__cluster_metadata-0/quorum-state": "0o600",
        "data/first-users.json": "0o600",
        "other": "0o700",
        "other/orders-0": "0o755",
    }
    (tmp_path / "later").touch()
    assert modes(tmp_path)["later"] == "0o600"


def test_what_cannot_be_changed_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    tmp_path.chmod(0o755)
    monkeypatch.setattr(Path, "chmod", refuse)
    keep_from_others(load([("file", {"log.dirs": str(tmp_path)})]).settings)
    assert [record.getMessage() for record in caplog.records] == ["files.readable"]
