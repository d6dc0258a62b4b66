"""`rookery metadata dump` on a log folder: the newest state, an earlier one, and what is not kept any more."""

import json
from base64 import b64encode
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from rookery.client.cli.__main__ import main
from rookery.controller.raft.batches import data_batch
from rookery.controller.raft.snapshot import Snapshots
from rookery.controller.raft.voters import VoterSet
from rookery.core.disk import FileDisk
from rookery.core.metadata import records as r
from rookery.core.metadata.codec import encode
from rookery.core.metadata.delta import Delta
from rookery.core.metadata.image import EMPTY, Endpoint, Image
from rookery.core.metadata.snapshot import snapshot, state_hash
from rookery.core.metadata_log import METADATA_LOG, SnapshotId

TOPIC = UUID(int=7)
HISTORY: list[r.Record] = [
    r.RegisterBrokerRecord(1, UUID(int=1), (Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT"),)),
    r.BrokerRegistrationChangeRecord(1, 0, fenced=False),
    r.TopicRecord("orders", TOPIC),
    r.PartitionRecord(TOPIC, 0, (1,), (1,), leader=1),
    r.ConfigRecord(2, "orders", "retention.ms", "5"),
    r.UserScramCredentialRecord("ann", 1, b"salt", b"stored", b"server", 4096),
    r.RemoveTopicRecord(TOPIC),
]


def image_after(count: int) -> Image:
    delta = Delta(EMPTY)
    for offset, record in enumerate(HISTORY[:count]):
        delta.replay(record, offset)
    return delta.apply(epoch=1).after


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    log = tmp_path / METADATA_LOG
    log.mkdir()
    write(log, 0, HISTORY)
    return tmp_path


def write(log: Path, first: int, records: list[r.Record]) -> None:
    parts = [bytes(data_batch([encode(record)], 0, first + n, 1)) for n, record in enumerate(records)]
    (log / f"{first:020d}.log").write_bytes(b"".join(parts) + b"\0" * 5)  # the next batch is being written


def dump(capsys: pytest.CaptureFixture[str], folder: Path, *more: str) -> dict[str, Any]:
    assert main(["metadata", "dump", "--data", str(folder), "-o", "json", *more]) == 0
    return dict(json.loads(capsys.readouterr().out))


@pytest.mark.row(78)
@pytest.mark.invariant("M1")
@pytest.mark.parametrize("count", range(1, len(HISTORY) + 1))
def test_the_state_at_any_offset(folder: Path, capsys: pytest.CaptureFixture[str], count: int) -> None:
    shown = dump(capsys, folder, "--at", str(count - 1))
    assert shown["offset"] == count - 1
    assert shown["hash"] == state_hash(image_after(count))


@pytest.mark.attack(56)
def test_brokers_partitions_and_configs_are_shown_and_secrets_are_not(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = dump(capsys, folder, "--at", "5")
    assert shown["topics"] == {"orders": str(TOPIC)}
    assert shown["users"] == ["ann"]
    assert "stored" not in json.dumps(shown)
    assert main(["metadata", "dump", "--data", str(folder), "--at", "5"]) == 0
    text = capsys.readouterr().out
    assert "PLAINTEXT://h:9092" in text
    assert "retention.ms" in text
    assert "partitions (1)" in text
    assert dump(capsys, folder)["topics"] == {}


@pytest.mark.attack(56)
def test_the_log_is_printed_without_the_keys_of_users(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("json", "table"):
        assert main(["quorum", "log", "--data", str(folder), "-o", form]) == 0
        text = capsys.readouterr().out
        assert "ann" in text
        assert "(hidden)" in text
        for secret in (b"salt", b"stored", b"server"):
            assert secret.hex() not in text
            assert repr(secret) not in text
            assert b64encode(secret).decode() not in text


@pytest.mark.row(57)
def test_assigned_replicas_are_those_in_sync_and_those_out_of_sync(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / METADATA_LOG
    log.mkdir()
    partition = r.PartitionRecord(TOPIC, 0, (1, 2, 3), (3, 1), leader=1, elr=(2,))
    write(log, 0, [r.TopicRecord("orders", TOPIC), partition])
    (shown,) = dump(capsys, tmp_path)["partitions"]
    assert (shown["replicas"], shown["isr"], shown["osr"]) == ([1, 2, 3], [3, 1], [2])
    assert sorted(shown["isr"] + shown["osr"]) == sorted(shown["replicas"])


def test_a_snapshot_and_the_log_after_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / METADATA_LOG
    log.mkdir()
    values = [encode(record) for record in snapshot(image_after(4))]
    Snapshots(FileDisk(), str(log)).write(SnapshotId(4, 1), VoterSet([]), values, 0)
    write(log, 4, HISTORY[4:])
    assert dump(capsys, tmp_path)["hash"] == state_hash(image_after(7))
    assert dump(capsys, tmp_path, "--at", "3")["hash"] == state_hash(image_after(4))
    assert main(["metadata", "dump", "--data", str(tmp_path), "--at", "2"]) == 4
    assert "no longer kept" in capsys.readouterr().err


def test_what_cannot_be_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metadata", "dump", "--data", str(tmp_path)]) == 4
    assert "holds no metadata log" in capsys.readouterr().err
    assert main(["metadata", "dump", "--at", "-1"]) == 2
    assert main(["metadata", "dump", "--controllers", "127.0.0.1:1"]) == 1
    assert "no controller answers" in capsys.readouterr().err
